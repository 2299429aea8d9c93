"""Dropout on the vectors of a sequence."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from riverrun.data.padded import Padded
from riverrun.errors import ConfigError


class Dropout(nn.Module):
    r"""In training each number is 0 with a probability; what stays is scaled so that the mean stays.

    .. math:: y_t = m_t \odot x_t \qquad m_t \sim \mathrm{Bernoulli}(1 - \mathrm{rate}) / (1 - \mathrm{rate})

    Args:
        rate: the probability, from 0 to below 1.
        variational: the same mask m at every position of a row (Gal and Ghahramani 2016).

    >>> x = Padded(torch.ones(1, 3, 4), torch.tensor([3]))
    >>> y = Dropout(0.5, variational=True)(x).data
    >>> bool((y[:, 0] == y[:, 1]).all() and (y[:, 1] == y[:, 2]).all())
    True
    """

    def __init__(self, rate: float, *, variational: bool = False) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ConfigError(f"dropout must be a probability from 0 to below 1, received {rate!r}")
        self.rate, self.variational = rate, variational

    def forward(self, x: Padded) -> Padded:
        """(B, T, ...) -> the same shape."""
        if not self.training or self.rate == 0:
            return x
        if not self.variational:
            return x.with_data(drop(x.data, self.rate))
        data = x.data
        once = data.new_ones((data.shape[0], 1, *data.shape[2:]))
        return x.with_data(data * drop(once, self.rate))

    def extra_repr(self) -> str:
        """The rate, and how it is drawn."""
        return f"{self.rate}{', variational' if self.variational else ''}"


def drop(values: Tensor, rate: float) -> Tensor:
    """The values, each 0 with the probability ``rate`` and otherwise divided by ``1 - rate``.

    >>> drop(torch.ones(3), 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    if values.device.type != "cpu":
        return nn.functional.dropout(values, rate)
    # On the CPU, uniform numbers are drawn three times as fast as the bits that torch's dropout draws.
    kept = torch.rand(values.shape) >= rate
    return values * (kept.to(values.dtype) / (1 - rate))
