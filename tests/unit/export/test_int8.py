"""Weights in 8 bits: how far off they are, which ones are taken, what is said of the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
ir = pytest.importorskip("onnx_ir")
pytestmark = pytest.mark.train

import onnxruntime as ort  # noqa: E402

from riverrun.export import int8  # noqa: E402
from riverrun.export.builder import Builder  # noqa: E402
from riverrun.export.int8 import channels, quantize  # noqa: E402


@pytest.mark.parametrize("axis", [0, 1])
def test_no_weight_is_further_off_than_half_a_step(axis, rng):
    weights = rng.normal(size=(7, 9)).astype(np.float32) * np.logspace(-3, 3, 9, dtype=np.float32)
    integers, scales = channels(weights, axis)
    assert integers.dtype == np.int8 and scales.dtype == np.float32 and scales.size == weights.shape[1 - axis]
    assert (np.abs(integers * scales - weights) <= scales * 0.5001).all()
    assert (np.abs(integers).max(axis) == 127).all()


def test_a_channel_of_zeros_stays_zero():
    integers, scales = channels(np.zeros((3, 2), np.float32), 1)
    assert not integers.any() and np.isfinite(scales).all()


def model(table: np.ndarray, weights: np.ndarray) -> ir.Model:
    """table[ids] @ weights."""
    build = Builder("test")
    ids = ir.val("ids", ir.DataType.INT64, ("N",))
    rows = build("Gather", build.constant(table, name="table"), ids, axis=0)
    out = build("MatMul", rows, build.constant(weights, name="weights"))
    out.name, out.type, out.shape = "out", ir.TensorType(ir.DataType.FLOAT), ir.Shape(("N", weights.shape[1]))
    graph = ir.Graph([ids], [out], nodes=build.nodes, initializers=build.constants, opset_imports={"": 18}, name="test")
    return ir.Model(graph, ir_version=10)


def run(model: ir.Model, ids: np.ndarray) -> np.ndarray:
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"ids": ids})[0])


@pytest.mark.parametrize(
    ("rows", "outputs", "stay"), [(2000, 110, set()), (2000, 30, {"weights"}), (90, 110, {"table"})]
)
def test_large_weights_become_int8_and_small_ones_stay(rows, outputs, stay, rng):
    table = rng.normal(size=(rows, 40)).astype(np.float32)
    weights = rng.normal(size=(40, outputs)).astype(np.float32)
    graph, ids = model(table, weights), rng.integers(0, rows, 50)
    expected = run(graph, ids)
    np.testing.assert_allclose(expected, table[ids] @ weights, rtol=1e-4, atol=1e-4)
    assert quantize(graph) == []  # what is small is not worth a line
    floats = {name for name, value in graph.graph.initializers.items() if value.dtype == ir.DataType.FLOAT}
    assert {name for name in ("table", "weights") if f"test.{name}" in floats} == stay
    received = run(graph, ids)
    assert 0 < np.abs(received - expected).max() < 0.02 * np.abs(expected).max()


def test_a_table_that_two_read_and_a_product_of_two_inputs(rng):
    """What is not a weight is left alone; a weight that two nodes read becomes int8 for both."""
    table = rng.normal(size=(2000, 40)).astype(np.float32)
    build = Builder("test")
    ids = ir.val("ids", ir.DataType.INT64, ("N",))
    shared = build.constant(table, name="table")
    one, two = (build("Gather", shared, ids, axis=0) for _ in range(2))
    out = build("MatMul", one, build("Transpose", two, perm=[1, 0]))
    out.name, out.type, out.shape = "out", ir.TensorType(ir.DataType.FLOAT), ir.Shape(("N", "N"))
    graph = ir.Graph([ids], [out], nodes=build.nodes, initializers=build.constants, opset_imports={"": 18}, name="test")
    both = ir.Model(graph, ir_version=10)
    at = rng.integers(0, 2000, 9)
    assert quantize(both) == []
    assert [node.op_type for node in graph].count("MatMul") == 1
    np.testing.assert_allclose(run(both, at), table[at] @ table[at].T, atol=1.0)


def test_a_table_that_a_cache_holds_stays_float_and_is_named(rng):
    table, weights = rng.normal(size=(500, 40)).astype(np.float32), rng.normal(size=(40, 30)).astype(np.float32)
    assert quantize(model(table, weights)) == ["Gather: test.table (20000 weights)"]


def test_what_stays_float_is_said_largest_first(rng):
    build = Builder("test")
    x = ir.val("x", ir.DataType.FLOAT, ("N", 80))
    out = build(
        "Add",
        build("Mul", x, build.constant(rng.normal(size=(100, 80)).astype(np.float32), name="gain")),
        build.constant(rng.normal(size=(200, 1, 80)).astype(np.float32), name="bias"),
    )
    out.name, out.type = "out", ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([x], [out], nodes=build.nodes, initializers=build.constants, opset_imports={"": 18}, name="test")
    assert quantize(ir.Model(graph, ir_version=10)) == [
        "Add: test.bias (16000 weights)",
        "Mul: test.gain (8000 weights)",
    ]


@pytest.mark.parametrize(("op", "attributes"), [("MatMul", {}), ("Gemm", {}), ("Gemm", {"transB": 1})])
def test_each_output_has_a_scale_of_its_own(op, attributes, rng):
    """Outputs of very different sizes are all as near, so none is rounded by the scale of another."""
    weights = (rng.normal(size=(40, 110)) * np.logspace(-3, 3, 110)).astype(np.float32)
    x = rng.normal(size=(20, 40)).astype(np.float32)
    build = Builder("test")
    given = ir.val("ids", ir.DataType.FLOAT, ("N", 40))
    stored = weights.T if attributes else weights
    out = build(op, given, build.constant(stored, name="weights"), **attributes)
    out.name, out.type = "out", ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph(
        [given], [out], nodes=build.nodes, initializers=build.constants, opset_imports={"": 18}, name="test"
    )
    product = ir.Model(graph, ir_version=10)
    assert quantize(product) == []
    assert {v.dtype for v in graph.initializers.values() if v.name == "int8.test.weights"} == {ir.DataType.INT8}
    off = np.abs(run(product, x) - x @ weights).max(0) / np.abs(x @ weights).max(0)
    assert off.max() < 0.03


PRODUCTS: dict[str, tuple[str, dict[str, Any]]] = {
    "matmul": ("MatMul", {}),
    "gemm": ("Gemm", {}),
    "gemm-transposed": ("Gemm", {"transB": 1}),
}


def product(op: str, attributes: dict[str, Any], weights: np.ndarray, bias: np.ndarray, *, by: int = 0) -> ir.Model:
    """x W, and + b where the operator has it; ``by``: of how many dimensions x is besides."""
    build = Builder("test")
    x = ir.val("ids", ir.DataType.FLOAT, (*"NM"[: 1 + by], len(weights)))
    stored = weights.T if attributes.get("transB") else weights
    more = [build.constant(bias, name="bias")] if op == "Gemm" else []
    out = build(op, x, build.constant(stored, name="weights"), *more, **attributes)
    out.name, out.type = "out", ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([x], [out], nodes=build.nodes, initializers=build.constants, opset_imports={"": 18}, name="test")
    return ir.Model(graph, ir_version=10)


def rounded(weights: np.ndarray) -> np.ndarray:
    integers, scales = channels(weights, 0)
    return integers * scales.astype(np.float64)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_large_product_multiplies_integers_and_loses_only_the_rounding_of_its_weights(name, rng, monkeypatch):
    monkeypatch.setattr(int8, "LARGE", 40 * 110)
    op, attributes = PRODUCTS[name]
    weights, bias = rng.normal(size=(40, 110)).astype(np.float32), rng.normal(size=110).astype(np.float32)
    x = rng.normal(size=(20, 40)).astype(np.float32)
    x[3] *= 1000  # a row of large numbers, one of small ones, zeros, one number that is larger than the rest, numbers
    x[4] *= 1e-20  # that are all the largest there are
    x[5] = 0
    x[6, 7] = 100
    x[7], x[8] = 3, -3
    graph = product(op, attributes, weights, bias)
    assert quantize(graph) == []
    assert {node.op_type for node in graph.graph} >= {"MatMulInteger"} - {op}
    received = run(graph, x)
    expected = x @ rounded(weights) + (bias if op == "Gemm" else 0)
    # Each number is off by at most a part in 2 * 63 * 126 of the row's largest one.
    allowed = np.abs(x).max(1, keepdims=True) / (2 * 63 * 126) * np.abs(rounded(weights)).sum(0) + 1e-5
    assert (np.abs(received - expected) <= allowed * 1.01).all()
    np.testing.assert_array_equal(run(graph, x[2:3])[0], received[2])  # by itself


def test_a_product_of_three_dimensions(rng, monkeypatch):
    monkeypatch.setattr(int8, "LARGE", 40 * 110)
    weights, x = rng.normal(size=(40, 110)).astype(np.float32), rng.normal(size=(3, 5, 40)).astype(np.float32)
    graph = product("MatMul", {}, weights, weights[0], by=1)
    assert quantize(graph) == []
    np.testing.assert_allclose(run(graph, x), x @ rounded(weights), atol=0.01)


def test_smaller_products_and_those_with_factors_stay_float_products(rng, monkeypatch):
    weights, bias = rng.normal(size=(40, 110)).astype(np.float32), rng.normal(size=110).astype(np.float32)
    x = rng.normal(size=(4, 40)).astype(np.float32)
    for large, attributes in (
        (40 * 110 + 1, {}),
        (1, {"alpha": 0.5}),
        (1, {"beta": 2.0}),
        (1, {"transB": 1, "beta": 2.0}),
    ):
        monkeypatch.setattr(int8, "LARGE", large)
        graph = product("Gemm", attributes, weights, bias)
        assert quantize(graph) == []
        assert "MatMulInteger" not in {node.op_type for node in graph.graph}
        expected = attributes.get("alpha", 1) * x @ rounded(weights) + attributes.get("beta", 1) * bias
        np.testing.assert_allclose(run(graph, x), expected, atol=1e-4)


def test_a_table_that_is_a_matrix_too_is_stored_once(rng, monkeypatch):
    """Tied weights: rows are read, and a product sums over the columns."""
    table = rng.normal(size=(2000, 40)).astype(np.float32)
    for large in (1, 1 << 20):
        monkeypatch.setattr(int8, "LARGE", large)
        build = Builder("test")
        ids = ir.val("ids", ir.DataType.INT64, ("N",))
        shared = build.constant(table, name="table")
        out = build("Gemm", build("Gather", shared, ids, axis=0), shared, transB=1)
        out.name, out.type, out.shape = "out", ir.TensorType(ir.DataType.FLOAT), ir.Shape(("N", 2000))
        graph = ir.Graph(
            [ids], [out], nodes=build.nodes, initializers=build.constants, opset_imports={"": 18}, name="t"
        )
        tied = ir.Model(graph, ir_version=10)
        assert quantize(tied) == []
        sizes = [value.const_value.nbytes for value in graph.initializers.values()]
        assert sum(sizes) < 1.2 * table.size
        at = rng.integers(0, 2000, 9)
        near = rounded(table.T).T
        np.testing.assert_allclose(run(tied, at), near[at] @ near.T, atol=0.01 if large == 1 else 1e-4)


def test_weights_that_are_summed_over_different_axes_stay_float(rng):
    """No scale of a row is one of a column."""
    weights = rng.normal(size=(80, 80)).astype(np.float32)
    build = Builder("test")
    x = ir.val("ids", ir.DataType.FLOAT, ("N", 80))
    shared = build.constant(weights, name="weights")
    out = build("Gemm", build("MatMul", x, shared), shared, transB=1)
    out.name, out.type = "out", ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([x], [out], nodes=build.nodes, initializers=build.constants, opset_imports={"": 18}, name="test")
    assert quantize(ir.Model(graph, ir_version=10)) == ["MatMul: test.weights (6400 weights)"]


def test_no_processor_overflows():
    """Without VNNI two products are added in 16 bits."""
    assert 2 * 127 * (int8._ZERO + int8._STEPS) < 2**15
