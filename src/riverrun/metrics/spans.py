"""F1 of spans: a span is right where its first word, its last word and its type are.

There are two conventions for tags that their scheme does not allow, and they give other numbers:

- ``conlleval`` reads them as well as it can, as the script of the CoNLL shared tasks does (`riverrun.text.tags`);
- ``strict`` counts only spans that are written as the scheme says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, get_args

from riverrun.errors import ConfigError, nearest
from riverrun.metrics.accuracy import paired
from riverrun.metrics.report import Report, Scores, precision_recall, ratio, signature
from riverrun.text.tags import spans

VERSION = 1
Scoring = Literal["conlleval", "strict"]
CONVENTIONS: tuple[str, ...] = get_args(Scoring)


class SpanScores:
    """Counts of right spans, sentence after sentence.

    >>> counts = SpanScores("iob2")
    >>> counts.add(["B-PER", "I-PER", "O", "B-LOC"], ["B-PER", "I-PER", "O", "B-ORG"])
    >>> counts.metrics
    {'f1': 0.5, 'precision': 0.5, 'recall': 0.5, 'accuracy': 0.75}
    >>> counts.signature
    'spans:conlleval|scheme:iob2|v1'

    Args:
        scheme: in which both the right and the predicted tags are written: ``iob1``, ``iob2`` or ``bioes``.
        convention: ``conlleval`` or ``strict``.
    """

    def __init__(self, scheme: str, convention: Scoring = "conlleval") -> None:
        if convention not in CONVENTIONS:
            raise ConfigError(
                f"unknown convention '{convention}' of counting spans{nearest(convention, CONVENTIONS)}; "
                f"known: {', '.join(CONVENTIONS)}"
            )
        spans([], scheme)  # a scheme that is not known is an error here, not at the first sentence
        self.scheme = scheme
        self.convention = convention
        self.sequences = 0
        self.tokens = 0
        self._correct_tags = 0
        self._correct: Counter[str] = Counter()
        self._gold: Counter[str] = Counter()
        self._predicted: Counter[str] = Counter()

    def add(self, gold: Sequence[str], predicted: Sequence[str]) -> None:
        """Count one sequence: its right tags, and those that were predicted, of one length."""
        paired(gold, predicted)
        strict = self.convention == "strict"
        right, found = (spans(tags, self.scheme, strict=strict) for tags in (gold, predicted))
        self.sequences += 1
        self.tokens += len(gold)
        self._correct_tags += sum(a == b for a, b in zip(gold, predicted, strict=True))
        self._gold.update(span.type for span in right)
        self._predicted.update(span.type for span in found)
        self._correct.update(span.type for span in set(right).intersection(found))

    @property
    def metrics(self) -> dict[str, float]:
        """``f1``, ``precision`` and ``recall`` of all spans together, ``accuracy`` of the tags; 0 for 0 / 0."""
        counts = self._correct.total(), self._predicted.total(), self._gold.total()
        return {**precision_recall(*counts), "accuracy": ratio(self._correct_tags, self.tokens)}

    @property
    def by_type(self) -> dict[str, Scores]:
        """F1, precision and recall of each type, how many spans there are (``gold``) and were ``predicted``."""
        return {
            type: {
                **precision_recall(self._correct[type], self._predicted[type], self._gold[type]),
                "gold": self._gold[type],
                "predicted": self._predicted[type],
            }
            for type in sorted(self._gold.keys() | self._predicted.keys())
        }

    @property
    def signature(self) -> str:
        """What the numbers depend on."""
        return signature(f"spans:{self.convention}", version=VERSION, scheme=self.scheme)

    def report(self, task: str) -> Report:
        """The report on all that was counted; ``n`` is the number of sequences."""
        return Report(task=task, n=self.sequences, metrics=self.metrics, signature=self.signature, by_type=self.by_type)
