"""Rows of 64-bit numbers, sorted and counted: what counting in bounded memory is made of.

A row is a key of one or several columns, the first of which decides first, and after the key how often it was seen.
Keys are sorted by their digits, the least significant ones first: time grows with the number of rows, not with its
logarithm, and only as many bits are looked at as the keys have.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from riverrun.classic.arrays import Bits
from riverrun.classic.compiled import loop

# Of a digit. 2,048 counters stay in the fastest cache, and 16 bits of a word are two digits.
DIGIT = 11


def sort_rows(rows: Bits, scratch: Bits, bits: tuple[int, ...]) -> tuple[Bits, Bits]:
    """Rows in the order of their first columns, and the other of the two arrays, which is free now.

    Args:
        rows: (n, C) and more columns than ``bits`` has numbers where something is carried along.
        scratch: of the same shape.
        bits: for each column of the key, how many low bits of it are used.

    >>> rows = np.array([[2, 7], [1, 9], [1, 8]], np.uint64)
    >>> sort_rows(rows, np.empty_like(rows), (2, 4))[0].tolist()
    [[1, 8], [1, 9], [2, 7]]
    """
    for column in range(len(bits) - 1, -1, -1):
        for shift in range(0, bits[column], DIGIT):
            if _by_digit(rows, scratch, column, np.uint64(shift), min(DIGIT, bits[column] - shift)):
                rows, scratch = scratch, rows
    return rows, scratch


@loop
def _by_digit(rows: Bits, out: Bits, column: int, shift: Any, bits: int) -> bool:
    """Rows into ``out`` in the order of one digit, equal ones as they were; False where all digits are the same."""
    places = np.zeros((1 << bits) + 1, np.int64)
    mask = np.uint64((1 << bits) - 1)
    for i in range(len(rows)):
        places[np.int64((rows[i, column] >> shift) & mask) + 1] += 1
    for digit in range(1 << bits):
        if places[digit + 1] == len(rows):
            return False
        places[digit + 1] += places[digit]
    for i in range(len(rows)):
        own = np.int64((rows[i, column] >> shift) & mask)
        place = places[own]
        places[own] = place + 1
        for j in range(rows.shape[1]):
            out[place, j] = rows[i, j]
    return True


@loop
def count_equal(rows: Bits, out: Bits) -> int:
    """Sorted rows (n, C) of keys into ``out`` (n, C + 1): each distinct key and how often it is there; how many.

    >>> out = np.empty((3, 2), np.uint64)
    >>> out[: count_equal(np.array([[4], [4], [6]], np.uint64), out)].tolist()
    [[4, 2], [6, 1]]
    """
    columns = rows.shape[1]
    n = -1
    for i in range(len(rows)):
        new = i == 0
        for j in range(columns):
            if not new and rows[i, j] != rows[i - 1, j]:
                new = True
        if new:
            n += 1
            for j in range(columns):
                out[n, j] = rows[i, j]
            out[n, columns] = np.uint64(0)
        out[n, columns] += np.uint64(1)
    return n + 1


@loop
def add_equal(rows: Bits) -> int:
    """Sorted rows of keys and counts (n, C + 1), in place: equal keys become one with the sum; how many are left."""
    columns = rows.shape[1] - 1
    n = -1
    for i in range(len(rows)):
        new = i == 0
        for j in range(columns):
            if not new and rows[i, j] != rows[n, j]:
                new = True
        if new:
            n += 1
            for j in range(columns + 1):
                rows[n, j] = rows[i, j]
        else:
            rows[n, columns] += rows[i, columns]
    return n + 1
