"""What a model says about a batch, in one form for torch nets, exported graphs and count-based models.

A scorer returns ``Labels`` or ``Chain`` and nothing else; a decoder reads these and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from riverrun.data.batch import Batch
from riverrun.data.padded import Array
from riverrun.errors import ShapeError


@dataclass(frozen=True, eq=False)
class Labels:
    """One decision for each example.

    Args:
        logits: (B, C), unnormalised log scores.
    """

    logits: Array


@dataclass(frozen=True, eq=False)
class Chain:
    """A decision for each position, where neighbouring decisions may depend on each other.

    The score of a path y is start[y_0] + emissions[0, y_0] + sum over t > 0 of (transitions[y_(t-1), y_t] +
    emissions[t, y_t]) + stop[y_last]. A model without dependencies has zeros for transitions, start and stop.

    Args:
        emissions: (B, T, C).
        transitions: (C, C), from the row to the column; (B, T, C, C) where they depend on the position, entry t being
            the step from t - 1 to t (entry 0 is not read); (C, C, C) for a second-order chain: the score of tag k
            after the tags i, j is [i, j, k].
        start: (C,). In a second-order chain (1 + C, C): row 0 is for the first tag, row 1 + i for the second tag
            after the first tag i.
        stop: (C,). In a second-order chain (1 + C, C), by the last but one tag i (row 1 + i, row 0 where there is
            none) and the last.
        lengths: (B,). A sequence of length 0 has one path, the empty one, with score 0.

    >>> import numpy as np
    >>> Chain(np.zeros((1, 4, 3)), np.zeros((2, 2)), np.zeros(3), np.zeros(3), np.array([4]))
    Traceback (most recent call last):
    riverrun.errors.ShapeError: Chain: transitions for emissions (1, 4, 3) must be (3, 3), (1, 4, 3, 3) or (3, 3, 3),
    received (2, 2)
    """

    emissions: Array
    transitions: Array
    start: Array
    stop: Array
    lengths: Array

    def __post_init__(self) -> None:
        if self.emissions.ndim != 3:
            raise ShapeError(f"Chain: expected emissions (B, T, C), received {tuple(self.emissions.shape)}")
        B, T, C = self.emissions.shape
        steps = tuple(self.transitions.shape)
        if steps not in ((C, C), (B, T, C, C), (C, C, C)):
            raise ShapeError(
                f"Chain: transitions for emissions {(B, T, C)} must be {(C, C)}, {(B, T, C, C)} or {(C, C, C)}, "
                f"received {steps}"
            )
        edge = (1 + C, C) if self.order == 2 else (C,)
        for name, expected in (("start", edge), ("stop", edge), ("lengths", (B,))):
            received = tuple(getattr(self, name).shape)
            if received != expected:
                raise ShapeError(f"Chain: {name} must be {expected}, received {received}")

    @property
    def order(self) -> int:
        """How many tags before it a tag may depend on: 1 or 2."""
        return 2 if self.transitions.ndim == 3 else 1

    @property
    def per_position(self) -> bool:
        """Whether every position has transitions of its own."""
        return bool(self.transitions.ndim == 4)


class Scorer(Protocol):
    """Anything that scores a batch: a torch net, an ONNX session, a count-based model."""

    def scores(self, batch: Batch) -> Labels | Chain:
        """The scores of every example of the batch."""
        ...
