"""Law: what is exported is the original; for every cell, both directions, ragged batches, float and int8, any size."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ir = pytest.importorskip("onnx_ir")

from torch import nn  # noqa: E402

from riverrun.data.batch import Batch  # noqa: E402
from riverrun.data.padded import Padded  # noqa: E402
from riverrun.decode.scorer import Chain, Labels  # noqa: E402
from riverrun.errors import RiverrunError  # noqa: E402
from riverrun.export import graph as export  # noqa: E402
from riverrun.export.graph import export_graph  # noqa: E402
from riverrun.export.parity import default_axes, random_batch  # noqa: E402
from riverrun.nn.cells import CELLS, Cell  # noqa: E402
from riverrun.nn.cells.math import norm, sigmoid, tanh  # noqa: E402
from riverrun.nn.layers.affixes import Affixes  # noqa: E402
from riverrun.nn.layers.chars import CharCNN, CharRNN  # noqa: E402
from riverrun.nn.layers.crf import CRF  # noqa: E402
from riverrun.nn.layers.dropout import Dropout  # noqa: E402
from riverrun.nn.layers.embed import Embedding  # noqa: E402
from riverrun.nn.layers.recurrent import Recurrent  # noqa: E402
from riverrun.nn.layers.softmax import Softmax  # noqa: E402
from riverrun.nn.layers.stack import Stack  # noqa: E402
from riverrun.nn.models.tagger import Tagger  # noqa: E402
from riverrun.runtime.session import Session  # noqa: E402

pytestmark = pytest.mark.train


class Unmoved(Cell):
    """What reads neither input nor state is the same at every time: in the loop, and before it."""

    gates = ("v", "k")
    states = ("h", "c")
    params = ("a", "b")

    def step(self, x, s, R, p):
        a = sigmoid(p.a)
        b = norm(p.a * p.b) - a
        c = a * s.c + R.k(p.b) * tanh(x.k * b)
        return s.next(h=tanh(x.v + R.v(s.h)) * b + (1 - a) * c + p.b, c=c)


class Shared(Cell):
    """States that get one value, an input as it is, another state, and themselves."""

    gates = ("v",)
    states = ("h", "a", "b", "c", "d", "e")

    def step(self, x, s, R, p):
        v = tanh(x.v + R.v(s.d) + s.c * s.e)
        return s.next(h=s.a, a=v, b=v, c=x.raw, d=s.b, e=s.e)


SPECS: dict[str, Any] = {
    **{name: name for name in CELLS},
    "elman-relu": {"kind": "elman", "nonlinearity": "relu"},
    "elman-sigmoid": {"kind": "elman", "nonlinearity": "sigmoid"},
    "elman-identity": {"kind": "elman", "nonlinearity": "identity"},
    "mogrifier-2": {"kind": "mogrifier", "rounds": 2},
    "lstm-zoneout": {"kind": "lstm", "zoneout": 0.25},
    "lstm-projected-unclipped": {"kind": "lstm-projected", "limit": float("inf")},
    "unmoved": Unmoved(),
    "shared": Shared(),
}
OPERATORS = {
    "elman": "RNN",
    "elman-relu": "RNN",
    "elman-sigmoid": "RNN",
    "elman-identity": "RNN",
    "lstm": "LSTM",
    "lstm-peephole": "LSTM",
    "lstm-coupled": "LSTM",
    "gru": "GRU",
    "gru-reset-after": "GRU",
}
SIZE, OUTPUT, TAGS = 6, 4, 5  # input = hidden, because some cells add their input to their state


def both(*specs: Any) -> list[tuple[Any, bool]]:
    """Each cell forwards and in reverse."""
    return [(spec, reverse) for spec in specs for reverse in (False, True)]


class Recurrences(nn.Module):
    """Recurrences side by side, each with a first state of its own; their outputs are the emissions."""

    def __init__(self, layers: Iterable[tuple[Any, bool]]) -> None:
        super().__init__()
        self.layers, self.first = nn.ModuleList(), nn.ParameterList()
        for spec, reverse in layers:
            projected = "lstm-projected" in str(spec)
            layer = Recurrent(spec, SIZE, SIZE, reverse=reverse, output_size=OUTPUT if projected else None)
            for name, value in layer.named_parameters():
                if name.startswith("p_"):
                    nn.init.normal_(value)  # their start value 0 would hide a wrong order
            self.layers.append(layer)
            self.first.append(nn.ParameterList([torch.randn_like(v) * 0.5 for v in layer.initial_state(1)]))

    def run(self, batch: Batch) -> list[tuple[Padded, Any]]:
        x = batch["x"]
        rows = x.data.shape[0]
        return [
            layer(x, tuple(value.expand(rows, -1) for value in first))
            for layer, first in zip(self.layers, self.first, strict=True)
        ]

    def scores(self, batch: Batch) -> Chain | Labels:
        y = torch.cat([y.data for y, _ in self.run(batch)], -1)
        C = y.shape[-1]
        return Chain(y, torch.zeros(C, C), torch.zeros(C), torch.zeros(C), batch["x"].lengths)


class Sums(Recurrences):
    """The same; what counts are the outputs, each with the weight of its position, and the states at the end."""

    def scores(self, batch: Batch) -> Labels:
        outputs, states = zip(*self.run(batch), strict=True)
        weights = torch.cos(torch.arange(batch["x"].data.shape[1]))[None, :, None]
        sums = [(y.data * weights).sum(1) for y in outputs]
        return Labels(torch.cat([*sums, *(value for state in states for value in state)], -1))


def vectors(rng: np.random.Generator) -> Batch:
    return Batch(x=Padded(rng.normal(size=(2, 3, SIZE)).astype(np.float32), np.array([3, 2])))


def test_every_cell_is_the_original(rng, tmp_path):
    # A Scan runs any cell in the same way, so that one direction of each is enough; the product is marked slow.
    layers = [
        (SPECS[name], reverse)
        for number, name in enumerate(SPECS)
        for reverse in ((False, True) if name in OPERATORS else (number % 2 == 1,))
    ]
    # The random batches have rows of length 0, whose final state is the first one.
    report = export_graph(Sums(layers), vectors(rng), tmp_path / "model.onnx")
    assert report.max_error < 5e-6
    became = [line.rpartition(" -> ")[2] for line in report.operators]
    names = {repr(spec): name for name, spec in SPECS.items()}
    assert became == [OPERATORS.get(names[repr(spec)], "Scan") for spec, _ in layers]


class Twice(Cell):
    """One matrix that multiplies several values, of which two are known before the loop."""

    gates = ("v",)
    params = ("a",)

    def step(self, x, s, R, p):
        return s.next(h=tanh(R.v(x.v) + R.v(s.h) * R.v(p.a)))


def test_a_matrix_that_multiplies_two_values_before_the_loop(rng, tmp_path):
    assert export_graph(Sums(both(Twice())), vectors(rng), tmp_path / "model.onnx").max_error < 5e-6


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Recurrences, Sums])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("name", SPECS)
def test_each_cell_is_the_original(name, reverse, kind, rng, tmp_path):
    net = kind([(SPECS[name], reverse)])
    assert export_graph(net, vectors(rng), tmp_path / "model.onnx").max_error < 5e-6


@pytest.fixture(scope="module")
def recurrences(tmp_path_factory) -> tuple[Recurrences, Session]:
    """An operator and a Scan in both directions."""
    torch.manual_seed(0)
    net, path = Recurrences(both("lstm", "gru", "mingru")), tmp_path_factory.mktemp("recurrences") / "model.onnx"
    export_graph(net, vectors(np.random.default_rng(0)), path)
    return net, Session(path)


def test_padding_is_not_read(recurrences, rng):
    _, session = recurrences
    x = Padded(rng.normal(size=(4, 5, SIZE)).astype(np.float32), np.array([5, 0, 3, 1]))
    poisoned = Padded(np.where(x.mask()[..., None], x.data, np.nan), x.lengths)
    expected, received = (session.scores(Batch(x=value)).emissions for value in (x, poisoned))
    np.testing.assert_array_equal(received, expected)
    assert not received[~x.mask()].any()  # outputs at padding are 0


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 1), (2, 4)])
@pytest.mark.parametrize("longest", [0, 4])
def test_batches_of_any_size(shape, longest, recurrences, rng):
    net, session = recurrences
    lengths = rng.integers(0, min(longest, shape[1]) + 1, shape[0])
    batch = Batch(x=Padded(rng.normal(size=(*shape, SIZE)).astype(np.float32), lengths))
    with torch.no_grad():
        expected = net.scores(batch.map(torch.from_numpy))
    received = session.scores(batch)
    assert received.emissions.shape == tuple(expected.emissions.shape)
    np.testing.assert_allclose(received.emissions, expected.emissions.numpy(), atol=1e-5)


def test_int8_of_every_operator(rng, tmp_path):
    """Every recurrence becomes int8, those in a Scan too; the graph needs no operators but ONNX's own."""
    torch.manual_seed(1)
    cells = ["lstm", "lstm-peephole", "lstm-coupled", "gru", "elman", "lstm-1997", "mingru"]
    net = Summed(Recurrent(cell, 48, 48, reverse=k % 2 == 1) for k, cell in enumerate(cells))
    example = Batch(x=Padded(rng.normal(size=(2, 3, 48)).astype(np.float32), np.array([3, 2])))
    report = export_graph(net, example, tmp_path / "model.onnx", int8=True)
    assert report.stayed_float == ()
    # Elman's two matrices are below the size that is worth it.
    assert report.bytes < 0.4 * sum(4 * parameter.numel() for parameter in net.parameters())
    assert 1e-6 < report.max_error < 0.01
    model = ir.load(tmp_path / "model.onnx")
    assert model.opset_imports == {"": 18}
    assert model.graph.initializers["int8.0:layers.0.R.scales"].shape == (1, 4 * 48, 1)  # one for each row of each gate
    session = Session(tmp_path)
    assert session.info.int8
    batch = random_batch(example, {"x": "BT"}, sizes={"B": 6, "T": 9}, rng=rng)
    together = session.scores(batch).logits
    np.testing.assert_array_equal(session.scores(batch).logits, together)
    for row in range(6):  # no sentence depends on its neighbours
        alone = session.scores(Batch(x=batch["x"].select([row]))).logits[0]
        np.testing.assert_allclose(alone, together[row], atol=1e-5)


