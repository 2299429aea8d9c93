"""Laws of all that writes symbol by symbol: filters, controls, streams and the loop that generates, on both kinds."""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import riverrun.decode
from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.decode import filters, repetition
from riverrun.decode.backend import to_numpy
from riverrun.decode.beam import beam_search
from riverrun.decode.filters import (
    compose,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    keep_typical,
    normalised,
    with_temperature,
)
from riverrun.decode.generate import Text, generate
from riverrun.decode.repetition import control, forbid_repeats, penalise_counts, penalise_seen
from riverrun.decode.rescore import rescore
from riverrun.decode.restrict import vocabulary
from riverrun.decode.sample import draw, generators
from riverrun.decode.state import State
from riverrun.decode.stream import Stream
from riverrun.errors import ConfigError

from .history import History, draw_model, move

try:
    import torch
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]

KINDS = ["numpy", pytest.param("torch", marks=pytest.mark.skipif(torch is None, reason="needs torch"))]

# -- filters

Probs = list[float]


def naive_fewest(order: list[int], probs: Probs, mass: float) -> set[int]:
    """The first symbols of an order that sum to the mass; at least one."""
    kept: set[int] = set()
    for i in order:
        if kept and sum(probs[j] for j in kept) >= mass - 1e-9:
            break
        kept.add(i)
    return kept


def naive_temperature(probs: Probs, value: float) -> Probs:
    if value == 0:
        return [float(i == probs.index(max(probs))) for i in range(len(probs))]
    return [(p / max(probs)) ** (1 / value) for p in probs]


def naive_top_k(probs: Probs, k: float) -> Probs:
    order = sorted(range(len(probs)), key=lambda i: -probs[i])
    return [p if i in order[: int(k)] else 0 for i, p in enumerate(probs)]


def naive_top_p(probs: Probs, mass: float) -> Probs:
    kept = naive_fewest(sorted(range(len(probs)), key=lambda i: -probs[i]), probs, mass)
    return [p if i in kept else 0 for i, p in enumerate(probs)]


def naive_min_p(probs: Probs, share: float) -> Probs:
    return [p if p >= share * max(probs) - 1e-9 else 0 for p in probs]


def naive_typical(probs: Probs, mass: float) -> Probs:
    entropy = -sum(p * math.log(p) for p in probs if p > 0)
    distance = [abs(-math.log(p) - entropy) if p > 0 else math.inf for p in probs]
    kept = naive_fewest(sorted(range(len(probs)), key=lambda i: distance[i]), probs, mass)
    return [p if i in kept else 0 for i, p in enumerate(probs)]


# Filter -> the same on a list of probabilities (not normalised again), and what it is tried with: both ends included.
FILTERS: dict[Callable[..., Any], tuple[Callable[[Probs, float], Probs], list[float]]] = {
    with_temperature: (naive_temperature, [0, 1e-300, 0.3, 1, 2.5, 100]),
    keep_top_k: (naive_top_k, [1, 2, 3, 7, 8, 100]),
    keep_top_p: (naive_top_p, [0, 1e-12, 0.25, 0.5, 0.75, 0.9, 1]),
    keep_min_p: (naive_min_p, [0, 0.05, 0.2, 0.5, 1]),
    keep_typical: (naive_typical, [0, 1e-12, 0.2, 0.5, 0.9, 1]),
}
EACH = [(each, value) for each, (_, values) in FILTERS.items() for value in values]
NAMED = [pytest.param(each, value, id=f"{each.__name__}-{value}") for each, value in EACH]


def distributions(rng: np.random.Generator) -> np.ndarray:
    """(N, 8) probabilities: peaked and flat ones, with ties, with symbols that are impossible."""
    rows = [rng.dirichlet(np.full(8, alpha)) for alpha in (0.2, 1, 1, 5, 50)]
    rows += [
        np.full(8, 1 / 8),
        np.array([0, 0, 0, 1, 0, 0, 0, 0.0]),
        np.array([0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.1, 0.0]),
        np.array([0.25, 0.0, 0.25, 0.0, 0.25, 0.0, 0.25, 0.0]),
    ]
    return np.array(rows)


