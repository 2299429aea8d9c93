"""The scalar memory of the xLSTM (Beck et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.math import exp, maximum, sigmoid, softplus, tanh


class SLSTM(Cell):
    r"""LSTM with exponential input gate; n normalises, m keeps the exponents small.

    .. math::
        m_t = \max(\log f_t + m_{t-1}, \log i_t) \qquad
        \bar i_t = e^{\log i_t - m_t} \quad \bar f_t = e^{\log f_t + m_{t-1} - m_t} \\
        c_t = \bar f_t \odot c_{t-1} + \bar i_t \odot z_t \qquad n_t = \bar f_t \odot n_{t-1} + \bar i_t \qquad
        h_t = o_t \odot c_t / n_t

    with :math:`\log f` the log of a sigmoid; m starts at minus infinity.
    """

    kind = "slstm"
    gates = ("i", "f", "z", "o")
    states = ("h", "c", "n", "m")
    start: Mapping[str, float] = {"m": float("-inf")}
    forget = ("f",)

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        log_i = x.i + R.i(s.h)
        log_f = -softplus(-(x.f + R.f(s.h)))
        m = maximum(log_f + s.m, log_i)
        i = exp(log_i - m)
        f = exp(log_f + s.m - m)
        z = tanh(x.z + R.z(s.h))
        o = sigmoid(x.o + R.o(s.h))
        c = f * s.c + i * z
        n = f * s.n + i
        return s.next(h=o * c / n, c=c, n=n, m=m)
