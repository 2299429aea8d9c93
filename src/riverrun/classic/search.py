"""Where a symbol stands in a sorted row, for loops that are compiled."""

from __future__ import annotations

from riverrun.classic.arrays import Ids
from riverrun.classic.compiled import loop


@loop
def place_of(word: Ids, low: int, high: int, symbol: int) -> int:
    """The place of a symbol between two places of ``word``, or -1."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if word[middle] < symbol:
            low = middle + 1
        else:
            high = middle
    return low if low < end and word[low] == symbol else -1
