"""Perplexity and bits: by hand, by every policy for what is unknown, and when two of them may be compared."""

from __future__ import annotations

import math
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.errors import ConfigError, DataError
from riverrun.metrics.perplexity import Perplexity, comparable
from riverrun.metrics.report import Report
from riverrun.text import units as text_units
from riverrun.text.bpe import Bpe
from riverrun.text.units import AnyUnits, Bytes, Chars, Words

TEXT = "the cät sat\n\nthe dög\n"  # 5 words, 3 lines, 21 characters, 23 bytes
WORDS = Words.learn(["the cät sat\n"])  # dög is unknown
CHARS = Chars.learn(["the cät sad\n"])  # ö and g are unknown


def ids_of(units: AnyUnits, text: str = TEXT) -> np.ndarray:
    return np.concatenate(list(units.encode([text])))


def scored(units: AnyUnits, log_probs: object, *, text: str = TEXT, **settings: object) -> Perplexity:
    scores = Perplexity(units, context="carried", **settings)  # type: ignore[arg-type]
    scores.add(log_probs, ids_of(units, text))
    scores.read([text])
    return scores


def test_a_text_of_words() -> None:
    probabilities = [0.5, 0.25, 0.5, 0.125, 0.5, 0.25, 1 / 64, 0.5]  # dög is 1 / 64; the rest is 10 bits
    scores = scored(WORDS, np.log(probabilities))
    assert (scores.symbols, scores.words, scores.lines, scores.characters, scores.bytes) == (8, 5, 3, 21, 23)
    assert scores.metrics == pytest.approx(
        {
            "perplexity": 2 ** (17 / 8),
            "word_perplexity": 2 ** (17 / 8),
            "bits_per_char": 17 / 21,
            "bits_per_byte": 17 / 23,
            "unknown": 1 / 8,
        },
        rel=1e-12,
    )
    excluded = scored(WORDS, np.log(probabilities), unknown="excluded")
    assert excluded.metrics == pytest.approx(
        {
            "perplexity": 2 ** (11 / 7),
            "word_perplexity": 2 ** (11 / 7),
            "bits_per_char": 11 / 18,
            "bits_per_byte": 11 / 19,
            "unknown": 1 / 8,
        },
        rel=1e-12,
    )
    charged = scored(WORDS, np.log(probabilities), unknown="charged")
    bits = 17 + 5 * math.log2(257)  # four bytes and the end
    assert charged.metrics == pytest.approx(
        {
            "perplexity": 2 ** (bits / 8),
            "word_perplexity": 2 ** (bits / 8),
            "bits_per_char": bits / 21,
            "bits_per_byte": bits / 23,
            "unknown": 1 / 8,
        },
        rel=1e-12,
    )


def test_a_text_of_characters() -> None:
    log_probs = np.full(21, math.log(0.5))
    assert scored(CHARS, log_probs).metrics == pytest.approx(
        {
            "perplexity": 2.0,
            "word_perplexity": 2 ** (21 / 8),
            "bits_per_char": 1.0,
            "bits_per_byte": 21 / 23,
            "unknown": 2 / 21,
        },
        rel=1e-12,
    )
    assert scored(CHARS, log_probs, unknown="excluded").metrics == pytest.approx(
        {
            "perplexity": 2.0,
            "word_perplexity": 2 ** (19 / 8),  # a word of which a character is unknown is a word
            "bits_per_char": 1.0,
            "bits_per_byte": 19 / 20,
            "unknown": 2 / 21,
        },
        rel=1e-12,
    )
    charged = scored(CHARS, log_probs, unknown="charged").metrics
    assert charged["bits_per_char"] == pytest.approx((21 + 5 * math.log2(257)) / 21, rel=1e-12)


