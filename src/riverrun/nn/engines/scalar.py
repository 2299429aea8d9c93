"""The functions of an equation on single numbers, for numba. In float32 without branches, so that loops vectorise.

The exponential in float32 is a polynomial of degree 7 after reduction by ln 2: a relative error of 1e-7. It ends as
torch's does, in 0 and in infinity, so that what overflows is seen; NaN stays NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

F = np.float32
_inlined: Callable[..., Any] = njit(fastmath={"contract"}, error_model="numpy", inline="always")


@_inlined
def _power32(n: Any) -> Any:
    """2 ** n, for n from -126 to 127."""
    return np.int32((n + np.int32(127)) << np.int32(23)).view(np.float32)


@_inlined
def _exp32(v: Any) -> Any:
    v = F(-104.0) if v < F(-104.0) else v  # whose exponential is 0
    v = F(89.0) if v > F(89.0) else v  # and infinite
    n = np.floor(v * F(1.44269504) + F(0.5))
    r = v - n * F(0.693359375) + n * F(2.12194440e-4)  # ln 2 in two parts
    e = ((F(1 / 5040) * r + F(1 / 720)) * r + F(1 / 120)) * r + F(1 / 24)
    e = (((e * r + F(1 / 6)) * r + F(0.5)) * r + F(1)) * r + F(1)
    k = np.int32(n)
    half = np.int32(k >> np.int32(1))  # in two steps: 2 ** n itself may be out of range, or below it
    return e * _power32(half) * _power32(k - half)


@_inlined
def _sigmoid32(v: Any) -> Any:
    return F(1) / (F(1) + _exp32(-v))


@_inlined
def _tanh32(v: Any) -> Any:
    return F(2) / (F(1) + _exp32(-(v + v))) - F(1)


@_inlined
def _softplus32(v: Any) -> Any:
    return max(v, F(0)) + F(math.log1p(_exp32(-abs(v))))


@_inlined
def _log32(v: Any) -> Any:
    return F(math.log(v))


@_inlined
def _sigmoid64(v: Any) -> Any:
    return 1.0 / (1.0 + math.exp(-v))


@_inlined
def _softplus64(v: Any) -> Any:
    return max(v, 0.0) + math.log1p(math.exp(-abs(v)))


FUNCTIONS: dict[str, dict[str, Any]] = {
    "float32": {
        "exp": _exp32,
        "sigmoid": _sigmoid32,
        "tanh": _tanh32,
        "softplus": _softplus32,
        "log": _log32,
        "sqrt": np.sqrt,
        "F": np.float32,
        "ZERO": F(0),
        "ONE": F(1),
    },
    "float64": {
        "exp": math.exp,
        "sigmoid": _sigmoid64,
        "tanh": math.tanh,
        "softplus": _softplus64,
        "log": math.log,
        "sqrt": np.sqrt,
        "F": np.float64,
        "ZERO": np.float64(0),
        "ONE": np.float64(1),
    },
}
"""Type of the numbers -> what generated code calls."""
