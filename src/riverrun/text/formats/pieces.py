"""Bytes that are taken piece by piece, from a stream of blocks or from a file mapped into memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from mmap import mmap

from riverrun.text.sources import lines_of

_LONGEST = 1 << 20  # bytes; no line and no word is as long


class Pieces:
    """Bytes from the first to the last: those that are held, then the blocks.

    >>> pieces = Pieces(b"one tw", iter([b"o three"]))
    >>> pieces.until(b" "), pieces.skip(4), pieces.take(9), pieces.skip(1)
    (b'one', True, b'three', False)
    """

    def __init__(self, held: bytes | mmap, blocks: Iterator[bytes]) -> None:
        self._held = held
        self._at = 0
        self._blocks = blocks

    def until(self, end: bytes) -> bytes | None:
        """The bytes up to ``end``, which is taken off; None where it does not come."""
        while True:
            found = self._held.find(end, self._at)
            if found >= 0:
                piece = self._held[self._at : found]
                self._at = found + len(end)
                return piece
            if len(self._held) - self._at > _LONGEST or not self._more():
                return None

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes, fewer where the file ends."""
        while len(self._held) - self._at < size and self._more():
            pass
        piece = self._held[self._at : self._at + size]
        self._at += len(piece)
        return piece

    def skip(self, size: int) -> bool:
        """Leave out the next ``size`` bytes; False where the file ends before."""
        while size > len(self._held) - self._at:
            size -= len(self._held) - self._at
            self._held, self._at = next(self._blocks, b""), 0
            if not self._held:
                return False
        self._at += size
        return True

    def lines(self) -> Iterator[bytes]:
        """The rest, in lines without their ends."""
        for lines in lines_of(chain([self._held[self._at :]], self._blocks), b"\n"):
            yield from lines

    def _more(self) -> bool:
        block = next(self._blocks, b"")
        if block:
            self._held, self._at = self._held[self._at :] + block, 0
        return bool(block)
