"""The first weights: their bounds, the biases, and that nothing is forgotten."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from riverrun.errors import ConfigError  # noqa: E402
from riverrun.nn.cells import CELLS, Cell, RecurrentDropout, TracedCell, make_cell  # noqa: E402
from riverrun.nn.cells.store import dumps, loads  # noqa: E402
from riverrun.nn.layers.adaptive_softmax import AdaptiveSoftmax  # noqa: E402
from riverrun.nn.layers.blackout import BlackOut  # noqa: E402
from riverrun.nn.layers.chars import CharCNN  # noqa: E402
from riverrun.nn.layers.crf import CRF  # noqa: E402
from riverrun.nn.layers.embed import Embedding  # noqa: E402
from riverrun.nn.layers.full_softmax import FullSoftmax  # noqa: E402
from riverrun.nn.layers.init import HOWS, initialise  # noqa: E402
from riverrun.nn.layers.recurrent import Recurrent  # noqa: E402
from riverrun.nn.layers.sampled_softmax import SampledSoftmax  # noqa: E402
from riverrun.nn.layers.softmax import Softmax  # noqa: E402
from riverrun.nn.layers.stack import Stack  # noqa: E402

pytestmark = pytest.mark.train

LAYERS = {
    **{cell: lambda cell=cell: Recurrent(cell, 4, 4) for cell in CELLS},
    "recurrent dropout": lambda: Stack("lstm", 4, 4, recurrent_dropout=0.5),
    "highway": lambda: Stack("gru", 4, 4, wiring="highway"),
    "chars": lambda: CharCNN(5, 4, 6, 3),
    "softmax": lambda: Softmax(4, 3),
    "full softmax": lambda: FullSoftmax(4, 9),
    "adaptive softmax": lambda: AdaptiveSoftmax(4, 9, cutoffs=[2, 5]),
    "sampled softmax": lambda: SampledSoftmax(4, 9, samples=2),
    "blackout": lambda: BlackOut(4, 9, samples=2),
    "crf": lambda: CRF(4, 3),
    "pairwise crf": lambda: CRF(4, 3, potentials="pairwise"),
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", LAYERS)
def test_nothing_is_forgotten(name: str, how: str) -> None:
    layer = LAYERS[name]()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(torch.nan)
    initialise(layer, how)
    assert all(parameter.isfinite().all() for parameter in layer.parameters())


def bound(values: torch.Tensor) -> float:
    """The largest of many uniform draws is near their bound."""
    return float(values.detach().abs().max())


@pytest.mark.parametrize(
    ("how", "recurrent", "read", "linear", "words"),
    [
        ("ma-hovy", (6 / 100) ** 0.5, (6 / 80) ** 0.5, (6 / 57) ** 0.5, (3 / 20) ** 0.5),
        ("lecture", 50**-0.5, 30**-0.5, 50**-0.5, 20**-0.5),
        ("awd", 50**-0.5, 50**-0.5, 50**-0.5, 0.1),
        ("torch", 50**-0.5, 50**-0.5, 50**-0.5, None),
    ],
)
def test_bounds(how: str, recurrent: float, read: float, linear: float, words: float | None) -> None:
    layer, head, embed = Recurrent("lstm", 30, 50), nn.Linear(50, 7), Embedding(400, 20)
    initialise(nn.ModuleList([layer, head, embed]), how)
    for gate in layer.R.chunk(4):
        assert bound(gate) == pytest.approx(recurrent, rel=0.02)
    for gate in layer.W.chunk(4):
        assert bound(gate) == pytest.approx(read, rel=0.02)
    assert bound(head.weight) == pytest.approx(linear, rel=0.05)
    if words is None:
        assert float(embed.weight.detach().std()) == pytest.approx(1, rel=0.05)
    else:
        assert bound(embed.weight) == pytest.approx(words, rel=0.02)


NO_FORGET_GATE = {"elman", "lstm-1997", "gru", "gru-reset-after", "mingru", "layernorm-gru"}
WRAPPED = {
    "zoneout": lambda: make_cell({"kind": "mogrifier", "zoneout": 0.1}),
    "dropout": lambda: RecurrentDropout(make_cell("layernorm-lstm")),
    "traced": lambda: TracedCell(loads(dumps(make_cell("mogrifier").graph))),
}
FORGETTING = {name: lambda name=name: make_cell(name) for name in CELLS} | WRAPPED


def biases(layer: Recurrent) -> dict[str, torch.Tensor]:
    """As ``Cell.forget`` names them."""
    rows = zip(layer.layout.rows, layer.b.chunk(len(layer.layout.rows)), strict=True) if layer.b is not None else ()
    return dict(rows) | {f"p.{name}": getattr(layer, f"p_{name}") for name in layer.layout.params}


@pytest.mark.parametrize("name", FORGETTING)
def test_biases_are_0_and_those_of_forget_gates_1(name: str) -> None:
    cell = FORGETTING[name]()
    layer = Recurrent(cell, 2, 2)
    assert (not cell.forget) == (name in NO_FORGET_GATE)
    for how in ("ma-hovy", "lecture"):
        initialise(layer, how)
        for bias, value in biases(layer).items():
            start = cell.init.get(bias.removeprefix("p."), 0.0) if bias.startswith("p.") else 0.0
            assert value.tolist() == [1.0 if how == "ma-hovy" and bias in cell.forget else start] * 2, bias


@pytest.mark.parametrize("name", [name for name in FORGETTING if name not in NO_FORGET_GATE])
def test_what_is_called_a_forget_bias_keeps_the_memory(name: str) -> None:
    layer = Recurrent(FORGETTING[name](), 2, 2).eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        start = layer.initial_state(1)
        state = type(start)(*(torch.full_like(value, 0.5) for value in start))
        x = torch.zeros(1, 1, 2)
        lost = layer(x, state)[1]
        for bias in layer.cell.forget:
            biases(layer)[bias].fill_(30.0)
        kept = layer(x, state)[1]
    torch.testing.assert_close(kept.c, state.c)
    assert not lost.c.allclose(state.c, rtol=0, atol=0.05)


def test_forget_bias_that_a_cell_without_a_graph_does_not_have() -> None:
    class Untraced(Cell):
        gates = ("h",)
        forget = ("f",)
        traced = False

    with pytest.raises(ConfigError, match=r"init: Untraced\(\) has no forget bias 'f'; it has h"):
        initialise(Recurrent(Untraced(), 3, 4), "ma-hovy")


def test_a_convolution_is_a_matrix_of_all_that_it_sees() -> None:
    layer = CharCNN(5, 10, 30, 3)
    initialise(layer, "ma-hovy")
    assert bound(layer.conv.weight) == pytest.approx((6 / 60) ** 0.5, rel=0.02)
    assert not layer.conv.bias.any()


def test_tables_of_a_crf() -> None:
    layer = CRF(4, 20)
    initialise(layer, "ma-hovy")
    assert bound(layer.transitions) == pytest.approx((6 / 40) ** 0.5, rel=0.05)
    assert not layer.start.any()
    assert not layer.stop.any()
    initialise(layer, "torch")
    assert not layer.transitions.any()


def test_a_highway_leans_towards_its_input() -> None:
    stack = Stack("gru", 4, 4, wiring="highway")
    for how in HOWS:
        initialise(stack, how)
        assert stack.layers[0].joint.gate.bias.tolist() == [-1.0] * 4


@pytest.mark.parametrize("how", HOWS)
def test_given_vectors_stay(how: str) -> None:
    vectors = np.array([[1.0, 2.0], [np.nan, np.nan], [3.0, 4.0]])
    embed = Embedding(3, 2, vectors=vectors)
    initialise(nn.Sequential(embed), how)
    assert embed.weight[[0, 2]].tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_the_same_seed_draws_the_same() -> None:
    layers = [Stack("lstm", 3, 4) for _ in range(2)]
    for layer in layers:
        torch.manual_seed(1)
        initialise(layer, "ma-hovy")
    assert torch.equal(layers[0].layers[0].forwards.R, layers[1].layers[0].forwards.R)


def test_a_wrong_name_is_said() -> None:
    with pytest.raises(ConfigError, match="received 'mahovy'; did you mean 'ma-hovy'"):
        initialise(nn.Linear(2, 2), "mahovy")


@pytest.mark.parametrize(
    ("how", "rows", "biases"),
    [("ma-hovy", (6 / 950) ** 0.5, 0.0), ("lecture", 50**-0.5, 0.0), ("awd", 0.1, 0.0), ("torch", 50**-0.5, 50**-0.5)],
)
@pytest.mark.parametrize("make", [FullSoftmax, lambda h, v: SampledSoftmax(h, v, samples=3)])
def test_the_rows_of_a_softmax_over_symbols(make, how: str, rows: float, biases: float) -> None:
    layer = make(50, 900)
    initialise(layer, how)
    assert bound(layer.weight) == pytest.approx(rows, rel=0.02)
    assert bound(layer.bias) == pytest.approx(biases, rel=0.02)


def test_each_matrix_of_an_adaptive_softmax_has_a_bound_of_its_own() -> None:
    layer = AdaptiveSoftmax(64, 900, cutoffs=[300])
    for how, bounds in {"lecture": (1 / 8, 1 / 8, 1 / 4), "awd": (0.1, 0.1, 0.1)}.items():
        initialise(layer, how)
        for matrix, expected in zip(layer.parameters(), bounds, strict=True):
            assert bound(matrix) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("how", HOWS)
def test_tied_vectors_are_those_of_the_embedding(how: str) -> None:
    embed = Embedding(300, 20)
    tied = FullSoftmax(20, 300, tied=embed.weight)
    for order in ([embed, tied], [tied, embed]):
        torch.manual_seed(1)
        initialise(nn.ModuleList(order), how)
        alone = Embedding(300, 20)
        torch.manual_seed(1)
        if order[0] is embed:
            initialise(alone, how)
            assert torch.equal(embed.weight, alone.weight)
        assert tied.weight is embed.weight