def logs(probs: np.ndarray) -> np.ndarray:
    return np.log(np.where(probs > 0, probs, 1)) + np.where(probs > 0, 0, -np.inf)


def a_filter_is_its_definition(each: Callable[..., Any], value: float, kind: str) -> None:
    naive = FILTERS[each][0]
    probs = distributions(np.random.default_rng(3))
    found = np.exp(np.asarray(each(move(kind, logs(probs)), value)))
    for row, p in zip(found, probs.tolist(), strict=True):
        expected = np.array(naive(p, value))
        np.testing.assert_allclose(row, expected / expected.sum(), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(row == 0, expected == 0) if value >= 0.01 else None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("each", "value"), NAMED)
def test_a_filter_is_its_definition(each: Callable[..., Any], value: float, kind: str) -> None:
    a_filter_is_its_definition(each, value, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("each", "value"), NAMED)
def test_a_filter_keeps_a_distribution(each: Callable[..., Any], value: float, kind: str) -> None:
    """It sums to one, whatever was added to the scores; it revives nothing; rows and shapes do not matter."""
    scores = logs(distributions(np.random.default_rng(4)))
    before = scores.copy()
    found = np.asarray(each(move(kind, scores), value))
    np.testing.assert_array_equal(scores, before)
    assert found.dtype == np.float64
    np.testing.assert_allclose(np.exp(found).sum(-1), 1, rtol=1e-12)
    assert (found[scores == -np.inf] == -np.inf).all()
    shift = np.linspace(-700, 700, len(scores))[:, None]
    np.testing.assert_allclose(np.exp(np.asarray(each(move(kind, scores + shift), value))), np.exp(found), atol=1e-9)
    for row in range(len(scores)):
        np.testing.assert_allclose(np.asarray(each(move(kind, scores[row]), value)), found[row], rtol=1e-12)
    box = np.asarray(each(move(kind, scores.reshape(3, 3, 8)), value))
    np.testing.assert_allclose(box, found.reshape(3, 3, 8), rtol=1e-12)
    single = np.asarray(each(move(kind, scores.astype(np.float32)), value))
    assert single.dtype == np.float64
    one = np.asarray(each(move(kind, np.array([[-3.0]])), value))
    np.testing.assert_array_equal(one, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("each", "value"), NAMED)
def test_a_filter_refuses_what_is_no_distribution(each: Callable[..., Any], value: float, kind: str) -> None:
    for wrong, text in ((-np.inf, "only -inf"), (np.nan, "NaN or"), (np.inf, "NaN or")):
        scores = np.zeros((3, 4))
        scores[1, :] = -np.inf
        scores[1, 2] = wrong
        with pytest.raises(ConfigError, match=rf"row 1: expected log probabilities, .* received {text}"):
            each(move(kind, scores), value)


