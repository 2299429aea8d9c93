"""A language model as one graph: symbols and a state in, log probabilities and the new state out."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

import onnx_ir as ir
import torch
from torch import Tensor, nn

from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import to_numpy
from riverrun.decode.state import State
from riverrun.decode.step import StepModel
from riverrun.errors import RiverrunError
from riverrun.export.parity import Parity
from riverrun.export.reading import compare_reading, trials
from riverrun.export.report import ExportReport
from riverrun.export.trace import trace
from riverrun.export.write import write_graph
from riverrun.nn.models.language_net import LanguageNet
from riverrun.nn.models.scorer import to_tensor
from riverrun.nn.models.stepper import NetStepper
from riverrun.runtime.info import GraphInfo
from riverrun.runtime.stepper import AFTER, IDS, LENGTHS, LOG_PROBS, GraphStepper
from riverrun.train.weights import fingerprint

COST = 0.01  # of an int8 graph on real texts: how many nats more a symbol may cost, 1% of perplexity


def export_language_model(
    net: nn.Module,
    path: str | os.PathLike[str],
    *,
    int8: bool = False,
    check: Iterable[Padded] | None = None,
) -> ExportReport:
    """Write a language net as a graph that ``runtime.GraphStepper`` runs; nothing is written unless it is the model.

    The graph reads ``ids`` (B, T) and ``lengths`` (B,), int64, and the arrays of a state by their names, as ``0.h``
    (B, 1, H). It gives ``log_probs`` (B, T, V), without meaning in the padding, and the arrays of the state behind the
    last symbol of each row, ``0.h.after``. A step is a T of 1.

    The float graph must agree with the net on random ragged batches, whole and in pieces, or a RiverrunError says how
    far off it is. In an int8 graph a symbol of ``check`` may cost COST more; without ``check``, how far it is off on
    the random batches is reported, and nothing is asked of it.

    Args:
        net: a ``LanguageNet``, as ``RecurrentLM`` or ``WindowLM``; it is copied, its mode and device stay as they are.
        path: the file to write.
        int8: tables, recurrences and products as 8-bit integers.
        check: real texts, ids (B, 1 + T) whose first symbols are read and not scored.
    """
    original = _Original(copy.deepcopy(net).to("cpu", torch.float32).eval())
    tried = [*trials(original, original.size)]
    texts = [*(check or ())]

    def judge(draft: Path) -> Parity:
        return compare_reading(original, GraphStepper(draft, bos=0), tried)

    def judge_int8(draft: Path) -> Parity:
        exported = GraphStepper(draft, bos=0)
        parity = compare_reading(original, exported, tried)
        if not texts:
            return parity
        cost = _cost(exported, texts) - _cost(original.stepper, texts)
        if not cost <= COST:
            raise RiverrunError(
                f"export: in the int8 graph a symbol of the texts costs {cost:.4f} nats more than in the model, "
                f"allowed is {COST}; nothing was written. Export without int8"
            )
        return replace(parity, cost=cost)

    start = {name: _number(name, value) for name, value in original.start(rows=1).moving.items()}
    info = GraphInfo(rows=IDS, model=fingerprint(net.state_dict()), start=start)
    return write_graph(original.traced(), info, path, judge=judge, judge_int8=judge_int8 if int8 else None)


class _Reading(nn.Module):
    """A net as the exporter wants it: arrays in by position, arrays out.

    Args:
        net: a ``LanguageNet``.
        names: those of the arrays of its state, in the order in which they will come.
    """

    def __init__(self, net: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.net = net
        self.names = names

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        """ids, lengths and the arrays of a state -> (B, T, V), and the arrays of the state behind."""
        net = cast(LanguageNet, self.net)
        ids, lengths, *state = arrays
        before = State(moving=dict(zip(self.names, state, strict=True)))
        reading, after = net.read(Padded(ids, lengths), before)
        vectors, windows = reading.select(None)
        log_probs = net.output.log_probs(vectors, windows).view(*ids.shape, -1)
        return log_probs, *(after.moving[name] for name in self.names)


class _Original:
    """The net with numpy arrays; it is in evaluation mode, on the CPU."""

    def __init__(self, net: nn.Module) -> None:
        self.stepper = NetStepper(cast(LanguageNet, net), bos=0)
        self.size = self.stepper.size
        self._reading = _Reading(net, tuple(self.stepper.start().moving))

    def start(self, *, rows: int) -> State:
        return self.stepper.start(rows=rows).map(to_numpy)

    @torch.no_grad()
    def read(self, ids: Padded, state: State) -> tuple[Array, State]:
        names = self._reading.names
        given = ids.map(to_tensor)
        log_probs, *after = self._reading(given.data, given.lengths, *(to_tensor(state.moving[name]) for name in names))
        return to_numpy(log_probs), State(moving=dict(zip(names, map(to_numpy, after), strict=True)))

    def traced(self) -> ir.Model:
        """Its graph: two rows of three symbols stand for any sizes."""
        state = self.stepper.start(rows=2)
        arrays = {IDS: torch.zeros((2, 3), dtype=torch.int64), LENGTHS: torch.tensor([3, 2]), **state.moving}
        axes = {IDS: "BT", **dict.fromkeys((LENGTHS, *state.moving), "B")}
        return trace(self._reading, arrays, axes, (LOG_PROBS, *(f"{name}{AFTER}" for name in state.moving)))


def _number(name: str, values: Array) -> str:
    """What an array of the first state is filled with; the file keeps this number."""
    if (values != values.flat[0]).any():
        raise RiverrunError(
            f"export: expected a first state of one number, received {values.min()} to {values.max()} in '{name}'"
        )
    return repr(float(values.flat[0]))


def _cost(model: StepModel, texts: Iterable[Padded]) -> float:
    """What a symbol of the texts costs, in nats."""
    total, count = 0.0, 0
    for ids in texts:
        scores, _ = model.score(ids, model.start(rows=len(ids)))
        total -= float(to_numpy(scores).sum())
        count += int((to_numpy(ids.lengths) - 1).clip(0).sum())
    return total / max(1, count)
