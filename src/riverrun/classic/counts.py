"""How often each n-gram occurs in a text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from riverrun.classic.arrays import AnyIds, Integers
from riverrun.classic.runs import Runs
from riverrun.classic.trie import Trie
from riverrun.classic.windows import Keys, Stream, Symbols
from riverrun.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False)
class Counts:
    """The n-grams of a text of orders 1 to N and how often each occurs.

    Args:
        trie: the n-grams.
        seen: (nodes,), how often each occurs; ``bos`` counts once for each time a text begins.
        bos: the symbol before a line, or before running text.
        eos: the symbol that ends a line, or None for running text.
        unknown: the symbol that stands for those that are not known, or None.
        beginning: the first symbols of running text, ``bos`` and at most N - 1 others; nothing stands before them.
    """

    trie: Trie
    seen: Integers
    bos: int
    eos: int | None
    unknown: int | None
    beginning: tuple[int, ...]

    def of(self, ids: list[int]) -> int:
        """How often one n-gram occurs."""
        node = self.trie.walk(ids)
        return int(self.seen[node]) if node >= 0 else 0


def count(
    stream: Stream,
    *,
    order: int,
    size: int,
    bos: int,
    eos: int | None,
    unknown: int | None = None,
    ends: AnyIds | None = None,
    memory: float = 1024,
    folder: Path | str | None = None,
) -> Counts:
    """Count the n-grams of a text; needs numba.

    A text of lines (``eos`` is an id) is read as ``bos w1 .. wn eos`` line by line, and no n-gram reaches over the end
    of a line. Running text (``eos`` is None) is one sequence behind a first ``bos``, which is a symbol like others.

    Args:
        stream: the ids in one array, or in several ones that are cut anywhere; each line with ``eos`` at its end. A
            last line without it is ended.
        order: N, symbols of the longest n-grams.
        size: V, ids are 0 to V - 1.
        bos: what stands before a text.
        eos: what ends a line.
        unknown: what stands for symbols that are not known.
        ends: where lines end in one array of ids without ``eos``.
        memory: megabytes for n-grams that are not sorted yet; what is more is sorted on disk. The counts, about 20
            bytes for each distinct n-gram, are in memory in any case.
        folder: where files for that are made; the system's place for temporary files where it is not given.

    >>> counts = count(np.array([2, 3, 1, 2, 2, 1]), order=2, size=4, bos=0, eos=1)
    >>> counts.of([2]), counts.of([0, 2]), counts.of([3, 2]), counts.of([2, 1])
    (3, 2, 0, 1)
    """
    if order < 1:
        raise ConfigError(f"order: expected at least 1, received {order}")
    if unknown is not None and not 0 <= unknown < size:
        raise ConfigError(f"unknown: expected an id from 0 to {size - 1}, received {unknown}")
    from riverrun.classic.growing import grow, levels

    symbols = Symbols(size=size, bos=bos, eos=eos)
    keys = Keys(size=size, order=order)
    beginning: tuple[int, ...] = ()
    with Runs(keys.columns, memory=memory, folder=folder) as runs:
        for rows in keys.windows(symbols.read(stream, ends), eos):
            if eos is None and not beginning:
                beginning = keys.unpacked(rows[0])
            runs.add(rows)
        rows = runs.merged()
        if not len(rows):
            raise DataError("no text to count n-grams in; expected at least one symbol")
        sizes = levels(rows, order, keys.bits, keys.per_column)
        sizes[0] = size
        base = np.concatenate([[0], np.cumsum(sizes)])
        word = np.empty(base[-1], np.int32)
        first = np.empty(base[-2] + 1, np.int64)
        seen = np.empty(base[-1], np.int64)
        first[-1] = base[-1]
        grow(rows, keys.bits, keys.per_column, base, word, first, seen)
        del rows
    return Counts(Trie(base, word, first), seen, bos, eos, unknown, beginning)
