"""The step model on tests/fixtures/language-model.onnx: its weights are a formula, its scores can be computed by numpy.

Nothing here needs torch or onnx. Where onnx is installed, the file is compared with the model that ``made`` makes; to
change the file, change ``made`` and write ``made().SerializeToString()`` to it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.decode.generate import generate
from riverrun.decode.state import State
from riverrun.decode.stepwise import score_by_steps
from riverrun.decode.stream import Stream
from riverrun.errors import CheckpointError, ShapeError, StateError
from riverrun.runtime import stepper
from riverrun.runtime.info import GraphInfo
from riverrun.runtime.stepper import GraphStepper

FILE = Path(__file__).resolve().parents[2] / "fixtures" / "language-model.onnx"
TAGGER = FILE.with_name("tagger.onnx")
SIZE, WIDTH, FIRST = 7, 3, 0.25
BOS, EOS = 1, 2


def weights() -> dict[str, np.ndarray]:
    """Every array of the model."""
    shapes = {
        "table": (SIZE, WIDTH),
        "W": (1, WIDTH, WIDTH),
        "R": (1, WIDTH, WIDTH),
        "b": (1, 2 * WIDTH),
        "out": (WIDTH, SIZE),
    }
    return {
        name: np.sin(np.arange(np.prod(shape)) * (k + 1) + k).reshape(shape).astype(np.float32)
        for k, (name, shape) in enumerate(shapes.items())
    }


def made() -> Any:
    """The model of the file: symbols -> RNN -> the next one; the state has the symbol that was read last too."""
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node
    constants = {"zero": [0], "one": [1], "nothing": 0}
    nodes = [
        node("Unsqueeze", ["lengths", "one"], ["ends"]),
        node("Greater", ["ends", "nothing"], ["some"]),
        node("Shape", ["ids"], ["T"], start=1),
        node("Squeeze", ["T", "zero"], ["T.scalar"]),
        node("Squeeze", ["one", "zero"], ["one.scalar"]),
        node("Range", ["nothing", "T.scalar", "one.scalar"], ["times"]),
        node("Less", ["times", "ends"], ["there"]),
        node("Where", ["there", "ids", "nothing"], ["clean"]),
        node("Gather", ["table", "clean"], ["x"]),
        node("Transpose", ["x"], ["x.time"], perm=[1, 0, 2]),
        node("Cast", ["lengths"], ["short"], to=TensorProto.INT32),
        node("Transpose", ["0.h"], ["h.before"], perm=[1, 0, 2]),
        node("RNN", ["x.time", "W", "R", "b", "short", "h.before"], ["y.time", "h.last"], hidden_size=WIDTH),
        node("Squeeze", ["y.time", "one"], ["y"]),
        node("MatMul", ["y", "out"], ["scores.time"]),
        node("Transpose", ["scores.time"], ["scores"], perm=[1, 0, 2]),
        node("LogSoftmax", ["scores"], ["log_probs"], axis=-1),
        node("Transpose", ["h.last"], ["h.row"], perm=[1, 0, 2]),
        node("Unsqueeze", ["some", "one"], ["some.row"]),
        node("Where", ["some.row", "h.row", "0.h"], ["0.h.after"]),
        node("Squeeze", ["last", "one"], ["last.row"]),
        node("Concat", ["last.row", "clean"], ["known"], axis=1),
        node("GatherElements", ["known", "ends"], ["symbol"], axis=1),
        node("Unsqueeze", ["symbol", "one"], ["last.after"]),
    ]
    inputs = {"ids": ["B", "T"], "lengths": ["B"], "0.h": ["B", 1, WIDTH], "last": ["B", 1, 1]}
    outputs = {"log_probs": ["B", "T", SIZE], "0.h.after": ["B", 1, WIDTH], "last.after": ["B", 1, 1]}

    def declared(shapes: dict[str, list[Any]]) -> list[Any]:
        kinds = {name: TensorProto.FLOAT if name[:3] in ("0.h", "log") else TensorProto.INT64 for name in shapes}
        return [helper.make_tensor_value_info(name, kinds[name], shape) for name, shape in shapes.items()]

    graph = helper.make_graph(
        nodes,
        "language model",
        declared(inputs),
        declared(outputs),
        [
            *(numpy_helper.from_array(array, name) for name, array in weights().items()),
            *(numpy_helper.from_array(np.array(value, np.int64), name) for name, value in constants.items()),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    info = GraphInfo(rows="ids", model="abc", start={"0.h": str(FIRST), "last": "-1.0"})
    helper.set_model_props(model, {"riverrun": info.write()})
    return model


def log_probs(ids: list[int], h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same by numpy, symbol by symbol: (T, V) and h behind."""
    w, found = weights(), np.zeros((len(ids), SIZE))
    for t, id in enumerate(ids):
        h = np.tanh(w["W"][0] @ w["table"][id] + w["R"][0] @ h + w["b"][0, :WIDTH] + w["b"][0, WIDTH:])
        scores = h @ w["out"]
        found[t] = scores - np.log(np.exp(scores).sum())
    return found, h