def test_every_filter_is_in_the_list() -> None:
    public = {
        value
        for name, value in vars(filters).items()
        if inspect.isfunction(value) and value.__module__ == filters.__name__ and not name.startswith("_")
    }
    assert public - {compose, normalised, filters.checked} == set(FILTERS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_share_of_one_loses_nothing(kind: str) -> None:
    scores = logs(np.array([[1e-13, 0.25, 0.75, 1e-30, 0.0]]))
    for each in (keep_top_p, keep_typical):
        assert np.isfinite(np.asarray(each(move(kind, scores), 1.0))).tolist() == [[True, True, True, True, False]]


def test_rounding_does_not_decide_at_a_threshold(rng: np.random.Generator) -> None:
    for share in rng.random(200):
        scores = np.log([0.3, 0.3 * share, 0.3 * share * 0.99])
        assert np.isfinite(keep_min_p(scores, share)).tolist() == [True, True, False]
        both = (0.3 + 0.3 * share) / np.exp(scores).sum()
        assert np.isfinite(keep_top_p(scores, both)).tolist() == [True, True, False]


def test_composed_filters_are_applied_in_their_order() -> None:
    scores = logs(distributions(np.random.default_rng(5)))
    settings = {"temperature": 0.7, "top_k": 6, "top_p": 0.8, "min_p": 0.1, "typical": 0.6}
    found = scores
    for each, value in zip(FILTERS, settings.values(), strict=True):
        found = each(found, value)
    np.testing.assert_allclose(compose(**settings)(scores), found, rtol=1e-12)  # type: ignore[arg-type]
    backwards = scores
    for each, value in reversed(list(zip(FILTERS, settings.values(), strict=True))):
        backwards = each(backwards, value)
    assert not np.array_equal(np.isfinite(backwards), np.isfinite(found))
    for name, each in zip(settings, FILTERS, strict=True):
        value = settings[name]
        np.testing.assert_allclose(compose(**{name: value})(scores), each(scores, value), rtol=1e-12)  # type: ignore[arg-type]
    np.testing.assert_allclose(compose()(scores), scores, atol=1e-12)


# -- drawing

DRAWS = 20_000
SIGNIFICANCE = "one in a thousand"
QUANTILE = 3.0902  # of the normal distribution, for it


def chi_square_fits(counts: np.ndarray, probs: np.ndarray) -> bool:
    """Pearson's test of counts against probabilities at a significance of one in a thousand.

    A symbol that cannot be drawn must not be, so that with many draws an error by one symbol is always found.
    The quantile is by Wilson and Hilferty's approximation, good to a percent.
    """
    if counts[probs == 0].any():
        return False
    some = probs > 0
    expected = counts.sum() * probs[some]
    assert (expected >= 5).all(), "the test needs five expected draws of each symbol"
    statistic = ((counts[some] - expected) ** 2 / expected).sum()
    freedom = some.sum() - 1
    if freedom == 0:
        return bool(statistic == 0)
    return bool(statistic <= freedom * (1 - 2 / (9 * freedom) + QUANTILE * math.sqrt(2 / (9 * freedom))) ** 3)


PEAKED = np.array([0.04, 0.3, 0.0, 0.06, 0.25, 0.11, 0.17, 0.07])
DRAWN = [
    (with_temperature, 0.5),
    (with_temperature, 1),
    (with_temperature, 3.0),
    (keep_top_k, 1),
    (keep_top_k, 3),
    (keep_top_k, 6),
    (keep_top_p, 0.5),
    (keep_top_p, 0.9),
    (keep_min_p, 0.3),
    (keep_typical, 0.4),
    (keep_typical, 0.8),
]


def draws_fit(each: Callable[..., Any], value: float, kind: str) -> None:
    expected = np.array(FILTERS[each][0](PEAKED.tolist(), value))
    scores = move(kind, np.tile(logs(PEAKED), (DRAWS, 1)))
    found = draw(each(scores, value), np.random.default_rng(1).random(DRAWS))
    assert chi_square_fits(np.bincount(found, minlength=8), expected / expected.sum())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("each", "value"), DRAWN, ids=lambda part: getattr(part, "__name__", part))
def test_draws_are_of_the_filtered_distribution(each: Callable[..., Any], value: float, kind: str) -> None:
    draws_fit(each, value, kind)


def test_the_chi_square_test_finds_what_is_slightly_wrong() -> None:
    """A probability that is wrong by a twentieth, and symbols too many or too few."""
    scores = np.tile(logs(PEAKED), (DRAWS, 1))
    uniforms = np.random.default_rng(1).random(DRAWS)
    for wrong in (
        partial(with_temperature, temperature=1.1),
        partial(keep_top_k, k=4),
        partial(keep_top_k, k=2),
    ):
        expected = np.array(naive_top_k(PEAKED.tolist(), 3 if "k" in wrong.keywords else 8))
        found = draw(wrong(scores), uniforms)
        assert not chi_square_fits(np.bincount(found, minlength=8), expected / expected.sum())


def test_rows_of_one_generation_are_independent_draws() -> None:
    """The first two symbols of many texts: pairs are as probable as the model says."""
    model = draw_model(size=4, eos=None, sources=1)
    texts = generate(model, Stream.begin(model), limit=2, samples=6000, seed=5).finish()
    table = np.exp(model.table[0])
    joint = table[0, 0, 0][:, None] * table[1, 0]  # (first, second)
    counts = np.zeros((4, 4))
    for text in texts:
        counts[text.ids] += 1
    assert chi_square_fits(counts.reshape(-1), joint.reshape(-1))


