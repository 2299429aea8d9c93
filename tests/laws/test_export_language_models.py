"""Law: an exported language model is the net; whole, in pieces and step by step, from any state, float and int8."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ir = pytest.importorskip("onnx_ir")

from torch import nn  # noqa: E402

from riverrun.data.padded import Padded  # noqa: E402
from riverrun.decode.backend import to_numpy  # noqa: E402
from riverrun.decode.beam import beam_search  # noqa: E402
from riverrun.decode.filters import compose  # noqa: E402
from riverrun.decode.generate import generate  # noqa: E402
from riverrun.decode.state import State  # noqa: E402
from riverrun.decode.stepwise import score_by_steps  # noqa: E402
from riverrun.decode.stream import Stream  # noqa: E402
from riverrun.errors import RiverrunError  # noqa: E402
from riverrun.export import int8 as small  # noqa: E402
from riverrun.export import language_model  # noqa: E402
from riverrun.export.language_model import export_language_model  # noqa: E402
from riverrun.export.report import ExportReport  # noqa: E402
from riverrun.nn.cells import CELLS, make_cell  # noqa: E402
from riverrun.nn.layers import product  # noqa: E402
from riverrun.nn.layers.adaptive_softmax import AdaptiveSoftmax  # noqa: E402
from riverrun.nn.layers.blackout import BlackOut  # noqa: E402
from riverrun.nn.layers.dropout import Dropout  # noqa: E402
from riverrun.nn.layers.embed import Embedding  # noqa: E402
from riverrun.nn.layers.full_softmax import FullSoftmax  # noqa: E402
from riverrun.nn.layers.ngrams import HashedNgrams  # noqa: E402
from riverrun.nn.layers.recurrent import Recurrent  # noqa: E402
from riverrun.nn.layers.sampled_softmax import SampledSoftmax  # noqa: E402
from riverrun.nn.layers.stack import Stack  # noqa: E402
from riverrun.nn.models.recurrent_lm import RecurrentLM  # noqa: E402
from riverrun.nn.models.stepper import NetStepper  # noqa: E402
from riverrun.nn.models.window_lm import WindowLM  # noqa: E402
from riverrun.runtime import stepper  # noqa: E402
from riverrun.runtime.stepper import GraphStepper  # noqa: E402
from riverrun.train.weights import fingerprint  # noqa: E402

pytestmark = pytest.mark.train

SIZE, WIDTH, BOS, EOS = 23, 6, 1, 2
TRACED = [name for name in CELLS if make_cell(name).graph is not None]
KINDS = ["lstm-projected", *{make_cell(name).states: name for name in TRACED}.values()]
"""A cell for each kind of state; that any cell's equation is its graph's is a law of ``test_export.py``."""


class Abreast(nn.Module):
    """Recurrences side by side, where a net has a stack of them; each reads its input and writes its output."""

    def __init__(self, cells: Any) -> None:
        super().__init__()
        narrow = {"lstm-projected": 4}  # a state that is not as wide as the others
        self.layers = nn.ModuleList(Recurrent(cell, WIDTH, WIDTH, output_size=narrow.get(cell)) for cell in cells)
        self.input_size, self.output_size = WIDTH, sum(layer.output_size for layer in self.layers)

    def initial_state(self, rows: int) -> list[Any]:
        return [layer.initial_state(rows) for layer in self.layers]

    def forward(self, x: Padded, state: Any) -> tuple[Padded, list[Any]]:
        found = [layer(x, before) for layer, before in zip(self.layers, state, strict=True)]
        return x.with_data(torch.cat([y.data for y, _ in found], -1)), [after for _, after in found]


def recurrent(encoder: nn.Module, output: Callable[..., Any] = FullSoftmax, **more: Any) -> RecurrentLM:
    """A net whose embedding is as wide as the encoder reads."""
    return RecurrentLM(Embedding(SIZE, encoder.input_size), encoder, output(encoder.output_size, SIZE), **more)


def tied() -> RecurrentLM:
    embedding = Embedding(SIZE, WIDTH)
    stack = Stack("lstm", WIDTH, 9, layers=2, last=WIDTH, dropout=0.3, recurrent_dropout=0.2, weight_drop=0.2)
    return RecurrentLM(
        embedding,
        stack,
        FullSoftmax(WIDTH, SIZE, tied=embedding.weight),
        symbol_dropout=0.2,
        input_dropout=Dropout(0.3, variational=True),
        output_dropout=Dropout(0.3),
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    # An operator, a Scan and no recurrence; one array of numbers in the state, one of symbols, and both.
    "tied": tied,
    "ngrams-adaptive": lambda: recurrent(
        Stack({"kind": "lstm-1997", "zoneout": 0.2}, WIDTH, WIDTH),
        lambda width, size: AdaptiveSoftmax(width, size, cutoffs=[4, 11], factor=2),
        ngrams=HashedNgrams(SIZE, order=4, buckets=60),
    ),
    "window-direct": lambda: WindowLM(Embedding(SIZE, 3), 4, 5, FullSoftmax(17, SIZE), bos=BOS, direct=True),
    # What differs from these by a layer that the tagger is exported with too.
    "highway": lambda: recurrent(Stack("gru", WIDTH, WIDTH, layers=2, wiring="highway")),
    "ngrams": lambda: recurrent(Stack("elman", WIDTH, WIDTH), ngrams=HashedNgrams(SIZE, order=2, buckets=40)),
    "sampled": lambda: recurrent(
        Stack("mingru", WIDTH, WIDTH), lambda width, size: SampledSoftmax(width, size, samples=4)
    ),
    "blackout-dense": lambda: recurrent(
        Stack("gru", WIDTH, WIDTH, layers=2, wiring="dense"), lambda width, size: BlackOut(width, size, samples=4)
    ),
    "window": lambda: WindowLM(Embedding(SIZE, 3), 1, 5, FullSoftmax(5, SIZE), bos=BOS, dropout=0.2),
}
FEW = list(MODELS)[:3]
EACH = [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]


@dataclass
class Pair:
    """A net and its graph, as step models."""

    net: NetStepper
    graph: GraphStepper

    def begun(self, rows: int, *, random: bool = True) -> tuple[State, State]:
        """The same state for both, which has read something if ``random``."""
        state = self.net.start(rows=rows)
        if random:
            ids = np.random.default_rng(rows).integers(0, SIZE, (rows, 5))
            _, state = self.net.score(Padded(ids, np.arange(rows) % 5 + 1), state)
        return state, state.map(to_numpy)


def made(name: str, path: Path, build: Callable[[], nn.Module], **options: Any) -> Pair:
    torch.manual_seed(3)
    net = build().train()
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.5)
    report = export_language_model(net, path, **options)
    assert report.max_error < 2e-6 and report.agreement == 1.0
    assert net.training  # the net is left as it was
    return Pair(NetStepper(net.eval(), bos=BOS, eos=EOS), GraphStepper(path, bos=BOS, eos=EOS, threads=1))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Pair]:
    """Each model is exported when it is asked for first."""

    class Pairs(dict[str, Pair]):
        def __missing__(self, name: str) -> Pair:
            self[name] = made(name, tmp_path_factory.mktemp(name) / "model.onnx", MODELS[name])
            return self[name]

    return Pairs()


def equal(expected: Any, received: Any, *, atol: float = 1e-5) -> None:
    """Values of the net and of the graph, which are numpy's."""
    assert isinstance(received, np.ndarray)
    assert received.shape == tuple(expected.shape) and received.dtype == to_numpy(expected).dtype
    np.testing.assert_allclose(received, to_numpy(expected), rtol=0, atol=atol)


