"""Laws of every cell in every engine that can run it: the equation itself, row by row, is what comes out."""

from __future__ import annotations

import inspect
import itertools
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from riverrun.data.padded import Padded  # noqa: E402
from riverrun.nn import cells as public_cells  # noqa: E402
from riverrun.nn.cells import CELLS, Cell, RecurrentDropout, TracedCell, Zoneout, make_cell  # noqa: E402
from riverrun.nn.cells.derive import recurrence  # noqa: E402
from riverrun.nn.cells.layout import layout  # noqa: E402
from riverrun.nn.cells.math import (  # noqa: E402
    clip,
    exp,
    log,
    maximum,
    minimum,
    relu,
    rsqrt,
    sigmoid,
    softplus,
    tanh,
)
from riverrun.nn.cells.store import dumps, loads  # noqa: E402
from riverrun.nn.engines import ENGINES, vendor, watch  # noqa: E402
from riverrun.nn.layers.recurrent import Recurrent  # noqa: E402

pytestmark = pytest.mark.train

INPUT, SIZE, OUTPUT = 4, 3, 2  # the last is what a projection writes
LENGTHS = [3, 0, 1, 4]
NAN = float("nan")
Named = dict[str, Tensor]


class Delayed(Cell):
    """A window over the input: ``w`` is known before the loop. Its output is read by nobody."""

    gates = ("n", "k", "f")
    states = ("h", "w", "c")
    widths = {"w": "input"}  # noqa: RUF012 the form that users write
    params = ("a",)

    def step(self, x, s, R, p):
        c = tanh(x.f) * s.c + (p.a - 1) * x.n + R.k(s.w)
        return s.next(h=c * x.k, w=x.raw, c=c)


class Untraced(Cell):
    """A cell that no graph expresses: its step runs on tensors."""

    gates = ("h",)
    params = ("a",)
    traced = False

    def step(self, x, s, R, p):
        return s.next(h=torch.asinh(x.h + R.h(s.h) + p.a))


class Twins(Cell):
    """Three states, two of which get one new value, which is that of the first one before its gate."""

    gates = ("v", "o")
    states = ("h", "a", "b")

    def step(self, x, s, R, p):
        v = tanh(x.v + R.v(s.h) + s.a) * s.b
        return s.next(h=v + x.o, a=v, b=v)


class DiagonalTwins(Cell):
    """All that it has is one value: its states differ before the first step alone."""

    gates = ("v",)
    states = ("h", "c")
    params = ("a",)

    def step(self, x, s, R, p):
        v = tanh(x.v + p.a * s.h) * s.c
        return s.next(h=v, c=v)


class Handed(Cell):
    """States that get another state as it was: the output is the one of a step before; the last never changes."""

    gates = ("c",)
    states = ("h", "c", "k")

    def step(self, x, s, R, p):
        return s.next(h=s.c, c=tanh(x.c + R.c(s.h)) * s.k, k=s.k)


class DiagonalHanded(Cell):
    """The same where no unit sees another; the output is read by nobody."""

    gates = ("c",)
    states = ("y", "h", "c", "k")
    params = ("a",)

    def step(self, x, s, R, p):
        return s.next(y=s.h, h=s.c, c=tanh(x.c + p.a * s.h) * s.k, k=s.k)


class Window(Cell):
    """A window of two inputs, known before the loop, the first of them twice."""

    gates = ("c",)
    states = ("h", "w", "u", "v")
    widths = {"w": "input", "u": "input", "v": "input"}  # noqa: RUF012 the form that users write
    params = ("a",)

    def step(self, x, s, R, p):
        return s.next(h=tanh(x.c + p.a * s.h) + R.c(s.w, s.u, s.v), w=x.raw, u=x.raw, v=s.w)