def test_a_uniform_number_at_every_border() -> None:
    probs = np.array([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    uniforms = np.array([0.0, np.nextafter(0.25, 0), 0.25, np.nextafter(0.75, 0), 0.75, np.nextafter(1, 0)])
    found = draw(np.tile(logs(probs), (6, 1)), uniforms)
    assert found.tolist() == [1, 1, 3, 3, 4, 4]
    many = np.random.default_rng(0).dirichlet(np.ones(3000), size=4) * np.array([[1e-300], [1e300], [1], [3]])
    many[:, -3:] = 0
    assert (draw(logs(many), np.full(4, np.nextafter(1, 0))) == 2996).all()


def test_a_distribution_is_cumulated_in_float64() -> None:
    """Twelve thousand equal symbols: in float32 the sum would be off by many of them."""
    scores = np.log(np.full((1000, 12_000), 1 / 12_000)).astype(np.float32)
    uniforms = (12 * np.arange(1000) + 6.5) / 12_000
    assert draw(scores, uniforms).tolist() == (12 * np.arange(1000) + 6).tolist()


def test_a_row_draws_from_a_generator_of_its_own() -> None:
    numbers = [[g.random() for g in generators(3, n)] for n in (1, 4, 9)]
    assert numbers[0] == numbers[1][:1]
    assert numbers[1] == numbers[2][:4]
    assert len({*numbers[2]}) == 9
    assert [g.random() for g in generators(np.random.default_rng(3), 4)] == numbers[1]
    own = [np.random.default_rng(k) for k in range(2)]
    assert generators(own, 2) == own


# -- controls

CONTROLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "penalise_seen": (penalise_seen, {"penalty": 1.7}),
    "penalise_counts": (penalise_counts, {"presence": 0.5, "frequency": 0.25}),
    "forbid_repeats 1": (forbid_repeats, {"n": 1}),
    "forbid_repeats 2": (forbid_repeats, {"n": 2}),
    "forbid_repeats 3": (forbid_repeats, {"n": 3}),
}
SEEN = [[1, 2, 1, 2, 1], [], [3], [0, 0], [4, 1, 4, 2, 4, 1], [2, 2, 2, 2]]


def naive_control(name: str, row: np.ndarray, seen: list[int]) -> np.ndarray:
    out = row.copy()
    for symbol in range(len(row)):
        if name == "penalise_seen" and symbol in seen:
            out[symbol] = row[symbol] * 1.7
        if name == "penalise_counts":
            out[symbol] -= 0.5 * (symbol in seen) + 0.25 * seen.count(symbol)
        if name.startswith("forbid_repeats"):
            n = int(name.split()[1])
            grams = [tuple(seen[i : i + n]) for i in range(len(seen) - n + 1)]
            if len(seen) >= n - 1 and (*seen[len(seen) - n + 1 :], symbol) in grams:
                out[symbol] = -np.inf
    return out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_is_its_definition(name: str, kind: str) -> None:
    each, settings = CONTROLS[name]
    scores = logs(np.random.default_rng(0).dirichlet(np.ones(5), size=len(SEEN)))
    scores[2, 1] = -np.inf
    scores[2] -= np.log(np.exp(scores[2]).sum())
    before = scores.copy()
    seen = Padded.of(SEEN)
    seen.data[~seen.mask()] = 10**9  # what stands in the padding is not read
    found = np.asarray(each(move(kind, scores), seen, **settings))
    np.testing.assert_array_equal(scores, before)
    for row, ids in enumerate(SEEN):
        np.testing.assert_allclose(found[row], naive_control(name, scores[row], ids), rtol=1e-12, atol=1e-15)
    assert np.asarray(each(move(kind, scores.astype(np.float32)), seen, **settings)).dtype == np.float32
    nothing = Padded(np.zeros((len(SEEN), 0), np.int64), np.zeros(len(SEEN), np.int64))
    np.testing.assert_allclose(np.asarray(each(move(kind, scores), nothing, **settings)), scores, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_penalty_is_of_the_probability_whatever_the_scores_sum_to(kind: str) -> None:
    """So it is after symbols were forbidden."""
    scores = np.log(np.array([[0.2, 0.3, 0.5]]))
    seen = Padded.of([[2]])
    shifted = [np.asarray(penalise_seen(move(kind, scores + shift), seen, 2.0)) for shift in (0.0, 3.0, -5.0)]
    np.testing.assert_allclose(np.exp(shifted), [[[0.2, 0.3, 0.25]]] * 3, rtol=1e-12)


def test_every_control_is_in_the_list() -> None:
    public = {
        value
        for name, value in vars(repetition).items()
        if inspect.isfunction(value) and value.__module__ == repetition.__name__ and not name.startswith("_")
    }
    assert public - {control} == {each for each, _ in CONTROLS.values()}


# -- generating


def not_the_last_again(seen: Padded, rows: np.ndarray) -> np.ndarray:
    mask = np.ones((len(seen), 5), bool)
    for k, (ids, row) in enumerate(zip(seen.rows(), rows, strict=True)):
        if len(ids):
            mask[k, ids[-1]] = False
        mask[k, 1 + row % 3] = False
    return mask


WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sample": {"seed": 3},
    "filters": {"seed": 3, "filter": compose(temperature=1.3, top_k=3, top_p=0.95, min_p=0.01, typical=0.95)},
    "control": {"seed": 3, "control": control(penalty=1.3, presence=0.2, frequency=0.1, no_repeat=3)},
    "mask": {"seed": 3, "allowed": vocabulary(5, without=[2])},
    "function": {"seed": 3, "allowed": not_the_last_again},
    "minimum": {"seed": 3, "minimum": 3},
    "past eos": {"seed": 3, "past_eos": True},
    "all": {
        "seed": 3,
        "minimum": 2,
        "allowed": not_the_last_again,
        "control": control(penalty=3.0, presence=0.4),
        "filter": compose(temperature=1.5, top_k=2),
    },
}
LOOKS_AT_ROWS = ("function", "all")  # a row is then not the same alone
SOURCES = [2, 0, 1, 0, 1, 2]
PROMPTS = Padded.of([[1, 2], [], [3, 1, 1, 2], [], [2], [3, 3]])
LIMIT = 9


def begun(model: History) -> Stream:
    return Stream.begin(model, Batch(source=np.array(SOURCES)))


def write(model: History, way: str, stream: Stream | None = None, **more: Any) -> tuple[list[Text], Stream]:
    chosen = {"limit": LIMIT, "prompt": PROMPTS, **WAYS[way], **more}
    writing = generate(model, begun(model) if stream is None else stream, **chosen)
    return writing.finish(), writing.stream


def same_texts(one: list[Text], other: list[Text]) -> None:
    assert [(text.ids, text.end) for text in one] == [(text.ids, text.end) for text in other]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a.log_probs, b.log_probs, rtol=1e-5)


