"""The functions that an equation may use: on symbols they record, on tensors they compute.

Tensors are used by their methods alone, so that this file needs no torch.
"""

from __future__ import annotations

import math as _math
from typing import Any

from riverrun.nn.cells.graph import Node

__all__ = ["clip", "exp", "log", "maximum", "minimum", "norm", "relu", "rsqrt", "sigmoid", "softplus", "tanh"]


def sigmoid(v: Any) -> Any:
    """1 / (1 + exp(-v))."""
    return v.graph.op("sigmoid", v) if isinstance(v, Node) else v.sigmoid()


def tanh(v: Any) -> Any:
    """The hyperbolic tangent."""
    return v.graph.op("tanh", v) if isinstance(v, Node) else v.tanh()


def relu(v: Any) -> Any:
    """max(v, 0); its derivative at 0 is 0."""
    return v.graph.op("relu", v) if isinstance(v, Node) else v.relu()


def exp(v: Any) -> Any:
    """The exponential function."""
    return v.graph.op("exp", v) if isinstance(v, Node) else v.exp()


def log(v: Any) -> Any:
    """The natural logarithm."""
    return v.graph.op("log", v) if isinstance(v, Node) else v.log()


def rsqrt(v: Any) -> Any:
    """1 / sqrt(v)."""
    return v.graph.op("rsqrt", v) if isinstance(v, Node) else v.rsqrt()


def softplus(v: Any) -> Any:
    """log(1 + exp(v)), without overflow."""
    return v.graph.op("softplus", v) if isinstance(v, Node) else v.logaddexp(v.new_zeros(()))


def maximum(a: Any, b: Any) -> Any:
    """The larger of two values; one may be a number.

    Where two values are equal, each has half of the derivative; a value that equals a number has all of it.
    """
    return _extreme("max", a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two values; as for ``maximum``."""
    return _extreme("min", a, b)


def _extreme(which: str, a: Any, b: Any) -> Any:
    symbol = next((v for v in (a, b) if isinstance(v, Node)), None)
    if symbol is not None:
        return symbol.graph.op(which, a, b)
    if isinstance(a, int | float):
        a, b = b, a
    if isinstance(b, int | float):
        return a.clamp(min=b) if which == "max" else a.clamp(max=b)
    return a.maximum(b) if which == "max" else a.minimum(b)


def clip(v: Any, limit: Any) -> Any:
    """v, held between -limit and limit; an infinite limit holds nothing."""
    if isinstance(limit, int | float) and limit == _math.inf:
        return v
    return maximum(minimum(v, limit), -limit)


def norm(*vs: Any, eps: float = 1e-5) -> Any:
    r"""(v - mean) / sqrt(variance + eps) over the units, without learned parts.

    Several vectors share one mean and one variance, over the units of all of them, and come back as a tuple: a layer
    norm over all gates is ``norm(a, b, c)``, one for each gate ``norm(a), norm(b), norm(c)``.
    """
    if isinstance(vs[0], Node):
        graph = vs[0].graph
        mean, variance = graph.node("mean", vs), graph.node("var", vs)
    else:
        mean = sum(v.mean(-1, keepdim=True) for v in vs) / len(vs)
        variance = sum((v - mean).square().mean(-1, keepdim=True) for v in vs) / len(vs)
    scale = rsqrt(variance + eps)
    normed = tuple((v - mean) * scale for v in vs)
    return normed if len(normed) > 1 else normed[0]
