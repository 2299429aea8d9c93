"""The session on tests/fixtures/tagger.onnx: its weights are a formula, its scores can be computed by numpy.

Nothing here needs torch or onnx. Where onnx is installed, the file is compared with the model that ``tagger`` makes;
to change the file, change ``tagger`` and write ``tagger().SerializeToString()`` to it.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.decode.scorer import Chain
from riverrun.errors import CheckpointError, ShapeError
from riverrun.runtime.info import FORMAT, GraphInfo
from riverrun.runtime.session import Session

FILE = Path(__file__).resolve().parents[2] / "fixtures" / "tagger.onnx"
WORDS, CHARS, SIZE, HIDDEN, TAGS = 7, 5, 3, 4, 3


def weights() -> dict[str, np.ndarray]:
    """Every array of the tagger; the LSTM's gates in ONNX's order i, o, f, g."""
    shapes = {
        "words.table": (WORDS, SIZE),
        "chars.table": (CHARS, SIZE),
        "W": (1, 4 * HIDDEN, 2 * SIZE),
        "R": (1, 4 * HIDDEN, HIDDEN),
        "b": (1, 8 * HIDDEN),
        "out": (HIDDEN, TAGS),
        "transitions": (TAGS, TAGS),
        "start": (TAGS,),
        "stop": (TAGS,),
    }
    return {
        name: np.sin(np.arange(np.prod(shape)) * (k + 1) + k).reshape(shape).astype(np.float32)
        for k, (name, shape) in enumerate(shapes.items())
    }


def tagger() -> Any:
    """The model of the file: words and characters -> LSTM -> scores."""
    from onnx import TensorProto, helper, numpy_helper

    lengths = {"words.lengths": ["B"], "chars.lengths": ["U"]}
    inputs = {"words": ["B", "T"], "chars": ["U", "L"], "chars.index": ["B", "T"], **lengths}
    constants = {"zero": [0], "one": [1], "two": [2], "zero.scalar": 0, "one.scalar": 1}
    node = helper.make_node
    nodes = [
        node("Gather", ["words.table", "words"], ["words.vectors"]),
        node("Gather", ["chars.table", "chars"], ["chars.vectors"]),
        node("Shape", ["chars"], ["L"], start=1),
        node("Squeeze", ["L", "zero"], ["L.scalar"]),
        node("Range", ["zero.scalar", "L.scalar", "one.scalar"], ["times"]),
        node("Unsqueeze", ["chars.lengths", "one"], ["chars.ends"]),
        node("Less", ["times", "chars.ends"], ["chars.mask"]),
        node("Unsqueeze", ["chars.mask", "two"], ["chars.there"]),
        node("Where", ["chars.there", "chars.vectors", "nothing"], ["chars.clean"]),
        node("ReduceSum", ["chars.clean", "one"], ["forms"], keepdims=0),
        node("Gather", ["forms", "chars.index"], ["forms.vectors"]),
        node("Concat", ["words.vectors", "forms.vectors"], ["x"], axis=-1),
        node("Transpose", ["x"], ["x.time"], perm=[1, 0, 2]),
        node("Cast", ["words.lengths"], ["lengths"], to=TensorProto.INT32),
        node("LSTM", ["x.time", "W", "R", "b", "lengths"], ["y.time"], hidden_size=HIDDEN),
        node("Squeeze", ["y.time", "one"], ["y.flat"]),
        node("Transpose", ["y.flat"], ["y"], perm=[1, 0, 2]),
        node("MatMul", ["y", "out"], ["emissions"]),
    ]
    outputs = {"emissions": ["B", "T", TAGS], "transitions": [TAGS, TAGS], "start": [TAGS], "stop": [TAGS]}
    graph = helper.make_graph(
        nodes,
        "tagger",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [
            *(numpy_helper.from_array(array, name) for name, array in weights().items()),
            *(numpy_helper.from_array(np.array(value, np.int64), name) for name, value in constants.items()),
            numpy_helper.from_array(np.array(0, np.float32), "nothing"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    helper.set_model_props(model, {"riverrun": GraphInfo(rows="words").write()})
    return model


def emissions(batch: Batch) -> list[np.ndarray]:
    """The same by numpy, word by word: one (length, C) for each sentence."""
    w = weights()
    forms = [w["chars.table"][ids].sum(0) for ids in batch["chars"].rows()]
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    found = []
    for words, index in zip(batch["words"].rows(), batch["chars.index"].rows(), strict=True):
        h = c = np.zeros(HIDDEN)
        out = np.zeros((len(words), TAGS))
        for t, (word, form) in enumerate(zip(words, index, strict=True)):
            x = np.concatenate([w["words.table"][word], forms[form]])
            bias = w["b"][0, : 4 * HIDDEN] + w["b"][0, 4 * HIDDEN :]
            i, o, f, g = np.split(w["W"][0] @ x + w["R"][0] @ h + bias, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            out[t] = h @ w["out"]
        found.append(out)
    return found


def sentences(*lengths: int, T: int | None = None, U: int = 4, L: int = 5) -> Batch:
    """Random ids, in the padding too."""
    rng = np.random.default_rng(sum(lengths))
    shape = len(lengths), max(lengths, default=0) if T is None else T
    ends = np.array(lengths, np.int64)
    return Batch(
        {
            "words": Padded(rng.integers(0, WORDS, shape), ends),
            "chars": Padded(rng.integers(0, CHARS, (U, L)), rng.integers(0, L + 1, U)),
            "chars.index": Padded(rng.integers(0, max(1, U), shape), ends),
        }
    )


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(FILE, threads=1)


@pytest.fixture
def altered(tmp_path: Path) -> Any:
    """The file with some of its bytes exchanged for others."""

    def write(before: bytes, after: bytes, *, count: int = -1, length: int | None = None) -> Path:
        content = FILE.read_bytes()
        assert before in content
        (tmp_path / "model.onnx").write_bytes(content.replace(before, after, count)[:length])
        return tmp_path / "model.onnx"

    return write


def test_the_file_is_what_the_formula_makes():
    onnx = pytest.importorskip("onnx")
    made = tagger()
    made.producer_name = ""
    assert onnx.load(FILE) == made
    assert FILE.stat().st_size < 20_000


@pytest.mark.parametrize("lengths", [(5, 2, 1), (1,), (3, 0, 4), (0, 0), (9, 9, 9, 9)])
def test_scores_are_those_of_numpy(session, lengths):
    batch = sentences(*lengths)
    chain = session.scores(batch)
    assert chain.emissions.shape == (len(lengths), max(lengths), TAGS)
    for row, expected in zip(Padded(chain.emissions, chain.lengths).rows(), emissions(batch), strict=True):
        np.testing.assert_allclose(row, expected, atol=1e-5)
    for name in ("transitions", "start", "stop"):
        np.testing.assert_array_equal(getattr(chain, name), weights()[name])


def test_nothing_to_score_gives_nothing(session):
    for batch, shape in (
        (sentences(), (0, 0, TAGS)),
        (sentences(T=4), (0, 4, TAGS)),
        (sentences(0, 0, 0), (3, 0, TAGS)),
        (sentences(0, 0, U=0), (2, 0, TAGS)),
        (sentences(U=0, L=0), (0, 0, TAGS)),
        (sentences(2, 1, L=0), (2, 2, TAGS)),  # words without characters
        (sentences(0, 0, T=3, U=0, L=0), (2, 3, TAGS)),
    ):
        chain = session.scores(batch)
        assert isinstance(chain, Chain)
        assert chain.emissions.shape == shape
        assert chain.lengths is batch["words"].lengths


def test_padding_and_neighbours_do_not_count(session):
    batch = sentences(5, 2, 1)
    alone = Batch({name: value if name == "chars" else value.select([1]) for name, value in batch.items()})
    alone = Batch({**alone, **{n: Padded(alone[n].data[:, :2], alone[n].lengths) for n in ("words", "chars.index")}})
    np.testing.assert_allclose(
        session.scores(batch).emissions[1, :2], session.scores(alone).emissions[0], rtol=1e-6, atol=1e-6
    )


def test_arrays_are_taken_in_other_types_and_layouts(session):
    batch = sentences(5, 2, 1)
    same = batch.map(lambda array: np.asfortranarray(array.astype(np.int32)))
    np.testing.assert_array_equal(session.scores(batch).emissions, session.scores(same).emissions)


def test_arrays_that_the_graph_does_not_read_are_not_looked_at(session):
    batch = sentences(5, 2)
    more = Batch({**batch, "tags": Padded(np.full((2, 5), 1.5), batch["words"].lengths)})
    np.testing.assert_array_equal(session.scores(batch).emissions, session.scores(more).emissions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"words": None}, r"the graph reads words, words\.lengths, which the batch does not have; it has chars, "),
        ({"words": Padded(np.ones((2, 5)), np.array([5, 2]))}, r"words must be int64, received float64 \(2, 5\)"),
        ({"words": Padded(np.ones((3, 5), int), np.array([5, 2, 1]))}, r"cannot run on .*words \(3, 5\)"),
        ({"words": Padded(np.ones((2, 5, 2), int), np.array([5, 2]))}, r"cannot run on .*words \(2, 5, 2\)"),
        ({"words": Padded(np.full((2, 5), WORDS), np.array([5, 2]))}, r"cannot run on .*out of data bounds"),
        ({"chars.index": Padded(np.full((2, 5), 4), np.array([5, 2]))}, r"cannot run on .*out of data bounds"),
    ],
)
def test_wrong_arrays_are_shape_errors(session, change, message):
    values = {**sentences(5, 2), **change}
    with pytest.raises(ShapeError, match=message):
        session.scores(Batch({name: value for name, value in values.items() if value is not None}))
    session.scores(sentences(5, 2))  # and the next batch is scored


def test_a_folder_stands_for_its_graph(tmp_path, session):
    (tmp_path / "model.onnx").write_bytes(FILE.read_bytes())
    batch = sentences(3, 2)
    np.testing.assert_array_equal(Session(tmp_path).scores(batch).emissions, session.scores(batch).emissions)


def test_a_missing_file_says_what_makes_one(tmp_path):
    with pytest.raises(CheckpointError, match=r"model\.onnx: no such file; .*riverrun export"):
        Session(tmp_path)


@pytest.mark.parametrize("length", [0, 10, 700, -1])
def test_a_truncated_file_is_a_checkpoint_error(altered, length):
    with pytest.raises(CheckpointError, match=r"does not accept.*truncated or altered|not written by riverrun"):
        Session(altered(b"", b"", length=length))


def test_a_text_file_is_a_checkpoint_error(tmp_path):
    (tmp_path / "model.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(CheckpointError, match="expected an ONNX graph, received 43 bytes"):
        Session(tmp_path)


@pytest.mark.parametrize("before", [b"Transpose", b"x.time", b"chars.table", b"hidden_size"])
def test_an_altered_graph_is_a_checkpoint_error(altered, before, capfd):
    path = altered(before, b"\xff" + before[1:], count=1)
    with pytest.raises(CheckpointError, match=r"does not accept: .*\. The file may be truncated or altered") as caught:
        Session(path)
    assert str(path) in str(caught.value)
    assert capfd.readouterr() == ("", "")  # stdout is for results


def test_a_newer_format_says_to_upgrade(altered):
    with pytest.raises(CheckpointError, match=f"has format 9, this riverrun reads up to {FORMAT}; upgrade riverrun"):
        Session(altered(b'"format":1', b'"format":9'))


def test_metadata_that_cannot_be_read_are_a_checkpoint_error(altered):
    with pytest.raises(CheckpointError, match="the 'riverrun' metadata of the graph cannot be read: "):
        Session(altered(b'"format":1', b'"format":x'))


def test_metadata_that_are_no_text_are_a_checkpoint_error(altered):
    with pytest.raises(CheckpointError, match=r"the metadata of the graph cannot be read: .*utf-8.*; export it again"):
        Session(altered(b'"format"', b'"\xfformat"'))


def test_a_graph_of_somebody_else_is_a_checkpoint_error(altered):
    with pytest.raises(CheckpointError, match="without the 'riverrun' metadata: it was not written by riverrun export"):
        Session(altered(b"riverrun", b"sombebdy"))


def test_a_graph_that_does_not_score_is_a_checkpoint_error(altered):
    with pytest.raises(CheckpointError, match=r"expected the outputs emissions, .* or logits, received emotional,"):
        Session(altered(b"emissions", b"emotional"))


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
                Session(tmp_path, threads=1).scores(sentences(2, 1))
            except (CheckpointError, ShapeError) as error:
                assert str(tmp_path) in str(error)
