"""How likely each symbol is to be drawn where not all are scored."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from riverrun.errors import ConfigError, ShapeError


def proposal(size: int, frequencies: npt.NDArray[np.number] | None, power: float = 1.0) -> Tensor:
    """(V,), probabilities that sum to 1, in float64.

    Args:
        size: V.
        frequencies: (V,), how often each symbol occurs; one that never does counts as the rarest that does. Without
            them symbols are taken to be numbered from the most frequent one on, and their frequencies to fall as those
            of words do: 1 / (1 + number).
        power: of the frequencies; 0 draws all symbols alike.

    >>> proposal(3, np.array([4, 0, 1]), power=0.5).tolist()
    [0.5, 0.25, 0.25]
    """
    values = 1 / np.arange(1.0, size + 1) if frequencies is None else np.asarray(frequencies, np.float64)
    if values.shape != (size,):
        raise ShapeError(f"proposal: expected the frequencies of {size} symbols, received {values.shape}")
    if not (np.isfinite(values).all() and (values >= 0).all() and values.any()):
        raise ConfigError("proposal: expected frequencies from 0 on, and one above it; received other numbers")
    values = np.maximum(values, values[values > 0].min()) ** power
    return torch.from_numpy(values / values.sum())
