"""What stands in the file beside the graph, and that it is there whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ir = pytest.importorskip("onnx_ir")
pytestmark = pytest.mark.train

from riverrun.data.batch import Batch  # noqa: E402
from riverrun.decode.scorer import Labels  # noqa: E402
from riverrun.errors import RiverrunError  # noqa: E402
from riverrun.export import write  # noqa: E402
from riverrun.export.builder import Builder  # noqa: E402
from riverrun.export.graph import export_graph  # noqa: E402
from riverrun.export.parity import Parity  # noqa: E402
from riverrun.export.report import ExportReport  # noqa: E402
from riverrun.export.write import write_graph  # noqa: E402
from riverrun.runtime.graph import Graph  # noqa: E402
from riverrun.runtime.info import GraphInfo  # noqa: E402
from riverrun.runtime.session import Session  # noqa: E402


class Line(torch.nn.Module):
    """A linear classifier of vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.out = torch.nn.Linear(3, 2)

    def scores(self, batch: Batch) -> Labels:
        return Labels(self.out(batch["x"]))


def example(rows: int = 4) -> Batch:
    return Batch(x=np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32), label=np.zeros(rows, np.int64))


def test_a_graph_says_what_it_is(tmp_path):
    net = Line()
    report = export_graph(net, example(), tmp_path / "new" / "line.onnx")
    session = Session(report.path)
    assert list(session.inputs) == ["x"]  # the label is not read
    assert (session.info.rows, session.info.int8, session.outputs) == ("x", False, ("logits",))
    assert str(report).splitlines() == [
        f"{report.path}: 0.00 MB, ONNX opset 18, no recurrence",
        f"largest difference from the model {report.max_error:.1e}, equal decisions 100.00%",
    ]
    assert report.bytes == report.path.stat().st_size
    for rows in (0, 1, 9):
        expected = net.scores(example(rows).map(torch.from_numpy)).logits.detach().numpy()
        np.testing.assert_allclose(session.scores(example(rows)).logits, expected, atol=1e-6)
    graph = ir.load(report.path)
    assert graph.opset_imports == {"": 18} and graph.ir_version == 10
    assert (graph.producer_name, graph.producer_version or "") == ("riverrun", "")
    assert not any(node.metadata_props or node.doc_string for node in graph.graph)
    assert "out.bias" in graph.graph.initializers  # weights have the names that they have in the net

    with torch.no_grad():
        net.out.bias += 1
    assert Session(export_graph(net, example(), tmp_path / "other.onnx").path).info.model != session.info.model


def test_scores_without_a_field_of_their_rows_are_an_error(tmp_path):
    with pytest.raises(
        RiverrunError, match=r"no field that the net reads has the rows of the scores; the axes are {'x': "
    ):
        export_graph(Line(), example(), tmp_path / "model.onnx", axes={"x": "U", "label": "U"})


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_text("the one before")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        export_graph(Line(), example(), path)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["the one before"]


def product(path: Path, drafts: list[list[str]], *, int8: bool = False) -> ExportReport:
    """A graph with 40 KB of weights, or a quarter; ``drafts`` is told the files that are compared with the model."""
    build = Builder("test")
    x = ir.val("x", ir.DataType.FLOAT, ("B", 100))
    out = build("MatMul", x, build.constant(np.ones((100, 100)), np.float32, name="weights"))
    out.name, out.type, out.shape = "out", ir.TensorType(ir.DataType.FLOAT), ir.Shape(("B", 100))
    graph = ir.Graph([x], [out], nodes=build.nodes, initializers=build.constants, opset_imports={"": 18}, name="test")

    def judge(draft: Path) -> Parity:
        drafts.append(sorted(file.name for file in draft.parent.iterdir()))
        given = np.ones((2, 100), np.float32)
        return Parity(float(np.abs(Graph(draft).run({"x": given})["out"] - 100).max()), 1.0, 1)

    return write_graph(
        ir.Model(graph, ir_version=10), GraphInfo(rows="x"), path, judge=judge, judge_int8=judge if int8 else None
    )


def test_a_model_that_no_file_holds_says_so(tmp_path, monkeypatch):
    path, drafts = tmp_path / "model.onnx", []
    monkeypatch.setattr(write, "LIMIT", 30_000)
    with pytest.raises(RiverrunError, match=r"at most 0\.0 GB .*, received 0\.0 GB of 32 bits; export with int8"):
        product(path, drafts)
    assert not list(tmp_path.iterdir())
    report = product(path, drafts, int8=True)  # in 8 bits it is small enough
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"] and report.bytes < 15_000
    # The one of 32 bits was compared all the same, with its weights in a file of their own.
    assert drafts[0] == ["model.onnx", "model.onnx.data"] and len(drafts) == 2
    monkeypatch.setattr(write, "LIMIT", 3000)
    with pytest.raises(RiverrunError, match=r"received 0\.0 GB in 8 bits"):
        product(path, drafts, int8=True)
    assert Graph(path).info.int8  # what was there is there
