"""Sentences -> batches of word ids, character ids and tag ids."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.errors import DataError
from riverrun.text.fields import CharField, FormTable, TagField, WordField


class SentenceFields(msgspec.Struct, frozen=True):
    """The fields of a sequence labeller: words, their characters, and what is to be predicted."""

    words: WordField | None
    chars: CharField | None
    tags: TagField


class SentenceEncoder:
    """``Fields.encode`` for sentences: lists of forms -> ``Batch``.

    Of the batch, ``words`` is a ``Padded`` (B, T) of word ids; ``chars`` a ``Padded`` (U, L) of the characters of the
    batch's distinct forms, and ``chars.index`` a ``Padded`` (B, T) that says which of them stands where.

    >>> from riverrun.text.vocab import Vocab
    >>> words = WordField(Vocab(["<unk>", "bark"], "<unk>"))
    >>> chars = CharField.count({"dogs": 1, "bark": 1})
    >>> encoder = SentenceEncoder(SentenceFields(words, chars, TagField(Vocab(["NOUN", "VERB"]))))
    >>> batch = encoder.encode([["dogs", "bark"], ["bark"]], tags=[["NOUN", "VERB"], ["VERB"]])
    >>> batch["words"].data.tolist(), batch["chars.index"].data.tolist(), batch["tags"].data.tolist()
    ([[0, 1], [1, 0]], [[0, 1], [1, 0]], [[0, 1], [1, 0]])
    >>> batch["chars"].lengths.tolist()
    [6, 6]
    """

    def __init__(self, fields: SentenceFields, *, most: int | None = None) -> None:
        self.fields = fields
        self.table = FormTable(fields.words, fields.chars, most=most)

    def encode(self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]] | None = None) -> Batch:
        """A batch of sentences, each a list of forms, with their tags where they are known."""
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        flat = None
        if tags is not None:
            vocab = self.fields.tags.vocab
            flat = np.array([k for sentence in tags for k in vocab.ids(sentence)], np.int64)
            if [len(t) for t in tags] != lengths.tolist():
                raise DataError("a sentence needs as many tags as it has words")
        return self.batch(self.table.rows(sentences), lengths, flat)

    def batch(self, rows: np.ndarray, lengths: np.ndarray, tags: np.ndarray | None = None) -> Batch:
        """The batch of sentences whose forms stand in these rows of the table, one sentence after the other."""
        mask = np.arange(int(lengths.max(initial=0)))[None, :] < lengths[:, None]

        def padded(values: np.ndarray) -> Padded:
            data = np.zeros(mask.shape, np.int64)
            data[mask] = values
            return Padded(data, lengths)

        out: dict[str, Padded] = {}
        if self.fields.words:
            out["words"] = padded(self.table.word_ids(rows))
        if self.fields.chars:
            distinct, index = np.unique(rows, return_inverse=True)
            out["chars"] = Padded(*self.table.char_ids(distinct))
            out["chars.index"] = padded(index)
        if tags is not None:
            out["tags"] = padded(tags)
        return Batch(out)