def equal_states(expected: State, received: State) -> None:
    assert list(received.moving) == list(expected.moving) and not received.fixed
    for name, value in expected.moving.items():
        equal(value, received.moving[name])


def texts(*lengths: int, width: int | None = None) -> Padded:
    """Random symbols; those in the padding are none."""
    shape = len(lengths), max(lengths, default=0) if width is None else width
    ids = np.random.default_rng(sum(lengths)).integers(0, SIZE, shape)
    rows = Padded(ids, np.array(lengths, np.int64))
    return rows.with_data(np.where(rows.mask(), ids, 10**9))


# -- float


def test_states_of_every_kind_are_those_of_the_original(tmp_path):
    pair = made("kinds", tmp_path / "model.onnx", lambda: recurrent(Abreast(KINDS)))
    assert len(pair.graph.start().moving) == sum(len(make_cell(name).states) for name in KINDS) >= 9
    ids = texts(6, 0, 1, 4, 6)
    for random in (True, False):
        before, given = pair.begun(5, random=random)
        expected, after = pair.net.score(ids.map(torch.from_numpy), before)
        received, behind = pair.graph.score(ids, given)
        equal(expected, received)
        equal_states(after, behind)


@pytest.mark.slow
@pytest.mark.parametrize("cell", TRACED)
def test_every_cell_is_the_original(cell, tmp_path):
    pair = made(cell, tmp_path / "model.onnx", lambda: recurrent(Stack(cell, WIDTH, WIDTH, layers=2)))
    before, given = pair.begun(4)
    ids = texts(9, 2, 1, 0)
    expected, after = pair.net.score(ids.map(torch.from_numpy), before)
    received, behind = pair.graph.score(ids, given)
    equal(expected, received)
    equal_states(after, behind)


