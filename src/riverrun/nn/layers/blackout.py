"""Training that tells the right symbol from a few others, instead of a softmax over all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from riverrun.errors import ConfigError
from riverrun.nn.layers.full_softmax import FullSoftmax
from riverrun.nn.layers.proposal import proposal
from riverrun.nn.layers.sampled_softmax import scored
from riverrun.nn.layers.windows import Windows


class BlackOut(FullSoftmax):
    r"""In training the right symbol y against a weighted sample S of others (Ji et al. 2016, equations 4 and 6).

    .. math::
        -\log \tilde p(y) - \sum_{v \in S} \log(1 - \tilde p(v)) \qquad
        \tilde p(v) = \frac{e^{s_v} / Q_v}{e^{s_y} / Q_y + \sum_{u \in S} e^{s_u} / Q_u} \qquad
        Q_v \propto \mathrm{count}_v^{\alpha} \qquad s = W h + b

    One sample is drawn for a batch, with replacement; where a position's own symbol is in it, it does not count there.
    What is trained so is a softmax, and evaluated as one.

    Args:
        features: H.
        size: V.
        samples: how many symbols are drawn.
        power: alpha.
        frequencies: (V,), how often each symbol occurs; as for ``proposal``.
        tied: the (V, H) weights of an embedding, which then are W.
        sparse: as for ``SampledSoftmax``.

    >>> softmax = BlackOut(3, 50, samples=8)
    >>> softmax.loss(torch.randn(2, 3), torch.tensor([4, 0])).shape
    torch.Size([2])
    """

    term = "blackout"
    q: Tensor
    cumulative: Tensor

    def __init__(
        self,
        features: int,
        size: int,
        *,
        samples: int,
        power: float = 0.4,
        frequencies: npt.NDArray[np.number] | None = None,
        tied: nn.Parameter | None = None,
        sparse: bool = False,
    ) -> None:
        super().__init__(features, size, tied=tied)
        if samples < 1:
            raise ConfigError(f"BlackOut: samples must be at least 1, received {samples}")
        self.samples, self.power, self.sparse = samples, power, sparse
        # They say how to train and are no part of what was learned: not saved.
        self.register_buffer("q", proposal(size, frequencies, power), persistent=False)
        self.register_buffer("cumulative", self.q.cumsum(0), persistent=False)

    def sample(self) -> Tensor:
        """Symbols (S,), in order; one may be there several times."""
        drawn = torch.rand(self.samples, dtype=self.q.dtype, device=self.q.device)
        symbols = torch.searchsorted(self.cumulative, drawn, right=True)
        return symbols.clamp_(max=self.size - 1).sort().values

    def loss(self, hidden: Tensor, targets: Tensor, windows: Windows | None = None) -> Tensor:
        """(N,), the loss of the paper; outside of training the negative log likelihood."""
        if not self.training:
            return self.nll(hidden, targets, windows)
        symbols = self.sample()
        right, scores = scored(self.weight, self.bias, hidden, targets, symbols, windows, sparse=self.sparse)
        weights = self.q.log().to(scores.dtype)
        right, scores = right - weights[targets], scores - weights[symbols]
        scores = scores.masked_fill(symbols == targets[:, None], -torch.inf)
        total = torch.cat([right[:, None], scores], 1).logsumexp(1)
        # A share that is 1 within the precision has no logarithm of what is left.
        shares = (scores - total[:, None]).exp().clamp(max=1 - 2.0**-20)
        return total - right - torch.log1p(-shares).sum(1)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{super().extra_repr()}, samples={self.samples}, power={self.power:g}"