class Summed(nn.Module):
    """The sum of the outputs of each layer."""

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def scores(self, batch: Batch) -> Labels:
        return Labels(torch.cat([layer(batch["x"])[0].data.sum(1) for layer in self.layers], -1))


WORDS, CHARS, WIDTH = 50, 20, 12


def tagger(
    chars: str, head: str, *, size: int = 8, words: int = WORDS, affixes: bool = False, **encoder: Any
) -> Tagger:
    torch.manual_seed(2)
    encode = CharCNN(CHARS, 6, 7, 3) if chars == "cnn" else CharRNN(CHARS, 6, 5)
    endings = Affixes(3, prefixes=1, suffixes=3, buckets=40) if affixes else None
    features = size + encode.output_size + (endings.output_size if endings else 0)
    stack = Stack(encoder.pop("cell", "lstm"), features, WIDTH, bidirectional=True, **encoder)
    ends = {
        "crf": lambda: CRF(stack.output_size, TAGS),
        "pairwise": lambda: CRF(stack.output_size, TAGS, potentials="pairwise"),
        "softmax": lambda: Softmax(stack.output_size, TAGS),
    }
    net = Tagger(
        Embedding(words, size),
        encode,
        endings,
        stack,
        ends[head](),
        input_dropout=Dropout(0.5),
        output_dropout=Dropout(0.5, variational=True),
    )
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.4)
    return net