@pytest.mark.parametrize("name", EACH)
def test_a_state_that_begins_is_that_of_the_net(name, pairs):
    for rows in (0, 1, 3):
        equal_states(pairs[name].net.start(rows=rows), pairs[name].graph.start(rows=rows))


@pytest.mark.parametrize("name", FEW)
def test_the_graph_knows_whose_weights_it_has(name, pairs):
    pair = pairs[name]
    assert pair.graph.info.model == fingerprint(pair.net.net.state_dict())
    assert (pair.graph.size, pair.graph.info.int8) == (SIZE, False)


@pytest.mark.parametrize("name", EACH)
def test_a_step_is_that_of_the_net(name, pairs, rng):
    pair = pairs[name]
    for sources, hypotheses in ((1, 1), (3, 1), (2, 3), (1, 4)):
        shape = sources, hypotheses
        before, given = (
            State(moving={key: value.reshape(*shape, *value.shape[2:]) for key, value in state.moving.items()})
            for state in pair.begun(sources * hypotheses)  # a state of its own for each hypothesis
        )
        ids = rng.integers(0, SIZE, shape)
        expected, received = pair.net.step(ids, before), pair.graph.step(ids, given)
        equal(expected.log_probs, received.log_probs)
        np.testing.assert_allclose(np.exp(received.log_probs).sum(-1), 1, atol=1e-5)
        equal_states(expected.state, received.state)


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("lengths", [(7, 0, 1, 4, 2), (1, 1), (0, 0), (9,), (2,), ()], ids=str)
def test_scores_and_states_are_those_of_the_net(name, lengths, pairs):
    pair = pairs[name]
    for width in (max(lengths, default=0), 12):
        ids = texts(*lengths, width=width)
        before, given = pair.begun(len(lengths))
        kept = {key: value.copy() for key, value in given.moving.items()}
        expected, after = pair.net.score(ids.map(torch.from_numpy), before)
        received, behind = pair.graph.score(ids, given)
        if width:  # of nothing at all the net has no column either
            equal(expected, received)
        equal_states(after, behind)
        for key, value in kept.items():  # a state is a value
            np.testing.assert_array_equal(given.moving[key], value)


