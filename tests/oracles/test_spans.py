"""seqeval agrees: its default reading of tags is conlleval's, its strict one is ours, up to where it is named here."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from riverrun.metrics.accuracy import Accuracy
from riverrun.metrics.spans import SpanScores
from riverrun.text.tags import convert, spans

seqeval = pytest.importorskip("seqeval.metrics")
labeling = pytest.importorskip("seqeval.metrics.sequence_labeling")
schemes = pytest.importorskip("seqeval.scheme")

CLASSES = {"iob1": schemes.IOB1, "iob2": schemes.IOB2, "bioes": schemes.IOBES}
PREFIXES = {"iob1": "BI", "iob2": "BI", "bioes": "BIES"}
Corpus = list[list[str]]


def _tags(rng: np.random.Generator, scheme: str, lengths: np.ndarray) -> Corpus:
    """Any tags: half of the sentences as the scheme has them."""
    tags = ["O", *(f"{prefix}-{type}" for prefix in PREFIXES[scheme] for type in ("A", "B-C"))]
    corpus = [[tags[k] for k in rng.integers(0, len(tags), length)] for length in lengths]
    return [convert(each, scheme, scheme) if k % 2 else each for k, each in enumerate(corpus)]


def _pair(scheme: str, seed: int) -> tuple[Corpus, Corpus]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, 12)
    gold, other = _tags(rng, scheme, lengths), _tags(rng, scheme, lengths)
    mixed = [
        [a if rng.random() < 0.7 else b for a, b in zip(first, second, strict=True)]
        for first, second in zip(gold, other, strict=True)
    ]
    return gold, mixed


def _odd(tags: list[str]) -> bool:
    """Whether seqeval's iob1 has a way of its own: B where no span of its type stands before it."""
    return any(tag[0] == "B" and (before == "O" or before[2:] != tag[2:]) for before, tag in pairwise(["O", *tags]))


@pytest.mark.parametrize("scheme", PREFIXES)
@pytest.mark.parametrize("seed", range(8))
def test_spans(scheme: str, seed: int) -> None:
    gold, predicted = _pair(scheme, seed)
    for tags in gold + predicted:
        assert [(span.type, span.start, span.end - 1) for span in spans(tags, scheme)] == labeling.get_entities(tags)
        if scheme == "iob1" and _odd(tags):
            continue
        expected = [(e.tag, e.start, e.end) for e in schemes.Tokens(tags, CLASSES[scheme]).entities]
        assert [(span.type, span.start, span.end) for span in spans(tags, scheme, strict=True)] == expected


@pytest.mark.parametrize("scheme", PREFIXES)
@pytest.mark.parametrize("convention", ["conlleval", "strict"])
@pytest.mark.parametrize("seed", range(4))
def test_scores(scheme: str, convention: str, seed: int) -> None:
    gold, predicted = _pair(scheme, seed)
    if scheme == "iob1" and convention == "strict":
        gold, predicted = ([convert(tags, "iob1", "iob1") for tags in corpus] for corpus in (gold, predicted))
    counts = SpanScores(scheme, convention)  # type: ignore[arg-type]
    tokens = Accuracy()
    for right, found in zip(gold, predicted, strict=True):
        counts.add(right, found)
        tokens.add(right, found)
    strict = {"mode": "strict", "scheme": CLASSES[scheme]} if convention == "strict" else {}
    table = seqeval.classification_report(gold, predicted, output_dict=True, zero_division=0, **strict)
    accuracy = seqeval.accuracy_score(gold, predicted)
    total = table["micro avg"]
    assert counts.metrics == pytest.approx(
        {
            "f1": total["f1-score"],
            "precision": total["precision"],
            "recall": total["recall"],
            "accuracy": accuracy,
        }
    )
    assert tokens.metrics == pytest.approx({"accuracy": accuracy})
    types = {type: scores for type, scores in table.items() if not type.endswith(" avg")}
    assert counts.by_type.keys() == types.keys()
    for type, scores in types.items():
        ours = counts.by_type[type]
        assert (ours["f1"], ours["precision"], ours["recall"], ours["gold"]) == pytest.approx(
            (scores["f1-score"], scores["precision"], scores["recall"], scores["support"])
        )


def test_where_the_two_conventions_differ_both_agree_with_seqeval() -> None:
    gold, predicted = [["B-X", "I-X"]], [["I-X", "I-X"]]
    lenient, strict = SpanScores("iob2"), SpanScores("iob2", "strict")
    for counts in (lenient, strict):
        counts.add(gold[0], predicted[0])
    assert lenient.metrics["f1"] == seqeval.f1_score(gold, predicted) == 1.0
    assert (
        strict.metrics["f1"]
        == seqeval.f1_score(gold, predicted, mode="strict", scheme=schemes.IOB2, zero_division=0)
        == 0.0
    )
