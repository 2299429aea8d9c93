"""Symbols into the columns of keys."""

from __future__ import annotations

import numpy as np

from riverrun.classic.arrays import Bits, Ids
from riverrun.classic.compiled import loop


@loop
def pack(symbols: Ids, count: int, eos: int, order: int, bits: int, per_column: int) -> Bits:
    """Keys (count, C) of the n-grams that begin at the first symbols; nothing (0) is behind ``eos`` and the last one.

    >>> pack(np.array([5, 6, 1], np.int32), 3, 1, 2, 8, 8).tolist()
    [[1543], [1794], [512]]
    """
    columns = (order + per_column - 1) // per_column
    out = np.empty((count, columns), np.uint64)
    shift = np.uint64(bits)
    for i in range(count):
        ended = False
        place = 0
        for column in range(columns):
            key = np.uint64(0)
            for _ in range(min(per_column, order - column * per_column)):
                # A shift by 64 is not defined: with one symbol a column there is nothing to be shifted.
                if per_column > 1:
                    key <<= shift
                if not ended and i + place < len(symbols):
                    symbol = symbols[i + place]
                    key |= np.uint64(symbol + 1)
                    ended = symbol == eos
                place += 1
            out[i, column] = key
    return out
