"""Recurrent neural networks for text: trained, inspected and shipped.

The public names are looked up when they are first used, so that ``import riverrun`` loads neither numpy nor torch.

>>> import riverrun
>>> "Recurrent" in dir(riverrun)
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from riverrun.data.batch import Batch
    from riverrun.data.padded import Padded
    from riverrun.errors import CheckpointError, ConfigError, DataError, RiverrunError, ShapeError, StateError
    from riverrun.nn.cells import Cell
    from riverrun.nn.layers.recurrent import Recurrent
    from riverrun.nn.layers.stack import Stack
    from riverrun.tasks import load
    from riverrun.tasks.language_model import LanguageModel
    from riverrun.tasks.tagger import Tagger
    from riverrun.version import __version__

# name -> the module that has it
_PUBLIC = {
    "__version__": "riverrun.version",
    "load": "riverrun.tasks",
    "Tagger": "riverrun.tasks.tagger",
    "LanguageModel": "riverrun.tasks.language_model",
    "Recurrent": "riverrun.nn.layers.recurrent",
    "Stack": "riverrun.nn.layers.stack",
    "Cell": "riverrun.nn.cells",
    "Padded": "riverrun.data.padded",
    "Batch": "riverrun.data.batch",
    "RiverrunError": "riverrun.errors",
    "ConfigError": "riverrun.errors",
    "DataError": "riverrun.errors",
    "ShapeError": "riverrun.errors",
    "StateError": "riverrun.errors",
    "CheckpointError": "riverrun.errors",
}

__all__ = [
    "Batch",
    "Cell",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "LanguageModel",
    "Padded",
    "Recurrent",
    "RiverrunError",
    "ShapeError",
    "Stack",
    "StateError",
    "Tagger",
    "__version__",
    "load",
]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'riverrun' has no attribute {name!r}")
    try:
        value: object = getattr(import_module(_PUBLIC[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from riverrun.errors import missing

        raise missing("torch", "train", f"riverrun.{name}") from None
    globals()[name] = value  # found once; from now on Python finds it without this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
