"""Accuracy, and the scores of each tag."""

from __future__ import annotations

import msgspec
import pytest

from riverrun.errors import DataError
from riverrun.metrics.accuracy import Accuracy


def test_counts_over_sentences() -> None:
    counts = Accuracy()
    counts.add(["NOUN", "VERB", "NOUN"], ["NOUN", "NOUN", "NOUN"])
    counts.add([], [])
    counts.add(["ADJ"], ["VERB"])
    assert (counts.sequences, counts.tokens, counts.correct) == (3, 4, 2)
    assert counts.metrics == {"accuracy": 0.5}
    assert counts.by_type == {
        "ADJ": {"f1": 0.0, "precision": 0.0, "recall": 0.0, "gold": 1, "predicted": 0},
        "NOUN": {"f1": 0.8, "precision": 2 / 3, "recall": 1.0, "gold": 2, "predicted": 3},
        "VERB": {"f1": 0.0, "precision": 0.0, "recall": 0.0, "gold": 1, "predicted": 1},
    }


def test_nothing_counted_is_zero() -> None:
    assert Accuracy().metrics == {"accuracy": 0.0}


def test_the_report_says_how_it_was_counted() -> None:
    counts = Accuracy()
    counts.add(["X"], ["X"])
    report = msgspec.json.decode(msgspec.json.encode(counts.report("tagger")))
    assert report == {
        "task": "tagger",
        "n": 1,
        "metrics": {"accuracy": 1.0},
        "signature": "accuracy:token|v1",
        "by_type": {"X": {"f1": 1.0, "precision": 1.0, "recall": 1.0, "gold": 1, "predicted": 1}},
    }


def test_sentences_of_another_length_are_an_error() -> None:
    with pytest.raises(DataError, match="expected as many predicted labels as right ones, received 1 for 2; are both"):
        Accuracy().add(["X", "X"], ["X"])
