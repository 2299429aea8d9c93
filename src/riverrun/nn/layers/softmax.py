"""A head that decides each position for itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from riverrun.data.padded import Padded
from riverrun.decode.scorer import Chain
from riverrun.errors import ShapeError
from riverrun.nn.layers.clean import clean


class Softmax(nn.Module):
    r"""Independent decisions: a chain whose transitions are all zero.

    .. math:: \log p(y) = \sum_t \log \mathrm{softmax}(W h_t + b)_{y_t}

    Args:
        features: H of the (B, T, H) that it reads.
        tags: C.

    >>> head = Softmax(5, 3)
    >>> x = Padded(torch.randn(2, 4, 5), torch.tensor([4, 0]))
    >>> head(x).emissions.shape, head.log_likelihood(x, Padded(torch.zeros(2, 4, dtype=torch.long), x.lengths)).shape
    (torch.Size([2, 4, 3]), torch.Size([2]))
    """

    def __init__(self, features: int, tags: int) -> None:
        super().__init__()
        self.features, self.tags = features, tags
        self.emission = nn.Linear(features, tags)

    def forward(self, x: Padded) -> Chain:
        """(B, T, H) -> the chain with emissions (B, T, C)."""
        emissions = self._emissions(x)
        zeros = emissions.new_zeros(self.tags)
        return Chain(emissions, emissions.new_zeros((self.tags, self.tags)), zeros, zeros, x.lengths)

    def log_likelihood(self, x: Padded, tags: Padded) -> Tensor:
        """(B,), the log probability of each row's tags (B, T), 0 for a row of length 0."""
        scores = self._emissions(x)
        if tags.data.shape != scores.shape[:2]:
            raise ShapeError(
                f"Softmax: expected tags (B, T) = {tuple(scores.shape[:2])}, received {tuple(tags.data.shape)}"
            )
        tags = tags.with_data(tags.data.long()).zeroed()
        each = -nn.functional.cross_entropy(scores.flatten(0, 1), tags.data.flatten(), reduction="none")
        total: Tensor = tags.with_data(each.view(tags.data.shape)).zeroed().data.sum(1)
        return total

    def _emissions(self, x: Padded) -> Tensor:
        """(B, T, C), in float32 at least."""
        if x.data.ndim != 3 or x.data.shape[2] != self.features:
            raise ShapeError(
                f"Softmax(features={self.features}): expected hidden vectors (B, T, {self.features}), "
                f"received {tuple(x.data.shape)}"
            )
        emissions: Tensor = self.emission(clean(x))
        return emissions.to(torch.promote_types(emissions.dtype, torch.float32))
