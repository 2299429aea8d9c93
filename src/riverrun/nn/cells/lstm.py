"""Long short-term memory and its printed relatives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.math import clip, sigmoid, tanh


class LSTM(Cell):
    r"""Long short-term memory with a forget gate (Hochreiter and Schmidhuber 1997; Gers et al. 2000).

    .. math::
        i_t = \sigma(W_i x_t + R_i h_{t-1} + b_i) \qquad f_t = \sigma(W_f x_t + R_f h_{t-1} + b_f) \\
        g_t = \tanh(W_g x_t + R_g h_{t-1} + b_g) \qquad o_t = \sigma(W_o x_t + R_o h_{t-1} + b_o) \\
        c_t = f_t \odot c_{t-1} + i_t \odot g_t \qquad h_t = o_t \odot \tanh(c_t)

    The order of the gates is that of torch and cuDNN.
    """

    kind = "lstm"
    gates = ("i", "f", "g", "o")
    states = ("h", "c")
    forget = ("f",)

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        i = sigmoid(x.i + R.i(s.h))
        f = sigmoid(x.f + R.f(s.h))
        g = tanh(x.g + R.g(s.h))
        o = sigmoid(x.o + R.o(s.h))
        c = f * s.c + i * g
        return s.next(h=o * tanh(c), c=c)


class OutputlessLSTM(Cell):
    r"""LSTM without output gate: :math:`h_t = \tanh(c_t)`."""

    kind = "lstm-no-output-gate"
    gates = ("i", "f", "g")
    states = ("h", "c")
    forget = ("f",)

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        i = sigmoid(x.i + R.i(s.h))
        f = sigmoid(x.f + R.f(s.h))
        g = tanh(x.g + R.g(s.h))
        c = f * s.c + i * g
        return s.next(h=tanh(c), c=c)


class LSTM1997(Cell):
    r"""The LSTM of 1997, whose memory never forgets: :math:`c_t = c_{t-1} + i_t \odot g_t`."""

    kind = "lstm-1997"
    gates = ("i", "g", "o")
    states = ("h", "c")

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        i = sigmoid(x.i + R.i(s.h))
        g = tanh(x.g + R.g(s.h))
        o = sigmoid(x.o + R.o(s.h))
        c = s.c + i * g
        return s.next(h=o * tanh(c), c=c)


class PeepholeLSTM(Cell):
    r"""LSTM whose gates see the memory (Gers and Schmidhuber 2000).

    .. math::
        i_t = \sigma(W_i x_t + R_i h_{t-1} + p_i \odot c_{t-1} + b_i) \qquad
        f_t = \sigma(W_f x_t + R_f h_{t-1} + p_f \odot c_{t-1} + b_f) \\
        o_t = \sigma(W_o x_t + R_o h_{t-1} + p_o \odot c_t + b_o)

    The output gate looks at the new memory, the others at the old one.
    """

    kind = "lstm-peephole"
    gates = ("i", "f", "g", "o")
    states = ("h", "c")
    params = ("i", "f", "o")
    forget = ("f",)

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        i = sigmoid(x.i + R.i(s.h) + p.i * s.c)
        f = sigmoid(x.f + R.f(s.h) + p.f * s.c)
        g = tanh(x.g + R.g(s.h))
        c = f * s.c + i * g
        o = sigmoid(x.o + R.o(s.h) + p.o * c)
        return s.next(h=o * tanh(c), c=c)


class CoupledLSTM(Cell):
    r"""LSTM that forgets what it writes over: :math:`c_t = f_t \odot c_{t-1} + (1 - f_t) \odot g_t`."""

    kind = "lstm-coupled"
    gates = ("f", "g", "o")
    states = ("h", "c")
    forget = ("f",)

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        f = sigmoid(x.f + R.f(s.h))
        g = tanh(x.g + R.g(s.h))
        o = sigmoid(x.o + R.o(s.h))
        c = f * s.c + (1 - f) * g
        return s.next(h=o * tanh(c), c=c)


class ProjectedLSTM(Cell):
    r"""LSTM whose output is narrower than its memory, both clipped (Sak et al. 2014; Peters et al. 2018).

    .. math::
        c_t = \mathrm{clip}(f_t \odot c_{t-1} + i_t \odot g_t) \qquad
        h_t = \mathrm{clip}(R_y (o_t \odot \tanh(c_t)))

    Args:
        limit: values beyond +-limit are clipped; ``float("inf")`` clips nothing and gives torch's ``proj_size``.
    """

    kind = "lstm-projected"
    gates = ("i", "f", "g", "o", "y")
    states = ("h", "c")
    widths: Mapping[str, str] = {"h": "output"}
    limit = 3.0
    forget = ("f",)

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        i = sigmoid(x.i + R.i(s.h))
        f = sigmoid(x.f + R.f(s.h))
        g = tanh(x.g + R.g(s.h))
        o = sigmoid(x.o + R.o(s.h))
        c = clip(f * s.c + i * g, self.limit)
        return s.next(h=clip(R.y(o * tanh(c)), self.limit), c=c)
