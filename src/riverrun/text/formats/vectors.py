"""Word vectors: GloVe's text, word2vec's text and binary, fastText's ``.vec``; compressed by name.

A file is read as a stream: of its lines only the words that are wanted are kept, and only their numbers are parsed.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from riverrun.errors import DataError
from riverrun.text.sources import read_blocks

_BLOCK = 1 << 18
_BOM = b"\xef\xbb\xbf"
_HEADER = re.compile(rb"(\d+)[ \t]+(\d+)\s*\Z")  # word2vec, fastText: the number of words and of their numbers
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # what no text has: so the vectors are binary
_FASTTEXT = b"\xba\x16\x4f\x2f"  # how fastText's own binary models begin
_LONGEST = 1 << 20  # bytes; no line and no word is as long


class Vectors(NamedTuple):
    """Words and their vectors: row k of the matrix (N, D), float32, is that of word k. No word stands twice."""

    words: list[str]
    matrix: npt.NDArray[np.float32]


def read_vectors(
    path: str | Path, *, wanted: set[str] | None = None, extra: int = 0, size: int | None = None
) -> Vectors:
    """The vectors of a file in its order; of a word that stands twice, the first one.

    Args:
        path: GloVe's text (``word 0.1 0.2 ...``), the same behind a line ``words numbers`` (word2vec's text,
            fastText's ``.vec``), or word2vec's binary; known by its content. ``.gz`` and ``.zst`` are read.
        wanted: the words to read; all of them without it.
        extra: with ``wanted``, how many of the file's first words are read besides. Such files begin with the most
            frequent words.
        size: D, where it is fixed; a file of another width is an error.
    """
    store = _Store(str(path), wanted, extra, size)
    with closing(read_blocks(path, size=_BLOCK)) as blocks:
        head = next(blocks, b"")
        if not head:
            raise DataError(f"{path}: the file is empty; expected word vectors")
        if head.startswith(_FASTTEXT):
            raise DataError(f"{path}: a binary model of fastText; give the file .vec that stands beside it")
        head = head.removeprefix(_BOM)
        first, _, rest = head.partition(b"\n")
        header = _HEADER.match(first)
        stream = _Stream(head, blocks)
        if header:
            stream.until(b"\n")
            store.set_width(int(header[2]), 1)
            if _CONTROL.search(rest[:4096]):
                _read_binary(stream, store, int(header[1]))
                return store.vectors()
        with np.errstate(over="ignore"):  # what is too large for float32 is found as not finite
            _read_text(stream, store, 2 if header else 1)
    return store.vectors()


class _Store:
    """The vectors that are kept."""

    def __init__(self, name: str, wanted: set[str] | None, extra: int, size: int | None) -> None:
        self.name = name
        self.size = size
        self.width = 0
        self._wanted = None if wanted is None else {word.encode("utf-8", "surrogatepass") for word in wanted}
        self._extra = extra
        self._words: dict[str, None] = {}
        self._numbers = array("f")

    def set_width(self, width: int, line: int) -> None:
        """Say how many numbers each word of the file has."""
        if not width:
            raise self.error(f"{line}", "expected a word and its numbers, separated by spaces")
        if self.size is not None and width != self.size:
            raise self.error(
                f"{line}", f"expected vectors of {self.size} numbers, received {width}; set the size to {width}"
            )
        self.width = width

    def wants(self, word: bytes, number: int) -> bool:
        """Whether word ``number`` of the file (from 0) is to be kept."""
        return self._wanted is None or word in self._wanted or number < self._extra

    def add(self, word: bytes, numbers: npt.NDArray[np.float32], place: str) -> None:
        """Keep a vector (D,), unless the word has one."""
        text = word.decode("utf-8", "replace")
        if text in self._words:
            return
        if not np.isfinite(numbers).all():
            raise self.error(place, f"the vector of '{text}' holds a number that is not finite")
        self._words[text] = None
        self._numbers.frombytes(numbers.tobytes())

    def vectors(self) -> Vectors:
        return Vectors(list(self._words), np.frombuffer(self._numbers, np.float32).reshape(-1, self.width))

    def error(self, place: str, message: str) -> DataError:
        return DataError(f"{self.name}:{place}: {message}")


class _Stream:
    """Blocks of bytes, taken piece by piece."""

    def __init__(self, held: bytes, blocks: Iterator[bytes]) -> None:
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

    def lines(self) -> Iterator[bytes]:
        """The rest, in lines without their ends."""
        tail = self._held[self._at :]
        for block in self._blocks:
            *lines, tail = (tail + block).split(b"\n")
            yield from lines
        *lines, tail = tail.split(b"\n")
        yield from lines
        if tail:
            yield tail

    def _more(self) -> bool:
        block = next(self._blocks, b"")
        self._held, self._at = self._held[self._at :] + block, 0
        return bool(block)


def _read_text(stream: _Stream, store: _Store, first: int) -> None:
    width = store.width
    number = -1
    for at, line in enumerate(stream.lines(), first):
        # word2vec and fastText end their lines with a space.
        if line[-1:] in (b" ", b"\r"):
            line = line.rstrip(b" \r")
        if not line:
            continue
        number += 1
        spaces = line.count(b" ")
        if not width:
            store.set_width(spaces, at)
            width = spaces
        if spaces < width:
            raise store.error(f"{at}", f"expected a word and {width} numbers, received {spaces + 1} cells")
        # A word may hold spaces, as '. . .' does in one of GloVe's lists.
        word = line[: line.find(b" ")] if spaces == width else line.rsplit(b" ", width)[0]
        wanted = store.wants(word, number)
        if wanted or not number:  # the first one always: it shows whether these are vectors at all
            try:
                numbers = np.array(line[len(word) + 1 :].split(b" "), np.bytes_).astype(np.float32)
            except ValueError:
                raise store.error(f"{at}", f"expected a word and {width} numbers, received {_shown(line)}") from None
            if wanted:
                store.add(word, numbers, f"{at}")
    if number < 0:
        raise DataError(f"{store.name}: the file is empty; expected word vectors")


def _read_binary(stream: _Stream, store: _Store, count: int) -> None:
    for number in range(count):
        word = stream.until(b" ")
        numbers = stream.take(4 * store.width)
        if word is None or len(numbers) < 4 * store.width:
            raise DataError(f"{store.name}: word {number + 1}: the file ends here; its first line says {count} words")
        word = word.lstrip(b"\n")  # some writers end a vector with a line feed
        if store.wants(word, number):
            store.add(word, np.frombuffer(numbers, "<f4"), f"word {number + 1}")


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= 60 else text[:60] + "...")