class Tied(Cell):
    """Everything that has a corner, at its corner where input, state and biases are 0."""

    gates = ("a", "b")
    states = ("h", "c")
    params = ("k",)

    def step(self, x, s, R, p):
        number = maximum(0.5 * s.h, 0.0) + minimum(0.0, s.c + x.a) + clip(s.h + 0.5, 0.5) + relu(s.c - x.b)
        values = maximum(s.h, p.k * x.a) * 0.75 + minimum(x.b, s.c) + maximum(s.c, s.c) + softplus(s.h)
        return s.next(h=0.5 * (number + values), c=tanh(s.c * p.k) + x.a)


class DenseTied(Cell):
    """The same with units that see each other."""

    gates = ("a",)
    states = ("h", "c")

    def step(self, x, s, R, p):
        v = R.a(s.h)
        h = maximum(v, 0.0) + minimum(x.a, v) + clip(s.h + 0.5, 0.5) + relu(v) + softplus(v) + maximum(s.c, v)
        return s.next(h=0.25 * h, c=minimum(s.c, 0.0) + x.a)


class UntracedTied(DenseTied):
    """The same without a graph."""

    traced = False


def zoneout(name: str) -> Cell:
    return Zoneout(make_cell(name), rate=0.25)


CASES: dict[str, Callable[[], Cell]] = {
    **{name: (lambda name=name: make_cell(name)) for name in CELLS},
    "elman-relu": lambda: make_cell({"kind": "elman", "nonlinearity": "relu"}),
    "elman-sigmoid": lambda: make_cell({"kind": "elman", "nonlinearity": "sigmoid"}),
    "elman-identity": lambda: make_cell({"kind": "elman", "nonlinearity": "identity"}),
    "lstm-projected-unclipped": lambda: make_cell({"kind": "lstm-projected", "limit": float("inf")}),
    "lstm-projected-clipping": lambda: make_cell({"kind": "lstm-projected", "limit": 0.2}),
    "mogrifier-2": lambda: make_cell({"kind": "mogrifier", "rounds": 2}),
    "zoneout(lstm)": lambda: zoneout("lstm"),
    "zoneout(sru)": lambda: zoneout("sru"),
    "dropout(gru)": lambda: RecurrentDropout(make_cell("gru"), rate=0.25),
    "dropout(lstm)": lambda: RecurrentDropout(make_cell("lstm"), rate=0.25),
    "delayed": Delayed,
    "twins": Twins,
    "twins-diagonal": DiagonalTwins,
    "handed": Handed,
    "handed-diagonal": DiagonalHanded,
    "window": Window,
    "tied": DenseTied,
    "tied-diagonal": Tied,
    "untraced": Untraced,
    "untraced-tied": UntracedTied,
}
TRACED = [name for name, make in CASES.items() if make().graph]
CLASSES = {
    "mingru": "linear",
    "delayed": "linear",
    **dict.fromkeys(
        ("sru", "sru-projected", "zoneout(sru)", "twins-diagonal", "handed-diagonal", "window", "tied-diagonal"),
        "diagonal",
    ),
}
VENDOR = ("lstm", "dropout(lstm)", "gru-reset-after", "elman", "elman-relu")


def input_size(cell: Cell) -> int:
    """Another number than that of units, where the cell does not add its input to its state."""
    return SIZE if layout(cell).equal else INPUT


@dataclass(frozen=True)
class Run:
    """A cell and the engine that runs it."""

    cell: Callable[[], Cell]
    engine: str
    training: bool = False

    def layer(self, *, reverse: bool = False, dtype: torch.dtype = torch.float64, biased: bool = True) -> Recurrent:
        """Asymmetric random weights, gains and biases too; outside training noise is its mean."""
        torch.manual_seed(3)
        cell = self.cell()
        sizes = {"output_size": OUTPUT} if "output" in cell.widths.values() else {}
        layer = Recurrent(cell, input_size(cell), SIZE, reverse=reverse, **sizes).double().train(self.training)
        layer.engine = self.engine  # not at construction: in training mode the noise is refused by some
        with torch.no_grad():
            for value in layer.parameters():
                value += 0.4 * torch.randn_like(value)
            if layer.b is not None and not biased:
                layer.b.zero_()
        return layer.to(dtype)


