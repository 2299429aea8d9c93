"""Weights kept as 8-bit integers with a scale for each output channel: a quarter of the size.

Most arithmetic stays float: ONNX Runtime computes integers * scales once, when it opens the file; of a table only the
rows that are read. A product by a very large matrix, as that of a language model's vocabulary, takes the time that it
takes to read the matrix, and so multiplies integers: what is multiplied is split into two numbers of 7 bits, which
loses less than the rounding of the weights, and the sums are exact.

So the scores are those of a net whose weights are a little off, they are the same in every call, and those of a
sentence do not depend on its neighbours. ONNX Runtime's own 8-bit LSTM (``DynamicQuantizeLSTM``, up to 1.6 times as
fast) keeps neither: it rounds all rows of a batch by one range, and in version 1.31 the last states of rows of
different lengths change from call to call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as passes

from riverrun.export.builder import Builder, constant_of

SMALL = 4096  # fewer weights than this stay float: no gain
SMALL_TABLE = 65536  # and of a table this many: the cache holds it, and three operators are slower than one
LARGE = 1 << 20  # by as many weights integers are multiplied: float ones, 4 MB, are more than the nearest caches hold
_SCALES = ".scales"  # how the names of scales end
_RECURRENT = ("LSTM", "GRU", "RNN")
_TABLE = "table"

# Seven bits, because processors without the instruction for it (VNNI) add two products of a signed and an unsigned byte
# in 16 bits, and 2 * 127 * 127 fits there.
_ZERO, _STEPS = 64, 63

Array = np.ndarray[Any, Any]


def quantize(model: ir.Model) -> list[str]:
    """Make the large weights of a model int8, in place; returns a line for each one that stayed float."""
    graph = model.graph
    owners = (graph, *graph.subgraphs())
    build = Builder("int8")  # outside of the Scans, whose bodies may read what stands outside
    for owner in owners:
        for value in list(owner.initializers.values()):
            weights = constant_of(value)
            if weights is None or weights.dtype != np.float32 or weights.size < SMALL or weights.ndim < 2:
                continue
            axis = _summed(value, weights)
            if axis is not None:
                _shrink(graph, value, weights, axis, build)
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


def _summed(value: ir.Value, weights: Array) -> int | None:
    """The axis that all who read the weights sum over, a scale for each place of the others; None: they stay float."""
    reads = {_read(use.node, use.idx, weights.ndim) for use in value.uses()}
    if reads == {_TABLE} and weights.size < SMALL_TABLE:
        return None
    axes = {1 if read == _TABLE else read for read in reads}  # a row of a table has a scale
    axis = next(iter(axes), None)
    return axis if len(axes) == 1 and isinstance(axis, int) and (weights.ndim == 2 or _TABLE not in reads) else None


def _read(node: ir.Node, place: int, dimensions: int) -> int | str:
    """How a node reads the weights that are its input ``place``: the axis that it sums over, or ``table`` for rows."""
    if node.op_type in _RECURRENT and place in (1, 2):  # (1, gates * H, D)
        return 2
    if node.op_type == "MatMul" and place == 1:  # (D, N)
        return dimensions - 2
    if node.op_type == "Gemm" and place == 1:
        return 1 if _attribute(node, "transB") else 0
    if node.op_type == "Gather" and place == 0 and not _attribute(node, "axis"):
        return _TABLE
    return "other"


def _shrink(graph: ir.Graph, value: ir.Value, weights: Array, axis: int, build: Builder) -> None:
    """Everybody who reads the weights reads integers and scales."""
    numbers, units = channels(weights, axis)
    integers = build.constant(numbers, name=str(value.name))
    scales = build.constant(units, name=f"{value.name}{_SCALES}")
    for number, use in enumerate(tuple(value.uses())):
        node, steps = use.node, Builder(f"{integers.name}.{number}")
        if node.op_type == "Gather":
            steps.replace(graph, node, [_rows(node, integers, scales, steps)])
        elif weights.size >= LARGE and weights.ndim == 2 and node.graph is graph and _plain_product(node):
            steps.replace(graph, node, [_product(node, integers, scales, axis, steps)])
    if value.uses():
        whole = build("Mul", build("Cast", integers, to=ir.DataType.FLOAT), scales)
        whole.type, whole.shape = value.type, value.shape
        ir.convenience.replace_all_uses_with(value, whole)


def _rows(node: ir.Node, integers: ir.Value, scales: ir.Value, build: Builder) -> ir.Value:
    """Rows of an embedding: the integers and the scales are gathered, so that only what is read becomes float."""
    ids = node.inputs[1]
    row = build("Cast", build("Gather", integers, ids, axis=0), to=ir.DataType.FLOAT)
    return build("Mul", row, build("Gather", scales, ids, axis=0))


def _plain_product(node: ir.Node) -> bool:
    """Whether it is x W or x W + b; a Gemm may have factors and x the other way round."""
    if node.op_type != "Gemm":
        return node.op_type == "MatMul"
    factors = [node.attributes[name].as_float() for name in ("alpha", "beta") if name in node.attributes]
    return not _attribute(node, "transA") and all(factor == 1 for factor in factors)


def _product(node: ir.Node, integers: ir.Value, scales: ir.Value, axis: int, build: Builder) -> ir.Value:
    r"""x (..., D) times integers.

    .. math:: x \approx u\, (a + b / 126) \qquad u = \max |x| / 63 \qquad a, b \in \{-63, \dots, 63\}

    The two halves a and b are rows of one product, which reads the matrix once.
    """
    x = node.inputs[0]
    if axis == 1:  # (N, D)
        integers, scales = build("Transpose", integers, perm=[1, 0]), build("Transpose", scales, perm=[1, 0])
    largest = build("ReduceMax", build("Abs", x), build.integers(-1), keepdims=1)
    # 0 / 0 would be no number, of which there is no byte.
    above_zero = build("Max", largest, build.constant(np.finfo(np.float32).tiny * _STEPS, np.float32))
    unit = build("Mul", above_zero, build.constant(1 / _STEPS, np.float32))
    scaled = build("Div", x, unit)
    coarse = build("Round", scaled)
    rest = build("Mul", build("Sub", scaled, coarse), build.constant(2 * _STEPS, np.float32))
    halves = build("Concat", coarse, build("Round", rest), axis=0)
    bytes_ = build("Cast", build("Add", halves, build.constant(_ZERO, np.float32)), to=ir.DataType.UINT8)
    sums = build("MatMulInteger", bytes_, integers, build.constant(_ZERO, np.uint8))
    units = build("Concat", unit, build("Mul", unit, build.constant(0.5 / _STEPS, np.float32)), axis=0)
    one, other = build.several(
        "Split", [build("Mul", build("Cast", sums, to=ir.DataType.FLOAT), units)], outputs=2, axis=0, num_outputs=2
    )
    found = build("Mul", build("Add", one, other), scales)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    return found if bias is None else build("Add", found, bias)


def _attribute(node: ir.Node, name: str) -> int:
    """A whole number that is 0 where the node does not say."""
    return node.attributes[name].as_int() if name in node.attributes else 0


def _float_weights(owners: tuple[ir.Graph, ...]) -> list[str]:
    """``Conv: chars.conv.weight (5000 weights)`` for each large float array, largest first."""
    found: list[tuple[int, str]] = []
    for value in (value for owner in owners for value in owner.initializers.values()):
        size = int(np.prod(value.shape.numpy())) if value.shape is not None else 0
        if value.dtype == ir.DataType.FLOAT and size >= SMALL and not str(value.name).endswith(_SCALES):
            user = next((use.node.op_type for use in value.uses()), "output")
            found.append((size, f"{user}: {value.name} ({size} weights)"))
    return [line for _, line in sorted(found, key=lambda pair: -pair[0])]
