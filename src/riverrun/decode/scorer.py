"""What a model says about a batch, in one form for torch nets, exported graphs and count-based models.

A scorer returns ``Labels`` or ``Chain`` and nothing else; a decoder reads these and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from riverrun.data.batch import Batch
from riverrun.data.padded import Array


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
            the step from t - 1 to t (entry 0 is not read); (C, C, C) for a second-order chain.
        start: (C,).
        stop: (C,).
        lengths: (B,).
    """

    emissions: Array
    transitions: Array
    start: Array
    stop: Array
    lengths: Array


class Scorer(Protocol):
    """Anything that scores a batch: a torch net, an ONNX session, a count-based model."""

    def scores(self, batch: Batch) -> Labels | Chain:
        """The scores of every example of the batch."""
        ...
