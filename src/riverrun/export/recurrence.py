"""A recurrence as the layer described it while it was exported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from riverrun.errors import RiverrunError
from riverrun.export.builder import constant_of
from riverrun.nn.cells.graph import Graph, Width
from riverrun.nn.cells.store import loads


@dataclass(frozen=True)
class Recurrence:
    """One ``riverrun::Recurrence`` node, read: what a layer said about itself while it was exported.

    Args:
        node: the node itself.
        graph: the cell's traced step.
        hidden: H.
        reverse: whether time runs backwards, by the length of each row.
        x: (B, T, D), zero in the padding.
        lengths: (B,) int64.
        weights: ``W``, ``b``, ``R.<gate>``, ``p.<parameter>`` -> array.
        states: name -> (B, width), the state at the start.
    """

    node: ir.Node
    graph: Graph
    hidden: int
    reverse: bool
    x: ir.Value
    lengths: ir.Value
    weights: dict[str, np.ndarray[Any, Any]]
    states: dict[str, ir.Value]

    @staticmethod
    def read(node: ir.Node) -> Recurrence:
        """The node's inputs and attributes under their names."""
        attributes = node.attributes
        names = attributes["inputs"].as_string().split(",")
        values = dict(zip(names, node.inputs[2:], strict=True))
        weights = {}
        for name in names:
            if name.startswith("s."):
                continue
            array = constant_of(values[name])
            if array is None:
                raise RiverrunError(
                    f"export: {node.name}: the weight {name} is computed in the graph, expected a constant"
                )
            weights[name] = array
        return Recurrence(
            node=node,
            graph=loads(attributes["graph"].as_string()).quiet(),
            hidden=attributes["hidden"].as_int(),
            reverse=bool(attributes["reverse"].as_int()),
            x=_present(node.inputs[0]),
            lengths=_present(node.inputs[1]),
            weights=weights,
            states={name.removeprefix("s."): _present(values[name]) for name in names if name.startswith("s.")},
        )

    def size(self, width: Width) -> int:
        """How many units a vector of this width has."""
        whole = {"hidden": self.hidden, "input": _last(self.x), "output": _last(self.node.outputs[0])}
        return whole[width.size()]

    def wanted(self, state: str) -> bool:
        """Whether anybody reads this state at the end."""
        value = self.node.outputs[1 + list(self.states).index(state)]
        return bool(value.uses()) or value.is_graph_output()


def _present(value: ir.Value | None) -> ir.Value:
    if value is None:
        raise RiverrunError("export: a recurrence without its input or lengths")
    return value


def _last(value: ir.Value) -> int:
    if value.shape is None or not isinstance(size := value.shape[-1], int):
        raise RiverrunError(f"export: {value.name}: the number of units is not known, its shape is {value.shape}")
    return size
