"""The cells that ONNX has an operator for: LSTM, GRU and RNN, with their gate orders, biases and peepholes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from riverrun.export.builder import Builder
from riverrun.export.recurrence import Recurrence
from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.elman import Elman
from riverrun.nn.cells.graph import Graph
from riverrun.nn.cells.gru import GRU, GRUResetAfter
from riverrun.nn.cells.lstm import LSTM, CoupledLSTM, PeepholeLSTM

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Operator:
    """How one cell is written as an ONNX operator.

    Args:
        op: ``LSTM``, ``GRU`` or ``RNN``.
        gates: the cell's gates in the operator's order, with the sign of their rows: sigmoid(-a) = 1 - sigmoid(a), so a
            gate that means the opposite is the same gate with the opposite weights.
        attributes: what else the node says.
        recurrent_bias: gate -> parameter that is added to its recurrent product.
        peepholes: the parameters of the operator's peepholes, in its order.
    """

    op: str
    gates: Sequence[tuple[str, int]]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    recurrent_bias: Mapping[str, str] = field(default_factory=dict)
    peepholes: Sequence[str] = ()


def _rnn(activation: str, **parameters: list[float]) -> Operator:
    return Operator("RNN", [("h", 1)], {"activations": [activation], **parameters})


def build(recurrence: Recurrence, operator: Operator, build: Builder) -> list[ir.Value | None]:
    """The nodes of one recurrence; returns y and each final state (None where nobody reads it).

    ONNX has time first (layout 0; ONNX Runtime implements no other), states (1, B, H) and lengths of 32 bits.
    """
    W, R, b = _stacked(recurrence, operator)
    peepholes = [recurrence.weights[f"p.{name}"] for name in operator.peepholes]
    axis = build.integers(0)
    states = [build("Unsqueeze", value, axis) for value in recurrence.states.values()]
    inputs = [
        build("Transpose", recurrence.x, perm=[1, 0, 2]),
        build.constant(W[None], np.float32, name="W"),
        build.constant(R[None], np.float32, name="R"),
        build.constant(b[None], np.float32, name="b"),
        build("Cast", recurrence.lengths, to=ir.DataType.INT32),
        *states,
    ]
    if peepholes:
        inputs.append(build.constant(np.concatenate(peepholes)[None], np.float32, name="p"))
    y, *finals = build.several(
        operator.op,
        inputs,
        outputs=1 + len(states),
        hidden_size=recurrence.hidden,
        direction="reverse" if recurrence.reverse else "forward",
        **operator.attributes,
    )
    rows = build("Transpose", build("Squeeze", y, build.integers(1)), perm=[1, 0, 2])
    return [rows, *_finals(recurrence, finals, build)]


def _stacked(recurrence: Recurrence, operator: Operator) -> tuple[Array, Array, Array]:
    """W (nH, D), R (nH, H) and the two biases (2nH,) in the operator's order of gates."""
    weights, hidden = recurrence.weights, recurrence.hidden
    names = recurrence.graph.gates
    W = dict(zip(names, np.split(weights["W"], len(names)), strict=True))
    b = dict(zip(names, np.split(weights["b"], len(names)), strict=True))
    second = {gate: weights[f"p.{name}"] for gate, name in operator.recurrent_bias.items()}
    zeros = np.zeros(hidden)
    return (
        np.concatenate([sign * W[gate] for gate, sign in operator.gates]),
        np.concatenate([sign * weights[f"R.{gate}"] for gate, sign in operator.gates]),
        np.concatenate(
            [sign * b[gate] for gate, sign in operator.gates]
            + [sign * second.get(gate, zeros) for gate, sign in operator.gates]
        ),
    )


def _finals(recurrence: Recurrence, finals: Sequence[ir.Value], build: Builder) -> list[ir.Value | None]:
    """The states at the end without their first axis; an empty row keeps its first, where ONNX Runtime gives 0."""
    wanted = [recurrence.wanted(name) for name in recurrence.states]
    if not any(wanted):
        return [None] * len(finals)
    some = build("Unsqueeze", build("Greater", recurrence.lengths, build.constant(0, np.int64)), build.integers(1))
    axis = build.integers(0)
    return [
        build("Where", some, build("Squeeze", last, axis), first) if read else None
        for last, first, read in zip(finals, recurrence.states.values(), wanted, strict=True)
    ]


_IOFG = (("i", 1), ("o", 1), ("f", 1), ("g", 1))

EXACT: tuple[tuple[Cell, Operator], ...] = (
    (Elman(), _rnn("Tanh")),
    (Elman(nonlinearity="relu"), _rnn("Relu")),
    (Elman(nonlinearity="sigmoid"), _rnn("Sigmoid")),
    (Elman(nonlinearity="identity"), _rnn("Affine", activation_alpha=[1.0], activation_beta=[0.0])),
    (LSTM(), Operator("LSTM", _IOFG)),
    (PeepholeLSTM(), Operator("LSTM", _IOFG, peepholes=("i", "o", "f"))),
    # With input_forget the operator takes 1 - i for f.
    (CoupledLSTM(), Operator("LSTM", (("f", -1), ("o", 1), ("f", 1), ("g", 1)), {"input_forget": 1})),
    # The operator's z keeps the old state, the lectures' z lets the new one in.
    (GRU(), Operator("GRU", (("z", -1), ("r", 1), ("n", 1)))),
    (GRUResetAfter(), Operator("GRU", (("z", 1), ("r", 1), ("n", 1)), {"linear_before_reset": 1}, {"n": "b"})),
)


def exact(graph: Graph) -> Operator | None:
    """The operator that computes the same equation, whatever the cell is called; None where there is none.

    >>> exact(LSTM().graph).op
    'LSTM'
    """
    signature = graph.signature()
    return next((operator for cell, operator in EXACT if _graph(cell).signature() == signature), None)


def _graph(cell: Cell) -> Graph:
    if cell.graph is None:
        raise TypeError(f"{cell!r} has no graph")
    return cell.graph
