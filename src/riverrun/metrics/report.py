"""What an evaluation says: scores, and the signature of how they were computed."""

from __future__ import annotations

import msgspec

Scores = dict[str, float | int]


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The scores of a model on a file. Two of them may be compared where their signatures are equal.

    >>> import msgspec
    >>> report = Report(task="tagger", n=2, metrics={"accuracy": 0.5}, signature="accuracy:token|v1")
    >>> msgspec.json.encode(report).decode()
    '{"task":"tagger","n":2,"metrics":{"accuracy":0.5},"signature":"accuracy:token|v1"}'

    Args:
        task: the task, the prefix of its recipes' names.
        n: how many examples were scored: sentences, documents, pairs.
        metrics: the scores by name; fractions are 0 to 1, perplexities, bits, BLEU and chrF on their own scale.
        signature: what the scores depend on: the metric, the tag scheme, the normalisation, the counting's version.
        by_type: scores and counts for each type of span, tag or label, where there are any.
    """

    task: str
    n: int
    metrics: dict[str, float]
    signature: str
    by_type: dict[str, Scores] = {}


def signature(metric: str, *, version: int, **settings: str) -> str:
    """Everything that a score depends on, as one line.

    >>> signature("spans:conlleval", version=1, scheme="bioes")
    'spans:conlleval|scheme:bioes|v1'
    """
    return "|".join([metric, *(f"{name}:{value}" for name, value in settings.items()), f"v{version}"])


def ratio(part: int, whole: int) -> float:
    """``part / whole``, 0 where there is nothing to divide by.

    >>> ratio(1, 2), ratio(0, 0)
    (0.5, 0.0)
    """
    return part / whole if whole else 0.0


def precision_recall(correct: int, predicted: int, gold: int) -> dict[str, float]:
    """Precision, recall and their harmonic mean F1 from three counts.

    >>> precision_recall(1, 2, 4)
    {'f1': 0.3333333333333333, 'precision': 0.5, 'recall': 0.25}
    """
    return {
        "f1": ratio(2 * correct, predicted + gold),
        "precision": ratio(correct, predicted),
        "recall": ratio(correct, gold),
    }
