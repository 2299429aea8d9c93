"""Masks are written shorter, and compute the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("torch")
ir = pytest.importorskip("onnx_ir")
pytestmark = pytest.mark.train

import onnxruntime as ort  # noqa: E402

from riverrun.export.builder import Builder  # noqa: E402
from riverrun.export.tidy import tidy  # noqa: E402


class Masked:
    """x masked several times: ``mask(x, number)`` as the exporter writes it."""

    def __init__(self) -> None:
        self.build = Builder("test")
        self.x = ir.val("x", ir.DataType.FLOAT, ("B", "T", 3))
        self.there = ir.val("there", ir.DataType.BOOL, ("B", "T", 1))
        self.numbers = {value: self.build.constant(value, np.float32) for value in (0.0, 7.0)}

    def mask(self, x: ir.Value, number: float, *, shape: ir.Value | None = None, **part: int) -> ir.Value:
        zeros = self.build("Expand", self.numbers[number], self.build("Shape", x if shape is None else shape, **part))
        return self.build("Where", self.there, x, zeros)

    def run(self, out: ir.Value) -> tuple[Counter, np.ndarray, np.ndarray]:
        """How many nodes of each kind are left, and the values before and after."""
        out.name, out.type = "out", ir.TensorType(ir.DataType.FLOAT)
        graph = ir.Graph(
            [self.x, self.there], [out], nodes=self.build.nodes, initializers=self.build.constants,
            opset_imports={"": 18}, name="test",
        )  # fmt: skip
        model, values = ir.Model(graph, ir_version=10), []
        rng = np.random.default_rng(0)
        feed = {"x": rng.normal(size=(2, 4, 3)).astype(np.float32), "there": rng.random((2, 4, 1)) < 0.5}
        for change in (lambda _: None, tidy):
            change(model)
            proto = ir.to_proto(model).SerializeToString()
            values.append(ort.InferenceSession(proto, providers=["CPUExecutionProvider"]).run(None, feed)[0])
        return Counter(node.op_type for node in graph), values[0], values[1]


def test_a_mask_needs_no_array_of_zeros_and_is_put_on_once():
    masked = Masked()
    twice = masked.mask(masked.mask(masked.x, 0.0, start=0), 0.0)
    nodes, before, after = masked.run(masked.build("Tanh", twice))
    assert nodes == {"Where": 1, "Tanh": 1}
    np.testing.assert_array_equal(after, before)


def test_other_numbers_and_other_masks_stay():
    masked = Masked()
    other = masked.mask(masked.mask(masked.x, 0.0), 7.0)
    negated = masked.build("Where", masked.build("Not", masked.there), other, masked.numbers[7.0])
    nodes, before, after = masked.run(masked.build("Tanh", negated))
    assert nodes == {"Where": 3, "Not": 1, "Tanh": 1}
    np.testing.assert_array_equal(after, before)


def test_an_array_of_another_shape_stays():
    masked = Masked()
    row = masked.build("Slice", masked.x, *(masked.build.integers(k) for k in (0, 1, 0)))  # (1, T, 3)
    nodes, before, after = masked.run(masked.build("Tanh", masked.mask(row, 0.0, shape=masked.x)))
    assert nodes["Expand"] == 1
    np.testing.assert_array_equal(after, before)
