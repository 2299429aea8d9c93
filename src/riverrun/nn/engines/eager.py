"""The engine for every cell: a loop over time in torch operations, gradients by autograd. The oracle of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from riverrun.nn.cells.trace import Next
from riverrun.nn.engines.padding import zeroed
from riverrun.nn.engines.program import Program, Values, program
from riverrun.nn.engines.request import Request, Result


def run(request: Request) -> Result:
    """All steps of one request."""
    if request.graph is None:
        return _run_untraced(request)
    return run_traced(request, ())[0]


def run_traced(request: Request, names: Sequence[str]) -> tuple[Result, dict[str, Tensor]]:
    """The same, and name -> (B, T, width) for values to which the equation gives a name; 0 in the padding."""
    if request.graph is None:
        raise TypeError(f"{request.cell!r} has no graph")
    plan = program(request.graph, tuple(names))
    values = plan.sequences(request)
    carried, kept = _loop(plan, values, request)
    return plan.outcome(request, values | kept, carried, names)


def _loop(plan: Program, values: Values, request: Request) -> tuple[dict[str, Tensor], Values]:
    """The steps: the sequences of the carried states, frozen behind the end of a row, and of the kept values."""
    if not plan.loop.outputs:
        return {}, {}
    varying = {id(n): values[id(n)].unbind(0) for n in plan.fed}
    addends = [torch.cat([values[id(n)] for n in nodes], -1).unbind(0) for nodes in plan.loop.addends]
    state = {id(plan.graph.leaves("s")[name]): request.state[plan.graph.states.index(name)] for name in plan.carried}
    inputs = [id(n) for n in plan.loop.inputs]
    matrices = plan.loop.matrices(request.weights)

    def step(t: int, before: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        now = dict(zip(state, before, strict=True))
        given = (varying[k][t] if k in varying else now[k] if k in now else values[k] for k in inputs)
        return plan.loop.run(*given, *matrices, *(each[t] for each in addends))

    outputs = [torch.stack(each) for each in _steps(step, tuple(state.values()), request)]
    size = len(plan.carried)
    kept = {id(n): each for n, each in zip(plan.kept, outputs[size:], strict=True)}
    return dict(zip(plan.carried, outputs[:size], strict=True)), kept


def _steps(
    step: Callable[[int, tuple[Tensor, ...]], tuple[Tensor, ...]], state: tuple[Tensor, ...], request: Request
) -> list[list[Tensor]]:
    """One list over time for each output of ``step``, the first of which are the states."""
    live = request.live
    found: list[tuple[Tensor, ...]] = []
    for t in range(request.x.shape[1]):
        new = step(t, state)
        if live is not None and t >= request.shortest:
            kept = (torch.where(live[t], value, old) for value, old in zip(new, state, strict=False))
            new = (*kept, *new[len(state) :])
        state = new[: len(state)]
        found.append(new)
    return [list(each) for each in zip(*found, strict=True)]


class _Previous(SimpleNamespace):
    """The states before a step, for a cell whose step runs on tensors."""

    def next(self, **new: Tensor) -> Next:
        """The states after it."""
        return Next(new)


def _run_untraced(request: Request) -> Result:
    """A cell without a graph: its step itself, on tensors."""
    cell, weights = request.cell, request.weights
    x = request.inputs()
    streams = {name: value.unbind(0) for name, value in {**weights.streams(x), "raw": x}.items()}
    R = SimpleNamespace(
        **{gate: _product(weights.product(gate)) for block, _ in weights.blocks for gate in block.gates}
    )
    p = SimpleNamespace(**weights.p)

    def step(t: int, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        now = SimpleNamespace(**{name: value[t] for name, value in streams.items()})
        new: Any = cell.step(now, _Previous(**dict(zip(cell.states, state, strict=True))), R, p)
        return tuple(new[name] for name in cell.states)

    sequences = [torch.stack(each) for each in _steps(step, request.state, request)]
    y, live = sequences[0], request.live
    masked = y if live is None else zeroed(y, live)
    return masked.transpose(0, 1), tuple(sequence[-1] for sequence in sequences)


def _product(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda v: v @ matrix.mT
