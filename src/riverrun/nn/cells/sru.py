"""Cells whose units do not see each other over time: a whole sequence is one scan for each unit."""

from __future__ import annotations

from typing import Any

from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.math import sigmoid


class SRU(Cell):
    r"""Simple recurrent unit (Lei et al. 2018); the input is as wide as the memory, because it passes it by.

    .. math::
        f_t = \sigma(W_f x_t + p_f \odot c_{t-1} + b_f) \qquad r_t = \sigma(W_r x_t + p_r \odot c_{t-1} + b_r) \\
        c_t = f_t \odot c_{t-1} + (1 - f_t) \odot (W_u x_t + b_u) \qquad h_t = r_t \odot c_t + (1 - r_t) \odot x_t
    """

    kind = "sru"
    gates = ("u", "f", "r")
    states = ("h", "c")
    params = ("f", "r")
    forget = ("f",)

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        f = sigmoid(x.f + p.f * s.c)
        r = sigmoid(x.r + p.r * s.c)
        c = f * s.c + (1 - f) * x.u
        return s.next(h=r * c + (1 - r) * x.raw, c=c)


class ProjectedSRU(Cell):
    r"""Simple recurrent unit for inputs of any width: what passes the memory by is :math:`W_k x_t + b_k`."""

    kind = "sru-projected"
    gates = ("u", "f", "r", "k")
    states = ("h", "c")
    params = ("f", "r")
    forget = ("f",)

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        f = sigmoid(x.f + p.f * s.c)
        r = sigmoid(x.r + p.r * s.c)
        c = f * s.c + (1 - f) * x.u
        return s.next(h=r * c + (1 - r) * x.k, c=c)


class MinGRU(Cell):
    r"""Minimal GRU, linear in its state (Feng et al. 2024).

    .. math::
        z_t = \sigma(W_z x_t + b_z) \qquad h_t = (1 - z_t) \odot h_{t-1} + z_t \odot (W_n x_t + b_n)
    """

    kind = "mingru"
    gates = ("z", "n")

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        z = sigmoid(x.z)
        return s.next(h=(1 - z) * s.h + z * x.n)
