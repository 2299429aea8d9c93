"""Fields: how the strings of an example become ids, and back. No torch, no padding policy beyond ``Padded``.

A word is looked up by its form; the characters of a form are encoded once per distinct form of a batch, so that a word
encoder runs once per distinct form, in training, export and prediction alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice

import msgspec
import numpy as np

from riverrun.errors import DataError
from riverrun.text.vocab import Vocab

_DIGIT = re.compile(r"\d")


class WordField(msgspec.Struct, frozen=True, tag="words", tag_field="kind"):
    """Words by their (normalised) form.

    Args:
        vocab: with an unknown symbol.
        lower: look words up in lower case.
        digits: read every digit as 0.
    """

    vocab: Vocab
    lower: bool = False
    digits: bool = False

    def normal(self, form: str) -> str:
        """The form that is looked up.

        >>> WordField(Vocab(["<unk>"], "<unk>"), lower=True, digits=True).normal("May-2016")
        'may-0000'
        """
        if self.lower:
            form = form.lower()
        return _DIGIT.sub("0", form) if self.digits else form

    def id(self, form: str) -> int:
        """The id of a form, or of the unknown word."""
        return self.vocab.id(self.normal(form))

    def ids(self, forms: Iterable[str]) -> list[int]:
        """The ids of several forms."""
        return self.vocab.ids(map(self.normal, forms))


class CharField(msgspec.Struct, frozen=True, tag="chars", tag_field="kind"):
    """Words by their characters, between a start and an end mark.

    Args:
        vocab: the characters, with an unknown symbol and the two marks.
        limit: of a form that is longer, the first and the last ``limit / 2`` characters are read.
    """

    START = "<w>"
    END = "</w>"
    UNKNOWN = "<unk>"

    vocab: Vocab
    limit: int = 40

    @staticmethod
    def count(forms: dict[str, int], *, min_count: int = 1, limit: int = 40) -> CharField:
        """The field for the characters of these forms (form -> occurrences)."""
        counts: dict[str, int] = {}
        for form, n in forms.items():
            for char in form:
                counts[char] = counts.get(char, 0) + n
        vocab = Vocab.count(counts, unknown=CharField.UNKNOWN, min_count=min_count)
        marks = [CharField.START, CharField.END]
        return CharField(Vocab([CharField.UNKNOWN, *marks, *vocab.symbols[1:]], CharField.UNKNOWN), limit)

    def ids(self, form: str) -> list[int]:
        """The ids of a form's characters, marks included.

        >>> CharField.count({"ab": 1}).ids("ba?")
        [1, 4, 3, 0, 2]
        """
        index = self.vocab.index
        return [1, *(index.get(char, 0) for char in self.read(form)), 2]

    def read(self, form: str) -> str:
        """What is read of a form.

        >>> CharField(Vocab(["<unk>"]), limit=4).read("abcdef")
        'abef'
        """
        if len(form) <= self.limit:
            return form
        half = self.limit // 2
        return form[:half] + form[len(form) - half :]


class TagField(msgspec.Struct, frozen=True, tag="tags", tag_field="kind"):
    """Tags, one for each word.

    Args:
        vocab: all tags; there is no unknown one.
        scheme: in which the model predicts: ``iob1``, ``iob2`` or ``bioes``; None where tags are no spans.
        source: the scheme of the training file, in which predictions are given back.
    """

    vocab: Vocab
    scheme: str | None = None
    source: str | None = None


class _Rows(dict[str, int]):
    """form -> row; a form that is new gets the next one."""

    def __missing__(self, form: str) -> int:
        self[form] = row = len(self)
        return row


def _code_ids(chars: CharField) -> np.ndarray:
    """Code point -> id of that character; the last one stands for all that lie beyond."""
    known = {ord(symbol): k for symbol, k in chars.vocab.index.items() if len(symbol) == 1}
    ids = np.zeros(max(known, default=0) + 2, np.int32)
    ids[list(known)] = list(known.values())
    return ids


def _no_text(word: object) -> DataError:
    return DataError(f"expected words as text, received {word!r} ({type(word).__name__})")


class FormTable:
    """What is known of each form that was met: its word id and its characters' ids, each computed once.

    A cache and nothing more: what it gives can be had from the fields alone. With ``most``, it empties itself when it
    holds more forms than that, so that an endless stream is read in bounded memory; rows are then good until the next
    call of ``rows`` only.
    """

    def __init__(self, words: WordField | None, chars: CharField | None, *, most: int | None = None) -> None:
        self.words, self.chars, self.most = words, chars, most
        self._codes = _code_ids(chars) if chars else np.zeros(0, np.int32)
        self._clear()

    def _clear(self) -> None:
        self._row = _Rows()
        self._filled = 0  # rows whose ids are known
        self._words = np.zeros(1024, np.int64)
        width = self.chars.limit + 2 if self.chars else 0
        self._chars = np.zeros((1024, width), np.int32)
        self._lengths = np.zeros(1024, np.int64)

    def rows(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """The row of every form of these sentences, one after the other."""
        if self.most is not None and len(self._row) > self.most:
            self._clear()
        try:
            rows = np.fromiter(map(self._row.__getitem__, chain.from_iterable(sentences)), np.int64)
        except TypeError:  # a word that cannot be hashed, as a list
            wrong = [form for form in chain.from_iterable(sentences) if not isinstance(form, str)]
            self._clear()
            raise _no_text(wrong[0]) from None
        self._fill()
        return rows

    def add(self, forms: Iterable[str]) -> None:
        """Give each form that is new the next row."""
        for form in forms:
            self._row[form]
        self._fill()

    def _fill(self) -> None:
        """The ids of the forms that were given a row since the last time, all at once."""
        begin, end = self._filled, len(self._row)
        if begin == end:
            return
        new = list(islice(reversed(self._row), end - begin))[::-1]
        wrong = [form for form in new if not isinstance(form, str)]
        if wrong:
            self._clear()  # it has a row already, which no later call may meet
            raise _no_text(wrong[0])
        while end > len(self._words):
            self._words, self._chars, self._lengths = (
                np.concatenate([a, np.zeros_like(a)]) for a in (self._words, self._chars, self._lengths)
            )
        if self.words:
            self._words[begin:end] = self.words.ids(new)
        if self.chars:
            self._spell(new, self._chars[begin:end], self._lengths[begin:end])
        self._filled = end

    def _spell(self, forms: list[str], table: np.ndarray, lengths: np.ndarray) -> None:
        """What ``CharField.ids`` gives for each form into a row of zeros, and its length."""
        assert self.chars is not None
        read = [self.chars.read(form) for form in forms]
        lengths[:] = np.fromiter(map(len, read), np.int64, len(read)) + 2
        codes = np.frombuffer("".join(read).encode("utf-32-le", "surrogatepass"), np.uint32)
        places = np.arange(table.shape[1])
        table[(places > 0) & (places < lengths[:, None] - 1)] = self._codes[np.minimum(codes, len(self._codes) - 1)]
        table[:, 0], table[np.arange(len(read)), lengths - 1] = 1, 2

    def word_ids(self, rows: np.ndarray) -> np.ndarray:
        """The word ids of rows of the table, same shape."""
        return np.asarray(self._words[rows])

    def char_ids(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(U, L) character ids of U rows and their lengths (U,)."""
        lengths = self._lengths[rows]
        width = int(lengths.max()) if len(lengths) else 0
        return self._chars[rows, :width].astype(np.int64), lengths
