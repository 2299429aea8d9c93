"""Weights are named as in the net, for reports that people read, and a copy is no weight of its own."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ir = pytest.importorskip("onnx_ir")
pytestmark = pytest.mark.train

from riverrun.export.builder import Builder  # noqa: E402
from riverrun.export.places import name_weights  # noqa: E402

SCOPES = {"pkg.torch.onnx.name_scopes": "['', 'net', 'net.encoder', 'linear']"}


def named(*arrays: tuple[str, np.ndarray], weights: dict[str, np.ndarray]) -> tuple[list[str], list[str]]:
    """The names of weights that a sum reads one after the other: as they are read, and those in the file."""
    build = Builder("test")
    x = ir.val("x", ir.DataType.FLOAT, (4,))
    out = x
    for name, array in arrays:
        value = build.constant(array, np.float32)
        value.name = name
        out = build("Add", out, value)
        out.producer().metadata_props.update(SCOPES)
    graph = ir.Graph([x], [out], nodes=build.nodes, initializers=build.constants, opset_imports={"": 18}, name="test")
    given = {name: torch.from_numpy(array.astype(np.float32)) for name, array in weights.items()}
    name_weights(ir.Model(graph, ir_version=10), given)
    return [str(node.inputs[1].name) for node in graph], sorted(map(str, graph.initializers))


ONE, TWO, MATRIX = np.arange(4.0), np.arange(4.0) + 1, np.ones((3, 4))


def test_parameters_keep_their_names_and_others_have_their_place():
    found = named(("net.b", ONE), ("val_1", MATRIX), ("val_2", TWO), weights={"net.b": ONE})
    assert found == (["b", "encoder.1", "val_2"], ["b", "encoder.1", "val_2"])


@pytest.mark.parametrize("first", ["net.b", "val_1"])
def test_copies_of_a_vector_are_the_vector(first):
    second = {"net.b": "val_1", "val_1": "net.b"}[first]
    found = named((first, ONE), (second, ONE), ("val_7", ONE), ("val_2", TWO), weights={"net.b": ONE})
    assert found == (["b", "b", "b", "val_2"], ["b", "val_2"])


def test_no_name_of_an_input_is_taken():
    assert named(("net.x", ONE), weights={"net.x": TWO})[0] == ["net.x"]
