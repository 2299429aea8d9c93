"""The simple recurrent network of Elman (1990)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from riverrun.errors import ConfigError, nearest
from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.math import relu, sigmoid, tanh

_NONLINEARITIES: dict[str, Callable[[Any], Any]] = {
    "tanh": tanh,
    "relu": relu,
    "sigmoid": sigmoid,
    "identity": lambda v: v,
}


class Elman(Cell):
    r"""Simple recurrent network; with ``nonlinearity="identity"`` the linear one.

    .. math:: h_t = \phi(W x_t + R h_{t-1} + b) \qquad \phi \in \{\tanh, \mathrm{relu}, \sigma, \mathrm{id}\}

    Args:
        nonlinearity: ``tanh``, ``relu``, ``sigmoid`` or ``identity``.

    >>> Elman(nonlinearity="relu")
    Elman(nonlinearity='relu')
    """

    kind = "elman"
    gates = ("h",)
    nonlinearity = "tanh"

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        if self.nonlinearity not in _NONLINEARITIES:
            raise ConfigError(
                f"Elman: nonlinearity must be one of {', '.join(_NONLINEARITIES)}; received "
                f"'{self.nonlinearity}'{nearest(self.nonlinearity, _NONLINEARITIES)}"
            )
        phi = _NONLINEARITIES[self.nonlinearity]
        return s.next(h=phi(x.h + R.h(s.h)))
