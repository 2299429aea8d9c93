"""Fields: how the strings of an example become ids, and back. No torch, no padding policy beyond ``Padded``.

A word is looked up by its form; the characters of a form are encoded once per distinct form of a batch, so that a word
encoder runs once per distinct form, in training, export and prediction alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec
import numpy as np

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
        if len(form) > self.limit:
            half = self.limit // 2
            form = form[:half] + form[-half:]
        index = self.vocab.index
        return [1, *(index.get(char, 0) for char in form), 2]


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


class FormTable:
    """What is known of each form that was met: its word id and its characters' ids, each computed once.

    A cache and nothing more: what it gives can be had from the fields alone. With ``most``, it empties itself when it
    holds more forms than that, so that an endless stream is read in bounded memory; rows are then good until the next
    call of ``rows`` only.
    """

    def __init__(self, words: WordField | None, chars: CharField | None, *, most: int | None = None) -> None:
        self.words, self.chars, self.most = words, chars, most
        self._clear()

    def _clear(self) -> None:
        self._row: dict[str, int] = {}
        self._words = np.zeros(1024, np.int64)
        width = self.chars.limit + 2 if self.chars else 0
        self._chars = np.zeros((1024, width), np.int32)
        self._lengths = np.zeros(1024, np.int64)

    def rows(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """The row of every form of these sentences, one after the other."""
        if self.most is not None and len(self._row) > self.most:
            self._clear()
        row = self._row
        known = [row.get(form, -1) for form in chain.from_iterable(sentences)]
        rows = np.array(known, np.int64) if known else np.zeros(0, np.int64)
        if len(rows) and rows.min() < 0:
            self.add(form for form in chain.from_iterable(sentences) if form not in row)
            rows = np.fromiter((row[form] for form in chain.from_iterable(sentences)), np.int64, len(rows))
        return rows

    def add(self, forms: Iterable[str]) -> None:
        """Give each form that is new the next row."""
        for form in forms:
            if form in self._row:
                continue
            n = len(self._row)
            if n == len(self._words):
                self._words, self._chars, self._lengths = (
                    np.concatenate([a, np.zeros_like(a)]) for a in (self._words, self._chars, self._lengths)
                )
            self._row[form] = n
            if self.words:
                self._words[n] = self.words.id(form)
            if self.chars:
                ids = self.chars.ids(form)
                self._chars[n, : len(ids)] = ids
                self._lengths[n] = len(ids)

    def word_ids(self, rows: np.ndarray) -> np.ndarray:
        """The word ids of rows of the table, same shape."""
        return np.asarray(self._words[rows])

    def char_ids(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(U, L) character ids of U rows and their lengths (U,)."""
        lengths = self._lengths[rows]
        width = int(lengths.max()) if len(lengths) else 0
        return self._chars[rows, :width].astype(np.int64), lengths