def engines_of(name: str) -> list[str]:
    found = ["eager"]
    found += ["scan"] if CLASSES.get(name) else []
    return found + (["vendor"] if name in VENDOR else [])


RUNS = {f"{name}-{engine}": Run(cell, engine) for name, cell in CASES.items() for engine in engines_of(name)}
NOISY = {
    name: Run(CASES[name.rpartition("-")[0]], name.rpartition("-")[2], training=True)
    for name in (
        "zoneout(lstm)-eager",
        "zoneout(sru)-eager",
        "zoneout(sru)-scan",
        "dropout(gru)-eager",
        "dropout(lstm)-eager",
    )
}


def state_of(layer: Recurrent, rows: int, seed: int = 1) -> Any:
    """A random state that is nowhere zero."""
    torch.manual_seed(seed)
    empty = layer.initial_state(rows)
    return type(empty)(*(torch.rand_like(v) + 0.2 for v in empty))


def inputs(layer: Recurrent, lengths: Sequence[int], steps: int, garbage: float = NAN, scale: float = 1.0) -> Padded:
    torch.manual_seed(2)
    data = scale * torch.randn(len(lengths), steps, layer.input_size, dtype=torch.float64)
    x = Padded(data.to(layer.initial_state(1)[0].dtype), torch.tensor(lengths))
    return x.with_data(x.data.masked_fill(~x.mask().unsqueeze(-1), garbage))


# -- the reference: the step itself on tensors, one row after the other, without padding


def weights_by_name(
    layer: Recurrent,
) -> tuple[Named, Named, Named, Named]:
    """gate -> rows of W, gate -> rows of b, product -> matrix, parameter -> vector; cut out by hand."""
    own = dict(layer.named_parameters())
    sizes, plan = layer.sizes, layer.layout
    W, b, R, start = {}, {}, {}, 0
    for gate, width in plan.rows.items():
        W[gate], b[gate] = own["W"][start : start + sizes[width]], own["b"][start : start + sizes[width]]
        start += sizes[width]
    for block in plan.blocks:
        for k, gate in enumerate(block.gates):
            R[gate] = own[block.name][k * sizes[block.out] : (k + 1) * sizes[block.out]]
    return W, b, R, {name: own[f"p_{name}"] for name in plan.params}


class Stepped(dict):
    """What a wrapper asks of the inner cell's new states: attributes and ``dict``."""

    def __getattr__(self, name: str) -> Tensor:
        return self[name]


class Before:
    """The states before a step."""

    def __init__(self, names: Sequence[str], values: Sequence[Tensor]) -> None:
        self.__dict__.update(zip(names, values, strict=True))

    def next(self, **new: Tensor) -> Stepped:
        return Stepped(new)


def noise_of(layer: Recurrent, rows: int, steps: int) -> dict[str, Tensor]:
    """stream -> (T, B, width) as the layer draws it now, or its mean."""
    torch.manual_seed(7)
    like = torch.zeros((), dtype=torch.float64)
    drawn = layer._noise(layer.cell.graph, rows, steps, like) if layer.training else {}
    return {
        name: (drawn[name] if name in drawn else torch.full((1, rows, SIZE), noise.mean)).expand(steps, rows, SIZE)
        for name, noise in layer.cell.noise.items()
    }