def sentences(rng: np.random.Generator, words: int = WORDS, **sizes: int) -> Batch:
    """A ragged batch of a tagger, with the tags of a training batch."""
    ends = np.array([2, 1])
    template = Batch(
        {
            "words": Padded(rng.integers(0, words, (2, 60)), np.array([60, 60])),
            "chars": Padded(rng.integers(0, CHARS, (2, 60)), np.array([60, 60])),
            "chars.index": Padded(np.array([[0, 1], [1, 0]]), ends),
            "tags": Padded(np.array([[0, 1], [2, 0]]), ends),
        }
    )
    return random_batch(template, default_axes(template), sizes={"B": 5, "T": 7, "U": 9, "L": 6} | sizes, rng=rng)


MODELS: dict[str, dict[str, Any]] = {
    "cnn-affixes-crf": {"chars": "cnn", "affixes": True, "head": "crf"},
    "rnn-pairwise": {
        "chars": "rnn",
        "head": "pairwise",
        "cell": "gru",
        "layers": 2,
        "dropout": 0.3,
        "wiring": "residual",
    },
    "cnn-softmax": {
        "chars": "cnn",
        "head": "softmax",
        "cell": {"kind": "lstm", "zoneout": 0.1},
        "recurrent_dropout": 0.2,
        "weight_drop": 0.2,
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_taggers_are_the_original(name, rng, tmp_path):
    net = tagger(**MODELS[name]).train()
    report = export_graph(net, sentences(rng), tmp_path / "model.onnx")
    assert report.max_error < 5e-6 and report.agreement == 1.0
    assert net.training  # the net is left as it was
    session = Session(tmp_path)
    assert not any(array.startswith("tags") for array in session.inputs)
    net.eval()
    for sizes in ({"B": 0}, {"T": 0}, {"T": 0, "U": 0, "L": 0}, {"B": 0, "T": 0, "U": 0, "L": 0}, {"L": 0}, {"B": 1}):
        batch = sentences(rng, **sizes)
        with torch.no_grad():
            expected = net.scores(batch.map(torch.from_numpy))
        received = session.scores(batch)
        for field in fields(Chain):
            one, other = getattr(expected, field.name).detach().numpy(), getattr(received, field.name)
            assert one.shape == other.shape
            if field.name in ("emissions", "transitions") and one.ndim > 2:
                mask = batch["words"].mask()
                one, other = one[mask], other[mask]
            np.testing.assert_allclose(other, one, atol=1e-5)


def test_int8_tables_and_products(rng, tmp_path):
    """A quarter of the size, the same decisions nearly everywhere, every large weight in 8 bits."""
    net = tagger("cnn", "crf", words=3000, size=40)
    batches = [sentences(rng, 3000, B=20, T=15, U=60, L=9) for _ in range(2)]
    whole = export_graph(net, batches[0], tmp_path / "float.onnx")
    small = export_graph(net, batches[0], tmp_path / "int8.onnx", int8=True, check=batches)
    assert small.bytes < 0.35 * whole.bytes
    assert small.stayed_float == ()
    assert small.agreement >= 0.98
    assert str(small).splitlines()[1].startswith("largest difference from the model ")


def test_int8_that_decides_otherwise_is_not_written(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "AGREEMENT", 1.01)
    batch = vectors(rng)
    with pytest.raises(RiverrunError, match=r"at \d+\.\d+% of the positions of 1 batches, at least 101% is asked"):
        export_graph(Recurrences(both("elman")), batch, tmp_path / "model.onnx", int8=True, check=[batch])
    assert not list(tmp_path.iterdir())


class OtherWhenExported(Recurrences):
    """Off by a thousandth in the graph."""

    def scores(self, batch: Batch) -> Chain | Labels:
        scores = super().scores(batch)
        if torch.compiler.is_exporting():
            return Chain(scores.emissions + 1e-3, scores.transitions, scores.start, scores.stop, scores.lengths)
        return scores


def test_a_graph_that_is_not_the_model_is_not_written(rng, tmp_path):
    (tmp_path / "model.onnx").write_text("the one before")
    with pytest.raises(RiverrunError, match=r"differs from the model by 0\.001 on 6 batches, allowed is 1e-05"):
        export_graph(OtherWhenExported(both("lstm")), vectors(rng), tmp_path / "model.onnx")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["the one before"]


class FixedRows(Recurrences):
    """Makes a Python number of B."""

    def run(self, batch: Batch) -> list[tuple[Padded, Any]]:
        state = self.layers[0].initial_state(len(batch["x"]))
        return [self.layers[0](batch["x"], state)]


def test_a_net_that_fixes_a_size_is_told_how_not_to(rng, tmp_path):
    with pytest.raises(RiverrunError, match=r"the net fixes a size of 'x(\.lengths)?' to 2, expected any\. Take"):
        export_graph(FixedRows(both("lstm")), vectors(rng), tmp_path / "model.onnx")


def test_equal_weights_are_equal_bytes(rng, tmp_path):
    recurrent = Recurrent("mogrifier", 48, 48)
    example = Batch(x=Padded(rng.normal(size=(2, 3, 48)).astype(np.float32), np.array([3, 2])))
    for name in ("one", "two"):
        export_graph(Summed([recurrent]), example, tmp_path / name, int8=True)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    for part in (str(Path(__file__).parents[2]), str(Path(torch.__file__).parent)):
        assert part.encode() not in (tmp_path / "one").read_bytes()


SCORE_WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # an import of it is an error
import numpy as np
from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.runtime.session import Session
batch = np.load(sys.argv[2])
np.save(sys.argv[3], Session(sys.argv[1]).scores(Batch.unflatten(batch)).emissions)
"""


def test_the_file_runs_where_torch_is_not(recurrences, rng, tmp_path):
    net, session = recurrences
    batch = vectors(rng)
    np.savez(tmp_path / "batch.npz", **batch.flat())
    files = [str(file) for file in (session.path, tmp_path / "batch.npz", tmp_path / "emissions.npy")]
    subprocess.run([sys.executable, "-c", SCORE_WITHOUT_TORCH, *files], check=True)
    with torch.no_grad():
        expected = net.scores(batch.map(torch.from_numpy)).emissions.numpy()
    np.testing.assert_allclose(np.load(tmp_path / "emissions.npy"), expected, atol=1e-5)
