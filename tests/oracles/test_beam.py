"""Beam search against the enumeration of every text, and against the same rules written for one row in plain Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.decode.backend import to_numpy
from riverrun.decode.beam import Hypothesis, beam_search
from riverrun.decode.generate import generate
from riverrun.decode.length import average, coverage_penalty, gnmt, no_penalty, reward
from riverrun.decode.repetition import control
from riverrun.decode.restrict import vocabulary
from riverrun.decode.stream import Stream

from ..laws.history import History, draw_model, move

try:
    import torch
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]

KINDS = ["numpy", pytest.param("torch", marks=pytest.mark.skipif(torch is None, reason="needs torch"))]
PENALTIES = {"none": no_penalty, "average": average, "gnmt": gnmt(0.8), "reward": reward(0.9), "malus": reward(-0.4)}
SOURCES = [2, 0, 1, 0]
PROMPTS = Padded.of([[1, 2], [], [3], [2, 2, 1]])
LENGTHS = np.array([3, 1, 2])  # of the sources, by number
LIMIT = 4


@dataclass
class Rules:
    """What is asked of a search: for ``beam_search``, and one hypothesis at a time for the enumeration."""

    options: dict[str, Any]
    fits: Callable[[list[int], int, int], bool] = lambda seen, row, symbol: True  # may this symbol come now?
    minimum: int = 0


def no_symbol_after_itself(seen: Padded, rows: np.ndarray) -> np.ndarray:
    """Not the last symbol again, and in row 2 never symbol 1."""
    mask = np.ones((len(seen), 5), bool)
    for k, (ids, row) in enumerate(zip(seen.rows(), rows, strict=True)):
        if len(ids):
            mask[k, ids[-1]] = False
        mask[k, 1] &= row != 2
    return mask


RULES = {
    "free": Rules({}),
    "minimum": Rules({"minimum": 2}, minimum=2),
    "vocabulary": Rules(
        {"allowed": vocabulary(5, without=[2])},
        fits=lambda seen, row, symbol: symbol != 2,
    ),
    "function": Rules(
        {"allowed": no_symbol_after_itself},
        fits=lambda seen, row, symbol: symbol not in seen[-1:] and not (row == 2 and symbol == 1),
    ),
    "no repeat": Rules(
        {"control": control(no_repeat=2)},
        fits=lambda seen, row, symbol: (
            (*seen[-1:], symbol) not in set(itertools.pairwise(seen)) if len(seen) > 1 else True
        ),
    ),
}


def begun(model: History) -> Stream:
    return Stream.begin(model, Batch(source=np.array(SOURCES)))


class OneRow:
    """The model, the prompt and the rules of one row, without states and batches."""

    def __init__(self, model: History, row: int, rules: Rules) -> None:
        self.table = to_numpy(model.table)[SOURCES[row]]
        self.attention = to_numpy(model.attention)[SOURCES[row]]
        self.prompt: list[int] = PROMPTS.rows()[row].tolist()
        self.eos, self.row, self.rules = model.eos, row, rules

    def step(self, ids: list[int], symbol: int) -> float:
        """The log probability of a symbol after these, -inf where the rules forbid it."""
        before, last = [0, 0, *self.prompt, *ids][-2:]
        if symbol == self.eos and len(ids) < self.rules.minimum:
            return -math.inf
        if not self.rules.fits([*self.prompt, *ids], self.row, symbol):
            return -math.inf
        return float(self.table[(len(self.prompt) + len(ids)) % 4, before, last, symbol])

    def coverage(self, ids: list[int], beta: float) -> float:
        """Of everything that was read before the last of these symbols was chosen."""
        read = [0, *self.prompt, *ids][:-1]
        summed = np.minimum(sum(self.attention[symbol] for symbol in read), 1)[: LENGTHS[SOURCES[self.row]]]
        return float(beta * np.log(np.maximum(summed, 1e-10)).sum())

    def score(self, ids: list[int], log_prob: float, penalty: Any, beta: float | None) -> float:
        """Of a text, ``eos`` included."""
        return float(penalty(log_prob, len(ids))) + (0 if beta is None else self.coverage(ids, beta))

    def found(self, ids: list[int], log_prob: float, penalty: Any, beta: float | None) -> Hypothesis:
        ended = self.eos is not None and ids[-1] == self.eos
        score = self.score(ids, log_prob, penalty, beta)
        return Hypothesis(tuple(ids[:-1] if ended else ids), score, log_prob, ended)


def every_text(one: OneRow, penalty: Any, beta: float | None) -> list[Hypothesis]:
    """All texts of at most LIMIT symbols, best first; those that do not end come last."""
    texts: list[Hypothesis] = []

    def grow(ids: list[int], log_prob: float) -> None:
        for symbol in range(one.table.shape[-1]):
            total = log_prob + one.step(ids, symbol)
            if total == -math.inf:
                continue
            if symbol == one.eos or len(ids) + 1 == LIMIT:
                texts.append(one.found([*ids, symbol], total, penalty, beta))
            else:
                grow([*ids, symbol], total)

    grow([], 0.0)
    return sorted(texts, key=lambda text: (not text.ended, -text.score))


def plain_beam(one: OneRow, width: int, best: int, penalty: Any, beta: float | None, patience: float) -> Any:
    """The stated rules for one row, but for the one that stops early and must not be seen in the result."""
    live: list[tuple[list[int], float]] = [([], 0.0)]
    finished: list[Hypothesis] = []
    cut: list[Hypothesis] = []
    for n in range(1, LIMIT + 1):
        ways = [
            ([*ids, symbol], total + one.step(ids, symbol))
            for ids, total in live
            for symbol in range(one.table.shape[-1])
        ]
        ways = [way for way in ways if way[1] > -math.inf]
        ways.sort(key=lambda way: -one.score(*way, penalty, beta))
        ways = ways[: 2 * width]
        finished += [one.found(*way, penalty, beta) for way in ways[:width] if way[0][-1] == one.eos]
        live = [way for way in ways if way[0][-1] != one.eos]
        if n == LIMIT:
            cut = [one.found(*way, penalty, beta) for way in live]
        live = live[:width]
        if len(finished) >= patience * width:
            break
    by_score = [sorted(texts, key=lambda text: -text.score) for texts in (finished, cut)]
    return (by_score[0] + by_score[1])[:best]


def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(text.ids, text.ended) for text in found] == [(text.ids, text.ended) for text in expected]
    for name in ("score", "log_prob"):
        values = [[getattr(text, name) for text in texts] for texts in (found, expected)]
        np.testing.assert_allclose(*values, rtol=1e-12, atol=1e-12)


def options(penalty: str, beta: float | None, rules: Rules) -> dict[str, Any]:
    coverage = None if beta is None else coverage_penalty(beta, LENGTHS[SOURCES])
    return {"length": PENALTIES[penalty], "coverage": coverage, "prompt": PROMPTS, "limit": LIMIT, **rules.options}


def is_every_text(kind: str, penalty: str, rules: str, eos: int | None, beta: float | None) -> None:
    model = draw_model(kind, eos=eos)
    asked = RULES[rules] if eos is not None or rules != "minimum" else RULES["free"]
    chosen = options(penalty, beta, asked)
    many = 4**LIMIT
    found = beam_search(model, begun(model), width=many, best=12, patience=math.inf, **chosen)
    whole = beam_search(model, begun(model), width=many, best=many, **chosen)
    for row in range(len(SOURCES)):
        expected = every_text(OneRow(model, row, asked), PENALTIES[penalty], beta)
        assert len(expected) > 4
        same(found[row], expected[:12])
        same(whole[row], expected)


@pytest.mark.parametrize("eos", [4, None])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_beam_that_loses_nothing_finds_the_best_of_all_texts(penalty: str, rules: str, eos: int | None) -> None:
    is_every_text("numpy", penalty, rules, eos, None)
    is_every_text("numpy", penalty, rules, eos, 0.7)


@pytest.mark.skipif(torch is None, reason="needs torch")
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("near", [True, False])
def test_on_tensors_too(rules: str, near: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In main memory, and as where they stay on their device."""
    if not near:
        monkeypatch.setattr("riverrun.decode.beam.nearby", lambda values: values)
    is_every_text("torch", "gnmt", rules, 4, 0.7)
    is_the_plain_beam("torch", "average", rules, 1.0)