def reference(layer: Recurrent, x: Padded, state: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """(y, states), by running ``cell.step`` on the tensors of one row and one time after the other."""
    cell, steps = layer.cell, x.data.shape[1]
    W, b, R, p = weights_by_name(layer)

    def product(gate: str) -> Callable[..., Tensor]:
        if gate in R:
            return lambda v: R[gate] @ v
        return lambda *vs: sum(R[f"{gate}_{k}"] @ v for k, v in enumerate(vs))

    products = SimpleNamespace(**{gate: product(gate) for gate in cell.gates if gate in R or f"{gate}_0" in R})
    parameters = SimpleNamespace(**p)
    noise = noise_of(layer, len(x), steps)
    rows, finals = [], []
    for k, (row, own) in enumerate(zip(x.rows(), zip(*state, strict=True), strict=True)):
        now, outputs = list(own), []
        for t, v in enumerate(row.flip(0) if layer.reverse else row):
            streams = {gate: W[gate] @ v + b[gate] for gate in W} | {"raw": v}
            streams |= {name: drawn[t, k] for name, drawn in noise.items()}
            before = Before(cell.states, now)
            new = cell.step(SimpleNamespace(**streams), before, products, parameters)
            now = [new[name] for name in cell.states]
            outputs.append(now[0])
        outputs = outputs[::-1] if layer.reverse else outputs
        padding = [own[0].new_zeros(layer.output_size)] * (steps - len(outputs))
        rows.append(torch.stack([*outputs, *padding]))
        finals.append(now)
    return torch.stack(rows), [torch.stack(each) for each in zip(*finals, strict=True)]


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(found, expected.to(found.dtype), rtol=tolerance, atol=tolerance)


def gradients(y: Tensor, states: Sequence[Tensor], wanted: Sequence[Tensor]) -> list[Tensor]:
    """Of a random weighing of everything that comes out."""
    generator = torch.Generator().manual_seed(5)
    outs = [v for v in (y, *states) if v.requires_grad]
    weights = [torch.randn(v.shape, generator=generator, dtype=torch.float64).to(v.dtype) for v in outs]
    loss = sum((v * w).sum() for v, w in zip(outs, weights, strict=True))
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for g, w in zip(found, wanted, strict=True)]


# -- the laws


def is_its_equation(
    run: Run, *, dtype: torch.dtype = torch.float64, tolerance: float = 1e-10, scale: float = 1.0
) -> None:
    """Outputs, states and all gradients are those of the step itself: ragged, NaN in the padding, both directions.

    With a ``scale`` of 0, input, state and biases are 0, where what has a corner has it.
    """
    for reverse in (False, True):
        layer, exact = run.layer(reverse=reverse, dtype=dtype, biased=scale > 0), run.layer(reverse=reverse)
        exact.load_state_dict({name: value.double() for name, value in layer.state_dict().items()})
        x, clean = (inputs(layer, LENGTHS, 5, scale=scale) for _ in range(2))
        state = [(scale * v.detach()).requires_grad_() for v in state_of(layer, len(x))]
        own = [v.detach().double().requires_grad_() for v in state]
        x.data.requires_grad_()
        clean = clean.with_data(clean.data.double().requires_grad_())
        torch.manual_seed(7)  # of what noise there is
        with watch() as ran:
            y, found = layer(x, tuple(state))
        assert [one.engine for one in ran] == [run.engine]
        expected_y, expected = reference(exact, clean, own)
        close(y.data, expected_y, tolerance)
        assert (y.data[~x.mask()] == 0).all()
        for a, b in zip(found, expected, strict=True):
            close(a, b, tolerance)
        names = ["x", *layer.cell.states, *dict(layer.named_parameters())]
        ours = gradients(y.data, found, [x.data, *state, *layer.parameters()])
        theirs = gradients(expected_y, expected, [clean.data, *own, *exact.parameters()])
        for name, a, b in zip(names, ours, theirs, strict=True):
            assert a.isfinite().all(), name
            close(a, b, tolerance)


def steps_are_the_sequence(run: Run) -> None:
    """One step at a time, and any two chunks, give what the whole sequence gives."""
    layer = run.layer()
    x, state = inputs(layer, [5, 5], 5).data, state_of(layer, 2)
    y, final = layer(x, state)
    for cuts in ([1, 2, 3, 4], [1], [2], [3], [4]):
        now, parts = state, []
        for part in x.tensor_split(cuts, 1):
            out, now = layer(part, now)
            parts.append(out)
        close(torch.cat(parts, 1), y)
        for a, b in zip(now, final, strict=True):
            close(a, b)


