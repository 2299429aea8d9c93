"""Streams: fed in pieces, forked, saved and loaded."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.decode.state import State
from riverrun.decode.stepwise import score_by_steps
from riverrun.decode.stream import Stream
from riverrun.decode.table import Table
from riverrun.errors import CheckpointError, ConfigError, ShapeError, StateError

from ...laws.history import History, draw_model

try:
    import torch
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]

KINDS = ["numpy", pytest.param("torch", marks=pytest.mark.skipif(torch is None, reason="needs torch"))]
TEXTS = [[1, 2, 4, 1, 3], [], [3], [2, 2, 2, 1]]
MODEL = "5e884898da28"


def begun(model: History) -> Stream:
    return Stream.begin(model, Batch(source=np.array([0, 1, 2, 1])))


def definition(model: History, row: int, source: int) -> list[float]:
    ids, table = [0, 0, *TEXTS[row]], np.asarray(model.table)[source]
    return [float(table[(t - 1) % 4, ids[t - 1], ids[t], ids[t + 1]]) for t in range(1, len(ids) - 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_symbol_is_scored_after_all_before_it(kind: str) -> None:
    model = draw_model(kind)
    scores, stream = begun(model).feed(model, Padded.of(TEXTS))
    for row, source in enumerate([0, 1, 2, 1]):
        np.testing.assert_allclose(scores[row, : len(TEXTS[row])], definition(model, row, source), rtol=1e-12)
        assert not scores[row, len(TEXTS[row]) :].any()
    assert stream.last.tolist() == [3, 0, 3, 1]
    assert np.asarray(stream.state.moving["position"])[:, 0].tolist() == [5, 0, 1, 4]
    assert np.asarray(stream.state.moving["before"])[:, 0].tolist() == [1, 0, 0, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_in_pieces_is_at_once(kind: str) -> None:
    model = draw_model(kind)
    scores, whole = begun(model).feed(model, Padded.of(TEXTS))
    for first in range(6):
        head, stream = begun(model).feed(model, Padded.of([ids[:first] for ids in TEXTS]))
        tail, stream = stream.feed(model, Padded.of([ids[first:] for ids in TEXTS]))
        for row, ids in enumerate(TEXTS):
            parts = [*head[row, : len(ids[:first])], *tail[row, : len(ids[first:])]]
            np.testing.assert_allclose(parts, scores[row, : len(ids)], rtol=1e-12)
        assert stream.last.tolist() == whole.last.tolist()
        for name, value in whole.state.flat().items():
            np.testing.assert_array_equal(np.asarray(value), np.asarray(stream.state.flat()[name]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_is_independent(kind: str) -> None:
    model = draw_model(kind)
    _, stream = begun(model).feed(model, Padded.of(TEXTS))
    kept = copy.deepcopy(stream)
    once, _ = stream.feed(model, Padded.of([[1, 2]] * 4))
    stream.feed(model, Padded.of([[3, 3, 3]] * 4))
    again, _ = stream.feed(model, Padded.of([[1, 2]] * 4))
    np.testing.assert_array_equal(once, again)
    for name, value in kept.state.flat().items():
        np.testing.assert_array_equal(np.asarray(value), np.asarray(stream.state.flat()[name]))
    twice, _ = stream.repeat(2).feed(model, Padded.of([[1, 2]] * 8))
    np.testing.assert_allclose(twice, np.repeat(once, 2, axis=0), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_it_goes_on_the_same(kind: str) -> None:
    model = draw_model(kind)
    _, stream = begun(model).feed(model, Padded.of(TEXTS))
    data = stream.to_bytes(MODEL)
    assert stream.to_bytes(MODEL) == data
    loaded = Stream.from_bytes(data, MODEL, example=model.start())
    assert loaded.state.fixed.keys() == {"source"}
    expected, _ = stream.feed(model, Padded.of([[1, 2]] * 4))
    found, _ = loaded.feed(model, Padded.of([[1, 2]] * 4))
    np.testing.assert_array_equal(found, expected)
    assert loaded.to_bytes(MODEL) == data
    plain = Stream.from_bytes(data, MODEL)
    assert {type(value) for value in plain.state.flat().values()} == {np.ndarray}


@pytest.mark.skipif(torch is None, reason="needs torch")
def test_a_state_in_bfloat16_comes_back_as_such() -> None:
    state = State(moving={"0.h": torch.tensor([[[1.5, -0.25]]]).bfloat16()})
    data = Stream(state, np.array([3])).to_bytes(MODEL)
    back = Stream.from_bytes(data, MODEL, example=state).state.moving["0.h"]
    assert back.dtype == torch.bfloat16
    assert torch.equal(back, state.moving["0.h"])


def test_a_model_without_memory_has_a_stream_too() -> None:
    model = Table(np.log([[0.5, 0.5], [0.25, 0.75]]))
    _, stream = Stream.begin(model, rows=2).feed(model, Padded.of([[1], [0, 1, 0]]))
    loaded = Stream.from_bytes(stream.to_bytes(MODEL), MODEL, example=model.start())
    assert loaded.last.tolist() == [1, 0]
    assert loaded.state.flat() == {}


def saved(**arrays: Any) -> bytes:
    moving = arrays or {"0.h": np.zeros((1, 1, 3), np.float32)}
    return Stream(State(moving=moving), np.array([7])).to_bytes(MODEL)


def test_the_stream_of_another_model_is_refused() -> None:
    with pytest.raises(StateError, match=r"expected one of the model 0123456789ab, received one of the model 5e884898"):
        Stream.from_bytes(saved(), "0123456789abcdef")
    example = State(moving={"0.h": np.zeros((1, 1, 3)), "0.c": np.zeros((1, 1, 3))})
    with pytest.raises(StateError, match=r"expected the arrays 0.c, 0.h, received 0.h. Go on with"):
        Stream.from_bytes(saved(), MODEL, example=example)
    with pytest.raises(StateError, match=r"expected '0.h' of the shape \(B, 1, 4\), received \(1, 1, 3\)"):
        Stream.from_bytes(saved(), MODEL, example=State(moving={"0.h": np.zeros((1, 1, 4))}))


def test_what_is_no_complete_file_is_refused() -> None:
    data = saved()
    for size in (0, 4, 8, 30, len(data) // 2, len(data) - 1):
        with pytest.raises(CheckpointError, match=f"a saved stream: expected a complete .* received {size} bytes"):
            Stream.from_bytes(data[:size], MODEL)
    with pytest.raises(CheckpointError, match="that a stream was saved to"):
        Stream.from_bytes(save({"0.h": np.zeros((1, 1, 3))}), MODEL)
    with pytest.raises(CheckpointError, match="that a stream was saved to"):
        Stream.from_bytes(save({"0.h": np.zeros((1, 1, 3))}, metadata={"stream": "{}"}), MODEL)
    header = '{"format":2,"model":"x","last":[0],"fixed":[]}'
    with pytest.raises(CheckpointError, match=r"expected format 1, received 2\. It was written by another release"):
        Stream.from_bytes(save({"0.h": np.zeros((1, 1, 3))}, metadata={"stream": header}), MODEL)


def test_wrong_symbols_and_rows_are_refused() -> None:
    model = draw_model()
    with pytest.raises(ShapeError, match="expected ids for 4 texts, received 1 rows"):
        begun(model).feed(model, Padded.of([[1]]))
    for wrong in (5, -1):
        with pytest.raises(ConfigError, match=f"expected ids from 0 to 4, received {wrong}"):
            begun(model).feed(model, Padded.of([[1], [wrong], [], []]))
    padding = Padded(np.array([[1, 99], [2, 3]]), np.array([1, 2]))  # what stands in the padding is not read
    begun(model).keep([0, 1]).feed(model, padding)
    with pytest.raises(ShapeError, match=r"expected the array 'h' of the state to begin with \(2, 1\) .* \(2, 3, 5\)"):
        Stream(State(moving={"h": np.zeros((2, 3, 5))}), np.zeros(2, np.int64))


@pytest.mark.parametrize("kind", KINDS)
def test_scoring_by_steps_reads_no_padding(kind: str) -> None:
    """Rows of length 0 and 1 leave the state as it was; what stands behind a row is not looked at."""
    model = draw_model(kind)
    ids = Padded(np.array([[0, 1, 2, 3], [99, 99, -7, 99], [0, 99, 99, -9], [0, 3, 2, 99]]), np.array([4, 0, 1, 3]))
    scores, state = score_by_steps(model, ids, model.start(rows=4))
    table = np.asarray(model.table)[0]
    expected = [[table[0, 0, 0, 1], table[1, 0, 1, 2], table[2, 1, 2, 3]], [0] * 3, [0] * 3]
    expected.append([table[0, 0, 0, 3], table[1, 0, 3, 2], 0])
    np.testing.assert_allclose(np.asarray(scores), expected, rtol=1e-12)
    assert np.asarray(state.moving["position"])[:, 0].tolist() == [3, 0, 0, 2]
    scores, state = score_by_steps(model, Padded(np.array([[0], [99]]), np.array([1, 0])), model.start(rows=2))
    assert (tuple(scores.shape), type(scores)) == ((2, 0), type(model.table))
    assert np.asarray(state.moving["position"])[:, 0].tolist() == [0, 0]
