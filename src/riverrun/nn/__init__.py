"""Networks: cells and engines, the layers made of them, and models. Tensors only, no strings.

The names of engines and layers are looked up when they are first used: cells need no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from riverrun.nn.cells import CELLS as CELLS
from riverrun.nn.cells import Cell as Cell
from riverrun.nn.cells import make_cell as make_cell

if TYPE_CHECKING:
    from riverrun.nn import cells as cells
    from riverrun.nn import engines as engines
    from riverrun.nn.layers.recurrent import Recurrent as Recurrent
    from riverrun.nn.layers.stack import Stack as Stack

_LATER = {"Recurrent": "riverrun.nn.layers.recurrent", "Stack": "riverrun.nn.layers.stack"}


def __getattr__(name: str) -> object:
    if name == "engines":
        return import_module("riverrun.nn.engines")
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'riverrun.nn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, "engines"})
