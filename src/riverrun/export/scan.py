"""Any traced cell as an ONNX Scan: the body is the step, one node for one node of its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from riverrun.export.builder import Builder
from riverrun.export.recurrence import Recurrence
from riverrun.nn.cells.graph import Node, ancestors

_OPS = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "neg": "Neg",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "relu": "Relu",
    "exp": "Exp",
    "log": "Log",
    "softplus": "Softplus",
    "max": "Max",
    "min": "Min",
}


def build(recurrence: Recurrence, build: Builder) -> list[ir.Value | None]:
    """The nodes of one recurrence; returns y and each final state.

    What reads no state is computed for all times before the loop. The loop carries the states and freezes those of a
    row outside its length; running it from the last time to the first is then the same as reversing each row.
    """
    graph, weights = recurrence.graph, recurrence.weights
    nodes = ancestors(graph.new.values())
    by_state, by_time = _made_of("s", nodes), _made_of("x", nodes)
    x = build("Transpose", recurrence.x, perm=[1, 0, 2])
    live = _live(x, recurrence.lengths, build)

    outside = _streams(recurrence, x, build)
    _emit([node for node in nodes if id(node) not in by_state], weights, outside, build)
    loop = [node for node in nodes if id(node) in by_state]
    needed = [*(a for node in loop for a in node.args), *graph.new.values()]
    fed = list({id(n): n for n in needed if id(n) in by_time - by_state}.values())

    inside = Builder(f"{build.prefix}.step")
    states = {name: ir.val(f"{build.prefix}.s.{name}", ir.DataType.FLOAT) for name in graph.states}
    running = ir.val(f"{build.prefix}.live", ir.DataType.BOOL)
    slices = [ir.val(f"{build.prefix}.x.{k}", ir.DataType.FLOAT) for k in range(len(fed))]
    values = {id(node): value for node, value in zip(fed, slices, strict=True)}
    values |= {id(node): states[str(node.tag)] for node in loop if node.op == "s"}
    constants = [node for node in nodes if id(node) not in by_time | by_state]  # what is the same at every time
    _emit([*constants, *loop], weights, values, inside)
    new = [inside("Where", running, values[id(graph.new[name])], states[name]) for name in graph.states]
    body = ir.Graph(
        [*states.values(), running, *slices],
        [*new, inside("Identity", values[id(graph.new[graph.states[0]])])],
        nodes=inside.nodes,
        initializers=inside.constants,
        name=f"{build.prefix}.step",
    )
    direction = int(recurrence.reverse)
    *finals, y = build.several(
        "Scan",
        [*recurrence.states.values(), live, *(outside[id(node)] for node in fed)],
        outputs=len(states) + 1,
        body=body,
        num_scan_inputs=1 + len(fed),
        scan_input_directions=[direction] * (1 + len(fed)),
        scan_output_directions=[direction],
    )
    rows = build("Transpose", build("Where", live, y, build.constant(0, np.float32)), perm=[1, 0, 2])
    return [rows, *finals]


def _made_of(leaf: str, nodes: Sequence[Node]) -> set[int]:
    """Those that are made of leaves of this kind."""
    found: set[int] = set()
    for node in nodes:
        if node.op == leaf or any(id(a) in found for a in node.args):
            found.add(id(node))
    return found


def _live(x: ir.Value, lengths: ir.Value, build: Builder) -> ir.Value:
    """(T, B, 1), whether a time is within its row."""
    steps = build("Squeeze", build("Shape", x, start=0, end=1), build.integers(0))
    times = build("Range", build.constant(0, np.int64), steps, build.constant(1, np.int64))
    return build(
        "Less", build("Unsqueeze", times, build.integers(1, 2)), build("Unsqueeze", lengths, build.integers(1))
    )


def _streams(recurrence: Recurrence, x: ir.Value, build: Builder) -> dict[int, ir.Value]:
    """x.<gate> for all times by one product, and x.raw."""
    leaves = recurrence.graph.leaves("x")
    gates = [gate for gate in recurrence.graph.gates if gate in leaves]
    values = {id(leaves["raw"]): x} if "raw" in leaves else {}
    if gates:
        W = build.constant(recurrence.weights["W"].T, np.float32, name="W")
        product = build("Add", build("MatMul", x, W), build.constant(recurrence.weights["b"], np.float32, name="b"))
        sizes = build.integers(*(recurrence.size(leaves[gate].width) for gate in gates))
        parts = build.several("Split", [product, sizes], outputs=len(gates), axis=-1)
        values |= {id(leaves[gate]): part for gate, part in zip(gates, parts, strict=True)}
    return values


def _emit(nodes: Sequence[Node], weights: Mapping[str, Any], values: dict[int, ir.Value], build: Builder) -> None:
    """Each node as ONNX nodes, into ``values``; the products of one operand are one product with the stacked rows."""
    for node in nodes:
        if id(node) in values:
            continue
        args = [values[id(a)] for a in node.args]
        match node.op:
            case "const":
                value = build.constant(node.tag, np.float32)
            case "p":
                value = build.constant(weights[f"p.{node.tag}"], np.float32, name=f"p.{node.tag}")
            case "dot":
                group = [other for other in nodes if other.op == "dot" and other.args[0] is node.args[0]]
                values |= _products(group, args[0], weights, build)
                continue
            case "mean":
                value = build("ReduceMean", _joint(args, build), build.integers(-1), keepdims=1)
            case "var":
                joint = _joint(args, build)
                deviation = build("Sub", joint, build("ReduceMean", joint, build.integers(-1), keepdims=1))
                value = build("ReduceMean", build("Mul", deviation, deviation), build.integers(-1), keepdims=1)
            case "rsqrt":
                value = build("Reciprocal", build("Sqrt", *args))
            case _:
                value = build(_OPS[node.op], *args)
        values[id(node)] = value


def _products(
    group: Sequence[Node], operand: ir.Value, weights: Mapping[str, Any], build: Builder
) -> dict[int, ir.Value]:
    matrices = [weights[f"R.{node.tag}"] for node in group]
    rows = "+".join(str(node.tag) for node in group)
    product = build("MatMul", operand, build.constant(np.concatenate(matrices).T, np.float32, name=f"R.{rows}"))
    if len(group) == 1:
        return {id(group[0]): product}
    sizes = build.integers(*(len(matrix) for matrix in matrices))
    parts = build.several("Split", [product, sizes], outputs=len(group), axis=-1)
    return {id(node): part for node, part in zip(group, parts, strict=True)}


def _joint(args: Sequence[ir.Value], build: Builder) -> ir.Value:
    return args[0] if len(args) == 1 else build("Concat", *args, axis=-1)
