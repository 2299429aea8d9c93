"""From the ids of a text to the n-grams that begin at each of its symbols, as keys of 64-bit columns.

A text of lines is read as ``<s> w1 .. wn </s>`` line by line, and no n-gram reaches over the end of a line. Running
text has no ends: it is one sequence behind a first ``bos``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np

from riverrun.classic.arrays import AnyIds, Bits, Ids
from riverrun.errors import ConfigError, DataError, ShapeError

Stream: TypeAlias = "AnyIds | Iterable[AnyIds]"
"""Ids of a text, in one array or in several ones that are cut anywhere. Where texts end, each line ends with eos."""

_CHUNK = 1 << 20  # ids of one array that are looked at at once
_LINES = 1 << 14  # lines that are ended at once


class Symbols:
    """The ids of a text with ``bos`` where it belongs, in pieces; checked on the way.

    Args:
        size: V, ids are 0 to V - 1.
        bos: what stands before a line, or before running text.
        eos: what ends a line, or None for running text.

    >>> symbols = Symbols(size=5, bos=0, eos=1)
    >>> np.concatenate(list(symbols.read([np.array([4, 1, 3]), np.array([1, 1])]))).tolist()
    [0, 4, 1, 0, 3, 1, 0, 1]
    """

    def __init__(self, *, size: int, bos: int, eos: int | None) -> None:
        for name, value in (("bos", bos), ("eos", eos)):
            if value is not None and not 0 <= value < size:
                raise ConfigError(f"{name}: expected an id from 0 to {size - 1}, received {value}")
        if bos == eos:
            raise ConfigError(
                f"bos and eos are both {bos}: an n-gram model reads lines between two different symbols, <s> and </s>, "
                "or running text with eos None"
            )
        if not 1 <= size <= 2**31:
            raise ConfigError(f"size: expected 1 to 2^31 symbols, received {size}")
        self.size, self.bos, self.eos = size, bos, eos

    def read(self, stream: Stream, ends: AnyIds | None = None) -> Iterator[Ids]:
        """Every symbol in its order, ``bos`` included, in pieces of any size.

        Args:
            stream: the ids.
            ends: where lines end in one array of ids; eos is put there where it does not stand before. Running text
                goes on over them.
        """
        if ends is not None and self.eos is not None:
            arrays: Iterable[AnyIds] = self._ended(stream, ends, self.eos)
        else:
            arrays = [stream] if isinstance(stream, np.ndarray) else stream
        fresh, seen = True, 0
        for ids in _cut(arrays):
            self._check(ids, seen)
            seen += len(ids)
            if self.eos is None:
                yield np.concatenate([[self.bos], ids]).astype(np.int32) if fresh else ids.astype(np.int32)
                fresh = False
                continue
            starts = np.flatnonzero(ids == self.eos) + 1
            last = len(starts) > 0 and starts[-1] == len(ids)
            starts = starts[: len(starts) - last]
            yield np.insert(ids.astype(np.int32), np.concatenate([[0], starts]) if fresh else starts, self.bos)
            fresh = bool(last)
        if self.eos is not None and not fresh:
            yield np.array([self.eos], np.int32)

    def _ended(self, stream: Stream, ends: AnyIds, eos: int) -> Iterator[Ids]:
        if not isinstance(stream, np.ndarray):
            raise ConfigError("ends: they belong to one array of ids; texts that come in several end with eos")
        ends = np.asarray(ends, np.int64)
        if len(ends) and (ends[0] < 0 or ends[-1] > len(stream) or (np.diff(ends) < 0).any()):
            raise DataError(f"ends: expected places from 0 to {len(stream)} that do not fall")
        if (ends[-1] if len(ends) else 0) != len(stream):
            ends = np.append(ends, len(stream))
        for first in range(0, len(ends), _LINES):
            some = ends[first : first + _LINES]
            start = int(ends[first - 1]) if first else 0
            ids, places = np.asarray(stream[start : some[-1]]), some - start
            sizes = np.diff(places, prepend=0)  # an empty line has no last symbol that could be eos
            closed = (sizes > 0) & (ids[places - 1] == eos) if len(ids) else np.zeros(len(sizes), np.bool_)
            yield np.insert(ids, places[~closed], eos)

    def _check(self, ids: AnyIds, seen: int) -> None:
        if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
            raise ShapeError(f"stream: expected arrays (n,) of integers, received {ids.shape} of {ids.dtype}")
        wrong = (ids < 0) | (ids >= self.size)
        if self.eos is not None:
            wrong |= ids == self.bos
        if wrong.any():
            at = int(np.argmax(wrong))
            what = "bos, which stands only before a line" if ids[at] == self.bos else f"not among {self.size} symbols"
            raise DataError(f"symbol {seen + at} of the text has the id {ids[at]}: {what}")


def _cut(arrays: Iterable[AnyIds]) -> Iterator[AnyIds]:
    for ids in arrays:
        for at in range(0, len(ids), _CHUNK):
            yield np.asarray(ids[at : at + _CHUNK])


class Keys:
    """How n-grams are packed: as many symbols in a column of 64 bits as fit, the first one highest.

    >>> keys = Keys(size=1000, order=7)
    >>> keys.bits, keys.columns
    (10, (60, 10))
    """

    def __init__(self, *, size: int, order: int) -> None:
        self.size, self.order = size, order
        self.bits = size.bit_length()  # 0 is nothing, id k is k + 1
        self.per_column = 64 // self.bits
        counts = [min(self.per_column, order - at) for at in range(0, order, self.per_column)]
        self.columns = tuple(count * self.bits for count in counts)

    def windows(self, pieces: Iterable[Ids], eos: int | None) -> Iterator[Bits]:
        """Keys (n, C) of the n-grams that begin at each symbol; behind the end of a line, and of all, is nothing."""
        from riverrun.classic.packing import pack

        held = np.empty(0, np.int32)
        end = -1 if eos is None else eos
        for piece in pieces:
            held = np.concatenate([held, piece])
            complete = len(held) - self.order + 1
            if complete > 0:
                yield pack(held, complete, end, self.order, self.bits, self.per_column)
                held = held[complete:]
        if len(held):
            yield pack(held, len(held), end, self.order, self.bits, self.per_column)

    def unpacked(self, row: Bits) -> tuple[int, ...]:
        """The symbols of one key.

        >>> keys = Keys(size=4, order=3)
        >>> keys.unpacked(np.array([0b001_100_000], np.uint64))
        (0, 3)
        """
        bits = "".join(f"{int(key):0{width}b}" for key, width in zip(row, self.columns, strict=False))
        codes = [int(bits[at : at + self.bits], 2) for at in range(0, len(bits), self.bits)]
        return tuple(code - 1 for code in codes if code)
