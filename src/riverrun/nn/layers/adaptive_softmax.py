"""A softmax whose rare symbols cost little."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from riverrun.errors import ConfigError
from riverrun.nn.layers.likelihood import log_probs, nll
from riverrun.nn.layers.windows import Windows

_HELD = 1 << 26
"""Scores of a cluster that are held for the gradient; what is more is computed again. Few texts have so many rare words
at a time."""


class AdaptiveSoftmax(nn.Module):
    r"""Frequent symbols by themselves, rare ones in clusters that read a smaller vector (Grave et al. 2017).

    .. math::
        p(v) = \mathrm{softmax}(W_0 h)_v \qquad
        p(v) = \mathrm{softmax}(W_0 h)_{\mathrm{cluster}\ i}\ \mathrm{softmax}(W_i P_i h)_v
        \quad \text{for } v \text{ in cluster } i

    Symbols are numbered from the most frequent one on. The i-th cluster reads H / factor**i numbers. In training, a
    cluster is touched only by the positions whose symbol lies in it.

    Args:
        features: H.
        size: V.
        cutoffs: how many symbols are frequent, and where each cluster but the last one ends.
        factor: how many times smaller the vectors of a cluster are than those of the one before.

    >>> softmax = AdaptiveSoftmax(8, 10, cutoffs=[3, 6])
    >>> [tuple(cluster.shape) for cluster in softmax.clusters]
    [(3, 2), (4, 1)]
    >>> round(softmax.log_probs(torch.randn(1, 8)).exp().sum().item(), 4)
    1.0
    """

    term = "nll"

    def __init__(self, features: int, size: int, *, cutoffs: Sequence[int], factor: float = 4.0) -> None:
        super().__init__()
        if not cutoffs or sorted({*cutoffs}) != [*cutoffs] or not 0 < cutoffs[0] <= cutoffs[-1] < size:
            raise ConfigError(
                f"AdaptiveSoftmax: cutoffs must rise from above 0 to below the number of symbols, {size}, received "
                f"{[*cutoffs]}; choose smaller ones, or a full softmax"
            )
        self.features, self.size, self.cutoffs, self.factor = features, size, [*cutoffs], factor
        self.head = nn.Parameter(torch.zeros(cutoffs[0] + len(cutoffs), features))
        sizes = [max(1, int(features / factor ** (k + 1))) for k in range(len(cutoffs))]
        self.down = nn.ParameterList(torch.zeros(small, features) for small in sizes)
        self.clusters = nn.ParameterList(
            torch.zeros(end - begin, small)
            for (begin, end), small in zip(pairwise([*cutoffs, size]), sizes, strict=True)
        )
        self.draw()

    @torch.no_grad()
    def draw(self, bound: float | None = None) -> None:
        """New values, uniform up to ±bound, or up to ±sqrt(1 / columns) of each matrix."""
        for value in self.parameters():
            each = value.shape[1] ** -0.5 if bound is None else bound
            value.uniform_(-each, each)

    def loss(self, hidden: Tensor, targets: Tensor, windows: Windows | None = None) -> Tensor:
        """The negative log likelihood."""
        return self.nll(hidden, targets, windows)

    def nll(self, hidden: Tensor, targets: Tensor, windows: Windows | None = None) -> Tensor:
        """(N, H) and symbols (N,) -> (N,)."""
        first = self.cutoffs[0]
        cluster = torch.bucketize(targets, torch.tensor(self.cutoffs, device=targets.device), right=True)
        heads = torch.where(cluster == 0, targets, first - 1 + cluster)
        total = nll(hidden, self.head, None, heads, windows=windows, scored=first)
        for k, (begin, down, weight) in enumerate(self._tail(), 1):
            rows = (cluster == k).nonzero()[:, 0]
            if len(rows):
                small = nn.functional.linear(hidden[rows], down)
                some = windows and windows.at(rows)
                chunk = None if len(rows) * len(weight) <= _HELD else max(1, _HELD // len(weight))
                inner = nll(small, weight, None, targets[rows] - begin, chunk=chunk, windows=some, offset=begin)
                total = total.index_add(0, rows, inner)
        return total

    def log_probs(self, hidden: Tensor, windows: Windows | None = None) -> Tensor:
        """(N, H) -> (N, V)."""
        first = self.cutoffs[0]
        head = log_probs(hidden, self.head, None, windows, scored=first)
        parts = [head[:, :first]]
        for k, (begin, down, weight) in enumerate(self._tail()):
            inner = log_probs(nn.functional.linear(hidden, down), weight, None, windows, offset=begin)
            parts.append(head[:, first + k, None] + inner)
        return torch.cat(parts, 1)

    def _tail(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Of each cluster: where it begins, and its two matrices."""
        return zip(self.cutoffs, self.down, self.clusters, strict=True)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.features}, {self.size}, cutoffs={self.cutoffs}, factor={self.factor:g}"
