"""Where in the net a node of the graph comes from, and weights named accordingly, for reports that people read."""

from __future__ import annotations

import ast

import onnx_ir as ir

_SCOPES = "pkg.torch.onnx.name_scopes"  # where the exporter keeps the modules around a node
_NET = "net."  # the exported module holds the net under this name


def place(node: ir.Node) -> str:
    """The innermost module that a node comes from: ``encoder.layers.0``; ``net`` for the net itself."""
    scopes = [str(scope) for scope in ast.literal_eval(node.metadata_props.get(_SCOPES, "[]"))]
    inside = [scope.removeprefix(_NET) for scope in scopes if scope.startswith(_NET)]
    return inside[-1] if inside else "net"


def name_weights(model: ir.Model) -> None:
    """Parameters under their names in the net; what was computed from them under the place where it is used."""
    graph = model.graph
    taken = {value.name for value in (*graph.inputs, *graph.outputs)}
    for number, node in enumerate(graph):
        for value in () if node.domain else node.inputs:
            if value is None or not value.is_initializer() or value.name in taken:
                continue
            own = str(value.name).removeprefix(_NET)
            name = own if own != value.name else f"{place(node)}.{number}"
            if name not in taken and (name == own or len(value.shape or ()) > 1):
                taken.add(name)
                value.name = name
