"""A net that scores as a graph: its example says what is read, its scores what comes out."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.decode.scorer import Chain, Labels
from riverrun.errors import RiverrunError
from riverrun.export.parity import Parity, compare, default_axes, ragged_batches, random_batch
from riverrun.export.report import ExportReport
from riverrun.export.trace import Scoring, output_names, scores_of, trace
from riverrun.export.write import write_graph
from riverrun.nn.models.scorer import NetScorer, to_numpy, to_tensor
from riverrun.runtime.info import GraphInfo
from riverrun.runtime.session import Session
from riverrun.train.weights import fingerprint

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
    scores, flat = original.scores(batch), batch.map(to_tensor).flat()
    model = trace(Scoring(net, tuple(flat)), flat, axes, output_names(scores))

    def judge(draft: Path) -> Parity:
        return compare(original, Session(draft), trials)

    def judge_int8(draft: Path) -> Parity:
        parity = compare(original, Session(draft), given or trials)
        if given and parity.agreement < AGREEMENT:
            raise RiverrunError(
                f"export: the int8 graph decides as the model does at {parity.agreement:.2%} of the positions of "
                f"{len(given)} batches, at least {AGREEMENT:.0%} is asked; nothing was written. Export without int8"
            )
        return parity

    info = GraphInfo(rows=_rows(batch, axes, scores), model=fingerprint(net.state_dict()))
    return write_graph(model, info, path, judge=judge, judge_int8=judge_int8 if int8 else None)


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
