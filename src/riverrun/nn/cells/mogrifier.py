"""The Mogrifier LSTM of Melis et al. (2020)."""

from __future__ import annotations

from typing import Any

from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.math import sigmoid, tanh


class Mogrifier(Cell):
    r"""LSTM before which input and output gate each other.

    .. math::
        x^0 = x_t \quad h^0 = h_{t-1} \qquad
        x^{k} = 2 \sigma(R_q h^{k-1}) \odot x^{k-1} \quad
        h^{k} = 2 \sigma(R_r x^{k}) \odot h^{k-1} \quad \text{in turn, } \mathrm{rounds}\ \text{times}

    then an LSTM on :math:`[x; h]`, with biases ``p``. One pair of matrices serves all rounds.

    Args:
        rounds: how often one of the two is gated by the other, at least 2.
    """

    kind = "mogrifier"
    gates = ("q", "r", "i", "f", "g", "o")
    states = ("h", "c")
    params = ("i", "f", "g", "o")
    forget = ("p.f",)
    rounds = 5

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        u, h = x.raw, s.h
        for k in range(self.rounds):
            if k % 2 == 0:
                u = 2 * sigmoid(R.q(h)) * u
            else:
                h = 2 * sigmoid(R.r(u)) * h
        i = sigmoid(R.i(u, h) + p.i)
        f = sigmoid(R.f(u, h) + p.f)
        g = tanh(R.g(u, h) + p.g)
        o = sigmoid(R.o(u, h) + p.o)
        c = f * s.c + i * g
        return s.next(h=o * tanh(c), c=c)
