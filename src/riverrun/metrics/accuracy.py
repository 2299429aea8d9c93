"""Accuracy: the share of words, or of examples, that have the right label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from riverrun.errors import DataError
from riverrun.metrics.report import Report, Scores, precision_recall, ratio, signature

VERSION = 1


class Accuracy:
    """Counts of right labels, sentence after sentence.

    >>> counts = Accuracy()
    >>> counts.add(["NOUN", "VERB"], ["NOUN", "NOUN"])
    >>> counts.add(["NOUN"], ["NOUN"])
    >>> counts.metrics["accuracy"], counts.signature
    (0.6666666666666666, 'accuracy:token|v1')
    """

    def __init__(self) -> None:
        self.sequences = 0
        self._correct: Counter[str] = Counter()
        self._gold: Counter[str] = Counter()
        self._predicted: Counter[str] = Counter()

    def add(self, gold: Sequence[str], predicted: Sequence[str]) -> None:
        """Count one sequence: its right labels, and those that were predicted, of one length."""
        paired(gold, predicted)
        self.sequences += 1
        self._gold.update(gold)
        self._predicted.update(predicted)
        self._correct.update(right for right, label in zip(gold, predicted, strict=True) if right == label)

    @property
    def tokens(self) -> int:
        """How many labels were counted."""
        return self._gold.total()

    @property
    def correct(self) -> int:
        """How many of them were right."""
        return self._correct.total()

    @property
    def metrics(self) -> dict[str, float]:
        """``accuracy``; 0 where nothing was counted."""
        return {"accuracy": ratio(self.correct, self.tokens)}

    @property
    def by_type(self) -> dict[str, Scores]:
        """F1, precision and recall of each label, and how often it is right (``gold``) and was ``predicted``."""
        return {
            label: {
                **precision_recall(self._correct[label], self._predicted[label], self._gold[label]),
                "gold": self._gold[label],
                "predicted": self._predicted[label],
            }
            for label in sorted(self._gold.keys() | self._predicted.keys())
        }

    @property
    def signature(self) -> str:
        """What the numbers depend on."""
        return signature("accuracy:token", version=VERSION)

    def report(self, task: str) -> Report:
        """The report on all that was counted; ``n`` is the number of sequences."""
        return Report(task=task, n=self.sequences, metrics=self.metrics, signature=self.signature, by_type=self.by_type)


def paired(gold: Sequence[str], predicted: Sequence[str]) -> None:
    """Raise where two sequences of labels are not of one length."""
    if len(gold) != len(predicted):
        raise DataError(
            f"expected as many predicted labels as right ones, received {len(predicted)} for {len(gold)}; are both "
            "files split into the same words and sentences?"
        )