def texts(*lengths: int, width: int | None = None) -> Padded:
    """Random symbols; those in the padding are none."""
    shape = len(lengths), max(lengths, default=0) if width is None else width
    rows = Padded(np.random.default_rng(sum(lengths)).integers(0, SIZE, shape), np.array(lengths, np.int64))
    return rows.with_data(np.where(rows.mask(), rows.data, -5))


def read_before(rows: int, hypotheses: int = 1) -> State:
    """A state that is not the first one, other in each row."""
    rng = np.random.default_rng(rows)
    h = np.tanh(rng.normal(size=(rows, hypotheses, WIDTH))).astype(np.float32)
    return State(moving={"0.h": h, "last": rng.integers(0, SIZE, (rows, hypotheses, 1))})


@pytest.fixture(scope="module")
def model() -> GraphStepper:
    return GraphStepper(FILE, bos=BOS, eos=EOS, threads=1)


@pytest.fixture
def altered(tmp_path: Path) -> Callable[..., Path]:
    """The file with some of its bytes exchanged for others."""

    def write(before: bytes, after: bytes) -> Path:
        content = FILE.read_bytes()
        assert before in content and len(before) == len(after)
        (tmp_path / "model.onnx").write_bytes(content.replace(before, after))
        return tmp_path / "model.onnx"

    return write


def test_the_file_is_what_the_formula_makes():
    onnx = pytest.importorskip("onnx")
    made_now = made()
    made_now.producer_name = ""
    assert onnx.load(FILE) == made_now
    assert FILE.stat().st_size < 5000


def test_what_is_known_of_it(model):
    assert (model.size, model.bos, model.eos, model.info.model) == (SIZE, BOS, EOS, "abc")
    for rows in (0, 1, 3):
        state = model.start(rows=rows)
        assert list(state.moving) == ["0.h", "last"] and not state.fixed
        np.testing.assert_array_equal(state.moving["0.h"], np.full((rows, 1, WIDTH), FIRST, np.float32))
        np.testing.assert_array_equal(state.moving["last"], np.full((rows, 1, 1), -1))
        assert [value.dtype for value in state.moving.values()] == [np.float32, np.int64]
    with pytest.raises(ShapeError, match=r"a language model has no source, received one; give rows instead"):
        model.start(Batch())


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (2, 4), (0, 1), (3, 0)])
def test_a_step_is_that_of_numpy(model, shape, rng):
    ids, state = rng.integers(0, SIZE, shape), read_before(*shape)
    step = model.step(ids, state)
    assert step.log_probs.shape == (*shape, SIZE) and step.log_probs.dtype == np.float32
    assert step.state.moving["0.h"].shape == (*shape, WIDTH) and not step.extras
    for place in np.ndindex(shape):
        expected, h = log_probs([ids[place]], state.moving["0.h"][place])
        np.testing.assert_allclose(step.log_probs[place], expected[0], atol=1e-6)
        np.testing.assert_allclose(step.state.moving["0.h"][place], h, atol=1e-6)
    np.testing.assert_array_equal(step.state.moving["last"][..., 0], ids)


