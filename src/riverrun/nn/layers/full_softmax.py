"""A softmax in which every symbol is scored."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from riverrun.errors import ConfigError, ShapeError
from riverrun.nn.layers.likelihood import log_probs, nll
from riverrun.nn.layers.windows import Windows


class FullSoftmax(nn.Module):
    r"""Every symbol is scored, by the inner product of the vector that is read with one of its own.

    .. math:: p(v) = \mathrm{softmax}(W h + b)_v

    Args:
        features: H.
        size: V.
        chunk: scores held at a time in training, as positions with all V; without it those of all positions are held.
        tied: the (V, H) weights of an embedding, which then are W.

    >>> softmax = FullSoftmax(3, 5)
    >>> h = torch.randn(2, 3)
    >>> bool(torch.allclose(softmax.nll(h, torch.tensor([4, 0])), -softmax.log_probs(h)[[0, 1], [4, 0]]))
    True
    """

    term = "nll"

    def __init__(self, features: int, size: int, *, chunk: int | None = None, tied: nn.Parameter | None = None) -> None:
        super().__init__()
        if chunk is not None and chunk < 1:
            raise ConfigError(f"FullSoftmax: chunk must be at least 1, received {chunk}")
        self.features, self.size, self.chunk = features, size, chunk
        self.weight = matrix(features, size, tied)
        self.bias = nn.Parameter(torch.zeros(size))
        self.tied = tied is not None
        if not self.tied:
            self.draw(features**-0.5)

    @torch.no_grad()
    def draw(self, bound: float, bias: float = 0.0) -> None:
        """New values, uniform up to ±bound, and up to ±bias for the biases; tied weights are left to the embedding."""
        if not self.tied:
            self.weight.uniform_(-bound, bound)
        self.bias.uniform_(-bias, bias)

    def loss(self, hidden: Tensor, targets: Tensor, windows: Windows | None = None) -> Tensor:
        """The negative log likelihood."""
        return self.nll(hidden, targets, windows)

    def nll(self, hidden: Tensor, targets: Tensor, windows: Windows | None = None) -> Tensor:
        """(N, H) and symbols (N,) -> (N,)."""
        return nll(hidden, self.weight, self.bias, targets, chunk=self.chunk, windows=windows)

    def log_probs(self, hidden: Tensor, windows: Windows | None = None) -> Tensor:
        """(N, H) -> (N, V)."""
        return log_probs(hidden, self.weight, self.bias, windows)

    def extra_repr(self) -> str:
        """The sizes."""
        chunk = f", chunk={self.chunk}" if self.chunk else ""
        return f"{self.features}, {self.size}{chunk}{', tied' if self.tied else ''}"


def matrix(features: int, size: int, tied: nn.Parameter | None) -> nn.Parameter:
    """(size, features), a row for each symbol: those of an embedding, or new ones."""
    if tied is None:
        return nn.Parameter(torch.zeros(size, features))
    if tuple(tied.shape) != (size, features):
        raise ShapeError(
            f"tied: expected the vectors of {size} symbols with {features} numbers, received {tuple(tied.shape)}"
        )
    return tied
