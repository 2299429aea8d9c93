"""The contexts of a symbol that leave something out, each as one number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from riverrun.classic.arrays import AnyIds, Bits, Ids, Integers

Pattern: TypeAlias = tuple[int, ...]
"""How far before the predicted symbol each symbol of a context stands, the farthest one first."""


NO_FEATURE = np.uint64(0)  # where a context would begin before the text
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def patterns(order: int, skips: int, span: int) -> tuple[Pattern, ...]:
    """The last 0 to ``order`` - 1 symbols; and some, 1 to ``skips`` left out, and the last ones: ``span`` in all.

    >>> patterns(order=3, skips=1, span=2)
    ((), (1,), (2, 1), (2,), (3, 2), (3, 1))
    """
    adjacent = [tuple(range(n, 0, -1)) for n in range(order)]
    skipping = [
        (*range(size + skipped, near + skipped, -1), *range(near, 0, -1))
        for size in range(1, span + 1)
        for near in range(size)
        for skipped in range(1, skips + 1)
    ]
    return (*adjacent, *skipping)


def contexts_of(symbols: Ids, reach: int) -> AnyIds:
    """(n, reach): the symbols before each one; where there are none, any number.

    >>> contexts_of(np.array([7, 8, 9], np.int32), 2)[2].tolist()
    [7, 8]
    """
    if not reach:
        return np.empty((len(symbols), 0), np.int32)
    padded = np.concatenate([np.zeros(reach, np.int32), symbols])
    return np.lib.stride_tricks.sliding_window_view(padded, reach)[: len(symbols)]


def hashed(columns: AnyIds, known: Integers, all_patterns: Sequence[Pattern]) -> Bits:
    """(n, P): each context as a number of 64 bits, 0 where the text does not reach so far back.

    Two contexts of the same pattern with the same number are taken for one; among a hundred million there are such two
    with a probability of 3 in 10,000.

    Args:
        columns: (n, R), the symbols before each predicted one, the last one in the last column.
        known: (n,), how many of them there are.
        all_patterns: P of them, none of which looks back farther than R.

    >>> found = hashed(np.array([[4, 5], [4, 5], [9, 5]]), np.array([2, 1, 2]), [(1,), (2, 1)])
    >>> bool(found[0, 0] == found[1, 0] == found[2, 0]), bool(found[0, 1] == found[2, 1]), int(found[1, 1])
    (True, False, 0)
    """
    rows, reach = columns.shape
    out = np.empty((rows, len(all_patterns)), np.uint64)
    for place, pattern in enumerate(all_patterns):
        mixed = np.full(rows, 1, np.uint64)
        for distance in pattern:
            mixed = _mixed(mixed + columns[:, reach - distance].astype(np.uint64) + np.uint64(1))
        far = pattern[0] if pattern else 0
        out[:, place] = np.where(known >= far, np.maximum(mixed, np.uint64(1)), NO_FEATURE)
    return out


def _mixed(values: Bits) -> Bits:
    """Every bit of the result depends on every bit of the value (the finaliser of Steele et al. 2014, splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * _MULTIPLIERS[0]
    values = (values ^ (values >> np.uint64(27))) * _MULTIPLIERS[1]
    return values ^ (values >> np.uint64(31))
