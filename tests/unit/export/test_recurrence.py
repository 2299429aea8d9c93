"""What a layer says of itself while it is exported is read back, and a weight that is no constant is refused."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
ir = pytest.importorskip("onnx_ir")
pytestmark = pytest.mark.train

from riverrun.errors import RiverrunError  # noqa: E402
from riverrun.export.builder import Builder  # noqa: E402
from riverrun.export.places import place  # noqa: E402
from riverrun.export.recurrence import Recurrence  # noqa: E402
from riverrun.nn.cells import make_cell  # noqa: E402
from riverrun.nn.cells.store import dumps  # noqa: E402

D, H = 3, 4


def node(*, computed: bool = False) -> ir.Node:
    """A recurrence as the layer writes it, where nobody reads h at the end."""
    build = Builder("test")
    weight = build.constant(np.ones((4 * H, D), np.float32))
    inputs = {
        "x": ir.val("x", ir.DataType.FLOAT, ("B", "T", D)),
        "lengths": ir.val("lengths", ir.DataType.INT64, ("B",)),
        "W": build("Neg", weight) if computed else weight,
        "b": build.constant(np.zeros(4 * H, np.float32)),
        **{f"R.{gate}": build.constant(np.full((H, H), k, np.float32)) for k, gate in enumerate("ifgo")},
        "s.h": ir.val("h", ir.DataType.FLOAT, ("B", H)),
        "s.c": ir.val("c", ir.DataType.FLOAT, ("B", H)),
    }
    attributes = {
        "graph": dumps(make_cell("lstm").graph),
        "hidden": H,
        "reverse": 1,
        "inputs": ",".join(list(inputs)[2:]),
    }
    found = ir.node("Recurrence", list(inputs.values()), attributes, domain="riverrun", num_outputs=3, name="node")
    found.outputs[0].shape = ir.Shape(("B", "T", H))
    build("Neg", found.outputs[2])
    return found


def test_everything_is_found_under_its_name():
    found = Recurrence.read(node())
    assert (found.graph.kind, found.hidden, found.reverse) == ("lstm", H, True)
    assert (found.x.name, found.lengths.name) == ("x", "lengths")
    assert {name: array.shape for name, array in found.weights.items()} == {
        "W": (4 * H, D),
        "b": (4 * H,),
        **{f"R.{gate}": (H, H) for gate in "ifgo"},
    }
    assert [int(found.weights[f"R.{gate}"][0, 0]) for gate in "ifgo"] == [0, 1, 2, 3]
    assert {name: value.name for name, value in found.states.items()} == {"h": "h", "c": "c"}
    assert (found.wanted("h"), found.wanted("c")) == (False, True)
    widths = found.graph.named
    assert [found.size(widths[name]) for name in ("input", "hidden")] == [D, H]


def test_a_weight_that_is_computed_from_the_input_is_refused():
    with pytest.raises(RiverrunError, match=r"export: .*: the weight W is computed in the graph, expected a constant"):
        Recurrence.read(node(computed=True))


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [("['', 'net', 'net.encoder.layers.0', 'linear']", "encoder.layers.0"), ("['', 'cat']", "net"), (None, "net")],
)
def test_a_node_says_where_it_comes_from(scopes, expected):
    found = node()
    if scopes is not None:
        found.metadata_props["pkg.torch.onnx.name_scopes"] = scopes
    assert place(found) == expected