@pytest.mark.gpu
@pytest.mark.parametrize("rules", RULES)
def test_on_a_gpu(rules: str) -> None:
    is_every_text("cuda", "gnmt", rules, 4, 0.7)
    is_the_plain_beam("cuda", "average", rules, 1.0)


def is_the_plain_beam(kind: str, penalty: str, rules: str, patience: float) -> None:
    differs = False
    for seed, width in enumerate((1, 2, 3, 5)):
        model = draw_model(kind, seed=seed)
        for beta, best in ((None, width), (0.7, 1)):
            chosen = options(penalty, beta, RULES[rules])
            found = beam_search(model, begun(model), width=width, best=best, patience=patience, **chosen)
            for row in range(len(SOURCES)):
                one = OneRow(model, row, RULES[rules])
                same(found[row], plain_beam(one, width, best, PENALTIES[penalty], beta, patience))
                differs |= found[row] != every_text(one, PENALTIES[penalty], beta)[:best]
    assert differs  # the beams are narrow enough for something to fall out


@pytest.mark.parametrize("patience", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_narrow_beam_keeps_to_the_rules(penalty: str, rules: str, patience: float) -> None:
    """Its early stop included: the plain search has none, and both find the same."""
    is_the_plain_beam("numpy", penalty, rules, patience)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eos", [4, None])
@pytest.mark.parametrize("rules", RULES)
def test_a_beam_of_one_is_greedy(rules: str, eos: int | None, kind: str) -> None:
    asked = RULES[rules] if eos is not None or rules != "minimum" else RULES["free"]
    for seed, penalty in enumerate(PENALTIES):
        model = draw_model(kind, eos=eos, seed=seed)
        found = beam_search(model, begun(model), width=1, **options(penalty, None, asked))
        texts = generate(model, begun(model), limit=LIMIT, prompt=PROMPTS, **asked.options).finish()
        for [one], text in zip(found, texts, strict=True):
            ended = text.end == "eos"
            assert (one.ids, one.ended) == (text.ids[:-1] if ended else text.ids, ended)
            np.testing.assert_allclose(one.log_prob, sum(text.log_probs), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_ties_are_decided_alike_for_the_first_hypothesis_and_symbol(kind: str) -> None:
    """A table of counts has many equal probabilities; the greedy choice is the first symbol."""
    table = np.log(np.full((1, 1, 6, 6, 6), 1 / 6))
    model = History(move(kind, table), move(kind, np.ones((1, 6, 1))), eos=5)
    found = beam_search(model, Stream.begin(model), width=3, best=3, limit=2)
    assert [text.ids for text in found[0]] == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_its_rows(kind: str) -> None:
    model = draw_model(kind)
    chosen = {"width": 3, "best": 3, "limit": 6, "length": average}
    together = beam_search(model, begun(model), prompt=PROMPTS, **chosen)
    for row in range(len(SOURCES)):
        alone = Padded.of([PROMPTS.rows()[row]])
        same(beam_search(model, begun(model).keep([row]), prompt=alone, **chosen)[0], together[row])


def test_it_stops_when_nothing_better_can_come() -> None:
    """An end that is almost certain after two symbols; and rows that are done are not computed any more."""
    scores = np.full((2, 1, 4, 4, 4), 0.01)
    scores[0, ..., 3] = scores[1, ..., 1] = 0.97
    model = History(np.log(scores), np.ones((2, 4, 1)), eos=3)
    stream = Stream.begin(model, Batch(source=np.array([0, 1, 0])))
    beam_search(model, stream, width=4, limit=50)
    assert model.calls[0] == (3, 1)
    assert model.calls[1] == (1, 3)  # two rows are done after one symbol: 0.97 can no more be reached
    model.calls.clear()
    beam_search(model, stream.keep([0]), width=4, limit=50, length=average)
    assert len(model.calls) < 10
    model.calls.clear()
    beam_search(model, stream.keep([0]), width=4, limit=50, patience=math.inf, length=reward(0.01))
    assert len(model.calls) < 50


@pytest.mark.parametrize(
    ("penalty", "first", "symbols", "expected"),
    [
        (average, -3.0, 6, True),  # -3.0 / 7 is above the -0.9 of ending at once, -3.0 / 2 is not
        (gnmt(1.0), -1.5, 6, True),  # -1.5 * 6 / 12, but -1.5 * 6 / 7
        (reward(0.5), -3.0, 6, True),  # -3.0 + 3.5 and -0.4, but -3.0 + 1.0
        (reward(-0.4), -0.4, 1, True),  # -0.4 - 0.8 and -1.3, but -0.4 - 4.0
        (no_penalty, -1.0, 6, False),
    ],
)
def test_it_does_not_stop_while_something_better_can_come(
    penalty: Any, first: float, symbols: int, expected: bool
) -> None:
    """To end at once has -0.9; otherwise the first symbol costs something, the others and a later end nothing."""
    table = np.full((1, 10, 3, 3, 3), -np.inf)
    table[0, 0, ..., 2], table[0, 0, ..., 1] = -0.9, first
    table[0, 1:symbols, ..., 1] = 0
    table[0, symbols, ..., 2] = 0
    model = History(table, np.ones((1, 3, 1)), eos=2)
    [[found]] = beam_search(model, Stream.begin(model), width=2, limit=10, length=penalty, patience=math.inf)
    assert found.ids == ((1,) * symbols if expected else ())
