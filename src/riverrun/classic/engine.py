"""Which code runs over millions of symbols: loops compiled by numba, or numpy. Both give the same numbers."""

from __future__ import annotations

import importlib.util
from typing import Literal

from riverrun.errors import ConfigError, missing, nearest

Engine = Literal["auto", "numba", "numpy"]

# Below so many symbols numpy is done before numba is imported.
_FEW = 1 << 16


def choose_engine(engine: Engine, symbols: int) -> Literal["numba", "numpy"]:
    """The engine for so many symbols: ``auto`` is numba where it is installed and its import is worth it.

    >>> choose_engine("auto", 10), choose_engine("numpy", 10**9)
    ('numpy', 'numpy')
    """
    if engine not in ("auto", "numba", "numpy"):
        raise ConfigError(
            f"engine must be 'auto', 'numba' or 'numpy', received {engine!r}" + nearest(engine, ("numba", "numpy"))
        )
    if engine == "numpy" or (engine == "auto" and symbols < _FEW):
        return "numpy"
    if has_numba():
        return "numba"
    if engine == "auto":
        return "numpy"
    raise missing("numba", "classic", "engine 'numba'")


def has_numba() -> bool:
    """Whether numba is installed; it is not imported for that."""
    try:
        return importlib.util.find_spec("numba") is not None
    except ModuleNotFoundError:  # how an environment forbids a package
        return False