@pytest.mark.parametrize("name", EACH)
def test_in_pieces_and_by_steps_is_at_once(name, pairs, monkeypatch):
    pair, ids = pairs[name], texts(9, 0, 1, 6, 2)
    _, given = pair.begun(5)
    expected, after = pair.graph.score(ids, given)
    by_steps, behind = score_by_steps(pair.graph, ids, given)
    np.testing.assert_allclose(by_steps, expected, atol=1e-6)
    for key, value in after.moving.items():
        np.testing.assert_allclose(behind.moving[key], value, atol=1e-6)
    for held in (1, 2, 3, 7):  # fewer than rows, and more
        monkeypatch.setattr(stepper, "HELD", held * SIZE)
        received, behind = pair.graph.score(ids, given)
        np.testing.assert_allclose(received, expected, atol=1e-6)
        for key, value in after.moving.items():
            np.testing.assert_allclose(behind.moving[key], value, atol=1e-6)


@pytest.mark.parametrize("name", FEW)
def test_no_call_holds_more_than_it_may(name, pairs, monkeypatch):
    pair = pairs[name]
    monkeypatch.setattr(stepper, "HELD", 6 * SIZE)
    shapes: list[tuple[int, ...]] = []
    run = pair.graph._graph.run
    monkeypatch.setattr(pair.graph._graph, "run", lambda feed: shapes.append(feed["ids"].shape) or run(feed))
    pair.graph.score(texts(4, 11, 2, 1, 1, 0, 8, 8, 3), pair.graph.start(rows=9))
    assert max(rows * width for rows, width in shapes) <= 6
    assert sum(rows * width for rows, width in shapes) < 3 * 32  # 32 symbols are read; what has ended is not read on
    monkeypatch.setattr(stepper, "POSITIONS", 2)
    shapes.clear()
    pair.graph.score(texts(4, 9, 2), pair.graph.start(rows=3))
    assert max(rows * width for rows, width in shapes) == 2


@pytest.mark.parametrize("name", EACH)
def test_a_saved_stream_goes_on_in_the_other(name, pairs):
    pair = pairs[name]
    first, rest = Padded.of([[3, 4, 5], [], [7]]), Padded.of([[6, 1], [9, 9, 9, 2], []])
    for one, other in ((pair.net, pair.graph), (pair.graph, pair.net)):
        _, begun = Stream.begin(one, rows=3).feed(one, first)
        expected, after = begun.feed(one, rest)
        saved = begun.to_bytes(pair.graph.info.model)
        received, behind = Stream.from_bytes(saved, pair.graph.info.model, example=other.start()).feed(other, rest)
        np.testing.assert_allclose(received, expected, atol=1e-5)
        equal_states(after.state, behind.state.map(to_numpy))
        assert behind.last.tolist() == after.last.tolist()


@pytest.mark.parametrize("name", FEW)
def test_texts_are_written_alike(name, pairs):
    pair = pairs[name]
    wishes: list[dict[str, Any]] = [{}, {"seed": 5, "samples": 3}, {"seed": 6, "filter": compose(top_p=0.8)}]
    for wish in wishes:
        texts_ = [
            generate(model, Stream.begin(model, rows=2), limit=30, prompt=Padded.of([[4, 5], [6]]), **wish).finish()
            for model in (pair.net, pair.graph)
        ]
        assert [text.ids for text in texts_[0]] == [text.ids for text in texts_[1]]
    expected, received = (
        beam_search(model, Stream.begin(model, rows=2), width=4, limit=12, best=3) for model in (pair.net, pair.graph)
    )
    assert [[found.ids for found in row] for row in received] == [[found.ids for found in row] for row in expected]


SCORE_WITHOUT_TORCH = """
import sys
class Torchless:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "onnx", "onnx_ir"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Torchless())
from riverrun.data.padded import Padded
from riverrun.decode.stream import Stream
from riverrun.runtime.stepper import GraphStepper
model = GraphStepper(sys.argv[1], bos=1)
scores, stream = Stream.begin(model).feed(model, Padded.of([[3, 4, 5]]))
print(float(scores.sum()))
"""


