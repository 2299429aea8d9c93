"""From a torch net to an ONNX graph in memory, its dimensions by name, its recurrences still single nodes."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import onnx_ir as ir
import torch
from onnxscript import optimizer

from riverrun.data.batch import Batch
from riverrun.decode.scorer import Chain, Labels, Scorer
from riverrun.errors import RiverrunError
from riverrun.export.places import name_weights
from riverrun.runtime.session import CHAIN, LABELS

OPSET = 18  # what the exporter writes without converting, and what every ONNX Runtime since 1.14 reads
IR_VERSION = 10  # onnx writes newer ones than ONNX Runtime reads

# What the exporter says about itself; exact messages from exact modules, nothing that a net could cause.
_NOISE = (
    (r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning, r"copyreg"),
    (r"# The axis name: \w+ will not be used, since it shares", UserWarning, r"torch\.onnx\._internal\.exporter"),
)


class Scoring(torch.nn.Module):
    """A net as the exporter wants it: arrays in by position, the arrays of its scores out.

    Args:
        net: a module with ``scores(batch) -> Chain | Labels``.
        names: the names of the arrays of ``batch.flat()``, in the order in which they will come.
    """

    def __init__(self, net: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.net = net
        self.names = names

    def forward(self, *arrays: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The fields of the scores, without the lengths, which the caller has."""
        scores = scores_of(self.net, Batch.unflatten(dict(zip(self.names, arrays, strict=True))))
        return tuple(getattr(scores, name) for name in output_names(scores))


def scores_of(net: torch.nn.Module, batch: Batch) -> Chain | Labels:
    """``net.scores(batch)``: not every module has it, those that are exported have."""
    return cast(Scorer, net).scores(batch)


def output_names(scores: Chain | Labels) -> tuple[str, ...]:
    """The names of a graph's outputs, by which a session knows what it has."""
    return CHAIN if isinstance(scores, Chain) else LABELS


def trace(
    module: torch.nn.Module, arrays: Mapping[str, torch.Tensor], axes: Mapping[str, str], outputs: tuple[str, ...]
) -> ir.Model:
    """The graph of a module; no size that varies may be 0 or 1 here, and those with different letters must differ.

    Args:
        module: on the CPU, in evaluation mode; it reads ``*arrays`` and holds a net as ``net``.
        arrays: name -> an example.
        axes: name, or that of its batch's field -> letters of its leading dimensions, ``BT``; these stay dynamic.
        outputs: the names of what the module gives.
    """
    sizes = {letter: torch.export.Dim(letter) for letter in sorted(set("".join(axes.values())))}
    shapes = tuple({k: sizes[letter] for k, letter in enumerate(_letters(name, axes))} for name in arrays)
    module.requires_grad_(False)
    # With gradients on, though none are needed: without, nets take products of torch's own that ONNX does not have.
    with _quiet(), torch.enable_grad():
        program = torch.onnx.export(
            module.eval(),
            tuple(arrays.values()),
            dynamo=True,
            input_names=list(arrays),
            output_names=list(outputs),
            dynamic_shapes=(shapes,),
            opset_version=OPSET,
            verbose=False,
        )
    model: ir.Model = cast(torch.onnx.ONNXProgram, program).model
    with _quiet():  # parts of a stacked weight become weights of their own, however large
        optimizer.fold_constants(model, input_size_limit=2**40, output_size_limit=2**40)
    model.ir_version = IR_VERSION
    name_weights(model, module.state_dict())
    _check_sizes(model, axes)
    return model


def _check_sizes(model: ir.Model, axes: Mapping[str, str]) -> None:
    """A net that turns a size into a Python number, as ``len`` does, has it fixed in the graph."""
    for value in model.graph.inputs:
        vary = len(_letters(str(value.name), axes))
        fixed = [size for size in (value.shape or ())[:vary] if isinstance(size, int)]
        if fixed:
            raise RiverrunError(
                f"export: the net fixes a size of '{value.name}' to {fixed[0]}, expected any. "
                "Take sizes from x.data.shape[0], not from len(x) or int(...)"
            )


def _letters(name: str, axes: Mapping[str, str]) -> str:
    return axes[name] if name in axes else axes[name.removesuffix(".lengths")][0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks on its own doings; its errors are raised, not logged."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnx_ir", "onnxscript")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        for message, category, module in _NOISE:
            warnings.filterwarnings("ignore", message=message, category=category, module=module)
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
