"""Weights of n-grams in a hashed table, beside what a net computes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from riverrun.errors import ConfigError
from riverrun.nn.layers.windows import Windows

# Of the multiplicative hash; any odd numbers would do, other ones make another model.
_BASE, _MIX, _PRIME = 1_000_003, 2_654_435_761, 2_147_483_647

NOTHING = -1
"""What stands for a symbol before the text."""


class HashedNgrams(nn.Module):
    r"""A weight for each n-gram of 2 to ``order`` symbols that ends in the predicted one, added to its score.

    .. math:: s_v \mathrel{+}= \sum_{n=2}^{\text{order}} \mathrm{table}[\mathrm{hash}_n(w_{t-n+2} \ldots w_t) + v]

    "RNN + MaxEnt" (Mikolov et al. 2011). The last n - 1 symbols are hashed to the beginning of a piece of the table,
    which has a weight for each symbol v; pieces overlap, so n-grams share weights where the hash says so. All begin
    at 0.

    Args:
        size: V.
        order: symbols of the longest n-gram, the predicted one included.
        buckets: weights in the table; as many as symbols at least.

    >>> ngrams = HashedNgrams(10, order=3, buckets=100)
    >>> starts = ngrams.starts(torch.tensor([[[5, 7]], [[6, 7]]]))
    >>> starts.shape, (starts[0] == starts[1]).tolist()
    (torch.Size([2, 1, 2]), [[True, False]])
    """

    def __init__(self, size: int, *, order: int, buckets: int) -> None:
        super().__init__()
        if order < 2:
            raise ConfigError(f"HashedNgrams: order must be at least 2, received {order}; single symbols have biases")
        if buckets < size:
            raise ConfigError(
                f"HashedNgrams: buckets must be at least as many as there are symbols, {size}, received {buckets}"
            )
        self.size, self.order, self.buckets = size, order, buckets
        self.table = nn.Parameter(torch.zeros(buckets))

    def starts(self, context: Tensor) -> Tensor:
        """The last symbols (..., order - 1), the latest last -> (..., order - 1), where each order's piece begins."""
        found = []
        total = torch.zeros_like(context[..., 0])
        for n in range(1, self.order):
            # A symbol before the text is -1.
            total = (total * _BASE + context[..., -n] + 2) % _MIX
            found.append((total * _MIX + n) % _PRIME % (self.buckets - self.size + 1))
        return torch.stack(found, -1)

    def windows(self, starts: Tensor) -> Windows:
        """The pieces that begin at ``starts`` (N, order - 1)."""
        return Windows(self.table, starts)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.size}, order={self.order}, buckets={self.buckets}"
