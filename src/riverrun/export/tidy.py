"""What the exporter writes at length, shorter: padding is set to zero by several layers, each by an array of zeros."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common as passes

from riverrun.export.builder import constant_of


def tidy(model: ir.Model) -> None:
    """Masks without arrays of zeros, and each one once; in place, the values stay the same to the bit."""
    graph = model.graph
    for node in tuple(graph):
        if node.op_type != "Where":
            continue
        number = _filled(node.inputs[2], like=node.inputs[1])
        if number is not None:
            node.replace_input_with(2, number)
        mask, x, other = node.inputs
        before = x.producer() if x is not None else None
        if (
            x is not None
            and before is not None
            and before.op_type == "Where"
            and (before.inputs[0], before.inputs[2]) == (mask, other)
        ):
            ir.convenience.replace_all_uses_with(node.outputs[0], x)
    passes.RemoveUnusedNodesPass()(model)


def _filled(value: ir.Value | None, *, like: ir.Value | None) -> ir.Value | None:
    """The number that an array of the shape of another one is filled with; None for any other array."""
    expand = value.producer() if value is not None else None
    if expand is None or expand.op_type != "Expand":
        return None
    number, shape = expand.inputs[0], expand.inputs[1]
    size = constant_of(number)
    source = shape.producer() if shape is not None else None
    if source is None or source.op_type != "Shape" or source.inputs[0] is not like:
        return None
    start = source.attributes.get("start")
    whole = "end" not in source.attributes and (start is None or start.as_int() == 0)
    return number if whole and size is not None and size.size == 1 else None