@pytest.mark.parametrize("held", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize("lengths", [(5, 2, 1), (1,), (6, 0, 4, 0), (0, 0), (), (9, 9, 9, 9), (2, 8, 1, 3, 4)], ids=str)
def test_scores_are_those_of_numpy(model, lengths, held, monkeypatch):
    monkeypatch.setattr(stepper, "HELD", held * SIZE)
    for width in (max(lengths, default=0), 11):
        ids, state = texts(*lengths, width=width), read_before(len(lengths))
        kept = {name: value.copy() for name, value in state.moving.items()}
        scores, after = model.score(ids, state)
        assert scores.shape == (len(lengths), max(0, width - 1)) and scores.dtype == np.float32
        for row, symbols in enumerate(ids.rows()):
            expected, h = log_probs(symbols[:-1].tolist(), state.moving["0.h"][row, 0])
            expected = expected[np.arange(len(expected)), symbols[1:]]
            np.testing.assert_allclose(scores[row, : len(expected)], expected, atol=1e-6)
            assert not scores[row, len(expected) :].any()
            np.testing.assert_allclose(after.moving["0.h"][row, 0], h, atol=1e-6)
            if len(symbols) > 1:
                assert after.moving["last"][row, 0, 0] == symbols[-2]
        for name, value in kept.items():
            np.testing.assert_array_equal(state.moving[name], value)
            few = ids.lengths < 2
            np.testing.assert_array_equal(after.moving[name][few], value[few])  # they read nothing


@pytest.mark.parametrize("lengths", [(5, 2, 1), (0,), (6, 0, 4, 0), ()], ids=str)
def test_whole_rows_are_read_at_once(model, lengths):
    ids, state = texts(*lengths, width=7), read_before(len(lengths))
    found, after = model.read(ids, state)
    assert found.shape == (len(lengths), 7, SIZE)
    for row, symbols in enumerate(ids.rows()):
        expected, h = log_probs(symbols.tolist(), state.moving["0.h"][row, 0])
        np.testing.assert_allclose(found[row, : len(symbols)], expected, atol=1e-6)
        np.testing.assert_allclose(after.moving["0.h"][row, 0], h, atol=1e-6)


def test_by_steps_is_at_once(model):
    ids, state = texts(5, 2, 1, 0), read_before(4)
    one, other = model.score(ids, state), score_by_steps(model, ids, state)
    np.testing.assert_allclose(other[0], one[0], atol=1e-6)
    for name, value in one[1].moving.items():
        np.testing.assert_allclose(other[1].moving[name], value, atol=1e-6)


def test_it_writes_texts_and_goes_on_with_a_saved_stream(model):
    writing = generate(model, Stream.begin(model), limit=20, seed=3, past_eos=True)
    first = writing.finish()[0].ids
    saved = Stream.from_bytes(writing.stream.to_bytes("abc"), "abc", example=model.start())
    whole = generate(model, Stream.begin(model), limit=30, prompt=Padded.of([first]), past_eos=True).finish()[0]
    assert generate(model, saved, limit=30, past_eos=True).finish()[0].ids == whole.ids


def test_a_folder_stands_for_its_graph(tmp_path, model):
    (tmp_path / "model.onnx").write_bytes(FILE.read_bytes())
    ids = texts(3, 2)
    found = GraphStepper(tmp_path, bos=BOS).score(ids, model.start(rows=2))
    np.testing.assert_array_equal(found[0], model.score(ids, model.start(rows=2))[0])


# -- what is refused


def moving(**changes: Any) -> State:
    """A state of two rows, otherwise than it should be."""
    values = {**read_before(2).moving, **changes}
    return State(moving={name: value for name, value in values.items() if value is not None})


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (State(), r"expected a state of 0\.h, last, received nothing; a state belongs to one model"),
        (moving(last=None), r"expected a state of 0\.h, last, received 0\.h; "),
        (moving(more=np.zeros((2, 1))), r"expected a state of 0\.h, last, received 0\.h, last, more; "),
        (
            State({"memory": np.zeros((2, 3))}, read_before(2).moving),
            r"of 0\.h, last, received memory, 0\.h, last; ",
        ),
        (read_before(3), r"expected 0\.h of the state as float32 \(2, 1, 3\), received float32 \(3, 1, 3\); "),
        (read_before(2, 2), r"expected 0\.h of the state as float32 \(2, 1, 3\), received float32 \(2, 2, 3\); "),
        (moving(**{"0.h": np.zeros((2, 1, 4), np.float32)}), r"float32 \(2, 1, 3\), received float32 \(2, 1, 4\)"),
        (moving(last=np.zeros((2, 1), np.int64)), r"last of the state as int64 \(2, 1, 1\), received int64 \(2, 1\)"),
        (moving(last=np.zeros((2, 1, 1))), r"last of the state as int64 \(2, 1, 1\), received float64 \(2, 1, 1\)"),
    ],
)
def test_another_models_state_is_a_state_error(model, state, message):
    for name, call in (
        ("step", lambda: model.step(np.ones((2, 1), int), state)),
        ("score", lambda: model.score(texts(3, 2), state)),
        ("read", lambda: model.read(texts(3, 2), state)),
    ):
        with pytest.raises(StateError, match=rf"^GraphStepper\.{name}: .*{message}"):
            call()


