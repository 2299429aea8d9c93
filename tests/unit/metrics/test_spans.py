"""F1 of spans: both conventions on an example that is counted by hand."""

from __future__ import annotations

import msgspec
import pytest

from riverrun.errors import ConfigError, DataError
from riverrun.metrics.report import Report
from riverrun.metrics.spans import SpanScores

# (right, predicted)
SENTENCES = [
    ("B-PER I-PER O B-LOC", "B-PER I-PER O B-LOC"),
    ("B-ORG I-ORG O", "B-ORG O O"),  # too short
    ("O B-LOC", "I-LOC B-LOC"),  # one too many, and it begins with I
    ("B-PER O", "B-ORG O"),  # of another type
    ("O O", "O I-MISC"),  # of a type that there is not, and it begins with I
    ("", ""),
]
# What conlleval prints: 13 tokens with 5 phrases; found: 7 phrases; correct: 3.
CONLLEVAL = {"f1": 6 / 12, "precision": 3 / 7, "recall": 3 / 5, "accuracy": 9 / 13}
# The two that begin with I are none.
STRICT = {"f1": 6 / 10, "precision": 3 / 5, "recall": 3 / 5, "accuracy": 9 / 13}


def _counted(convention: str) -> SpanScores:
    counts = SpanScores("iob2", convention)  # type: ignore[arg-type]
    for gold, predicted in SENTENCES:
        counts.add(gold.split(), predicted.split())
    return counts


def test_conlleval() -> None:
    counts = _counted("conlleval")
    assert counts.metrics == CONLLEVAL
    assert counts.by_type == {
        "LOC": {"f1": 0.8, "precision": 2 / 3, "recall": 1.0, "gold": 2, "predicted": 3},
        "MISC": {"f1": 0.0, "precision": 0.0, "recall": 0.0, "gold": 0, "predicted": 1},
        "ORG": {"f1": 0.0, "precision": 0.0, "recall": 0.0, "gold": 1, "predicted": 2},
        "PER": {"f1": 2 / 3, "precision": 1.0, "recall": 0.5, "gold": 2, "predicted": 1},
    }


def test_strict() -> None:
    counts = _counted("strict")
    assert counts.metrics == STRICT
    assert {type: (scores["gold"], scores["predicted"]) for type, scores in counts.by_type.items()} == {
        "LOC": (2, 2),
        "ORG": (1, 2),
        "PER": (2, 1),
    }


@pytest.mark.parametrize("convention", ["conlleval", "strict"])
def test_the_report_says_how_it_was_counted(convention: str) -> None:
    counts = _counted(convention)
    report = counts.report("tagger")
    assert (report.task, report.n, report.metrics) == ("tagger", 6, counts.metrics)
    assert report.signature == f"spans:{convention}|scheme:iob2|v1"
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report
    assert list(report.metrics) == ["f1", "precision", "recall", "accuracy"]


def test_nothing_counted_is_zero() -> None:
    counts = SpanScores("bioes")
    assert counts.metrics == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 0.0}
    assert counts.by_type == {}
    counts.add(["O"], ["O"])
    assert counts.metrics == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 1.0}


def test_mistakes() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown convention 'strictly'.*did you mean 'strict'.*known: conlleval, str"
    ):
        SpanScores("iob2", "strictly")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="unknown tag scheme 'bio'"):
        SpanScores("bio")
    counts = SpanScores("iob2")
    with pytest.raises(DataError, match="received 0 for 1"):
        counts.add(["O"], [])
    with pytest.raises(DataError, match="tag 1, 'S-X', is none of the scheme iob2"):
        counts.add(["O"], ["S-X"])
    assert counts.report("tagger").n == 0  # what was refused was not counted