def same_streams(one: Stream, other: Stream) -> None:
    assert one.last.tolist() == other.last.tolist()
    assert one.state.flat().keys() == other.state.flat().keys()
    for name, value in one.state.flat().items():
        np.testing.assert_allclose(to_numpy(value), to_numpy(other.state.flat()[name]), rtol=1e-12)


def a_batch_is_its_rows(model: History, way: str) -> None:
    """Whatever the others are and when they end: with the row's own generator, its text is the same alone."""
    if way in LOOKS_AT_ROWS:
        return
    texts, stream = write(model, way)
    for row in range(len(SOURCES)):
        own = {"seed": [generators(3, len(SOURCES))[row]]} if way != "greedy" else {}
        alone, end = write(model, way, begun(model).keep([row]), prompt=PROMPTS.select(np.array([row])), **own)
        same_texts(alone, texts[row : row + 1])
        same_streams(end, stream.keep([row]))


def in_pieces_is_at_once(model: History, way: str) -> None:
    """Generation stops after some symbols and goes on from the stream, with the generators as they are then."""
    chance = [np.random.default_rng(k) for k in range(len(SOURCES))]
    seeded = {} if way == "greedy" else {"seed": copy.deepcopy(chance)}
    texts, stream = write(model, way, **seeded)
    for first in (0, 1, 4):
        if "minimum" in WAYS[way]:  # what the minimum counts is the symbols of one generation
            return
        seeded = {} if way == "greedy" else {"seed": copy.deepcopy(chance)}
        begin, middle = write(model, way, limit=first, **seeded)
        going = [k for k, text in enumerate(begin) if text.end != "eos"]
        if seeded:
            seeded = {"seed": [seeded["seed"][k] for k in going]}
        ids = [[*PROMPTS.rows()[k].tolist(), *begin[k].ids] for k in going]
        if way == "function":
            seeded["allowed"] = lambda seen, rows, numbers=tuple(going): not_the_last_again(
                seen, np.array(numbers)[rows]
            )
        rest, end = write(
            model, way, middle.keep(going), limit=LIMIT - first, prompt=None, before=Padded.of(ids), **seeded
        )
        for k, after in zip(going, rest, strict=True):
            assert begin[k].ids + after.ids == texts[k].ids
        same_streams(end, stream.keep(going))


