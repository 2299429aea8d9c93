"""The way from a trained net to a file: trace, replace the recurrences, quantise, compare, then give it its name."""

from __future__ import annotations

import copy
import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.passes import common as passes

from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.decode.scorer import Chain, Labels
from riverrun.errors import RiverrunError
from riverrun.export.int8 import quantize
from riverrun.export.parity import compare, default_axes, ragged_batches, random_batch, require
from riverrun.export.replace import replace_recurrences
from riverrun.export.report import ExportReport
from riverrun.export.tidy import tidy
from riverrun.export.trace import OPSET, output_names, scores_of, trace
from riverrun.nn.models.scorer import NetScorer, to_numpy, to_tensor
from riverrun.runtime.info import KEY, GraphInfo
from riverrun.runtime.session import Session
from riverrun.text.durable import write_durably

TOLERANCE = 1e-5  # of a float32 graph, relative to the largest score
AGREEMENT = 0.98  # of an int8 graph on real batches: the least share of equal decisions

_TRACED_SIZES = {"B": 2, "T": 3, "S": 4, "U": 5, "L": 6}


def export_graph(
    net: torch.nn.Module,
    example: Batch,
    path: str | os.PathLike[str],
    *,
    int8: bool = False,
    check: Iterable[Batch] = (),
    axes: Mapping[str, str] | None = None,
) -> ExportReport:
    """Write ``net.scores`` as an ONNX graph that ``runtime.Session`` runs; nothing is written unless it is the model.

    The float graph must agree with the net on random ragged batches and on those of ``check``, or a RiverrunError says
    how far off it is. An int8 graph must moreover decide as the net does for a share of AGREEMENT of the positions of
    ``check``; without ``check`` its agreement on random batches is reported, and nothing is asked of it.

    Args:
        net: a module with ``scores(batch) -> Chain | Labels``; it is copied, its mode and device stay as they are.
        example: a batch of the kind that the graph will get; its names, types and values count, not its sizes.
        path: the file to write.
        int8: tables, LSTMs and large products as 8-bit integers.
        check: real batches, numpy or torch.
        axes: field -> the letters of its leading dimensions, from B, T, S, U, L, equal ones of equal size; by default
            those of ``default_axes``.
    """
    net = copy.deepcopy(net).to("cpu", torch.float32).eval()
    original = NetScorer(net)
    template = _read(net, example.map(to_numpy))
    axes = default_axes(template) if axes is None else axes
    given = [batch.map(to_numpy) for batch in check]
    trials = [*ragged_batches(template, axes), *given]

    batch = random_batch(template, axes, sizes=_TRACED_SIZES, rng=np.random.default_rng(1))
    scores = original.scores(batch)
    model = trace(net, batch.map(to_tensor), axes, output_names(scores))
    became = replace_recurrences(model)
    tidy(model)
    info = GraphInfo(rows=_rows(batch, axes, scores), model=_hash(net))
    stayed: tuple[str, ...] = ()
    with tempfile.TemporaryDirectory(prefix="riverrun-export-") as folder:
        draft = Path(folder) / "model.onnx"
        _save(model, info, draft)
        parity = compare(original, Session(draft), trials)
        require(parity, tolerance=TOLERANCE, what="the exported graph")
        if int8:
            stayed = tuple(quantize(model))
            _save(model, GraphInfo(rows=info.rows, model=info.model, int8=True), draft)
            parity = compare(original, Session(draft), given or trials)
            if given and parity.agreement < AGREEMENT:
                raise RiverrunError(
                    f"export: the int8 graph decides as the model does at {parity.agreement:.2%} of the positions of "
                    f"{len(given)} batches, at least {AGREEMENT:.0%} is asked; nothing was written. "
                    "Export without int8"
                )
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_durably(Path(path), draft.read_bytes())
    size = Path(path).stat().st_size
    return ExportReport(Path(path), size, parity.max_error, parity.agreement, became, stayed, OPSET)


class _Watched(Batch):
    """A batch that remembers what was read of it."""

    def __init__(self, values: Batch) -> None:
        self.seen: set[str] = set()
        super().__init__(dict(values))

    def __getitem__(self, name: str) -> Any:
        self.seen.add(name)
        return super().__getitem__(name)


def _read(net: torch.nn.Module, example: Batch) -> Batch:
    """The fields that the net reads: a training batch has tags too, which nobody has who runs the graph."""
    watched = _Watched(example.map(to_tensor))
    with torch.no_grad():
        scores_of(net, watched)
    return Batch({name: value for name, value in example.items() if name in watched.seen})


def _rows(batch: Batch, axes: Mapping[str, str], scores: Chain | Labels) -> str:
    """A field whose rows are the examples, and if there is a chain, its positions those of the chain."""
    for name, value in batch.items():
        if axes[name].startswith("B") and (
            isinstance(scores, Labels) or (isinstance(value, Padded) and np.array_equal(value.lengths, scores.lengths))
        ):
            return name
    raise RiverrunError(f"export: no field that the net reads has the rows of the scores; the axes are {dict(axes)}")


def _hash(net: torch.nn.Module) -> str:
    """The hash of the weights, by name."""
    digest = hashlib.sha256()
    for name, value in sorted(net.state_dict().items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(np.ascontiguousarray(to_numpy(value)).tobytes())
    return digest.hexdigest()


def _save(model: ir.Model, info: GraphInfo, path: Path) -> None:
    """The file without stack traces, paths and versions of this machine, so that equal weights are equal bytes."""
    passes.ClearMetadataAndDocStringPass()(model)
    model.producer_name, model.producer_version = "riverrun", None
    model.metadata_props.clear()
    model.metadata_props[KEY] = info.write()
    ir.save(model, path)
