"""fastText's own binary models (``.bin``), which have vectors for words that they never saw.

The file holds a header, the dictionary, a matrix with a row for each word and for each of a fixed number of buckets,
and a second matrix that is of no use here. A word's n-grams, the runs of ``minn`` to ``maxn`` characters of ``<word>``,
are hashed into the buckets. The vector of a word is the mean of its own row and of its n-grams' rows; that of a word
outside the dictionary is the mean of its n-grams' rows.

The rows are read once, in the order of the file, and each is added to the words it is part of: a file of many
gigabytes is mapped into memory and only looked at where it matters, a compressed one is streamed.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from riverrun.errors import DataError
from riverrun.text.formats.kept import Kept, Vectors
from riverrun.text.formats.pieces import Pieces

MAGIC = b"\xba\x16\x4f\x2f"
_VERSIONS = (11, 12)
_SUPERVISED = 3
_SENTENCE_END = b"</s>"  # a word of the dictionary that has no n-grams
_HEAD = struct.Struct("<2i12id3i2q")
_ENTRY = 9  # bytes behind a word: how often it occurs (int64), whether it is a word or a label (int8)
_SHAPE = struct.Struct("<2q")
_CHARACTER = re.compile(rb"[^\x80-\xbf][\x80-\xbf]*")  # in UTF-8
_AGAIN = "download or copy it again"


class NGrams(NamedTuple):
    """Where the n-grams of a word lie: of ``minn`` to ``maxn`` characters, in ``bucket`` rows."""

    minn: int
    maxn: int
    bucket: int

    def buckets(self, word: bytes) -> list[int]:
        """The bucket of each n-gram of a word (UTF-8); one that occurs twice stands twice.

        The hash is FNV-1a of 32 bits, but over *signed* bytes. That of a run goes on from that of the run one shorter.

        >>> len(NGrams(3, 6, 100).buckets(b"word"))  # <wo wor ord rd> <wor word ord> <word word> <word>
        10
        """
        if word == _SENTENCE_END:
            return []
        characters = _CHARACTER.findall(b"<" + word + b">")
        last = len(characters) - 1
        found = []
        for start in range(last + 1):
            code = 2166136261
            for length, character in enumerate(characters[start : start + max(0, self.maxn)], 1):
                for byte in character:
                    code = (code ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619 & 0xFFFFFFFF
                if length >= self.minn and not (length == 1 and start in (0, last)):  # "<" and ">" alone are none
                    found.append(code % self.bucket)
        return found


def read_fasttext(path: str | Path, head: bytes, blocks: Iterator[bytes], kept: Kept) -> Vectors:
    """The vectors of the words that are kept, in the order of the dictionary; then, sorted, those of the wanted words
    that the dictionary does not have. A word without a row and without n-grams is left out.

    Args:
        path: the file; it is mapped into memory where it is a plain file.
        head: its first block.
        blocks: the other ones, read where it is not a plain file.
        kept: says which words are kept.
    """
    with _opened(path, head, blocks) as pieces:
        return _Reader(pieces, kept).read()


@contextmanager
def _opened(path: str | Path, head: bytes, blocks: Iterator[bytes]) -> Iterator[Pieces]:
    if path == "-" or Path(path).suffix in (".gz", ".zst") or not Path(path).is_file():
        yield Pieces(head, blocks)
        return
    with Path(path).open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as held:
        yield Pieces(held, iter(()))


class _Reader:
    """One pass over a model."""

    def __init__(self, pieces: Pieces, kept: Kept) -> None:
        self._pieces = pieces
        self._kept = kept

    def read(self) -> Vectors:
        _, version, dim, *_, model, bucket, minn, maxn, _, _, size, words, _, _, pruned = self._unpack(_HEAD, "header")
        if version not in _VERSIONS:
            raise self._error(
                f"version {version} of fastText's format; expected 11 or 12. Save it with fastText 0.9, or give the "
                "file .vec that stands beside it"
            )
        if version == 11 and model == _SUPERVISED:
            maxn = 0  # such models were made before these had n-grams
        if dim < 1 or not 0 <= words <= size or bucket < (1 if maxn > 0 else 0):
            raise self._error(f"the header of this fastText model is damaged; {_AGAIN}")
        names = self._dictionary(size, words)
        self._skip(8 * max(0, pruned), "dictionary")
        self._reject_quantised(pruned)
        self._kept.set_width(dim, "header")
        rows, columns = self._unpack(_SHAPE, "matrix of vectors")
        if (rows, columns) != (words + bucket, dim):
            raise self._error(
                f"the matrix of vectors is of {rows} x {columns} numbers; the header of this fastText model says "
                f"{words + bucket} x {dim}. The file is damaged; {_AGAIN}"
            )
        vectors = self._means(names, words, NGrams(minn, maxn, bucket), rows)
        self._reject_truncated()
        return vectors

    def _dictionary(self, size: int, words: int) -> dict[bytes, int]:
        """The words that are kept, with their numbers; the labels of a classifier stand behind the words."""
        names: dict[bytes, int] = {}
        for number in range(size):
            word = self._pieces.until(b"\0")
            if word is None or len(self._pieces.take(_ENTRY)) < _ENTRY:
                raise self._ends("dictionary")
            if number < words and self._kept.wants(word, number):
                names.setdefault(word, number)
        return names

    def _means(self, names: dict[bytes, int], words: int, ngrams: NGrams, rows: int) -> Vectors:
        texts: dict[str, None] = {}
        parts, counts = array("q"), array("q")  # the rows of all words, one after the other; how many each word has
        # Two words whose bytes are no text can read alike: the first one is kept.
        for word, number in names.items():
            text = word.decode("utf-8", "replace")
            if text not in texts:
                texts[text] = None
                own = [number, *(words + k for k in ngrams.buckets(word))]
                parts.extend(own)
                counts.append(len(own))
        in_file = len(texts)
        for word in sorted((self._kept.wanted or set()) - names.keys()):
            text = word.decode("utf-8", "surrogatepass")
            if text not in texts and (found := ngrams.buckets(word)):
                texts[text] = None
                parts.extend([words + k for k in found])
                counts.append(len(found))
        lengths = np.array(counts, np.int64)
        with np.errstate(over="ignore", invalid="ignore"):  # found below as not finite
            matrix = self._sums(np.array(parts, np.int64), lengths, rows)
            matrix /= lengths[:, None].astype(np.float32)
        all_words = list(texts)
        broken = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        if len(broken):
            raise self._kept.not_finite("matrix", all_words[broken[0]])
        return Vectors(all_words, matrix, composed=len(all_words) - in_file)

    def _sums(self, parts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.float32]:
        """For each word the sum of its rows (N, D); ``parts`` are the rows of all words, ``lengths`` how many each has.

        Afterwards the whole matrix has been passed.
        """
        count = len(lengths)
        sums = np.zeros((count, self._kept.width), np.float32)
        # Pairs of a row and a word, sorted by row, each with how often it occurs: a word may have an n-gram twice.
        pairs, times = np.unique(parts * count + np.repeat(np.arange(count), lengths), return_counts=True)
        row_of, word_of = np.divmod(pairs, max(1, count))
        weights = times.astype(np.float32)[:, None]
        wide = 4 * self._kept.width
        ids, firsts = np.unique(row_of, return_index=True)
        at = 0
        for row, first, end in zip(ids.tolist(), firsts.tolist(), [*firsts[1:].tolist(), len(pairs)], strict=False):
            self._skip((row - at) * wide, "matrix of vectors")
            data = self._take(wide, "matrix of vectors")
            sums[word_of[first:end]] += weights[first:end] * np.frombuffer(data, "<f4")
            at = row + 1
        self._skip((rows - at) * wide, "matrix of vectors")
        return sums

    def _reject_quantised(self, pruned: int) -> None:
        if self._take(1, "dictionary") != b"\0":
            raise self._error(
                "a quantised model of fastText (.ftz); expected a whole one: give the .bin that it was made from, or "
                "a file .vec"
            )
        if pruned >= 0:
            raise self._error(
                "a model of an old fastText whose dictionary does not fit its vectors; download it again, or give the "
                "file .vec that stands beside it"
            )

    def _reject_truncated(self) -> None:
        """The second matrix is of no use, but must be there: else the file was cut off on its way here."""
        self._take(1, "second matrix")
        rows, columns = self._unpack(_SHAPE, "second matrix")
        self._skip(4 * max(0, rows) * max(0, columns), "second matrix")

    def _unpack(self, form: struct.Struct, where: str) -> tuple[int, ...]:
        return form.unpack(self._take(form.size, where))

    def _take(self, size: int, where: str) -> bytes:
        data = self._pieces.take(size)
        if len(data) < size:
            raise self._ends(where)
        return data

    def _skip(self, size: int, where: str) -> None:
        if not self._pieces.skip(size):
            raise self._ends(where)

    def _ends(self, where: str) -> DataError:
        return self._error(f"this fastText model ends inside its {where}; {_AGAIN}")

    def _error(self, message: str) -> DataError:
        return DataError(f"{self._kept.name}: {message}")
