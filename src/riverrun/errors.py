"""What can go wrong because of something a user gave us. Each message says what was wrong, what was expected, what was
received and what to do; the command line prints it without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib.util import find_spec


class RiverrunError(Exception):
    """Everything that riverrun raises on purpose."""


class ConfigError(RiverrunError):
    """A recipe, an option or an installation does not say what it must."""


class DataError(RiverrunError):
    """A file is not what it is said to be; the message begins with ``file:line`` where there is a line."""


class ShapeError(RiverrunError):
    """An array has another shape than the layer or decoder was built for."""


class StateError(RiverrunError):
    """A recurrent state belongs to another model, or to other streams."""


class CheckpointError(RiverrunError):
    """A model folder or checkpoint is missing, truncated, altered or of another format."""


def nearest(name: str, allowed: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the allowed name that is most like the given one, or nothing.

    >>> nearest("num_layer", ["layers", "num_layers"])
    "; did you mean 'num_layers'?"
    >>> nearest("zzz", ["layers"])
    ''
    """
    allowed = list(allowed)
    # A short name that is part of the typed one ("layers" in "num_layers") counts as near, whatever its distance.
    close = difflib.get_close_matches(name, allowed, 1) or [
        word for word in allowed if len(word) > 3 and (word in name or word.rstrip("s") in name)
    ]
    return f"; did you mean '{close[0]}'?" if close else ""


def missing(package: str, extra: str, what: str) -> ConfigError:
    """The error for an optional package that is not installed: what it is needed for, and the line that installs it."""
    return ConfigError(
        f"{what} needs the package '{package}', which is not installed. "
        f"Install it with: pip install 'riverrun[{extra}]'"
    )


def needs_torch(what: str) -> None:
    """Raise the error for torch where it is not installed, which is found out without importing it.

    Args:
        what: what it is needed for, as the beginning of the message.
    """
    if find_spec("torch") is None:
        raise missing("torch", "train", what)
