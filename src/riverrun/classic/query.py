"""The scores of an n-gram model as a loop over the symbols of a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from riverrun.classic.arrays import Floats, Ids, Integers
from riverrun.classic.compiled import loop


@loop
def scores(
    symbols: npt.NDArray[Any],
    order: int,
    word: Ids,
    first: Integers,
    log_prob: npt.NDArray[Any],
    log_backoff: npt.NDArray[Any],
    flat: bool,
    absent: float,
    begins: int,
) -> Floats:
    """(n,) natural logarithms, as `ContextModel.scores` has them, but for ``bos``, which has 0.

    For each length the node of the symbols just read is kept, so that a symbol costs one search an order.
    """
    out = np.zeros(len(symbols), np.float64)
    nodes = np.full(order, -1, np.int64)  # of the last symbol, the last two, ...
    children = np.full(order, -1, np.int64)
    known = 0
    for i in range(len(symbols)):
        symbol = symbols[i]
        if symbol < 0 or symbol == begins:
            nodes[:] = -1
            known = 0
            if symbol >= 0:
                nodes[0] = symbol
                known = 1
            continue
        children[0] = symbol
        for length in range(1, order):
            found = -1
            if nodes[length - 1] >= 0:
                low, end = first[nodes[length - 1]], first[nodes[length - 1] + 1]
                high = end
                while low < high:
                    middle = (low + high) >> 1
                    if word[middle] < symbol:
                        low = middle + 1
                    else:
                        high = middle
                if low < end and word[low] == symbol:
                    found = low
            children[length] = found
        length = min(known, order - 1)
        rest = 0.0
        if flat and length > 0:
            if children[length] >= 0:
                out[i] = log_prob[children[length]]
            elif nodes[length - 1] >= 0:
                out[i] = log_backoff[nodes[length - 1]]
            else:
                out[i] = absent
        else:
            while length > 0 and children[length] < 0:
                rest += log_backoff[nodes[length - 1]] if nodes[length - 1] >= 0 else absent
                length -= 1
            out[i] = rest + log_prob[children[length]]
        nodes[:] = children
        known = min(known + 1, order)
    return out