def test_what_unknown_words_are_charged_is_a_probability() -> None:
    # Of all strings up to n bytes, the costs of their spelling sum to 1 - (256 / 257) ** (n + 1).
    empty = Perplexity(WORDS, context="line", unknown="charged")
    cost = {}
    for size in (1, 2, 3):
        scores = Perplexity(WORDS, context="line", unknown="charged")
        scores.add([0.0, 0.0], [WORDS.unknown, WORDS.eos])
        scores.read(["x" * size + "\n"])
        cost[size] = scores.total - empty.total
    assert sum(256**size * math.exp(cost[size]) for size in cost) == pytest.approx(
        1 - (256 / 257) ** 4 - 1 / 257, rel=1e-12
    )


@pytest.mark.parametrize("units", [WORDS, CHARS, Bytes(), Bpe.learn([TEXT], size=260)], ids=lambda u: type(u).__name__)
@given(data=st.data())
def test_parts_in_any_order_give_the_same_numbers(units: AnyUnits, data: st.DataObject) -> None:
    ids = ids_of(units)
    log_probs = -np.linspace(0.1, 3, len(ids))
    whole = scored(units, log_probs, unknown="charged")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=4)))
    places = sorted(data.draw(st.lists(st.integers(0, len(TEXT)), max_size=4)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_units, "_BLOCK", 2)
        parts = Perplexity(units, context="carried", unknown="charged")
        for part in np.split(np.arange(len(ids)), cuts):
            parts.add(log_probs[part], ids[part])
        parts.read(TEXT[a:b] for a, b in pairwise([0, *places, len(TEXT)]))
    assert parts.metrics == pytest.approx(whole.metrics, rel=1e-12)
    assert parts.signature == whole.signature


def test_a_last_line_without_a_line_break_is_a_line() -> None:
    one, other = Perplexity(Bytes(), context="carried"), Perplexity(Bytes(), context="carried")
    one.read(["a b\nc"])
    other.read(["a b\nc\n"])
    counts = [(s.words, s.lines, s.characters, s.bytes) for s in (one, other)]
    assert counts[0] == counts[1] == (3, 2, 6, 6)


def test_a_symbol_of_probability_0_makes_it_infinite() -> None:
    with np.errstate(divide="ignore"):
        metrics = scored(Bytes(), np.log([0.0, 0.5]), text="a\n").metrics
    assert all(metrics[name] == math.inf for name in ("perplexity", "word_perplexity", "bits_per_char"))
    assert scored(Bytes(), [-5000.0, 0.0], text="a\n").metrics["perplexity"] == math.inf
    assert scored(Bytes(), [-1400.0, 0.0], text="a\n").metrics["perplexity"] == pytest.approx(math.exp(700), rel=1e-12)


def test_the_report_says_what_the_numbers_depend_on() -> None:
    report = scored(WORDS, [-1.0] * 8).report("lm")
    assert (report.task, report.n) == ("lm", 8)
    assert report.signature == "perplexity:words|per:words+lines|unknown:scored|context:carried|vocabulary:5|v1"
    assert list(report.metrics) == ["perplexity", "word_perplexity", "bits_per_char", "bits_per_byte", "unknown"]
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report
    known = scored(WORDS, [-1.0] * 4, text="the cät sat\n")
    assert "|unknown:none|" in known.signature  # what would have been done with unknown words is no matter
    lower = Perplexity(Words.learn(["A"], lower=True), context="line", unknown="excluded", normalised=False)
    assert lower.signature == (
        "perplexity:words|per:words+lines|unknown:none|context:line|vocabulary:3|scores:unnormalised|case:lower|v1"
    )


def test_mistakes() -> None:
    with pytest.raises(ConfigError, match=r"unknown policy 'score' .* mean 'scored'\?; known: scored, excluded, cha"):
        Perplexity(WORDS, context="line", unknown="score")  # type: ignore[arg-type]
    scores = Perplexity(WORDS, context="line")
    with pytest.raises(DataError, match=r"no text was scored, which has no perplexity"):
        _ = scores.metrics
    with pytest.raises(DataError, match=r"expected a log-probability for each symbol, received \(2,\) for \(3,\)"):
        scores.add([-1.0, -1.0], [1, 2, 3])
    for wrong in (math.nan, 0.5):
        with pytest.raises(DataError, match=rf"logarithms of probabilities, 0 at most, received {wrong}"):
            scores.add([-1.0, wrong], [1, 2])
    assert scores.symbols == 0  # what was refused was not counted
    scores.add([1e-7, -1.0], [2, 1])  # rounding of single precision
    with pytest.raises(DataError, match=r"no text was scored"):
        _ = scores.metrics
    scores.read(["dog\n"])
    with pytest.raises(DataError, match=r"hold 0 unknown ones and the text 1; expected the symbols of this text"):
        _ = scores.metrics


def test_nothing_but_unknown_words() -> None:
    metrics = scored(WORDS, [-1.0, -2.0], text="dog\n", unknown="excluded").metrics
    assert metrics["perplexity"] == pytest.approx(math.exp(2.0))  # the end of the line
    with pytest.raises(DataError, match=r"received 1 lines and 1 symbols, 1 of them unknown and excluded"):
        _ = scored(CHARS, [-1.0], text="ö", unknown="excluded").metrics


def _report(units: AnyUnits, *, text: str = TEXT, **settings: object) -> Report:
    size = len(ids_of(units, text))
    return scored(units, [-1.0] * size, text=text, **settings).report("lm")


def test_reports_that_may_be_compared() -> None:
    words, other = _report(WORDS), _report(WORDS)
    comparable(words, other)
    comparable(words, msgspec.structs.replace(other, signature=other.signature.replace("carried", "window:4")))
    # Divided by the text, models of any units: what is charged is as good as known.
    for metric in ("word_perplexity", "bits_per_char", "bits_per_byte"):
        comparable(_report(Bytes()), _report(Bpe.learn([TEXT], size=260)), metric=metric)
        comparable(_report(Bytes()), _report(WORDS, unknown="charged"), metric=metric)
        comparable(_report(WORDS, unknown="charged"), _report(CHARS, unknown="charged"), metric=metric)


@pytest.mark.parametrize(
    ("metric", "first", "second", "message"),
    [
        ("perplexity", _report(WORDS), _report(Words.learn(["the dög"])), "vocabulary is 5 .* and 4 in the other$"),
        ("perplexity", _report(WORDS), _report(WORDS, unknown="excluded"), "unknown is scored in one .* excluded in"),
        ("perplexity", _report(WORDS), _report(CHARS), "unit is words .* chars in the other, vocabulary is 5 .* and"),
        ("perplexity", _report(Bytes()), _report(Bytes(), text="a\n"), "one text has 23 symbols, the other 2$"),
        ("bits_per_char", _report(Bytes()), _report(WORDS), "unknown is none in one report and scored in the other$"),
        ("bits_per_char", _report(WORDS, unknown="excluded"), _report(WORDS, unknown="charged"), "unknown is excl"),
        ("bits_per_char", _report(WORDS), _report(WORDS, normalised=False), "scores is none .* unnormalised in the"),
        (
            "word_perplexity",
            _report(WORDS, text="the\n"),
            _report(Words.learn(["THE"], lower=True), text="the\n"),
            "^word_perplexity cannot be compared: case is none in one report and lower in the other$",
        ),
        (
            "perplexity",
            _report(WORDS),
            Report(task="lm", n=8, metrics={}, signature="perplexity:words|unknown:scored|vocabulary:5|v0"),
            "per is words.lines .* none in the other",
        ),
    ],
)  # fmt: skip
def test_reports_that_may_not(metric: str, first: Report, second: Report, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        comparable(first, second, metric=metric)
    with pytest.raises(ConfigError, match=f"{metric} cannot be compared"):
        comparable(second, first, metric=metric)
