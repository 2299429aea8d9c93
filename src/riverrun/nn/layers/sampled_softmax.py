"""A softmax that is estimated in training from a sample of the symbols."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from riverrun.errors import ConfigError
from riverrun.nn.layers.full_softmax import FullSoftmax
from riverrun.nn.layers.proposal import proposal
from riverrun.nn.layers.windows import Windows


class SampledSoftmax(FullSoftmax):
    r"""In training the right symbol against a sample S of the others, importance weighted (Bengio and Senecal 2008).

    .. math::
        -\log p(y) \approx -s_y + \log \Big( e^{s_y} + \sum_{v \in S, v \ne y} e^{s_v} / \pi_v \Big)
        \qquad s = W h + b

    S is drawn without replacement, one sample for a batch, by exponential keys: symbol v has the key
    :math:`E_v / q_v`, the smallest keys are the sample, and :math:`\pi_v = 1 - \exp(-q_v \tau)` with the smallest key
    :math:`\tau` outside of it. The sum is then an unbiased estimate (Duffield et al. 2007). With as many samples as
    symbols it is exact.

    Args:
        features: H.
        size: V.
        samples: how many symbols are drawn.
        frequencies: (V,), how often each symbol occurs, which is how likely it is to be drawn, q; as for ``proposal``.
        tied: the (V, H) weights of an embedding, which then are W.
        sparse: the gradient of W is one of the rows that were scored alone; only where the optimiser can use it.

    >>> softmax = SampledSoftmax(3, 5, samples=5)
    >>> h, y = torch.randn(2, 3), torch.tensor([4, 0])
    >>> torch.allclose(softmax.loss(h, y), softmax.nll(h, y))
    True
    """

    term = "sampled"
    q: Tensor

    def __init__(
        self,
        features: int,
        size: int,
        *,
        samples: int,
        frequencies: npt.NDArray[np.number] | None = None,
        tied: nn.Parameter | None = None,
        sparse: bool = False,
    ) -> None:
        super().__init__(features, size, tied=tied)
        if samples < 1:
            raise ConfigError(f"SampledSoftmax: samples must be at least 1, received {samples}")
        self.samples, self.sparse = samples, sparse
        # It says how to train and is no part of what was learned: not saved.
        self.register_buffer("q", proposal(size, frequencies), persistent=False)

    def sample(self) -> tuple[Tensor, Tensor]:
        """Symbols (S,), in order, and the logarithms of the probabilities (S,) that they are in a sample."""
        if self.samples >= self.size:
            everything = torch.arange(self.size, device=self.q.device)
            return everything, torch.zeros_like(everything, dtype=self.q.dtype)
        keys = torch.empty_like(self.q).exponential_() / self.q
        smallest, symbols = keys.topk(self.samples + 1, largest=False)
        symbols = symbols[:-1].sort().values
        return symbols, torch.log(-torch.expm1(-self.q[symbols] * smallest[-1]))

    def loss(self, hidden: Tensor, targets: Tensor, windows: Windows | None = None) -> Tensor:
        """(N,), the estimate; outside of training the negative log likelihood itself."""
        if not self.training:
            return self.nll(hidden, targets, windows)
        symbols, chance = self.sample()
        right, scores = scored(self.weight, self.bias, hidden, targets, symbols, windows, sparse=self.sparse)
        scores = scores - chance.to(scores.dtype)
        scores = scores.masked_fill(symbols == targets[:, None], -torch.inf)
        return torch.cat([right[:, None], scores], 1).logsumexp(1) - right

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{super().extra_repr()}, samples={self.samples}"


def scored(
    weight: Tensor,
    bias: Tensor,
    hidden: Tensor,
    targets: Tensor,
    symbols: Tensor,
    windows: Windows | None,
    *,
    sparse: bool,
) -> tuple[Tensor, Tensor]:
    """The scores of the targets (N,) and of all of some symbols (N, S), in float32 at least."""
    vectors = nn.functional.embedding(targets, weight, sparse=sparse)
    right = (hidden * vectors).sum(1) + bias[targets]
    some = nn.functional.embedding(symbols, weight, sparse=sparse)
    scores = nn.functional.linear(hidden, some, bias[symbols])
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if windows is not None:
        right = right + windows.take(targets[:, None])[:, 0]
        scores = scores + windows.take(symbols)
    return right.to(scores.dtype), scores
