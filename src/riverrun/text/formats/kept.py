"""Which words of a file of vectors are kept, and their vectors."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from riverrun.errors import DataError


class Vectors(NamedTuple):
    """Words and their vectors: row k of the matrix (N, D), float32, is that of word k. No word stands twice."""

    words: list[str]
    matrix: npt.NDArray[np.float32]
    composed: int = 0
    """How many of the words, the last ones, are not in the file: their vectors were made of those of their pieces."""

    def own(self) -> set[str]:
        """The words that are in the file."""
        return set(self.words[: len(self.words) - self.composed])


class Kept:
    """The vectors that are kept.

    Args:
        name: what messages call the file.
        wanted: the words to keep; all of them without it.
        extra: how many of the first words are kept besides.
        size: the numbers of a vector, where they are fixed.
    """

    def __init__(self, name: str, wanted: set[str] | None, extra: int, size: int | None) -> None:
        self.name = name
        self.size = size
        self.width = 0
        self.wanted = None if wanted is None else {word.encode("utf-8", "surrogatepass") for word in wanted}
        self._extra = extra
        self._words: dict[str, None] = {}
        self._numbers = array("f")

    def set_width(self, width: int, place: str) -> None:
        """Say how many numbers each word of the file has."""
        if not width:
            raise self.error(place, "expected a word and its numbers, separated by spaces")
        if self.size is not None and width != self.size:
            raise self.error(
                place, f"expected vectors of {self.size} numbers, received {width}; set the size to {width}"
            )
        self.width = width

    def wants(self, word: bytes, number: int) -> bool:
        """Whether word ``number`` of the file (from 0) is to be kept."""
        return self.wanted is None or word in self.wanted or number < self._extra

    def add(self, word: bytes, numbers: npt.NDArray[np.float32], place: str) -> None:
        """Keep a vector (D,), unless the word has one."""
        text = word.decode("utf-8", "replace")
        if text in self._words:
            return
        if not np.isfinite(numbers).all():
            raise self.not_finite(place, text)
        self._words[text] = None
        self._numbers.frombytes(numbers.tobytes())

    def vectors(self) -> Vectors:
        """What was kept."""
        return Vectors(list(self._words), np.frombuffer(self._numbers, np.float32).reshape(-1, self.width))

    def not_finite(self, place: str, word: str) -> DataError:
        """The error about a vector with a number that is none."""
        return self.error(place, f"the vector of '{word}' holds a number that is not finite")

    def error(self, place: str, message: str) -> DataError:
        """The error about one place of this file."""
        return DataError(f"{self.name}:{place}: {message}")
