"""Loops over arrays that numba compiles.

Modules that hold them can be imported where numba is not installed; there a loop says, when it is called, what to
install. Nothing is compiled by an import; what the first call compiles is kept on disk. Importing numba takes half a
second, so modules that hold loops are imported where they are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from riverrun.errors import missing

njit: Any
try:
    from numba import njit
except ImportError:
    njit = None

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def loop(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function of numbers and arrays, compiled when it is first called; a decorator."""
    if njit is None:

        def absent(*values: Any, **named: Any) -> Any:
            raise missing("numba", "classic", "counting n-grams")

        return absent
    compiled: Callable[Parameters, Result] = njit(nogil=True, cache=True)(function)
    return compiled