def batch_is_its_rows(run: Run) -> None:
    """A row of a batch is the row alone, whatever stands beside it and behind it."""
    for reverse in (False, True):
        layer = run.layer(reverse=reverse)
        x, state = inputs(layer, LENGTHS, 5, garbage=1e3), state_of(layer, len(LENGTHS))
        y, final = layer(x, state)
        for k, n in enumerate(LENGTHS):
            alone, own = layer(x.data[k : k + 1, :n], type(state)(*(v[k : k + 1] for v in state)))
            close(y.data[k : k + 1, :n], alone)
            for a, b in zip(final, own, strict=True):
                close(a[k : k + 1], b)


def backward_is_the_derivative(run: Run) -> None:
    """Gradients are finite differences; ragged, both directions."""
    for reverse in (False, True):
        layer = run.layer(reverse=reverse)
        x, state = inputs(layer, [3, 1, 0], 3, garbage=0.0), state_of(layer, 3)
        names = list(dict(layer.named_parameters()))

        def out(data: Tensor, *rest: Tensor, layer: Recurrent = layer, x: Padded = x, names: list[str] = names) -> Any:
            states, own = rest[: len(layer.cell.states)], dict(zip(names, rest[len(layer.cell.states) :], strict=True))
            y, final = torch.func.functional_call(layer, own, (x.with_data(data), states))
            return [v for v in (y.data, *final) if v.requires_grad]

        wanted = [v.detach().clone().requires_grad_() for v in (x.data, *state, *layer.parameters())]
        assert torch.autograd.gradcheck(out, wanted, fast_mode=True)


def has_no_memory(run: Run) -> None:
    """The same input gives the same output to the last bit, and without a state it is the initial one."""
    layer = run.layer()
    x = inputs(layer, LENGTHS, 5)
    first, _ = layer(x)
    layer(inputs(layer, [4, 4, 4, 4], 4), state_of(layer, 4))
    again, _ = layer(x)
    given, _ = layer(x, layer.initial_state(len(x)))
    assert first.data.equal(again.data)
    assert first.data.equal(given.data)
    assert first.data.isfinite().all()


def is_what_was_saved(run: Run) -> None:
    """Weights and graph through files of names and text: the same numbers to the last bit."""
    layer = run.layer()
    graph = layer.cell.graph
    cell = TracedCell(loads(dumps(graph))) if graph else layer.cell
    sizes = {"output_size": OUTPUT} if "output" in layer.layout.sizes else {}
    other = Recurrent(cell, layer.input_size, SIZE, **sizes).double().eval()
    other.engine = run.engine
    other.load_state_dict(layer.state_dict())
    x, state = inputs(layer, LENGTHS, 5), state_of(layer, len(LENGTHS))
    (y, final), (z, last) = layer(x, state), other(x, state)
    assert all(a.equal(b) for a, b in zip((y.data, *final), (z.data, *last), strict=True))


LAWS: dict[str, Callable[[Run], None]] = {
    law.__name__: law
    for law in (
        is_its_equation,
        steps_are_the_sequence,
        batch_is_its_rows,
        backward_is_the_derivative,
        has_no_memory,
        is_what_was_saved,
    )
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", RUNS)
def test_law(name, law):
    LAWS[law](RUNS[name])


@pytest.mark.parametrize("name", RUNS)
def test_at_zero_too_it_is_the_equation(name):
    is_its_equation(RUNS[name], scale=0.0)


@pytest.mark.parametrize("scale", [1.0, 0.0])
@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if run.engine == "vendor"])
def test_packed_as_for_a_gpu_it_is_the_equation(name, scale, monkeypatch):
    monkeypatch.setattr(vendor, "_arranged", lambda parts, device: vendor._packed(parts))
    is_its_equation(RUNS[name], scale=scale)


@pytest.mark.parametrize("name", NOISY)
def test_training_is_the_equation_with_the_noise_that_was_drawn(name):
    is_its_equation(NOISY[name])


