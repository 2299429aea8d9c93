"""Words in, tags out: fields, scorer and decoder together, whatever the scorer is."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from riverrun.data.sampler import Buckets
from riverrun.data.sentences import SentenceEncoder, SentenceFields
from riverrun.decode.scorer import Chain, Labels, Scorer
from riverrun.decode.viterbi import viterbi
from riverrun.errors import ConfigError, ShapeError
from riverrun.metrics.accuracy import Accuracy
from riverrun.metrics.report import Report
from riverrun.metrics.spans import Scoring, SpanScores
from riverrun.text.fields import TagField
from riverrun.text.tags import allowed, convert

if TYPE_CHECKING:
    from riverrun.decode.constraints import Allowed
    from riverrun.nn.models.tagger import Tagger

WINDOW = 2048  # sentences that are sorted by length before they are cut into batches
POSITIONS = 2048  # of a batch, padding included: what ONNX Runtime is fastest with
NET_POSITIONS = 4096  # what torch is fastest with
FORMS = 200_000  # distinct forms that the cache of a stream holds


class Labeller:
    """Tags sentences in bounded memory, many at a time; several threads may use it, one after the other.

    Args:
        fields: text <-> ids.
        scorer: ids -> scores.
        constrained: never to predict what the tag scheme forbids.
        positions: of a batch, at most, padding included.
    """

    def __init__(
        self, fields: SentenceFields, scorer: Scorer, *, constrained: bool, positions: int = POSITIONS
    ) -> None:
        self.fields, self.scorer, self.positions = fields, scorer, positions
        self._encoder = SentenceEncoder(fields, most=FORMS)
        self._lock = threading.Lock()  # the encoder remembers the forms it has met
        symbols, scheme = fields.tags.vocab.symbols, fields.tags.scheme
        self._symbols = np.array(symbols, object)
        self._allowed: Allowed | None = allowed(symbols, scheme) if constrained and scheme is not None else None

    @staticmethod
    def of_net(fields: SentenceFields, net: Tagger, *, constrained: bool) -> Labeller:
        """The labeller of a net that was not exported."""
        from riverrun.nn.models.scorer import NetScorer

        return Labeller(fields, NetScorer(net), constrained=constrained, positions=NET_POSITIONS)

    def tag(self, sentences: Iterable[Sequence[str]]) -> Iterator[list[str]]:
        """The tags of each sentence, in their order."""
        stream = iter(sentences)
        while window := list(islice(stream, WINDOW)):
            yield from self.tag_window(window)

    def tag_window(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tags of some sentences at once, put into batches by their lengths."""
        with self._lock:
            return self._tag_window(sentences)

    def _tag_window(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        answers: list[list[str]] = [[] for _ in sentences]
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        rows = self._encoder.table.rows(sentences)
        begins = np.cumsum(lengths) - lengths
        filled = np.flatnonzero(lengths)
        buckets = Buckets(lengths[filled], batch=WINDOW, tokens=self.positions, shuffle=False, pool=WINDOW)
        for batch in buckets.order(0):
            which = filled[batch]
            words = np.concatenate([rows[begins[k] : begins[k] + lengths[k]] for k in which])
            scores = self.scorer.scores(self._encoder.batch(words, lengths[which]))
            for k, tags in zip(which.tolist(), self._decode(scores), strict=True):
                answers[k] = tags
        return answers

    def score(self, pairs: Iterable[tuple[list[str], list[str]]], *, scoring: Scoring = "conlleval") -> Report:
        """The scores on (forms, tags): of spans where the tags are spans, else accuracy.

        Args:
            scoring: how spans are counted whose tags break their scheme, see `riverrun.metrics.spans`.
        """
        metric = metric_for(self.fields.tags, scoring)
        stream = iter(pairs)
        while window := list(islice(stream, WINDOW)):
            predicted = self.tag_window([forms for forms, _ in window])
            for (_, gold), tags in zip(window, predicted, strict=True):
                metric.add(gold, tags)
        return metric.report(task="tagger")

    def _decode(self, scores: Chain | Labels) -> Iterator[list[str]]:
        """The best tags of each sentence of a batch, in the scheme of the training file."""
        if not isinstance(scores, Chain):
            raise ShapeError("a tagger needs a score for each word; received one for each sentence")
        scheme, source = self.fields.tags.scheme, self.fields.tags.source
        best = viterbi(scores, allowed=self._allowed).tags
        for row, length in zip(self._symbols[best.data], best.lengths.tolist(), strict=True):
            found: list[str] = row[:length].tolist()
            yield found if scheme is None or source is None or scheme == source else convert(found, scheme, source)


def metric_for(tags: TagField, scoring: Scoring) -> Accuracy | SpanScores:
    """What counts the scores of such tags; its ``metrics`` have the names that there are.

    >>> from riverrun.text.vocab import Vocab
    >>> list(metric_for(TagField(Vocab(["NOUN", "VERB"])), "conlleval").metrics)
    ['accuracy']
    """
    if tags.source is not None:
        return SpanScores(tags.source, scoring)
    if scoring != "conlleval":
        raise ConfigError(
            f"scoring: '{scoring}' is a way to count spans; these tags are no spans, and are scored by accuracy. "
            "Leave it out"
        )
    return Accuracy()
