"""Where in the net a node of the graph comes from, and weights named accordingly, for reports that people read."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.passes import common as passes

from riverrun.export.builder import constant_of

_SCOPES = "pkg.torch.onnx.name_scopes"  # where the exporter keeps the modules around a node
_NET = "net."  # the exported module holds the net under this name


def place(node: ir.Node) -> str:
    """The innermost module that a node comes from: ``encoder.layers.0``; ``net`` for the net itself."""
    scopes = [str(scope) for scope in ast.literal_eval(node.metadata_props.get(_SCOPES, "[]"))]
    inside = [scope.removeprefix(_NET) for scope in scopes if scope.startswith(_NET)]
    return inside[-1] if inside else "net"


def name_weights(model: ir.Model, weights: Mapping[str, torch.Tensor]) -> None:
    """Parameters under their names in the net; what was computed from them under the place where it is used.

    A vector that the exporter copied, as it does where one is transposed, is the vector itself again.

    Args:
        model: the graph of a module, its recurrences still single nodes.
        weights: those of the module by their names.
    """
    graph = model.graph
    taken = {value.name for value in (*graph.inputs, *graph.outputs)}
    named: dict[str, ir.Value] = {}
    for number, node in enumerate(graph):
        for value in () if node.domain else node.inputs:
            if value is None or not value.is_initializer() or value.name in taken or value.name in named:
                continue
            own = (str(value.name) if value.name in weights else _copied(value, weights)).removeprefix(_NET)
            name = own or f"{place(node)}.{number}"
            if own in named:
                ir.convenience.replace_all_uses_with(value, named[own])
            elif name not in taken and name not in named and (own or len(value.shape or ()) > 1):
                named[name], value.name = value, name
    passes.RemoveUnusedNodesPass()(model)


def _copied(value: ir.Value, weights: Mapping[str, torch.Tensor]) -> str:
    """The name of the vector that this one is a copy of; none where it is of no weight."""
    array = constant_of(value)
    if array is None or array.ndim != 1:
        return ""
    return next((name for name, weight in weights.items() if np.array_equal(weight.numpy(), array)), "")
