"""Gated recurrent units. Two different ones are in use; their update gates mean opposite things."""

from __future__ import annotations

from typing import Any

from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.math import sigmoid, tanh


class GRU(Cell):
    r"""Gated recurrent unit with the reset gate before the recurrent product (Cho et al. 2014), z open to the new.

    .. math::
        r_t = \sigma(W_r x_t + R_r h_{t-1} + b_r) \qquad z_t = \sigma(W_z x_t + R_z h_{t-1} + b_z) \\
        n_t = \tanh(W_n x_t + R_n (r_t \odot h_{t-1}) + b_n) \qquad h_t = (1 - z_t) \odot h_{t-1} + z_t \odot n_t
    """

    kind = "gru"
    gates = ("r", "z", "n")

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        r = sigmoid(x.r + R.r(s.h))
        z = sigmoid(x.z + R.z(s.h))
        n = tanh(x.n + R.n(r * s.h))
        return s.next(h=(1 - z) * s.h + z * n)


class GRUResetAfter(Cell):
    r"""Gated recurrent unit as torch and cuDNN compute it: reset gate after the product, z open to the old.

    .. math::
        r_t = \sigma(W_r x_t + R_r h_{t-1} + b_r) \qquad z_t = \sigma(W_z x_t + R_z h_{t-1} + b_z) \\
        n_t = \tanh(W_n x_t + b_n + r_t \odot (R_n h_{t-1} + p_b)) \qquad
        h_t = (1 - z_t) \odot n_t + z_t \odot h_{t-1}

    The product has a bias of its own, ``p.b``. The update gate is one minus that of ``GRU``.
    """

    kind = "gru-reset-after"
    gates = ("r", "z", "n")
    params = ("b",)

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        r = sigmoid(x.r + R.r(s.h))
        z = sigmoid(x.z + R.z(s.h))
        n = tanh(x.n + r * (R.n(s.h) + p.b))
        return s.next(h=(1 - z) * n + z * s.h)