def a_stream_is_a_value(model: History, way: str) -> None:
    """Nothing is written into what was handed in; two continuations of one stream know nothing of each other."""
    _, fork = begun(model).feed(model, PROMPTS)
    kept = copy.deepcopy(fork)
    one, _ = write(model, way, fork, prompt=None)
    write(model, way, fork, prompt=None, **({} if way == "greedy" else {"seed": 99}))
    again, _ = write(model, way, fork, prompt=None)
    same_texts(one, again)
    same_streams(fork, kept)


def scores_are_the_models(model: History, way: str) -> None:
    """The log probabilities of a text are what the model says of it when it is read, whatever narrowed the choice."""
    texts, stream = write(model, way)
    _, behind = begun(model).feed(model, PROMPTS)
    scores, end = behind.feed(model, Padded.of([text.ids for text in texts]))
    for text, row in zip(texts, scores, strict=True):
        np.testing.assert_allclose(text.log_probs, row[: len(text.ids)], rtol=1e-5)
        assert not row[len(text.ids) :].any()
    same_streams(end, stream)


def a_prompt_is_what_was_read_before(model: History, way: str) -> None:
    texts, _ = write(model, way)
    _, behind = begun(model).feed(model, PROMPTS)
    same_texts(write(model, way, behind, prompt=None, before=PROMPTS)[0], texts)


def samples_are_rows(model: History, way: str) -> None:
    if way in LOOKS_AT_ROWS:
        return
    texts, stream = write(model, way, samples=3)
    rows = np.repeat(np.arange(len(SOURCES)), 3)
    others, end = write(model, way, begun(model).keep(rows), prompt=PROMPTS.select(rows))
    same_texts(texts, others)
    same_streams(stream, end)


