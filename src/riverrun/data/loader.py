"""Batches of a corpus, epoch after epoch, from any position."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from riverrun.data.batch import Batch
from riverrun.data.corpus import Corpus
from riverrun.data.sampler import Buckets
from riverrun.data.sentences import SentenceEncoder


class SentenceLoader:
    """The batches of a corpus with the columns ``form`` and ``tag``.

    What a position (epoch, index) stands for depends on nothing else, so a run that is resumed there meets what it
    would have met.
    """

    def __init__(self, corpus: Corpus, encoder: SentenceEncoder, buckets: Buckets) -> None:
        self.corpus, self.encoder, self.buckets = corpus, encoder, buckets
        table = encoder.table
        table.add(corpus.symbols["form"])
        self._form_rows = table.rows([corpus.symbols["form"]])
        self._tag_ids = np.array(encoder.fields.tags.vocab.ids(corpus.symbols["tag"]), np.int64)
        self._order: tuple[int, list[np.ndarray]] | None = None

    def _batches(self, epoch: int) -> list[np.ndarray]:
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, self.buckets.order(epoch)
        return self._order[1]

    def count(self, epoch: int) -> int:
        """How many batches the epoch has."""
        return len(self._batches(epoch))

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch in their order, from number ``start`` on."""
        for sentences in self._batches(epoch)[start:]:
            yield self.encoder.batch(
                self._form_rows[self.corpus.take(sentences, "form")],
                self.corpus.lengths_of(sentences),
                self._tag_ids[self.corpus.take(sentences, "tag")],
            )
