"""Every recurrence of a graph becomes what ONNX Runtime can run: its own operator where exact, else a Scan."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common as passes

from riverrun.export import operators, scan
from riverrun.export.builder import Builder
from riverrun.export.places import place
from riverrun.export.recurrence import Recurrence

DOMAIN, OP = "riverrun", "Recurrence"


def replace_recurrences(model: ir.Model) -> tuple[str, ...]:
    """Replace each ``riverrun::Recurrence`` node, in place; returns what became of each: ``lstm -> LSTM``."""
    done = []
    for number, node in enumerate([n for n in model.graph if (n.domain, n.op_type) == (DOMAIN, OP)]):
        recurrence, builder = Recurrence.read(node), Builder(f"{number}:{place(node)}")
        operator = operators.exact(recurrence.graph)
        if operator is None:
            outputs = scan.build(recurrence, builder)
        else:
            outputs = operators.build(recurrence, operator, builder)
        builder.replace(model.graph, node, outputs)
        done.append(f"{recurrence.graph.kind} -> {operator.op if operator else 'Scan'}")
    model.opset_imports.pop(DOMAIN, None)
    passes.RemoveUnusedNodesPass()(model)  # and the weights in their old order
    return tuple(done)
