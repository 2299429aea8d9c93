"""The loop that generates: text, stop strings, limits, and what it says of wrong arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from riverrun.data.padded import Padded
from riverrun.decode.beam import beam_search
from riverrun.decode.filters import compose
from riverrun.decode.generate import generate
from riverrun.decode.length import average, coverage_penalty, gnmt, length_penalty, reward
from riverrun.decode.repetition import control
from riverrun.decode.rescore import rescore
from riverrun.decode.restrict import restrict, vocabulary
from riverrun.decode.sample import draw, generators, most_probable
from riverrun.decode.state import State
from riverrun.decode.step import Step
from riverrun.decode.stream import Stream
from riverrun.decode.table import Table
from riverrun.errors import ConfigError, ShapeError
from riverrun.text.units import Bytes, Words

from ...laws.history import draw_model

try:
    import torch
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]


PIECES = Bytes().pieces


def spelling(text: str, eos: int | None = None) -> Table:
    """A model that writes this text, byte by byte; it must not use a byte twice. After its end comes ``eos``."""
    data = [0, *text.encode(), *([eos] if eos is not None else [])]
    assert len(set(data)) == len(data)
    table = np.full((256, 256), -np.inf)
    table[data[:-1], data[1:]] = 0
    table[data[-1], 1] = table[1, 1] = 0
    return Table(table, eos=eos)


def pieces(model: Table, **chosen: Any) -> list[tuple[str, str | None]]:
    writing = generate(model, Stream.begin(model), **{"limit": 50, "pieces": PIECES, **chosen})
    return [(symbol.text, symbol.end) for symbol in writing]


def test_a_character_is_shown_when_it_is_complete() -> None:
    assert pieces(spelling("aß€!", eos=2)) == [
        *[("a", None), ("", None), ("ß", None), ("", None), ("", None), ("€", None), ("!", None)],
        ("", "eos"),
    ]


def test_a_character_that_the_prompt_begins_is_ended() -> None:
    model = spelling("aß!", eos=2)
    first = "aß".encode()[:2]
    assert pieces(model, prompt=Padded.of([list(first)])) == [("ß", None), ("!", None), ("", "eos")]
    stream = Stream.begin(model).feed(model, Padded.of([list(first)]))[1]
    writing = generate(model, stream, limit=9, pieces=PIECES, before=Padded.of([list(first)]))
    assert writing.finish()[0].text == "ß!"


def test_a_character_that_is_not_completed_is_shown_as_such() -> None:
    assert pieces(spelling("aß"), limit=2) == [("a", None), ("\N{REPLACEMENT CHARACTER}", "limit")]


def test_words_are_set_apart_from_those_of_the_prompt() -> None:
    units = Words.learn(["a b c d\n"])
    table = np.full((units.size, units.size), -np.inf)
    order = [units.bos, *units.ids("a b c d"), units.eos]
    table[order[:-1], order[1:]] = 0
    model = Table(table, bos=units.bos, eos=units.eos)
    for prompt, text in (("", "a b c d"), ("a b", " c d")):
        ids = Padded.of([units.ids(prompt)])
        writing = generate(model, Stream.begin(model), limit=9, prompt=ids, pieces=units.pieces, stops=["c\n"])
        assert writing.finish()[0].text == text


@pytest.mark.parametrize(
    ("stops", "shown", "end"),
    [
        (["xyz"], ["a", "b", "c", "d", "e", "f", ""], "eos"),
        (["de"], ["a", "b", "c", "", ""], "stop"),
        (["dX", "f"], ["a", "b", "c", "", "de", ""], "stop"),
        (["cdeX", "de"], ["a", "b", "", "", "c"], "stop"),
        (["a"], [""], "stop"),
        (["efX"], ["a", "b", "c", "d", "", "", "ef"], "eos"),
    ],
)
def test_a_stop_string_is_cut_across_symbols(stops: list[str], shown: list[str], end: str) -> None:
    found = pieces(spelling("abcdef", eos=2), stops=stops)
    assert found == [(text, end if n == len(shown) else None) for n, text in enumerate(shown, 1)]


def test_what_was_held_back_is_shown_at_the_limit() -> None:
    assert pieces(spelling("abcdef"), stops=["cdX"], limit=4) == [("a", None), ("b", None), ("", None), ("cd", "limit")]


def test_past_the_end_its_text_is_shown() -> None:
    model = replace(spelling("ab\nc"), eos=ord("\n"))
    assert "".join(text for text, _ in pieces(model)) == "ab"
    assert "".join(text for text, _ in pieces(model, past_eos=True, limit=4)) == "ab\nc"


def test_a_stream_can_be_left_at_any_symbol() -> None:
    model = spelling("abcdef", eos=2)
    writing = generate(model, Stream.begin(model), limit=50, pieces=PIECES)
    assert next(writing).text + next(writing).text == "ab"
    other = generate(model, writing.stream, limit=50, pieces=PIECES)
    assert "".join(symbol.text for symbol in writing) == "cdef"
    assert other.finish()[0].text == "cdef"
    assert writing.stream.last.tolist() == [2]
    assert list(writing) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"limit": -1}, r"limit: expected a number of symbols from 0 on, or None, received -1"),
        ({"samples": 0}, r"samples: expected at least 1, received 0"),
        ({"minimum": 9}, r"minimum: expected a number from 0 to the limit \(5\), received 9"),
        ({"minimum": -1}, r"minimum: expected a number from 0 to the limit \(5\), received -1"),
        ({"stops": ["x"]}, r"stops: .* expected pieces, which makes text of symbols"),
        ({"stops": "END", "pieces": PIECES}, r"stops: expected a list of strings that are not empty, received 'END'"),
        ({"seed": -3}, r"seed: expected a number from 0 on, received -3"),
        ({"seed": [np.random.default_rng(0)] * 2}, r"seed: expected a generator for each of 3 rows, received 2"),
        ({"allowed": np.zeros(5, bool)}, r"row 0: .* received only -inf. What is forbidden leaves nothing"),
        ({"prompt": Padded.of([[7]] * 3)}, r"expected ids from 0 to 4, received 7"),
    ],
)
def test_wrong_arguments_of_generate(arguments: dict[str, Any], message: str) -> None:
    model = draw_model()
    with pytest.raises(ConfigError, match=message):
        generate(model, Stream.begin(model, rows=3), **{"limit": 5, **arguments}).finish()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompt": Padded.of([[1]])}, r"prompt: expected a row for each of 3 texts, received 1"),
        ({"before": Padded.of([[1]])}, r"before: expected a row for each of 3 texts, received 1"),
        ({"allowed": np.ones(4, bool)}, r"allowed: expected booleans of the shape \(5,\) or \(3, 5\), .* \(4,\)"),
        ({"allowed": np.ones(5)}, r"allowed: expected booleans .* received float64 of the shape \(5,\)"),
        ({"allowed": lambda seen, rows: np.ones((1, 5), bool)}, r"allowed: .* received bool of the shape \(1, 5\)"),
    ],
)
def test_wrong_shapes(arguments: dict[str, Any], message: str) -> None:
    model = draw_model()
    with pytest.raises(ShapeError, match=message):
        generate(model, Stream.begin(model, rows=3), limit=5, **arguments).finish()
    if "before" in arguments or "prompt" in arguments:
        with pytest.raises(ShapeError, match=message):
            beam_search(model, Stream.begin(model, rows=3), limit=5, width=2, **arguments)


def test_a_minimum_needs_an_end() -> None:
    model = draw_model(eos=None)
    for search in (generate, lambda *given, **named: beam_search(*given, width=2, **named)):
        with pytest.raises(ConfigError, match="minimum: the model has no symbol that ends a text"):
            search(model, Stream.begin(model), limit=5, minimum=2)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 0}, r"width: expected a number of hypotheses, at least 1, received 0"),
        ({"best": 3}, r"best: expected a number of texts from 1 to the width \(2\), received 3"),
        ({"best": 0}, r"best: expected a number of texts from 1 to the width \(2\), received 0"),
        ({"limit": 0}, r"limit: expected a number of symbols, at least 1, received 0"),
        ({"minimum": 9}, r"minimum: expected a number from 0 to the limit \(5\), received 9"),
        ({"patience": 0.3}, r"patience: expected a number from 0.5 on, received 0.3"),
        ({"patience": float("nan")}, r"patience: expected a number from 0.5 on, received nan"),
        ({"coverage": lambda extras, rows: np.ones((1, 1))}, r"coverage: expected penalties, none above 0, received 1"),
        (
            {"coverage": coverage_penalty(1.0, np.array([3]), name="coverages")},
            r"expected a model whose steps tell 'coverages', received one that tells coverage; did you mean 'coverage'",
        ),
    ],
)
def test_wrong_arguments_of_beam_search(arguments: dict[str, Any], message: str) -> None:
    model = draw_model()
    with pytest.raises(ConfigError, match=message):
        beam_search(model, Stream.begin(model), **{"limit": 5, "width": 2, **arguments})


def test_a_coverage_of_another_shape_is_refused() -> None:
    model = draw_model()
    with pytest.raises(ShapeError, match=r"coverage: expected \(1, 1\), received \(1, 1, 3\)"):
        beam_search(model, Stream.begin(model), limit=5, width=2, coverage=lambda extras, rows: extras["coverage"] * 0)


def test_a_beam_with_nothing_to_choose_finds_nothing() -> None:
    model = draw_model()
    assert beam_search(model, Stream.begin(model), limit=5, width=2, allowed=np.zeros(5, bool)) == [[]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": -1}, r"temperature: expected a number from 0 on, received -1"),
        ({"temperature": float("nan")}, r"temperature: expected a number from 0 on, received nan"),
        ({"temperature": float("inf")}, r"temperature: expected a number from 0 on, received inf"),
        ({"top_k": 0}, r"top_k: expected a number of symbols, at least 1, received 0"),
        ({"top_p": 1.5}, r"top_p: expected a share from 0 to 1, received 1.5"),
        ({"top_p": -0.1}, r"top_p: expected a share from 0 to 1, received -0.1"),
        ({"min_p": 50}, r"min_p: expected a share from 0 to 1, received 50"),
        ({"typical": float("nan")}, r"typical: expected a share from 0 to 1, received nan"),
    ],
)
def test_wrong_filters(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"penalty": 0.0}, r"repetition penalty: expected a number above 0 \(1 changes nothing\), received 0.0"),
        ({"penalty": float("nan")}, r"repetition penalty: expected a number above 0 .* received nan"),
        ({"presence": float("inf")}, r"presence penalty: expected a finite number \(0 changes nothing\), received inf"),
        ({"frequency": float("nan")}, r"frequency penalty: expected a finite number .* received nan"),
        ({"no_repeat": 0}, r"no_repeat: expected the length of n-grams, at least 1, received 0"),
    ],
)
def test_wrong_controls(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        control(**arguments)


def test_a_narrowed_vocabulary() -> None:
    assert vocabulary(3).tolist() == [True] * 3
    assert vocabulary(3, only=[]).tolist() == [False] * 3
    assert vocabulary(4, only=iter([3, 1]), without=[1]).tolist() == [False, False, False, True]
    for wrong in ({"only": [4]}, {"without": [-1]}):
        with pytest.raises(ConfigError, match=r"vocabulary: expected ids from 0 to 3, received (4|-1) to (4|-1)"):
            vocabulary(4, **wrong)
    found = restrict(np.zeros((2, 2)), np.array([[True, False], [False, True]]))
    assert found.tolist() == [[0, -np.inf], [-np.inf, 0]]


def test_choosing_refuses_rows_without_a_symbol() -> None:
    for choose in (most_probable, lambda scores: draw(scores, np.array([0.5]))):
        with pytest.raises(ConfigError, match=r"row 0: .* received only -inf"):
            choose(np.full((1, 3), -np.inf))  # type: ignore[operator]
    assert generators(np.random.default_rng(0), 0) == []


def test_length_penalties_by_name() -> None:
    values = np.array([-2.0, -np.inf])
    assert length_penalty("none")(values, 4).tolist() == [-2.0, -np.inf]
    assert length_penalty("average")(values, 4).tolist() == average(values, 4).tolist() == [-0.5, -np.inf]
    assert length_penalty("gnmt", 0.5)(values, 19).tolist() == gnmt(0.5)(values, 19).tolist() == [-1.0, -np.inf]
    assert length_penalty("reward", 0.25)(values, 4).tolist() == reward(0.25)(values, 4).tolist() == [-1.0, -np.inf]
    assert gnmt(0)(values, 4).tolist() == values.tolist()
    with pytest.raises(ConfigError, match="expected none, average, gnmt, reward, received 'avarage'; did you mean 'a"):
        length_penalty("avarage")
    for make in (gnmt, reward, lambda value: coverage_penalty(value, np.array([1]))):
        with pytest.raises(ConfigError, match="received nan"):
            make(float("nan"))  # type: ignore[operator]


def test_coverage_counts_what_was_not_attended_to() -> None:
    found = coverage_penalty(2.0, np.array([3, 1, 2]))(
        {"coverage": np.array([[[0.5, np.nan, np.nan]], [[1.5, 0.0, np.nan]]])}, np.array([1, 2])
    )
    np.testing.assert_allclose(found, [[2 * np.log(0.5)], [2 * np.log(1e-10)]])


class Wrong(Table):
    """Says something that is no distribution over its symbols."""

    def step(self, ids: Any, state: State) -> Step:
        return Step(self.log_probs[: len(ids), :, None] + np.zeros((1, 1, 9)), state)


class Broken(Table):
    """A model whose weights are no numbers any more."""

    def step(self, ids: Any, state: State) -> Step:
        return Step(np.full((*ids.shape, self.size), np.nan), state)


def test_what_a_model_says_is_looked_at() -> None:
    table = np.log(np.full((3, 3), 1 / 3))
    for search in (generate, lambda *given, **named: beam_search(*given, width=2, **named)):
        with pytest.raises(
            ShapeError, match=r"step: expected log_probs \(1, 1, 3\) of the model, received \(1, 3, 9\)"
        ):
            list(search(Wrong(table), Stream.begin(Wrong(table)), limit=2))  # type: ignore[operator]
        with pytest.raises(ConfigError, match=r"received NaN or \+inf. The weights of the model or its state"):
            list(search(Broken(table), Stream.begin(Broken(table)), limit=2))  # type: ignore[operator]


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_rescoring_adds_the_weighted_log_probability(batch: int) -> None:
    model = draw_model()
    lists = [
        [([1, 2, 3], -1.0), ([], -0.5), ([2], -3.0)],
        [],
        [([3, 3, 1, 2, 1], 2.0), ([1], 2.0), ([2, 1], 0.0), ([1], 1.0)],
    ]
    _, stream = Stream.begin(model, rows=3).feed(model, Padded.of([[1, 3], [], [2]]))
    for end, before in ((True, None), (False, stream)):
        found = rescore(model, lists, 0.7, end=end, stream=before, batch=batch)
        for row, some in enumerate(lists):
            expected = []
            for ids, score in some:
                one = Stream.begin(model) if before is None else before.keep([row])
                whole = [*ids, 4] if end else ids
                expected.append((ids, score + 0.7 * float(one.feed(model, Padded.of([whole]))[0].sum())))
            expected.sort(key=lambda candidate: -candidate[1])
            assert [ids for ids, _ in found[row]] == [ids for ids, _ in expected]
            np.testing.assert_allclose([s for _, s in found[row]], [s for _, s in expected], rtol=1e-12)
    weightless = rescore(model, lists, 0.0, batch=batch)
    assert weightless == [sorted(some, key=lambda candidate: -candidate[1]) for some in lists]
    impossible = [[([0], 1.0), ([1], 0.0)]]
    assert rescore(model, impossible, 0.0) == impossible
    assert [ids for ids, _ in rescore(model, impossible, 0.1)[0]] == [[1], [0]]


def test_rescoring_where_texts_do_not_end() -> None:
    model = Table(np.log([[0.5, 0.5], [0.25, 0.75]]))
    [[(ids, score)]] = rescore(model, [[([1, 1], 0.0)]], 1.0)
    assert (ids, round(np.exp(score), 12)) == ([1, 1], 0.375)


def test_wrong_arguments_of_rescore() -> None:
    model = draw_model()
    with pytest.raises(ConfigError, match="rescore: expected a weight from 0 on, received -1"):
        rescore(model, [[]], -1)
    with pytest.raises(ConfigError, match="rescore: expected a batch of at least 1 candidate, received 0"):
        rescore(model, [[]], 1, batch=0)
    with pytest.raises(ShapeError, match="rescore: expected a text before each of 1 lists, received 2"):
        rescore(model, [[]], 1, stream=Stream.begin(model, rows=2))


def test_a_table_is_square() -> None:
    with pytest.raises(ShapeError, match=r"Table: expected log_probs \(V, V\), received \(2, 3\)"):
        Table(np.zeros((2, 3)))


def test_a_table_is_read_for_each_hypothesis() -> None:
    model = Table(np.log(np.arange(1.0, 10).reshape(3, 3) / 45))
    ids = np.array([[0, 1], [2, 0], [1, 1]])
    np.testing.assert_array_equal(model.step(ids, model.start()).log_probs, model.log_probs[ids])


@pytest.mark.skipif(torch is None, reason="needs torch")
def test_a_table_of_tensors() -> None:
    table = np.log([[0.1, 0.6, 0.3], [0.2, 0.2, 0.6], [0.7, 0.2, 0.1]])
    texts = []
    for model in (Table(table, eos=2), Table(torch.from_numpy(table), eos=2)):
        texts.append(generate(model, Stream.begin(model), limit=20, samples=5, seed=1).finish())
        assert beam_search(model, Stream.begin(model), limit=5, width=3, best=3)[0][0].ids == (1,)
    assert [text.ids for text in texts[0]] == [text.ids for text in texts[1]]
