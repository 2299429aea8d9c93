"""Whether torch is here, found out without importing it."""

from __future__ import annotations

from importlib.util import find_spec

from riverrun.errors import missing


def needs_torch(what: str) -> None:
    """A ConfigError with the line that installs torch, where it is not installed.

    Args:
        what: what it is needed for, as the beginning of the message.
    """
    if find_spec("torch") is None:
        raise missing("torch", "train", what)
