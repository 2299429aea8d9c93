"""Dropout of whole symbols."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from riverrun.errors import ConfigError


class SymbolDropout(nn.Module):
    r"""In training the vector of a symbol is 0 wherever it stands in the batch, with a probability.

    .. math:: y_t = m_{w_t} x_t \qquad m_w \sim \mathrm{Bernoulli}(1 - \mathrm{rate}) / (1 - \mathrm{rate})

    It is dropout on the rows of an embedding, drawn once a batch (Gal and Ghahramani 2016).

    Args:
        rate: the probability, from 0 to below 1.

    >>> x = SymbolDropout(0.5)(torch.tensor([[3, 4, 3]]), torch.ones(1, 3, 2))
    >>> bool((x[0, 0] == x[0, 2]).all())
    True
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ConfigError(f"dropout of symbols must be a probability from 0 to below 1, received {rate!r}")
        self.rate = rate

    def forward(self, ids: Tensor, vectors: Tensor) -> Tensor:
        """Symbols (B, T) and their vectors (B, T, D) -> (B, T, D)."""
        if not self.training or self.rate == 0:
            return vectors
        symbols, place = torch.unique(ids, return_inverse=True)
        kept = torch.rand(len(symbols), device=ids.device) >= self.rate
        return vectors * (kept / (1 - self.rate))[place].unsqueeze(-1).to(vectors.dtype)

    def extra_repr(self) -> str:
        """The rate."""
        return f"{self.rate}"
