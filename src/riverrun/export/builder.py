"""Writing ONNX nodes one after the other, as one writes expressions; weights are numpy arrays until they are placed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir


class Builder:
    """Collects nodes and constants, first for an expression, then for a graph.

    >>> build = Builder("demo")
    >>> x = ir.val("x", ir.DataType.FLOAT, (2, 3))
    >>> y = build("Transpose", x, perm=[1, 0])
    >>> [node.op_type for node in build.nodes]
    ['Transpose']
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._count = 0
        self.nodes: list[ir.Node] = []
        self.constants: list[ir.Value] = []

    def __call__(self, op: str, *inputs: ir.Value | None, domain: str = "", **attributes: Any) -> ir.Value:
        """A node with one output, which is returned."""
        return self.several(op, inputs, outputs=1, domain=domain, **attributes)[0]

    def several(
        self, op: str, inputs: Sequence[ir.Value | None], *, outputs: int, domain: str = "", **attributes: Any
    ) -> Sequence[ir.Value]:
        """A node with several outputs."""
        node = ir.node(op, inputs, attributes, domain=domain, num_outputs=outputs, name=self._name(op))
        for value in node.outputs:
            value.name = self._name(op)
        self.nodes.append(node)
        return node.outputs

    def constant(self, array: Any, dtype: Any = None, *, name: str = "") -> ir.Value:
        """An array as an initializer; a weight has a name, so that reports can speak of it."""
        name = f"{self.prefix}.{name}" if name else self._name("constant")
        known = next((value for value in self.constants if value.name == name), None)
        if known is not None:  # a product of two values has one matrix
            return known
        tensor = ir.tensor(np.ascontiguousarray(array, dtype))
        value = ir.Value(
            name=name, shape=ir.Shape(np.shape(array)), type=ir.TensorType(tensor.dtype), const_value=tensor
        )
        self.constants.append(value)
        return value

    def integers(self, *values: int) -> ir.Value:
        """A short vector of int64: axes, sizes, shapes."""
        return self.constant(values, np.int64)

    def replace(self, graph: ir.Graph, node: ir.Node, outputs: Sequence[ir.Value | None]) -> None:
        """Put what was collected where a node stands, and read ``outputs`` instead of its own; None: nobody does."""
        for value in self.constants:
            graph.register_initializer(value)
        old = [value for value, new in zip(node.outputs, outputs, strict=True) if new is not None]
        new = [value for value in outputs if value is not None]
        for before, after in zip(old, new, strict=True):
            after.shape, after.type = before.shape, before.type
        ir.convenience.replace_nodes_and_values(graph, node, [node], self.nodes, old, new)

    def _name(self, op: str) -> str:
        self._count += 1
        return f"{self.prefix}.{op}.{self._count}"


def constant_of(value: ir.Value | None) -> np.ndarray[Any, Any] | None:
    """The array of an initializer; None for a value that is computed or fed."""
    if value is None or value.const_value is None:
        return None
    return value.const_value.numpy()
