"""A random order of numbers, of which any part is computed without the rest: for more examples than fit in memory."""

from __future__ import annotations

from math import isqrt

import numpy as np

_ROUNDS = 4


def shuffled(positions: np.ndarray, size: int, *, seed: int, epoch: int) -> np.ndarray:
    """Which of the numbers from 0 to ``size - 1`` stand at these positions of the order of an epoch.

    A number is written as two digits; in each round, each digit is moved around by a random function of the other one,
    which can be undone (a Feistel network). What then is no number below ``size`` goes through it again.

    >>> order = shuffled(np.arange(10), 10, seed=1, epoch=0).tolist()
    >>> sorted(order) == list(range(10)), shuffled(np.array([7]), 10, seed=1, epoch=0).tolist() == order[7:8]
    (True, True)
    """
    wide = np.uint64(isqrt(max(size - 1, 0)) + 1)
    high = np.uint64(-(-size // int(wide)))
    keys = np.random.default_rng([seed, epoch]).integers(0, 2**64, (_ROUNDS, 2), np.uint64)
    out = np.array(positions, np.uint64)
    todo = np.arange(len(out))
    while len(todo):
        left, right = np.divmod(out[todo], wide)
        for first, second in keys:
            left = (left + _mixed(right ^ first)) % high
            right = (right + _mixed(left ^ second)) % wide
        out[todo] = left * wide + right
        todo = todo[out[todo] >= size]
    return out.astype(np.int64)


def _mixed(value: np.ndarray) -> np.ndarray:
    """A hash of each number, less than 2**32 so that a digit can be added (the finaliser of SplitMix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(value >> np.uint64(32))