def test_the_file_runs_where_torch_is_not(pairs):
    pair = pairs["ngrams-adaptive"]
    command = [sys.executable, "-c", SCORE_WITHOUT_TORCH, str(pair.graph.path)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    expected, _ = Stream.begin(pair.net).feed(pair.net, Padded.of([[3, 4, 5]]))
    assert float(found) == pytest.approx(expected.sum(), abs=1e-5)


# -- what is refused


class OffWhenExported(Abreast):
    """Its states are off by a thousandth in the graph."""

    def forward(self, x: Padded, state: Any) -> tuple[Padded, list[Any]]:
        y, after = super().forward(x, state)
        if torch.compiler.is_exporting():
            after = [type(one)(*(value + 1e-3 for value in one)) for one in after]
        return y, after


def test_a_graph_that_is_not_the_model_is_not_written(tmp_path):
    (tmp_path / "model.onnx").write_text("the one before")
    with pytest.raises(RiverrunError, match=r"the exported graph differs from the model by 0\.0\d+ on 6 batches"):
        export_language_model(recurrent(OffWhenExported(["elman"])), tmp_path / "model.onnx")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["the one before"]


class Learned(Abreast):
    """Its first state is no one number."""

    def initial_state(self, rows: int) -> list[Any]:
        found = super().initial_state(rows)
        return [type(one)(*(value + torch.arange(WIDTH) for value in one)) for one in found]


def test_a_first_state_that_the_file_cannot_keep_is_refused(tmp_path):
    with pytest.raises(RiverrunError, match=r"expected a first state of one number, received 0\.0 to 5\.0 in '0\.h'"):
        export_language_model(recurrent(Learned(["gru"])), tmp_path / "model.onnx")


# -- int8


def rounded(net: nn.Module) -> nn.Module:
    """The net with the weights that its int8 graph has: every matrix here is read by rows."""
    net = copy.deepcopy(net)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.ndim == 2 and parameter.numel() >= small.SMALL:
                integers, scales = small.channels(parameter.numpy(), 1)
                parameter.copy_(torch.from_numpy(integers * scales))
    return net


def wide(output: Callable[..., Any] | None = None) -> RecurrentLM:
    """With a table, recurrences and products that are large enough for 8 bits; tied without an output of its own."""
    torch.manual_seed(4)
    embedding = Embedding(1700, 40)
    last = FullSoftmax(40, 1700, tied=embedding.weight) if output is None else output(40, 1700)
    ngrams = HashedNgrams(1700, order=2, buckets=5000)
    net = RecurrentLM(embedding, Stack("lstm-1997", 40, 40), last, ngrams=ngrams)
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.3)
    return net.eval()


STAYED = ("GatherND: ngrams.table (5000 weights)",)  # one scale for all of them would be coarse
TEXTS = Padded(np.random.default_rng(0).integers(0, 1700, (4, 30)), np.array([30, 1, 0, 17]))


def multiplied(path: Path) -> bool:
    """Whether the graph multiplies integers, never in a loop; it has no operators but ONNX's own."""
    model = ir.load(path)
    assert model.opset_imports == {"": 18}
    assert not any(node.op_type == "MatMulInteger" for loop in model.graph.subgraphs() for node in loop)
    return any(node.op_type == "MatMulInteger" for node in model.graph)


def is_the_rounded_net(net: nn.Module, path: Path, *, atol: float) -> None:
    """What is lost is the rounding of the weights, and nothing else."""
    one, other = NetStepper(rounded(net), bos=0), GraphStepper(path, bos=0, threads=1)
    expected, after = one.score(TEXTS.map(torch.from_numpy), one.start(rows=4))
    received, behind = other.score(TEXTS, other.start(rows=4))
    np.testing.assert_allclose(received, expected.numpy(), atol=atol)
    for key, value in after.moving.items():
        np.testing.assert_allclose(behind.moving[key], value.numpy(), atol=atol)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, ExportReport]:
    """A net with tied weights, and its int8 graph, which multiplies integers.

    Its output is as large as those for which torch multiplies by another library, which has no ONNX.
    """
    net, path = wide(), tmp_path_factory.mktemp("tiny") / "model.onnx"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(product, "_SMALL", 1)
        patch.setattr(small, "LARGE", 60_000)
        return net, export_language_model(net, path, int8=True, check=[TEXTS])