@pytest.mark.parametrize("name", [name for name in RUNS if not name.endswith("eager")])
def test_single_precision_is_double_precision(name):
    # oneDNN and the polynomial exponential work in float32 alone; 1e-5 is some tens of roundings.
    is_its_equation(RUNS[name], dtype=torch.float32, tolerance=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_every_engine_runs_what_is_said_and_no_more(name):
    cell = CASES[name]()
    quiet = cell.graph.quiet() if cell.graph else None
    cpu = torch.device("cpu")
    assert {k for k, e in ENGINES.items() if e.refusal(quiet, cpu, torch.float64) is None} == set(engines_of(name))
    if cell.graph:
        assert recurrence(cell.graph) == CLASSES.get(name, "dense")


def test_every_public_cell_and_engine_is_in_the_list():
    assert set(CELLS) <= set(CASES)
    wrappers = {cls for _, cls in inspect.getmembers(public_cells, inspect.isclass) if issubclass(cls, Cell)}
    assert wrappers - {Cell, TracedCell} == {type(make()) for make in CASES.values()} & wrappers
    assert {run.engine for run in RUNS.values()} == set(ENGINES)
    for cls in CELLS.values():
        assert any(type(make()) is cls for make in CASES.values())


def test_both_directions_see_each_row_from_its_end():
    # The one difference between the directions, said once without the reference.
    run = RUNS["gru-eager"]
    there, back = run.layer(), run.layer(reverse=True)
    x, state = inputs(there, LENGTHS, 5), state_of(there, len(LENGTHS))
    y, _ = there(x.reverse(), state)
    z, _ = back(x, state)
    assert y.reverse().data.equal(z.data)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("name", TRACED)
def test_what_is_traced_is_the_state_after_each_step(name, reverse):
    layer = Run(CASES[name], "eager").layer(reverse=reverse)
    x, state = inputs(layer, LENGTHS, 5), state_of(layer, len(LENGTHS))
    y, final, found = layer.trace(x, state)
    assert found[layer.cell.states[0]].equal(y.data)
    assert all(value[~x.mask()].eq(0).all() for value in found.values())
    for k, n in enumerate(LENGTHS):
        now = type(state)(*(v[k : k + 1] for v in state))
        for t in reversed(range(n)) if reverse else range(n):
            _, now = layer(x.data[k : k + 1, t : t + 1], now)
            for each in layer.cell.states:
                close(found[each][k, t], getattr(now, each)[0])
        for a, b in zip(final, now, strict=True):
            close(a[k], b[0])


@pytest.mark.parametrize("name", ["twins", "twins-diagonal"])
def test_a_value_of_two_states_has_all_its_names(name):
    layer = Run(CASES[name], "eager").layer()
    x, state = inputs(layer, LENGTHS, 5), state_of(layer, len(LENGTHS))
    shared = layer.trace(x, state)[2]
    assert list(shared) == [*layer.cell.states, "v"]
    first, last = layer.cell.states[-2:]
    assert shared["v"].equal(shared[first]) and shared["v"].equal(shared[last])
    for names in (["v"], [last], [last, first]):  # whatever else is wanted
        found = layer.trace(x, state, names=names)[2]
        assert list(found) == names and all(found[each].equal(shared[each]) for each in names)


@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if run.engine == "scan"])
def test_scan_is_the_same_to_the_last_bit_beside_other_rows(name):
    layer = RUNS[name].layer(dtype=torch.float32)
    x = inputs(layer, [5, 5, 5], 5).data
    whole, _ = layer(x)
    assert layer(x)[0].equal(whole)
    if name != "delayed-scan":  # whose product of the window is a matrix product, of another shape for one row
        streams = [layer(torch.cat([x[:1], x[:1] * k]))[0][0] for k in (2, 3)]
        assert streams[0].equal(streams[1])


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": exp,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "softplus": softplus,
    "relu": relu,
    "log": log,
    "rsqrt": rsqrt,
    "maximum": lambda v: maximum(v, 0.0),
    "minimum": lambda v: minimum(v, -v),
    "clip": lambda v: clip(v, 1.0),
    "division": lambda v: 1 / v,
}
INFINITE = float("inf")
ENDS = (0.0, 1e-6, 1.0, 20.0, 86.0, 87.3, 88.0, 88.3, 88.5, 88.7, 88.8, 89.0, 95.0, 103.0, 104.0, 200.0, 1e30, INFINITE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_scan_ends_where_torch_does(function, dtype):
    """0, infinity and NaN come where they must, so that nobody who looks for them is misled."""

    class Ends(Cell):
        gates = ("a",)
        params = ("k",)

        def step(self, x, s, R, p):
            return s.next(h=FUNCTIONS[function](x.a + p.k * s.h))  # in the loop, since it reads the state

    x = torch.tensor([*ENDS, *(-v for v in ENDS), NAN], dtype=dtype)[:, None, None]
    found = {}
    for engine in ("eager", "scan"):
        layer = Recurrent(Ends(), 1, 1, engine=engine).to(dtype)
        with torch.no_grad():
            for name, value in layer.named_parameters():
                value.fill_(float(name == "W"))
            found[engine] = layer(x)[0].flatten()
    # tanh is made of 1 / (1 + exp): near 0 it has the absolute error of 1.
    rtol, atol = (1e-6, 2e-7 if function == "tanh" else 1e-44) if dtype == torch.float32 else (1e-12, 0)
    torch.testing.assert_close(found["scan"], found["eager"], rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_a_state_can_be_pickled(name):
    layer = Run(CASES[name], "eager").layer()
    state = state_of(layer, 2)
    again = pickle.loads(pickle.dumps(state))
    assert type(again) is type(state) and again._fields == layer.cell.states
    x = inputs(layer, [3, 2], 3)
    for a, b in zip(layer(x, again)[1], layer(x, state)[1], strict=True):
        assert a.equal(b)


@pytest.mark.parametrize(("rows", "steps"), list(itertools.product((0, 2), (0, 3))))
@pytest.mark.parametrize("name", ["lstm-vendor", "lstm-eager", "sru-scan", "mogrifier-eager"])
def test_nothing_to_run(name, rows, steps):
    layer = RUNS[name].layer()
    x = Padded(
        torch.full((rows, steps, layer.input_size), NAN, dtype=torch.float64), torch.zeros(rows, dtype=torch.int64)
    )
    state = state_of(layer, rows)
    y, final = layer(x, state)
    assert y.data.equal(torch.zeros(rows, steps, layer.output_size, dtype=torch.float64))
    assert all(a.equal(b) for a, b in zip(final, state, strict=True))


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("name", RUNS)
def test_outside_of_gradients_it_is_the_same(name, reverse):
    layer = RUNS[name].layer(reverse=reverse)
    x, state = inputs(layer, LENGTHS, 5), state_of(layer, len(LENGTHS))
    y, final = layer(x, state)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            z, last = layer(x, state)
            again, _ = layer(x, last)  # of which nothing was written over
            once_more, _ = layer(x, last)
        assert again.data.equal(once_more.data)
        for a, b in zip((y.data, *final), (z.data, *last), strict=True):
            close(a, b, 1e-14)  # torch takes other kernels without gradients


@pytest.mark.parametrize("name", ["lstm", "gru-reset-after", "gru", "sru-projected", "mingru", "lstm-peephole"])
def test_mixed_precision_is_near(name):
    torch.manual_seed(0)
    layer = Recurrent(name, INPUT, SIZE)
    x = inputs(layer, [16, 0, 1, 3], 16)
    expected, _ = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = layer(x)
        again, _ = layer(x, state)
    # A rounding of bfloat16 is 4e-3; the outputs are below 1 and forget.
    torch.testing.assert_close(y.data.float(), expected.data, rtol=0, atol=2e-2)
    assert again.data.isfinite().all()
    y.data.float().sum().backward()
    assert all(value.grad.isfinite().all() for value in layer.parameters())
