"""Weights kept as 8-bit integers with a scale for each output channel: a quarter of the size; arithmetic stays float.

ONNX Runtime computes integers * scales once, when it opens the file; of a table only the rows that are read. So the
scores are those of a net whose weights are a little off, they are the same in every call, and those of a sentence do
not depend on its neighbours. ONNX Runtime's own 8-bit LSTM (``DynamicQuantizeLSTM``, up to 1.6 times as fast) keeps
neither: it rounds all rows of a batch by one range, and in version 1.31 the last states of rows of different lengths
change from call to call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as passes

from riverrun.export.builder import Builder, constant_of

SMALL = 4096  # fewer weights than this stay float: no gain
SMALL_TABLE = 65536  # and of a table this many: the cache holds it, and three operators are slower than one
_SCALES = ".scales"  # how the names of scales end
_RECURRENT = ("LSTM", "GRU", "RNN")

Array = np.ndarray[Any, Any]


def quantize(model: ir.Model) -> list[str]:
    """Make the large weights of a model int8, in place; returns a line for each one that stayed float."""
    graph = model.graph
    owners = (graph, *graph.subgraphs())
    build = Builder("int8")  # outside of the Scans, whose bodies may read what stands outside
    for owner in owners:
        for value in list(owner.initializers.values()):
            weights = constant_of(value)
            if weights is None or weights.dtype != np.float32 or weights.size < SMALL:
                continue
            reads = [_read(use.node, use.idx) for use in value.uses()]
            if reads and set(reads) == {"table"} and weights.size >= SMALL_TABLE and weights.ndim == 2:
                _table(graph, value, weights, build)
            elif len(set(reads)) == 1 and isinstance(axis := reads[0], int) and weights.ndim > 1:
                integers, scales = _constants(value, weights, axis, build)
                whole = build("Mul", build("Cast", integers, to=ir.DataType.FLOAT), scales)
                whole.type, whole.shape = value.type, value.shape
                ir.convenience.replace_all_uses_with(value, whole)
                owner.initializers.pop(str(value.name))
    for value in build.constants:
        graph.register_initializer(value)
    if build.nodes:
        graph.insert_before(graph[0], build.nodes)
    passes.RemoveUnusedNodesPass()(model)
    return _float_weights(owners)


def channels(weights: Array, axis: int) -> tuple[Array, Array]:
    """int8 weights and the float32 scales along the other axes, with weights = integers * scales; 0 stays 0.

    >>> integers, scales = channels(np.array([[1.0, -2.0], [0.0, 0.0]]), axis=1)
    >>> integers.tolist(), (scales * 127).tolist()
    ([[64, -127], [0, 0]], [[2.0], [127.0]])
    """
    largest = np.abs(weights).max(axis, keepdims=True)
    scales = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    return np.round(weights / scales).astype(np.int8), scales


def _read(node: ir.Node, place: int) -> int | str:
    """How a node reads the weights that are its input ``place``: the axis that it sums over, or ``table`` for rows."""
    if node.op_type in _RECURRENT and place in (1, 2):  # (1, gates * H, D)
        return -1
    if node.op_type == "MatMul" and place == 1:  # (D, N)
        return -2
    if node.op_type == "Gemm" and place == 1:
        transposed = node.attributes.get("transB")
        return -1 if transposed is not None and transposed.as_int() else -2
    if node.op_type == "Gather" and place == 0:
        axis = node.attributes.get("axis")
        return "table" if axis is None or axis.as_int() == 0 else "other"
    return "other"


def _constants(value: ir.Value, weights: Array, axis: int, build: Builder) -> tuple[ir.Value, ir.Value]:
    integers, scales = channels(weights, axis)
    return build.constant(integers, name=str(value.name)), build.constant(scales, name=f"{value.name}{_SCALES}")


def _table(graph: ir.Graph, table: ir.Value, weights: Array, build: Builder) -> None:
    """Rows of an embedding: the integers and the scales are gathered, so that only what is read becomes float."""
    integers, scales = _constants(table, weights, 1, build)
    for number, use in enumerate(tuple(table.uses())):
        ids, rows = use.node.inputs[1], Builder(f"{integers.name}.{number}")
        row = rows("Cast", rows("Gather", integers, ids, axis=0), to=ir.DataType.FLOAT)
        rows.replace(graph, use.node, [rows("Mul", row, rows("Gather", scales, ids, axis=0))])


def _float_weights(owners: tuple[ir.Graph, ...]) -> list[str]:
    """``Conv: chars.conv.weight (5000 weights)`` for each large float array, largest first."""
    found: list[tuple[int, str]] = []
    for value in (value for owner in owners for value in owner.initializers.values()):
        size = int(np.prod(value.shape.numpy())) if value.shape is not None else 0
        if value.dtype == ir.DataType.FLOAT and size >= SMALL and not str(value.name).endswith(_SCALES):
            user = next((use.node.op_type for use in value.uses()), "output")
            found.append((size, f"{user}: {value.name} ({size} weights)"))
    return [line for _, line in sorted(found, key=lambda pair: -pair[0])]
