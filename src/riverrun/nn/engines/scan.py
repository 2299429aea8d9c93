"""The engine for cells whose units do not see each other over time: two compiled loops, on a CPU.

What reads no state is computed before, for all times, what no state reads after; autograd has both. Between them lies
the loop over time, forward and backward generated from the graph. It adds in one order, so equal input is equal output.
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from riverrun.errors import ConfigError
from riverrun.nn.cells.derive import plan as products
from riverrun.nn.cells.derive import recurrence, stages
from riverrun.nn.cells.graph import Graph
from riverrun.nn.engines.kernel import Source, compiled, source
from riverrun.nn.engines.program import program
from riverrun.nn.engines.request import Request, Result

_TYPES = {torch.float32: "float32", torch.float64: "float64"}


def refusal(graph: Graph | None, device: torch.device, dtype: torch.dtype) -> str | None:
    """Why the engine cannot run this, or None."""
    if graph is None:
        return "the cell has no graph"
    if (why := _unfit(graph)) is not None:
        return why
    if device.type != "cpu":
        return f"it runs on a CPU, not on {device.type}"
    if dtype not in _TYPES:
        return f"it computes in float32 and float64, not in {str(dtype).removeprefix('torch.')}"
    if importlib.util.find_spec("numba") is None:
        return "it needs the package 'numba': pip install 'riverrun[train]'"
    return None


def reason(graph: Graph) -> str:
    """What kind of recurrence it is."""
    return f"the recurrence is {recurrence(graph)}: no unit sees another over time"


@lru_cache(maxsize=512)
def _unfit(graph: Graph) -> str | None:
    if products(graph).exchanges:
        return "its units see each other at every step, as in every dense recurrence"
    carried = stages(graph).carried
    if not carried:
        return "the cell carries no state from step to step"
    if len({graph.new[name].width.size() for name in carried}) > 1:
        return "the cell's states differ in width"
    return None


@lru_cache(maxsize=512)
def _source(graph: Graph) -> Source:
    return source(program(graph, again=True))


def slower(request: Request) -> bool:
    """Whether eager is faster: entering the compiled loop is repaid by a few steps, without gradients later."""
    return request.x.shape[1] < (4 if torch.is_grad_enabled() else 16)


def run(request: Request) -> Result:
    """All steps of one request."""
    graph = request.graph
    if graph is None:
        raise TypeError(f"{request.cell!r} has no graph")
    plan, code = program(graph, again=True), _source(graph)
    values = plan.sequences(request)
    rows, steps = request.x.shape[:2]
    first = [request.state[graph.states.index(name)].to(request.dtype) for name in code.states]
    units = first[0].shape[-1]
    fed = [values[id(n)].to(request.dtype).expand(steps, rows, units) for n in code.fed]
    fixed = [values[id(n)].to(request.dtype).expand(units) for n in code.fixed]
    lengths = np.full(rows, steps) if request.lengths is None else _array(request.lengths)
    sequences = _Loop.apply(code, lengths, steps, *fed, *fixed, *first)  # type: ignore[no-untyped-call]
    return plan.outcome(request, values, dict(zip(code.states, sequences, strict=True)))[0]


class _Loop(torch.autograd.Function):
    """(fed (T, B, H)..., fixed (H,)..., first states (B, H)...) -> the sequence (T, B, H) of each state."""

    @staticmethod
    def forward(
        ctx: Any, code: Source, lengths: np.ndarray[Any, Any], steps: int, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        n = len(code.fed)
        fed = [v if v.stride(-1) == 1 else v.contiguous() for v in tensors[:n]]
        rest = [v.contiguous() for v in tensors[n:]]
        like = rest[-1]
        rows, units = like.shape
        training = any(ctx.needs_input_grad)
        sequences = [like.new_empty((steps, rows, units)) for _ in code.states]
        keep = [like.new_empty((steps if training else 1, rows, units)) for _ in range(code.keep)]
        loop, _ = compiled(code.text, _TYPES[like.dtype])
        streams = [part for v in fed for part in _flat(v)]
        loop(steps, rows, units, lengths, *streams, *map(_array, (*rest, *sequences, *keep)), int(training))
        if training:
            ctx.save_for_backward(*fed, *rest, *sequences, *keep)
            ctx.code, ctx.lengths = code, lengths
        return tuple(sequences)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # what comes out has no graph of its own: a second derivative would miss a part
            raise ConfigError(
                "engine='scan' has first derivatives only, and this backward pass is to be differentiated again "
                "(create_graph=True); use engine='eager'"
            )
        code: Source = ctx.code
        n, m, k = len(code.fed), len(code.fixed), len(code.states)
        fed, rest = ctx.saved_tensors[:n], ctx.saved_tensors[n:]
        like = rest[m + k]
        steps, rows, units = like.shape
        streams = [like.new_empty(like.shape) for _ in range(n)]
        fixed = [like.new_zeros(units) for _ in range(m)]
        first = [like.new_zeros((rows, units)) for _ in range(k)]
        given = [g if g.stride(-1) == 1 else g.contiguous() for g in gradients]
        _, loop = compiled(code.text, _TYPES[like.dtype])
        loop(
            steps,
            rows,
            units,
            ctx.lengths,
            *(part for v in fed for part in _flat(v)),
            *map(_array, rest),
            *(part for g in given for part in _flat(g)),
            *map(_array, (*streams, *fixed, *first)),
        )
        return None, None, None, *streams, *fixed, *first


def _array(tensor: Tensor) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = tensor.detach().numpy()
    return array


def _flat(sequence: Tensor) -> tuple[np.ndarray[Any, Any], int, int]:
    """(T, B, H), the last dimension without gaps -> the numbers in one row, and the steps to the next time and row."""
    steps, rows, units = sequence.shape
    t, b, _ = sequence.stride()
    span = (steps - 1) * t + (rows - 1) * b + units
    return _array(sequence.as_strided((span,), (1,))), t, b
