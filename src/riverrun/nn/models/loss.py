"""What a model says of its error on a batch: a sum and what it sums over, so that parts of a batch add up exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Loss:
    """A summed loss and its counts. The training loop divides, after it has added up all parts of a step.

    Args:
        sum: (), the loss summed over the batch; gradients flow from it.
        tokens: how many tokens (tags, characters, target words) the sum goes over.
        sequences: how many examples it goes over.
        parts: name -> (), the terms of the sum where it has several, to be shown.
    """

    sum: Tensor
    tokens: int
    sequences: int
    parts: Mapping[str, Tensor] = field(default_factory=dict)
