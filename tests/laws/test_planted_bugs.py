"""A test of the tests: twenty ways to break a recurrence, planted in a cell, the layer or an engine, are caught."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.autograd.gradcheck import GradcheckError  # noqa: E402

from riverrun.nn.cells.cell import Cell  # noqa: E402
from riverrun.nn.cells.lstm import LSTM  # noqa: E402
from riverrun.nn.cells.math import sigmoid, tanh  # noqa: E402
from riverrun.nn.engines import eager, program, scan, vendor  # noqa: E402
from riverrun.nn.engines.request import Request, Weights  # noqa: E402
from riverrun.nn.layers import recurrent  # noqa: E402
from riverrun.nn.layers.recurrent import Recurrent  # noqa: E402

from .borrowed import borrow  # noqa: E402

pytestmark = pytest.mark.train

Patch = pytest.MonkeyPatch


engines, papers = borrow("laws/test_engines.py"), borrow("oracles/test_cells.py")


def paper(cell: Callable[[], Cell] = LSTM) -> None:
    """The cell against numpy."""
    papers.is_the_paper(cell(), papers.lstm)


def torchs() -> None:
    """The cell with torch's weights, both of its biases, against torch."""
    papers.test_cell_is_torchs("gru-reset-after", "eager")


def law(name: str, run: str) -> Callable[[], None]:
    return lambda: engines.LAWS[name](engines.RUNS[run])


# -- in the equation: what comes out is a cell, but not this one


class Planted(LSTM):
    """An LSTM with one of its lines changed."""

    kind = "planted"
    bug = ""

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        bug = self.bug
        i = sigmoid(x.i + R.i(s.h))
        f = sigmoid(x.f + R.f(s.h))
        g = tanh(x.g + R.g(s.h))
        o = sigmoid(x.o + R.o(s.h))
        if bug == "i and o exchanged":
            i, o = o, i
        if bug == "i and f exchanged":
            i, f = f, i
        if bug == "f and o exchanged":
            f, o = o, f
        c = f * (s.h if bug == "c replaced by h" else s.c) + i * g
        return s.next(h=o * (c if bug == "no tanh on the output" else tanh(c)), c=c)


def equation(bug: str) -> Callable[[Patch], None]:
    def plant(patch: Patch) -> None:
        patch.setattr(sys.modules[__name__], "_CELL", lambda: Planted(bug=bug))

    return plant


_CELL: Callable[[], Cell] = LSTM


def planted_paper() -> None:
    paper(_CELL)


# -- in the weights, the layer, the engines


def transposed(patch: Patch) -> None:
    real = Weights.product
    patch.setattr(Weights, "product", lambda self, gate: real(self, gate).mT)
    patch.setattr(Weights, "stack", lambda self, gates: torch.cat([self.product(gate) for gate in gates]))


def recurrent_bias_dropped(patch: Patch) -> None:
    real = papers.from_torch

    def from_torch(layer: Recurrent, state: dict[str, Tensor]) -> None:
        real(layer, {name: value * 0 if name.startswith("bias_hh") else value for name, value in state.items()})

    patch.setattr(papers, "from_torch", from_torch)


def stepping(change: Callable[[list[Tensor], int], list[Tensor]]) -> Callable[[Patch], None]:
    """The matrices of each step of the eager loop, changed; with the time."""

    def plant(patch: Patch) -> None:
        real = eager.program

        def changed(*args: Any) -> program.Program:
            plan = real(*args)
            time = iter(range(10**6))
            start = len(plan.loop.inputs)
            stop = start + len(plan.loop.products)

            def run(*given: Any) -> Any:
                return plan.loop.run(*given[:start], *change(list(given[start:stop]), next(time)), *given[stop:])

            return dataclasses.replace(plan, loop=dataclasses.replace(plan.loop, run=run))

        patch.setattr(eager, "program", changed)

    return plant


def one_time_late(patch: Patch) -> None:
    real = Request.inputs

    def inputs(self: Request) -> Tensor:
        x = real(self)
        return torch.cat([x[:1], x[:-1]])

    patch.setattr(Request, "inputs", inputs)


def first_row_for_all(patch: Patch) -> None:
    real = eager._steps

    def steps(step: Any, state: tuple[Tensor, ...], request: Request) -> Any:
        def mixed(t: int, before: tuple[Tensor, ...]) -> Any:
            return step(t, tuple(v[:1].expand_as(v) for v in before) if t else before)

        return real(mixed, state, request)

    patch.setattr(eager, "_steps", steps)


def state_ignored(patch: Patch) -> None:
    patch.setattr(Recurrent, "_before", lambda self, data, state: self.initial_state(data.shape[0]))


def state_leaks(patch: Patch) -> None:
    real, left = Recurrent._before, dict[int, Any]()
    forward = Recurrent.forward

    def before(self: Recurrent, data: Tensor, state: Any) -> Any:
        return left.get(data.shape[0], real(self, data, state)) if state is None else real(self, data, state)

    def remembering(self: Recurrent, x: Any, state: Any = None) -> Any:
        y, after = forward(self, x, state)
        left[after[0].shape[0]] = after
        return y, after

    patch.setattr(Recurrent, "_before", before)
    patch.setattr(Recurrent, "forward", remembering)


def final_state_at_the_end(patch: Patch) -> None:
    for module in (vendor, program):
        patch.setattr(module, "last_of", lambda sequence, request, first: sequence[-1])


def padding_runs_into_the_state(patch: Patch) -> None:
    patch.setattr(Request, "shortest", property(lambda self: self.x.shape[1]))


