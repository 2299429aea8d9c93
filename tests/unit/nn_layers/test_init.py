"""The first weights: their bounds, the biases, and that nothing is forgotten."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from riverrun.errors import ConfigError  # noqa: E402
from riverrun.nn.cells import CELLS  # noqa: E402
from riverrun.nn.layers.chars import CharCNN  # noqa: E402
from riverrun.nn.layers.crf import CRF  # noqa: E402
from riverrun.nn.layers.embed import Embedding  # noqa: E402
from riverrun.nn.layers.init import HOWS, initialise  # noqa: E402
from riverrun.nn.layers.recurrent import Recurrent  # noqa: E402
from riverrun.nn.layers.softmax import Softmax  # noqa: E402
from riverrun.nn.layers.stack import Stack  # noqa: E402

pytestmark = pytest.mark.train

LAYERS = {
    **{cell: lambda cell=cell: Recurrent(cell, 4, 4) for cell in CELLS},
    "recurrent dropout": lambda: Stack("lstm", 4, 4, recurrent_dropout=0.5),
    "highway": lambda: Stack("gru", 4, 4, wiring="highway"),
    "chars": lambda: CharCNN(5, 4, 6, 3),
    "softmax": lambda: Softmax(4, 3),
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


def test_biases_are_0_and_those_of_forget_gates_1() -> None:
    for cell, gates in {"lstm": "ifgo", "lstm-coupled": "fgo", "gru": "rzn", "lstm-1997": "igo"}.items():
        layer = Recurrent(cell, 3, 2)
        initialise(layer, "ma-hovy")
        assert layer.b.tolist() == [float(gate == "f") for gate in gates for _ in range(2)]
        initialise(layer, "lecture")
        assert not layer.b.any()
    norm = Recurrent("layernorm-lstm", 3, 2)
    initialise(norm, "ma-hovy")
    assert norm.p_bf.tolist() == norm.p_xi.tolist() == [1.0, 1.0]
    assert norm.p_bi.tolist() == [0.0, 0.0]


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
