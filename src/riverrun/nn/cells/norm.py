"""Cells with layer normalisation inside the step."""

from __future__ import annotations

from typing import Any

from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.math import norm, sigmoid, tanh


class LayerNormLSTM(Cell):
    r"""LSTM with layer normalisation (Ba et al. 2016, equations 20 to 22).

    .. math::
        (i, f, g, o)_t = \alpha_x \odot N(W x_t) + \alpha_h \odot N(R h_{t-1}) + \beta \\
        c_t = \sigma(f_t) \odot c_{t-1} + \sigma(i_t) \odot \tanh(g_t) \qquad
        h_t = \sigma(o_t) \odot \tanh(\alpha_c \odot N(c_t) + \beta_c)

    N takes mean and deviation over all four gates together. Gains start at 1.
    """

    kind = "layernorm-lstm"
    gates = ("i", "f", "g", "o")
    states = ("h", "c")
    params = ("xi", "xf", "xg", "xo", "hi", "hf", "hg", "ho", "bi", "bf", "bg", "bo", "c", "bc")
    init = dict.fromkeys(("xi", "xf", "xg", "xo", "hi", "hf", "hg", "ho", "c"), 1.0)
    forget = ("p.bf",)

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        xi, xf, xg, xo = norm(x.i, x.f, x.g, x.o)
        hi, hf, hg, ho = norm(R.i(s.h), R.f(s.h), R.g(s.h), R.o(s.h))
        i = sigmoid(p.xi * xi + p.hi * hi + p.bi)
        f = sigmoid(p.xf * xf + p.hf * hf + p.bf)
        g = tanh(p.xg * xg + p.hg * hg + p.bg)
        o = sigmoid(p.xo * xo + p.ho * ho + p.bo)
        c = f * s.c + i * g
        return s.next(h=o * tanh(p.c * norm(c) + p.bc), c=c)


class LayerNormGRU(Cell):
    r"""GRU with layer normalisation (Ba et al. 2016, appendix): r and z share a norm, n has its own.

    .. math::
        (r, z)_t = \sigma(\alpha_x \odot N(W x_t) + \alpha_h \odot N(R h_{t-1}) + \beta) \\
        n_t = \tanh(\alpha_{xn} \odot N(W_n x_t) + \beta_n
        + r_t \odot (\alpha_{hn} \odot N(R_n h_{t-1}) + \beta_h)) \qquad
        h_t = (1 - z_t) \odot h_{t-1} + z_t \odot n_t
    """

    kind = "layernorm-gru"
    gates = ("r", "z", "n")
    params = ("xr", "xz", "xn", "hr", "hz", "hn", "br", "bz", "bn", "bh")
    init = dict.fromkeys(("xr", "xz", "xn", "hr", "hz", "hn"), 1.0)

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        xr, xz = norm(x.r, x.z)
        hr, hz = norm(R.r(s.h), R.z(s.h))
        r = sigmoid(p.xr * xr + p.hr * hr + p.br)
        z = sigmoid(p.xz * xz + p.hz * hz + p.bz)
        n = tanh(p.xn * norm(x.n) + p.bn + r * (p.hn * norm(R.n(s.h)) + p.bh))
        return s.next(h=(1 - z) * s.h + z * n)
