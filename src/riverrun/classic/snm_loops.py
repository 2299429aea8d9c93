"""The loops of the sparse non-negative matrix model: its scores, and how its adjustments are learned."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from riverrun.classic.arrays import Bits, Floats, Ids, Integers
from riverrun.classic.compiled import loop
from riverrun.classic.search import place_of

Singles = npt.NDArray[np.float32]

METAS = 8  # hashed descriptions of an entry, whose adjustments are added up


@loop
def index_of(base: Integers, feature: Bits) -> tuple[Integers, Integers]:
    """Where the hashes of each pattern with the same highest bits begin, and where each pattern begins among these.

    Hashes are spread evenly, so that with as many bits a few rows are left to look at.
    """
    patterns = len(base) - 1
    start = np.zeros(patterns + 1, np.int64)
    for pattern in range(patterns):
        bits = 1
        while (4 << bits) < base[pattern + 1] - base[pattern]:
            bits += 1
        start[pattern + 1] = start[pattern] + (1 << bits) + 1
    index = np.empty(start[patterns], np.int64)
    for pattern in range(patterns):
        buckets = start[pattern + 1] - start[pattern] - 1
        row = base[pattern]
        for bucket in range(buckets):
            while row < base[pattern + 1] and _bucket(feature[row], buckets) < bucket:
                row += 1
            index[start[pattern] + bucket] = row
        index[start[pattern] + buckets] = base[pattern + 1]
    return index, start


@loop
def _bucket(key: Any, buckets: int) -> Any:
    """The highest bits of a hash, for a power of two of buckets."""
    shift = np.uint64(64)
    while buckets > 1:
        shift -= np.uint64(1)
        buckets >>= 1
    return np.int64(key >> shift)


@loop
def _row(feature: Bits, index: Integers, start: Integers, pattern: int, key: Any) -> int:
    """The row of a context, or -1."""
    bucket = start[pattern] + _bucket(key, start[pattern + 1] - start[pattern] - 1)
    for row in range(index[bucket], index[bucket + 1]):
        if feature[row] == key:
            return row
    return -1


@loop
def scores(
    hashes: Bits,
    symbols: npt.NDArray[Any],
    feature: Bits,
    index: Integers,
    start: Integers,
    first: Integers,
    word: Ids,
    weight: Singles,
    total: Floats,
    anything: float,
    share: float,
) -> Floats:
    """(n,) the probabilities of the symbols in the contexts with these hashes (n, P).

    Args:
        anything: the weight of what is true of every context and says nothing.
        share: the part of it that each symbol gets.
    """
    out = np.empty(len(symbols), np.float64)
    for i in range(len(symbols)):
        above, below = anything * share, anything
        for pattern in range(hashes.shape[1]):
            key = hashes[i, pattern]
            if key != np.uint64(0):
                row = _row(feature, index, start, pattern, key)
                if row >= 0:
                    below += total[row]
                    entry = place_of(word, first[row], first[row + 1], symbols[i])
                    if entry >= 0:
                        above += weight[entry]
        out[i] = above / below
    return out


@loop
def _mixed(value: Any) -> Any:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@loop
def _joined(one: Any, other: Any) -> Any:
    """A hash of two things in their order."""
    return _mixed(one * np.uint64(0x9E3779B97F4A7C15) + other)


@loop
def _size(count: Any) -> Any:
    """A count as one of a few sizes, two for each power of two."""
    return np.uint64(1 + np.int64(2.0 * math.log2(count)))


@loop
def _metas(pattern: int, key: Any, symbol: int, count: Any, total: Any, mask: Any, out: Bits) -> None:
    """Where the adjustments of an entry are: of what it is described by, alone and together.

    The descriptions are the pattern, the context, the symbol, and how often the context and the entry were seen.
    """
    kind = _mixed(np.uint64(pattern + 1))
    seen = _joined(kind + np.uint64(1), _size(count))
    of = _joined(kind + np.uint64(2), _size(total))
    context = _joined(kind + np.uint64(3), key)
    target = _joined(kind + np.uint64(4), np.uint64(symbol))
    out[0] = kind & mask
    out[1] = seen & mask
    out[2] = of & mask
    out[3] = _joined(seen, of) & mask
    out[4] = context & mask
    out[5] = _joined(context, seen) & mask
    out[6] = target & mask
    out[7] = _joined(target, seen) & mask


@loop
def _adjustment(adjust: Singles, places: Bits) -> float:
    total = 0.0
    for place in places:
        total += adjust[place]
    return math.exp(total)


@loop
def _descend(adjust: Singles, squares: Singles, places: Bits, slope: float, rate: float) -> None:
    """One step of AdaGrad for each adjustment of an entry."""
    for place in places:
        squares[place] += slope * slope
        adjust[place] -= rate * slope / math.sqrt(squares[place])


@loop
def learn(
    hashes: Bits,
    symbols: npt.NDArray[Any],
    feature: Bits,
    index: Integers,
    start: Integers,
    first: Integers,
    word: Ids,
    count: npt.NDArray[np.uint32],
    total: Integers,
    adjust: Singles,
    squares: Singles,
    anything: Floats,
    share: float,
    scale: float,
    rate: float,
) -> float:
    r"""One step of AdaGrad for each symbol that was counted, as if it had not been itself; the sum of their losses.

    The loss of a symbol t is that of Poisson, :math:`\sum_j y_j - \log y_t`, where y is the sum of the rows of its
    contexts. Its slope for entry (i, j) is :math:`M_{ij} (1 - [j = t] / y_t)`. So an entry pays at every other symbol
    behind its context too; it pays for them all, in equal parts, where it is itself the symbol.

    Args:
        count: (entries,), how often each symbol followed its context.
        total: (rows,), how often something followed the context.
        anything: (2,), the logarithm of the weight of what is true of every context, and its squared slopes.
        scale: of all entries, before anything is learned.
    """
    mask = np.uint64(len(adjust) - 1)
    patterns = hashes.shape[1]
    there, others = np.empty((patterns, METAS), np.uint64), np.empty((patterns, METAS), np.uint64)
    part, rest = np.zeros(patterns), np.zeros(patterns)
    loss = 0.0
    for i in range(len(symbols)):
        free = math.exp(anything[0])
        y = free * share
        for pattern in range(patterns):
            part[pattern], rest[pattern] = 0.0, 0.0
            key = hashes[i, pattern]
            if key == np.uint64(0):
                continue
            row = _row(feature, index, start, pattern, key)
            n = total[row] - 1
            if n == 0:
                continue
            entry = place_of(word, first[row], first[row + 1], symbols[i])
            c = np.int64(count[entry])
            if c > 1:
                _metas(pattern, key, symbols[i], c - 1, n, mask, there[pattern])
                part[pattern] = scale * _adjustment(adjust, there[pattern]) * (c - 1) / n
                y += part[pattern]
            if n + 1 > c:
                _metas(pattern, key, symbols[i], c, n, mask, others[pattern])
                rest[pattern] = scale * _adjustment(adjust, others[pattern]) * (n + 1 - c) / n
        loss -= math.log(y)
        for pattern in range(patterns):
            loss += part[pattern] + rest[pattern]
            if part[pattern] > 0.0:
                _descend(adjust, squares, there[pattern], part[pattern] * (1.0 - 1.0 / y), rate)
            if rest[pattern] > 0.0:
                _descend(adjust, squares, others[pattern], rest[pattern], rate)
        slope = free - free * share / y
        anything[1] += slope * slope
        anything[0] -= rate * slope / math.sqrt(anything[1])
        loss += free
    return loss


@loop
def weigh(
    base: Integers,
    feature: Bits,
    first: Integers,
    word: Ids,
    count: npt.NDArray[np.uint32],
    total: Integers,
    adjust: Singles,
    scale: float,
    weight: Singles,
) -> None:
    """The entries of the matrix, adjusted."""
    mask = np.uint64(len(adjust) - 1)
    places = np.empty(METAS, np.uint64)
    for pattern in range(len(base) - 1):
        for row in range(base[pattern], base[pattern + 1]):
            for entry in range(first[row], first[row + 1]):
                c = np.int64(count[entry])
                _metas(pattern, feature[row], word[entry], c, total[row], mask, places)
                weight[entry] = scale * _adjustment(adjust, places) * c / total[row]
