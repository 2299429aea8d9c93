"""From a traced graph to a file: recurrences replaced, small if asked, compared, and only then given its name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import onnx_ir as ir
from onnx_ir.passes import common as passes

from riverrun.errors import RiverrunError
from riverrun.export.int8 import quantize
from riverrun.export.parity import Parity, require
from riverrun.export.replace import replace_recurrences
from riverrun.export.report import ExportReport
from riverrun.export.tidy import tidy
from riverrun.export.trace import OPSET
from riverrun.runtime.info import KEY, GraphInfo
from riverrun.text.durable import write_durably

TOLERANCE = 1e-5  # of a float32 graph, relative to the largest score
LIMIT = 2_000_000_000  # bytes of weights: an ONNX file, which is one protobuf message, has 2 GiB at most


def write_graph(
    model: ir.Model,
    info: GraphInfo,
    path: str | os.PathLike[str],
    *,
    judge: Callable[[Path], Parity],
    judge_int8: Callable[[Path], Parity] | None = None,
) -> ExportReport:
    """Write a graph that was traced; nothing is written where it is not the model.

    Args:
        model: its recurrences are single nodes; it is changed.
        info: what the file says of itself.
        path: the file to write.
        judge: how far the graph in a file is from the model; further than TOLERANCE is a RiverrunError.
        judge_int8: the same with weights in 8 bits, where they are asked for; it raises what it does not accept.

    A model that has more than LIMIT bytes is written where it is small enough in 8 bits.
    """
    became = replace_recurrences(model)
    tidy(model)
    if judge_int8 is None:
        _check_size(model, "of 32 bits; export with int8")
    stayed: tuple[str, ...] = ()
    with tempfile.TemporaryDirectory(prefix="riverrun-export-") as folder:
        draft = Path(folder) / "model.onnx"
        _save(model, info, draft)
        parity = judge(draft)
        require(parity, tolerance=TOLERANCE, what="the exported graph")
        if judge_int8 is not None:
            stayed = tuple(quantize(model))
            _check_size(model, "in 8 bits")
            _save(model, msgspec.structs.replace(info, int8=True), draft)
            parity = judge_int8(draft)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_durably(Path(path), draft.read_bytes())
    size = Path(path).stat().st_size
    return ExportReport(Path(path), size, parity.max_error, parity.agreement, became, stayed, OPSET, parity.cost)


def _save(model: ir.Model, info: GraphInfo, path: Path) -> None:
    """The file without stack traces, paths and versions of this machine, so that equal weights are equal bytes."""
    passes.ClearMetadataAndDocStringPass()(model)
    model.producer_name, model.producer_version = "riverrun", None
    model.metadata_props.clear()
    model.metadata_props[KEY] = info.write()
    ir.save(model, path, external_data=f"{path.name}.data" if _bytes(model) > LIMIT else None)


def _bytes(model: ir.Model) -> int:
    owners = (model.graph, *model.graph.subgraphs())
    values = (value.const_value for owner in owners for value in owner.initializers.values())
    return sum(value.nbytes for value in values if value is not None)


def _check_size(model: ir.Model, how: str) -> None:
    if (size := _bytes(model)) > LIMIT:
        raise RiverrunError(
            f"export: expected at most {LIMIT / 1e9:.1f} GB of weights, which is what an ONNX file holds, received "
            f"{size / 1e9:.1f} GB {how}"
        )
