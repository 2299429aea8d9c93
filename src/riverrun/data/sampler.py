"""In which order sentences are met: a pure function of the seed and the epoch, so that a position is two numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Buckets:
    """Batches of sentences of similar length.

    An epoch's sentences are shuffled, cut into pools of ``pool`` batches, sorted by length within each pool, cut into
    batches, and the batches shuffled. So a batch has little padding, and which sentences meet differs each time.

    Args:
        lengths: (N,).
        batch: sentences in a batch, at most.
        tokens: positions (padding included) in a batch, at most; a longer sentence is a batch of its own.
        seed: of the order.
        shuffle: False takes the sentences in their order, and leaves the batches in theirs; within each pool they are
            sorted all the same.
        pool: 1 gives plain random batches.

    >>> buckets = Buckets(np.array([3, 1, 2, 9]), batch=2, tokens=8, seed=1, shuffle=False, pool=100)
    >>> [b.tolist() for b in buckets.order(0)]
    [[1, 2], [0], [3]]
    """

    lengths: np.ndarray
    batch: int
    tokens: int | None = None
    seed: int = 0
    shuffle: bool = True
    pool: int = 50

    def order(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch: arrays of sentence numbers. Every sentence is met once."""
        random = np.random.default_rng([self.seed, epoch])
        order = random.permutation(len(self.lengths)) if self.shuffle else np.arange(len(self.lengths))
        size = self.batch * self.pool
        batches: list[np.ndarray] = []
        for start in range(0, len(order), size):
            part = order[start : start + size]
            if self.pool > 1:
                part = part[np.argsort(self.lengths[part], kind="stable")]
            batches += self._cut(part)
        return [batches[k] for k in random.permutation(len(batches))] if self.shuffle else batches

    def _cut(self, part: np.ndarray) -> Iterator[np.ndarray]:
        if self.tokens is None:
            yield from (part[k : k + self.batch] for k in range(0, len(part), self.batch))
            return
        start, longest = 0, 0
        for k, length in enumerate(self.lengths[part].tolist()):
            longest = max(longest, length)
            if k > start and (k - start == self.batch or (k - start + 1) * longest > self.tokens):
                yield part[start:k]
                start, longest = k, length
        if start < len(part):
            yield part[start:]