def test_a_state_of_more_digits_is_taken(model):
    state = read_before(2)
    wide = State(moving={**state.moving, "0.h": state.moving["0.h"].astype(np.float64)})
    np.testing.assert_array_equal(model.score(texts(3, 2), wide)[0], model.score(texts(3, 2), state)[0])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.array([[0], [SIZE]]), rf"expected ids from 0 to {SIZE - 1}, received {SIZE}"),
        (np.array([[0], [-1]]), rf"expected ids from 0 to {SIZE - 1}, received -1"),
        (np.array([[0], [-1]], np.int8), rf"expected ids from 0 to {SIZE - 1}, received -1"),
        (np.array([[0.0], [1.0]]), r"expected ids \(B, [KT]\) of whole numbers, received float64 \(2, [12]\)"),
    ],
)
def test_what_is_no_symbol_is_a_shape_error(model, ids, message):
    with pytest.raises(ShapeError, match=f"GraphStepper.step: {message}"):
        model.step(ids, read_before(2))
    with pytest.raises(ShapeError, match=f"GraphStepper.score: {message}"):
        model.score(Padded(np.concatenate([ids, ids], 1), np.array([2, 2])), read_before(2))
    model.step(np.array([[0], [SIZE - 1]], np.uint8), read_before(2))  # and what is one is read, in any type


def test_ids_of_one_dimension_are_a_shape_error(model):
    with pytest.raises(ShapeError, match=r"step: expected ids \(B, K\) of whole numbers, received int64 \(2,\)"):
        model.step(np.array([1, 2]), read_before(2))


def test_a_missing_file_says_what_makes_one(tmp_path):
    with pytest.raises(CheckpointError, match=r"model\.onnx: no such file; .*riverrun export"):
        GraphStepper(tmp_path / "model.onnx", bos=BOS)


def test_the_graph_of_a_tagger_is_none_of_a_language_model():
    with pytest.raises(
        CheckpointError, match=r"expected a language model, which reads ids, .* received a graph that reads words, .* "
    ):
        GraphStepper(TAGGER, bos=BOS)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (b"0.h.after", b"0.g.after", r"expected a language model, .* gives log_probs, 0\.g\.after, last\.after"),
        (b"log_probs", b"log_prefs", r"expected a language model"),
        (b'"0.h":', b'"0.g":', r"expected the sizes and the first values of 0\.h in the file, received none"),
        (b'"0.25"', b'"zero"', r"expected numbers as the first values of the state: could not convert .*'zero'"),
        (b'"start"', b'"stare"', r"expected the sizes and the first values of 0\.h, last in the file, received none"),
        (b'"-1.0"', b" -1.0 ", r"the 'riverrun' metadata of the graph cannot be read"),
    ],
)
def test_an_altered_graph_is_a_checkpoint_error(altered, before, after, message):
    path = altered(before, after)
    with pytest.raises(CheckpointError, match=message) as caught:
        GraphStepper(path, bos=BOS)
    assert str(path) in str(caught.value)


def test_a_damaged_file_is_refused_or_runs(tmp_path):
    """Any byte may be wrong: what comes out is a CheckpointError, a ShapeError or scores; nothing else, no warning."""
    content, rng = FILE.read_bytes(), np.random.default_rng(0)
    for place in rng.integers(0, len(content), 150):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "model.onnx").write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                model = GraphStepper(tmp_path, bos=BOS, threads=1)
                model.score(texts(3, 2), model.start(rows=2))
                model.step(np.array([[1], [2]]), model.start(rows=2))
            except (CheckpointError, ShapeError) as error:
                assert str(tmp_path) in str(error)