def padding_not_zero(patch: Patch) -> None:
    patch.setattr(program, "_rows", lambda sequence, live: sequence.transpose(0, 1))


def naive_flip(patch: Patch) -> None:
    patch.setattr(recurrent, "backwards", lambda sequence, lengths: sequence.flip(1))


def single_step_forgets(k: int) -> Callable[[Patch], None]:
    def plant(patch: Patch) -> None:
        real = Recurrent._before

        def before(self: Recurrent, data: Tensor, state: Any) -> Any:
            found = list(real(self, data, state))
            if data.shape[1] == 1:
                found[k] = found[k] * 0
            return tuple(found)

        patch.setattr(Recurrent, "_before", before)

    return plant


def gradient_of_R_from_one_step(matrices: list[Tensor], t: int) -> list[Tensor]:
    return matrices if t == 0 else [v.detach() for v in matrices]


def no_gradient_through_c(patch: Patch) -> None:
    real = eager._steps

    def steps(step: Any, state: tuple[Tensor, ...], request: Request) -> Any:
        return real(lambda t, before: step(t, (before[0], before[1].detach())), state, request)

    patch.setattr(eager, "_steps", steps)


def loop_without(old: str, new: str) -> Callable[[Patch], None]:
    """A changed line of the generated loops."""

    def plant(patch: Patch) -> None:
        real = scan._source

        def changed(graph: Any) -> Any:
            code = real(graph)
            if old not in code.text:
                raise LookupError(f"the generated loop has no line {old!r}")
            return dataclasses.replace(code, text=code.text.replace(old, new))

        patch.setattr(scan, "_source", changed)

    return plant


def not_frozen(patch: Patch) -> None:
    patch.setattr(vendor, "_column", lambda values, n, dtype, device: torch.zeros(len(values) * n, 1, dtype=dtype))


EQUATION = law("is_its_equation", "lstm-eager")
BUGS: dict[str, tuple[Callable[[Patch], None], tuple[Callable[[], None], ...]]] = {
    "i and o exchanged": (equation("i and o exchanged"), (planted_paper,)),
    "i and f exchanged": (equation("i and f exchanged"), (planted_paper,)),
    "f and o exchanged": (equation("f and o exchanged"), (planted_paper,)),
    "R transposed": (transposed, (EQUATION, law("is_its_equation", "lstm-vendor"), paper)),
    "recurrence ignored": (
        stepping(lambda matrices, t: [v * 0 for v in matrices]),
        (EQUATION, paper),
    ),
    "second bias dropped": (recurrent_bias_dropped, (torchs,)),
    "no tanh on the output": (equation("no tanh on the output"), (planted_paper,)),
    "c replaced by h": (equation("c replaced by h"), (planted_paper,)),
    "one time late": (one_time_late, (EQUATION, paper, law("steps_are_the_sequence", "lstm-eager"))),
    "first row for all": (first_row_for_all, (EQUATION, paper, law("batch_is_its_rows", "lstm-eager"))),
    "state ignored": (state_ignored, (EQUATION, paper, law("steps_are_the_sequence", "lstm-vendor"))),
    "state leaks": (state_leaks, (law("has_no_memory", "lstm-eager"), law("has_no_memory", "lstm-vendor"))),
    "final state at T": (
        final_state_at_the_end,
        (law("is_its_equation", "lstm-vendor"), law("batch_is_its_rows", "lstm-vendor")),
    ),
    "padding runs into the state": (padding_runs_into_the_state, (EQUATION, law("batch_is_its_rows", "lstm-eager"))),
    "padding not zero": (padding_not_zero, (EQUATION,)),
    "naive flip": (naive_flip, (EQUATION, law("batch_is_its_rows", "lstm-vendor"))),
    "a single step drops c": (single_step_forgets(1), (law("steps_are_the_sequence", "lstm-eager"),)),
    "a single step ignores h": (single_step_forgets(0), (law("steps_are_the_sequence", "lstm-eager"),)),
    "gradient of R from one step": (
        stepping(gradient_of_R_from_one_step),
        (EQUATION, law("backward_is_the_derivative", "lstm-eager")),
    ),
    "no gradient through c": (no_gradient_through_c, (EQUATION, law("backward_is_the_derivative", "lstm-eager"))),
    # and in what only we have
    "vendor: padding opens the gates": (not_frozen, (law("is_its_equation", "lstm-vendor"),)),
    "scan: no gradient to the step before": (
        loop_without("carry0[u] = v_4", "carry0[u] = ZERO"),
        (law("is_its_equation", "sru-scan"), law("backward_is_the_derivative", "sru-scan")),
    ),
    "scan: a frozen row loses its gradient": (
        loop_without("carry0[u] += g0[u]", "carry0[u] += ZERO"),
        (law("is_its_equation", "sru-scan"),),
    ),
    "scan: a parameter's last gradient": (
        loop_without("dp0[u] += v_3", "dp0[u] = v_3"),
        (law("is_its_equation", "sru-scan"), law("backward_is_the_derivative", "sru-scan")),
    ),
}


def original() -> None:
    """Every law that is asked below holds where nothing is planted."""
    for _, laws in BUGS.values():
        for each in laws:
            each()


def test_laws_hold_without_bugs():
    original()


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_breaks_its_laws(bug, monkeypatch):
    plant, laws = BUGS[bug]
    plant(monkeypatch)
    for each in laws:
        with pytest.raises((AssertionError, GradcheckError)):
            each()
