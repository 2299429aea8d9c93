"""A net as a scorer of numpy batches: the place where arrays go to the device and scores come back."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch
from torch import nn

from riverrun.data.batch import Batch
from riverrun.data.padded import Array
from riverrun.decode.scorer import Chain, Labels


class NetScorer:
    """``decode.Scorer`` for a net.

    Args:
        net: a module with ``scores(batch) -> Chain | Labels``; it is used as it is, in whatever mode it is in.
    """

    def __init__(self, net: nn.Module) -> None:
        self.net = net

    def scores(self, batch: Batch) -> Chain | Labels:
        """The net's scores as numpy arrays."""
        device = next(self.net.parameters()).device
        with torch.no_grad():
            found: Chain | Labels = self.net.scores(batch.map(lambda array: to_tensor(array, device)))  # type: ignore[operator]
        return type(found)(**{field.name: to_numpy(getattr(found, field.name)) for field in fields(found)})


def to_tensor(array: np.ndarray, device: torch.device | str = "cpu") -> torch.Tensor:
    """A numpy array as a tensor on a device."""
    # A memory-mapped array is not writable, and torch has no such tensors.
    return torch.from_numpy(array if array.flags.writeable else array.copy()).to(device)


def to_numpy(array: Array) -> np.ndarray:
    """A tensor, or an array as it is, as a numpy array."""
    return array.detach().cpu().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)
