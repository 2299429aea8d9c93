"""Which equations are ONNX's own, by what they compute and not by their names."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx_ir")
pytestmark = pytest.mark.train

from riverrun.export.operators import EXACT, exact  # noqa: E402
from riverrun.nn.cells import Cell, RecurrentDropout, make_cell  # noqa: E402
from riverrun.nn.cells.math import sigmoid, tanh  # noqa: E402


class Mine(Cell):
    """The LSTM in other words."""

    gates = ("i", "f", "g", "o")
    states = ("h", "c")

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        def gate(name: str) -> Any:
            return getattr(x, name) + getattr(R, name)(s.h)

        memory = tanh(gate("g")) * sigmoid(gate("i")) + s.c * sigmoid(gate("f"))
        return s.next(c=memory, h=tanh(memory) * sigmoid(gate("o")))


class Forgetful(Mine):
    """With memory 1 at the start, and so another function."""

    start = {"c": 1.0}  # noqa: RUF012


class Swapped(Mine):
    """The rows of the weights in another order, so that they must not be read in the LSTM's."""

    gates = ("f", "i", "g", "o")


@pytest.mark.parametrize("cell", [cell for cell, _ in EXACT], ids=repr)
def test_every_row_of_the_table_is_found(cell):
    found = exact(cell.graph)
    assert found is dict(zip(map(repr, (c for c, _ in EXACT)), (o for _, o in EXACT), strict=True))[repr(cell)]
    assert {gate for gate, _ in found.gates} == set(cell.gates)
    assert {*found.recurrent_bias.values(), *found.peepholes} == set(cell.params)


def test_the_equation_counts_not_the_name():
    assert exact(Mine().graph).op == "LSTM"
    assert exact(RecurrentDropout(make_cell("gru"), rate=0.3).graph.quiet()).op == "GRU"  # outside training


@pytest.mark.parametrize(
    "cell",
    [
        Swapped(),
        make_cell("lstm-1997"),
        make_cell("layernorm-lstm"),
        make_cell({"kind": "lstm", "zoneout": 0.1}),
        make_cell("mingru"),
    ],
    ids=repr,
)
def test_other_equations_are_not(cell):
    assert exact(cell.graph.quiet()) is None