def test_int8_is_the_net_with_rounded_weights(tiny):
    net, report = tiny
    assert multiplied(report.path)
    # Two numbers of 7 bits leave out a part in 16,000 of what is multiplied; the largest scores are about 10.
    is_the_rounded_net(net, report.path, atol=1e-3)


def stored(path: Path) -> int:
    """Bytes of all weights in a file."""
    graph = ir.load(path).graph
    values = [value for owner in (graph, *graph.subgraphs()) for value in owner.initializers.values()]
    return sum(value.const_value.nbytes for value in values)


def test_tied_weights_are_stored_once(tiny):
    net, report = tiny
    numbers = sum(parameter.numel() for parameter in net.parameters())
    assert numbers < stored(report.path) - 3 * 5000 < 1.4 * numbers
    assert report.stayed_float == STAYED


@pytest.mark.parametrize("name", FEW)
def test_every_weight_is_stored_once(name, pairs):
    """A table of n-grams too, which all clusters of a softmax read."""
    numbers = sum(parameter.numel() for parameter in pairs[name].net.net.parameters())
    biases = 1000  # ONNX has two for each gate; and a few sizes
    assert 4 * numbers <= stored(pairs[name].graph.path) < 4 * numbers + biases


def test_what_int8_costs_is_reported(tiny):
    _, report = tiny
    assert report.cost is not None and 0 < abs(report.cost) < 0.01
    assert f"a symbol of the texts costs {report.cost:+.4f} nats" in str(report).splitlines()


def test_no_row_of_an_int8_graph_depends_on_its_neighbours(tiny):
    model = GraphStepper(tiny[1].path, bos=0, threads=1)
    together, _ = model.score(TEXTS, model.start(rows=4))
    again, _ = model.score(TEXTS, model.start(rows=4))
    np.testing.assert_array_equal(again, together)
    for row in range(4):
        alone, _ = model.score(TEXTS.select([row]), model.start(rows=1))
        np.testing.assert_allclose(alone[0], together[row], atol=1e-5)


def test_equal_weights_are_equal_bytes(tiny, tmp_path, monkeypatch):
    net, report = tiny
    monkeypatch.setattr(small, "LARGE", 60_000)
    content = export_language_model(net, tmp_path / "again", int8=True).path.read_bytes()
    assert content == report.path.read_bytes()
    for part in (str(Path(__file__).parents[2]), str(Path(torch.__file__).parent)):
        assert part.encode() not in content


@pytest.mark.slow
@pytest.mark.parametrize("large", [1, 1 << 20], ids=["integers", "float"])
@pytest.mark.parametrize(
    "output",
    [None, FullSoftmax, lambda width, size: AdaptiveSoftmax(width, size, cutoffs=[300, 900], factor=2)],
    ids=["tied", "full", "adaptive"],
)
def test_int8_of_each_output_is_the_net_with_rounded_weights(output, large, tmp_path, monkeypatch):
    monkeypatch.setattr(small, "LARGE", large)
    net = wide(output)
    report = export_language_model(net, tmp_path / "model.onnx", int8=True)
    assert report.stayed_float == STAYED
    assert report.bytes < 1.2 * sum(parameter.numel() for parameter in net.parameters()) + 60_000  # and the nodes
    assert multiplied(report.path) == (large == 1)
    # This cell's memory forgets nothing, so that what is left out adds up.
    is_the_rounded_net(net, report.path, atol=1e-2 if large == 1 else 2e-5)


def test_int8_that_costs_too_much_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(language_model, "COST", -1.0)
    net = WindowLM(Embedding(SIZE, 3), 2, 5, FullSoftmax(5, SIZE), bos=BOS)
    with pytest.raises(RiverrunError, match=r"a symbol of the texts costs -?0\.\d+ nats more .* allowed is -1\.0"):
        export_language_model(net, tmp_path / "model.onnx", int8=True, check=[Padded.of([[1, 2, 3]])])
    assert not list(tmp_path.iterdir())
