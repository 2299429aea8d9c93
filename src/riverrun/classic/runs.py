"""Distinct keys and their counts, of more keys than memory holds: sorted runs on disk that are merged."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from riverrun.classic.arrays import Bits
from riverrun.errors import ConfigError

_MEGABYTE = 1 << 20
# Of rows that are held: with fewer there would be more runs than can be read side by side.
_FEWEST = 256


class Runs:
    """Keys go in, in any order; out come the distinct ones in their order, each with how often it was added.

    While they fit into memory nothing is written. Otherwise what is held is sorted, counted and written to a file, a
    run, whenever memory is full; at the end the runs are merged, a part of each at a time. Leaving the context removes
    the files.

    Args:
        bits: for each column of a key, how many low bits of it are used. The first column decides first.
        memory: megabytes for the rows that are held and those that are sorted.
        folder: where a folder for the runs is made; the system's place for temporary files where it is not given.

    >>> with Runs((4,)) as runs:
    ...     for key in (7, 3, 7):
    ...         runs.add(np.array([[key]], np.uint64))
    ...     runs.merged().tolist()
    [[3, 1], [7, 2]]
    """

    def __init__(self, bits: tuple[int, ...], *, memory: float = 1024, folder: Path | str | None = None) -> None:
        if memory <= 0:
            raise ConfigError(f"memory: expected a positive number of megabytes, received {memory}")
        self.bits = bits
        self.spilled = 0
        columns, self._bytes = len(bits), int(memory * _MEGABYTE)
        # Memory that is asked for is only taken where it is written to.
        room = max(_FEWEST, self._bytes // (8 * (2 * columns + 1)))
        self._keys = np.empty((room, columns), np.uint64)
        self._counted = np.empty((room, columns + 1), np.uint64)
        self._held = 0
        self._runs: list[Bits] = []
        self._parent = folder
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *exception: object) -> None:
        self._runs = []
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, keys: Bits) -> None:
        """Rows of keys (n, C)."""
        while len(keys):
            if self._held == len(self._keys):
                self._spill()
            some = keys[: len(self._keys) - self._held]
            self._keys[self._held : self._held + len(some)] = some
            self._held += len(some)
            keys = keys[len(some) :]

    def merged(self) -> Bits:
        """(n, C + 1): the distinct keys in their order, and in the last column their counts; nothing is held then.

        Where runs were written these rows are a file, too, that is read as it is used.
        """
        if not self._runs:
            return self._count()
        if self._held:
            self._spill()
        runs, self._runs = self._runs, []
        self._keys, self._counted = self._keys[:0], self._counted[:0]
        return self._written("merged", self._parts(runs))

    def _count(self) -> Bits:
        """What is held, sorted and counted; nothing is held after it."""
        from riverrun.classic.sorting import count_equal, sort_rows

        keys = self._keys[: self._held]
        scratch = self._counted.reshape(-1)[: keys.size].reshape(keys.shape)
        found, _ = sort_rows(keys, scratch, self.bits)
        if found is scratch:
            keys[...] = found
        self._held = 0
        return self._counted[: count_equal(keys, self._counted)]

    def _spill(self) -> None:
        self._runs.append(self._written(f"run{self.spilled}", [self._count()]))
        self.spilled += 1

    def _parts(self, runs: list[Bits]) -> Iterator[Bits]:
        """The rows of all runs in their order, in parts: of each run what comes before a key that all have reached."""
        from riverrun.classic.sorting import add_equal, sort_rows

        columns = len(self.bits)
        # As many rows are read at once as can be held beside the array that they are sorted into.
        share = max(1, self._bytes // (16 * (columns + 1) * len(runs)))
        done = [0] * len(runs)
        while any(at < len(run) for at, run in zip(done, runs, strict=True)):
            blocks = [np.asarray(run[at : at + share]) for at, run in zip(done, runs, strict=True)]
            ends = [
                block[-1, :columns]
                for block, at, run in zip(blocks, done, runs, strict=True)
                if at + len(block) < len(run)
            ]
            if ends:
                reached = min(ends, key=lambda end: tuple(end.tolist()))
                blocks = [block[: _up_to(block, reached)] for block in blocks]
            done = [at + len(block) for at, block in zip(done, blocks, strict=True)]
            rows = np.concatenate(blocks)
            rows, _ = sort_rows(rows, np.empty_like(rows), self.bits)
            yield rows[: add_equal(rows)]

    def _written(self, name: str, parts: Iterator[Bits] | list[Bits]) -> Bits:
        try:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="riverrun-runs-", dir=self._parent)
            path = Path(self._folder.name) / name
            with path.open("wb") as file:
                for part in parts:
                    part.tofile(file)
        except OSError as error:
            raise ConfigError(
                f"what memory does not hold cannot be written to {self._parent or tempfile.gettempdir()}: "
                f"{error.strerror or error}; give more memory, or a folder with more room"
            ) from None
        return np.memmap(path, np.uint64, "r").reshape(-1, len(self.bits) + 1)


def _up_to(block: Bits, key: Bits) -> int:
    """How many of the sorted rows have a key that is not behind this one."""
    low, high = 0, len(block)
    for column in range(len(key)):
        values = np.ascontiguousarray(block[low:high, column])
        left, right = np.searchsorted(values, key[column], "left"), np.searchsorted(values, key[column], "right")
        low, high = low + int(left), low + int(right)
    return high
