"""A chain laid out for dynamic programming: time first, batch last, and both orders alike.

A *history* is what the next step depends on: the last tag, an array (C, B), or in a second-order chain the last two,
(1 + C, C, B), of which the first is 0 where there is none and 1 + i for tag i. With the batch last, a maximum or a sum
over the tag that leaves the history is one pass over long contiguous rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from array_api_compat import array_namespace, device

from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import NEGATIVE_INFINITY, contiguous
from riverrun.decode.scorer import Chain

Reduce = Callable[[Array, int], Array]  # over the given axis, which goes
History = tuple[Array, ...]  # for each row the index of its history along each axis of H


@dataclass(frozen=True, eq=False)
class Lattice:
    """The scores of a chain by history; H stands for C or for 1 + C, C.

    Args:
        emissions: (T, C, B), 0 in the padding.
        transitions: (H, C, 1), the step from a history to a tag; (T, H, C, B) where every position has its own.
        start: (H, 1), the history after the first position.
        stop: (H, 1).
        lengths: (B,).
    """

    emissions: Array
    transitions: Array
    start: Array
    stop: Array
    lengths: Array

    @staticmethod
    def of(chain: Chain) -> Lattice:
        """The lattice of a chain; what stands in the chain's padding is not read."""
        xp = array_namespace(chain.emissions)
        emissions = contiguous(xp.permute_dims(Padded(chain.emissions, chain.lengths).zeroed().data, (1, 2, 0)))
        transitions, start = chain.transitions[..., None], chain.start[..., None]
        if chain.per_position:
            steps = Padded(chain.transitions, chain.lengths).zeroed().data
            transitions = contiguous(xp.permute_dims(steps, (1, 2, 3, 0)))
        elif chain.order == 2:
            transitions = xp.concat([start[None, 1:], transitions])  # the second tag is a step from history (0, i)
            start = xp.concat([start[:1], xp.full_like(start[1:], NEGATIVE_INFINITY)])
        return Lattice(emissions, transitions, start, chain.stop[..., None], chain.lengths)

    @property
    def order(self) -> int:
        """1 or 2."""
        return int(self.start.ndim) - 1

    @property
    def histories(self) -> int:
        """How many there are: the size of H."""
        return math.prod(self.start.shape[:-1])

    def step(self, t: int) -> Array:
        """(H, C, 1 or B), the scores of the step into position t."""
        per_position = self.transitions.ndim > 2 + self.order
        return self.transitions[t] if per_position else self.transitions

    def first(self) -> Array:
        """(H, B), the scores of each history after the first position."""
        return self.start + self.emissions[0]

    def advance(self, scores: Array, t: int, reduce: Reduce) -> Array:
        """(H, B) after position t from those after t - 1; a row that has ended keeps what it has."""
        xp = array_namespace(scores)
        following = reduce(scores[..., None, :] + self.step(t), 0) + self.emissions[t]
        if self.order == 2:
            following = xp.concat([xp.full_like(following[:1], NEGATIVE_INFINITY), following])
        return xp.where(t < self.lengths, following, scores)

    def forward(self, reduce: Reduce) -> list[Array]:
        """For each position the (H, B) scores of everything up to it, combined by ``reduce``."""
        scores = [self.first()]
        for t in range(1, self.emissions.shape[0]):
            scores.append(self.advance(scores[-1], t, reduce))
        return scores

    def backward(self, reduce: Reduce) -> list[Array]:
        """For each position the (H, B) scores of everything behind it, the stop included."""
        xp = array_namespace(self.emissions)
        length = self.emissions.shape[0]
        end = self.stop + xp.zeros_like(self.emissions[0])
        scores = [end]
        for t in range(length - 1, 0, -1):
            behind = scores[-1][1:] if self.order == 2 else scores[-1]  # by (the history's last tag,) tag at t
            before = reduce(self.step(t) + (self.emissions[t] + behind)[None], -2)
            scores.append(xp.where(t < self.lengths, before, end))
        return scores[::-1]

    def arriving(self, scores: Array, t: int, history: History) -> Array:
        """(C or 1 + C, B), how well each row's history after position t is reached, by the tag that left it there.

        ``scores`` are those after t - 1, (H, B). The order of additions is that of ``advance``, so that the largest of
        these is exactly what ``advance`` found.
        """
        rows, step = self.rows(), self.step(t)
        middle = [part - 1 for part in history[:-1]]
        columns = rows if step.shape[-1] > 1 else rows * 0
        before = scores[(slice(None), *middle, rows)] if middle else scores
        return before + step[(slice(None), *middle, history[-1], columns)]

    def rows(self) -> Array:
        """(B,), the index of each row."""
        return array_namespace(self.lengths).arange(self.lengths.shape[0], device=device(self.lengths))