def the_rules_are_kept(model: History, way: str) -> None:
    texts, _ = write(model, way, samples=5, limit=7)
    assert len(texts) == 5 * len(SOURCES)
    ends = {text.end for text in texts}
    for k, text in enumerate(texts):
        past = PROMPTS.rows()[k // 5].tolist()
        symbols = [*past, *text.ids]
        assert 0 not in text.ids  # bos is never predicted
        if way == "past eos":
            assert text.end == "limit"
            assert len(text.ids) == 7
            continue
        assert (text.end == "eos") == (text.ids[-1] == model.eos)
        assert model.eos not in text.ids[:-1]
        assert len(text.ids) == 7 or text.end == "eos"
        if way == "minimum":
            assert len(text.ids) > 3
        if way == "all":
            assert len(text.ids) > 2
        if way == "mask":
            assert 2 not in text.ids
        if way == "function":
            assert all(a != b for a, b in zip(symbols[len(past) - 1 :], text.ids, strict=False) if past)
            assert 1 + k % 3 not in text.ids
        if way == "control":
            grams = [tuple(symbols[i : i + 3]) for i in range(len(symbols) - 2)]
            assert len({*grams}) == len(grams)
    if way == "past eos":
        assert any(model.eos in text.ids[:-1] for text in texts)
    elif way in ("sample", "filters"):
        assert ends == {"eos", "limit"}


def a_symbol_is_chosen_as_stated(model: History, way: str) -> None:
    """Allowed, minimum, control, filter, one number of the row's own generator: in this order."""
    chosen = WAYS[way]
    texts, _ = write(model, way)
    for row, text in enumerate(texts):
        table = to_numpy(model.table)[SOURCES[row]].astype(np.float64)
        chance = generators(3, len(SOURCES))[row]
        ids = PROMPTS.rows()[row].tolist()
        for n, id in enumerate(text.ids):
            before, last = [0, 0, *ids][-2:]
            scores, seen = table[len(ids) % 4, before, last][None].copy(), Padded.of([ids])
            allowed = chosen.get("allowed", np.ones((1, 5), bool))
            mask = allowed(seen, np.array([row])) if callable(allowed) else allowed.reshape(1, 5)
            scores[~mask] = -np.inf
            if n < chosen.get("minimum", 0):
                scores[0, model.eos] = -np.inf
            scores = chosen.get("control", lambda scores, seen: scores)(scores, seen)
            scores = chosen.get("filter", normalised)(scores)
            expected = draw(scores, np.array([chance.random()])) if "seed" in chosen else scores.argmax(axis=1)
            assert [id] == expected.tolist()
            ids.append(id)


LAWS = [
    a_symbol_is_chosen_as_stated,
    a_batch_is_its_rows,
    in_pieces_is_at_once,
    a_stream_is_a_value,
    scores_are_the_models,
    a_prompt_is_what_was_read_before,
    samples_are_rows,
    the_rules_are_kept,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law: Callable[..., None], way: str, kind: str) -> None:
    for seed in range(2):
        law(draw_model(kind, seed=seed, dtype=np.float32), way)


@pytest.mark.skipif(torch is None, reason="needs torch")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law_of_tensors_that_are_not_nearby(
    law: Callable[..., None], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done on tensors where they are, as on a GPU."""
    monkeypatch.setattr("riverrun.decode.generate.nearby", lambda values: values)
    law(draw_model("torch", dtype=np.float32), way)


@pytest.mark.gpu
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law_on_a_gpu(law: Callable[..., None], way: str) -> None:
    law(draw_model("cuda", dtype=np.float32), way)


@pytest.mark.skipif(torch is None, reason="needs torch")
@pytest.mark.parametrize("way", WAYS)
def test_one_seed_is_one_text_on_both_kinds(way: str) -> None:
    for seed in range(3):
        ours, stream = write(draw_model("numpy", seed=seed, dtype=np.float32), way, limit=40)
        theirs, other = write(draw_model("torch", seed=seed, dtype=np.float32), way, limit=40)
        same_texts(ours, theirs)
        same_streams(stream, other)


def test_another_seed_is_another_text() -> None:
    model = draw_model(eos=None)
    assert len({write(model, "sample", seed=seed)[0][0].ids for seed in range(8)}) == 8


def test_a_temperature_of_zero_is_greedy() -> None:
    model = draw_model(seed=2)
    same_texts(write(model, "sample", filter=compose(temperature=0))[0], write(model, "greedy")[0])
    same_texts(write(model, "sample", filter=compose(top_k=1))[0], write(model, "greedy")[0])
    same_texts(write(model, "sample", filter=compose(top_p=0))[0], write(model, "greedy")[0])


def test_what_has_ended_is_not_computed() -> None:
    model = draw_model(sharp=0.1)
    texts = generate(model, Stream.begin(model), limit=100, samples=200, seed=0).finish()
    lengths = np.array([len(text.ids) for text in texts])
    assert model.calls == [(int((lengths > t).sum()), 1) for t in range(lengths.max())]
    assert len(set(model.calls)) > 5


def test_no_rows_and_no_symbols() -> None:
    model = draw_model()
    empty = Stream.begin(model, rows=0)
    writing = generate(model, empty, limit=5, seed=0)
    assert (writing.finish(), len(writing.stream)) == ([], 0)
    writing = generate(model, Stream.begin(model, rows=2), limit=0)
    assert [(text.ids, text.end) for text in writing.finish()] == [((), None)] * 2
    assert writing.stream.last.tolist() == [0, 0]
    assert beam_search(model, empty, width=2, limit=3) == []
    assert rescore(model, [], 1.0) == []
    assert rescore(model, [[], [([1], 0.0)]], 1.0)[0] == []


def test_without_a_limit_it_flows_on() -> None:
    model = draw_model(eos=None)
    writing = generate(model, Stream.begin(model), limit=None, seed=0)
    assert len([next(writing) for _ in range(300)]) == 300


def test_everything_that_generates_is_tried_here() -> None:
    """A public function that takes a step model is a way to generate, and needs a law."""
    found = set()
    for module in pkgutil.iter_modules(riverrun.decode.__path__, "riverrun.decode."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if inspect.isfunction(value) and value.__module__ == module.name and not name.startswith("_"):
                given = {str(parameter.annotation) for parameter in inspect.signature(value).parameters.values()}
                if "StepModel" in given:
                    found.add(name)
    assert found == {"generate", "beam_search", "rescore", "score_by_steps", "read_prompt"}


# -- tests of the tests


def keeps_the_first_states(patch: pytest.MonkeyPatch) -> None:
    real = State.keep
    patch.setattr(State, "keep", lambda self, rows: real(self, np.minimum(np.arange(len(rows)), self.sources - 1)))


def forgets_who_ended(patch: pytest.MonkeyPatch) -> None:
    real = Stream.keep
    patch.setattr(Stream, "keep", lambda self, rows: real(self, np.sort(np.asarray(rows))[::-1]))


def one_more(patch: pytest.MonkeyPatch) -> None:
    _other_k(patch, 1)


def one_less(patch: pytest.MonkeyPatch) -> None:
    _other_k(patch, -1)


def _other_k(patch: pytest.MonkeyPatch, n: int) -> None:
    largest, topk = filters.largest, filters.topk
    patch.setattr(filters, "topk", lambda values, k: topk(values, max(k + n, 1)))
    patch.setattr(filters, "largest", lambda values, least, k: largest(values, least, np.maximum(k + n, 1)))


def ties_all_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(filters, "largest", lambda values, least, k: values >= least)


def mass_before_is_mass_after(patch: pytest.MonkeyPatch) -> None:
    def count(probs: Any, mass: float) -> Any:
        total = (np.cumsum(np.asarray(probs), axis=-1) < mass).sum(-1, keepdims=True)
        return move("numpy", np.maximum(total, 1))

    patch.setattr(filters, "_count", count)


def never_normalised(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(filters, "normalised", lambda scores: scores)


def border_to_the_left(patch: pytest.MonkeyPatch) -> None:
    def wrong(log_probs: Any, uniforms: Any) -> Any:
        cumulated = np.exp(np.asarray(log_probs)).cumsum(-1)
        return (cumulated < uniforms[:, None]).sum(-1)

    patch.setitem(globals(), "draw", wrong)


def filter_laws() -> None:
    for each, value in EACH:
        a_filter_is_its_definition(each, value, "numpy")


def shift_laws() -> None:
    for each, value in EACH:
        test_a_filter_keeps_a_distribution(each, value, "numpy")


def draw_laws() -> None:
    for each, value in DRAWN:
        draws_fit(each, value, "numpy")


def generating_laws() -> None:
    for law in LAWS:
        for way in WAYS:
            law(draw_model(dtype=np.float32), way)


PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], None]]] = [
    (keeps_the_first_states, generating_laws),
    (forgets_who_ended, generating_laws),
    (one_more, filter_laws),
    (one_more, draw_laws),
    (one_less, filter_laws),
    (one_less, draw_laws),
    (ties_all_kept, filter_laws),
    (mass_before_is_mass_after, filter_laws),
    (mass_before_is_mass_after, draw_laws),
    (never_normalised, shift_laws),
    (border_to_the_left, test_a_uniform_number_at_every_border),
]


@pytest.mark.parametrize(("bug", "laws"), PLANTED, ids=lambda part: part.__name__)
def test_a_planted_bug_breaks_a_law(
    bug: Callable[[pytest.MonkeyPatch], None], laws: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    laws()
    bug(monkeypatch)
    with pytest.raises((AssertionError, IndexError, ValueError, ConfigError)):
        laws()
