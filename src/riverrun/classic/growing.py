"""From sorted keys to a tree of counts, and from each n-gram to the one without its first symbol."""

from __future__ import annotations

import numpy as np

from riverrun.classic.arrays import Bits, Ids, Integers
from riverrun.classic.compiled import loop
from riverrun.classic.search import place_of


@loop
def _unpack(row: Bits, bits: int, per_column: int, symbols: Integers) -> None:
    """One key into its symbols, each plus 1; 0 is nothing."""
    order = len(symbols)
    mask = np.uint64((1 << bits) - 1)
    for place in range(order):
        column = place // per_column
        inside = min(per_column, order - column * per_column)
        shift = np.uint64((inside - 1 - place % per_column) * bits)
        symbols[place] = np.int64((row[column] >> shift) & mask)


@loop
def levels(rows: Bits, order: int, bits: int, per_column: int) -> Integers:
    """(order,): how many different n-grams of each order begin the sorted keys."""
    found = np.zeros(order, np.int64)
    symbols, before = np.zeros(order, np.int64), np.zeros(order, np.int64)
    for i in range(len(rows)):
        _unpack(rows[i], bits, per_column, symbols)
        new = i == 0
        for place in range(order):
            if symbols[place] == 0:
                break
            new = new or symbols[place] != before[place]
            if new:
                found[place] += 1
        before[:] = symbols
    return found


@loop
def grow(rows: Bits, bits: int, per_column: int, base: Integers, word: Ids, first: Integers, count: Integers) -> None:
    """Fill a tree and the counts of its nodes from sorted keys whose last column is how often each was seen.

    Args:
        rows: (n, C + 1).
        bits: of a symbol.
        per_column: symbols in a column.
        base: (order + 1,), where each order begins.
        word: (nodes,), written here, like all that follows.
        first: (inner + 1,).
        count: (nodes,), 0 for symbols that do not occur.
    """
    order = len(base) - 1
    size = base[1]
    inner = len(first) - 1
    symbols, before = np.zeros(order, np.int64), np.zeros(order, np.int64)
    node = base[:order] - 1  # the last one of each order
    for id in range(size):
        word[id] = id
        count[id] = 0
    if inner > 0:
        first[0] = size
    for i in range(len(rows)):
        _unpack(rows[i], bits, per_column, symbols)
        seen = np.int64(rows[i, rows.shape[1] - 1])
        new = i == 0
        for place in range(order):
            if symbols[place] == 0:
                break
            new = new or symbols[place] != before[place]
            if new and place == 0:
                for id in range(node[0] + 1, symbols[0]):
                    if id < inner:
                        first[id] = node[1] + 1
                node[0] = symbols[0] - 1
            elif new:
                node[place] += 1
                word[node[place]] = symbols[place] - 1
                count[node[place]] = 0
            if new and place < order - 1:
                first[node[place]] = node[place + 1] + 1
            count[node[place]] += seen
        before[:] = symbols
    if inner > 0:
        for id in range(node[0] + 1, size):
            first[id] = node[1] + 1
        first[inner] = base[order]


@loop
def shorter(word: Ids, first: Integers, size: int) -> Integers:
    """(nodes,): for each n-gram the node of the same one without its first symbol; -1 for symbols."""
    link = np.full(len(word), -1, np.int64)
    for node in range(len(first) - 1):
        for longer in range(first[node], first[node + 1]):
            symbol = word[longer]
            if node < size:
                link[longer] = symbol
            elif link[node] >= 0:
                link[longer] = place_of(word, first[link[node]], first[link[node] + 1], symbol)
    return link
