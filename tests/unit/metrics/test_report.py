"""The report: its JSON, its signature, and the ratios in it."""

from __future__ import annotations

import msgspec
import pytest

from riverrun.metrics.report import Report, precision_recall, ratio, signature


def test_its_json_is_the_object_that_scripts_rely_on() -> None:
    report = Report(task="lm", n=3, metrics={"perplexity": 2.0}, signature="perplexity:word|v1")
    assert msgspec.json.decode(msgspec.json.encode(report)) == {
        "task": "lm",
        "n": 3,
        "metrics": {"perplexity": 2.0},
        "signature": "perplexity:word|v1",
    }


def test_a_signature_says_all_settings_in_the_order_in_which_they_are_given() -> None:
    assert signature("spans:strict", version=2, scheme="iob1", case="as-is") == "spans:strict|scheme:iob1|case:as-is|v2"


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((0, 0, 0), (0.0, 0.0, 0.0)),
        ((0, 1, 0), (0.0, 0.0, 0.0)),
        ((0, 0, 1), (0.0, 0.0, 0.0)),
        ((1, 1, 1), (1.0, 1.0, 1.0)),
        ((2, 4, 8), (2 * 0.5 * 0.25 / 0.75, 0.5, 0.25)),
    ],
)
def test_precision_and_recall(counts: tuple[int, int, int], expected: tuple[float, float, float]) -> None:
    assert tuple(precision_recall(*counts).values()) == pytest.approx(expected)


def test_ratio_of_nothing() -> None:
    assert (ratio(0, 0), ratio(1, 4)) == (0.0, 0.25)
