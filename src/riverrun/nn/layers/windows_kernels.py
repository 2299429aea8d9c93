"""The two loops of ``windows`` for the CPU: torch's gathering and scattering takes ten times as long.

Nothing is compiled when this module is imported; the first call compiles, and the result is kept on disk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def add(scores: Floats, table: Floats, starts: Integers) -> None:
    """``scores[n, j] += table[starts[n, k] + j]`` for all k."""
    for n in range(scores.shape[0]):
        for k in range(starts.shape[1]):
            piece = table[starts[n, k] : starts[n, k] + scores.shape[1]]
            for j in range(len(piece)):
                scores[n, j] += piece[j]


@njit(cache=True, nogil=True)
def add_back(gradient: Floats, rows: Floats, starts: Integers) -> None:
    """``gradient[starts[n, k] + j] += rows[n, j]`` for all k, in one order, so that equal input is equal output."""
    for n in range(rows.shape[0]):
        for k in range(starts.shape[1]):
            piece = gradient[starts[n, k] : starts[n, k] + rows.shape[1]]
            for j in range(len(piece)):
                piece[j] += rows[n, j]
