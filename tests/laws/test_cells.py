"""Laws of every equation's graph: derivative, saved values, class of the recurrence, and the way through JSON."""

from __future__ import annotations

import pickle
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from riverrun.nn.cells import CELLS, Cell, Graph, RecurrentDropout, Zoneout, make_cell  # noqa: E402
from riverrun.nn.cells.backward import backward, saved  # noqa: E402
from riverrun.nn.cells.derive import plan, recurrence, scan_form, stages  # noqa: E402
from riverrun.nn.cells.graph import Node, ancestors  # noqa: E402
from riverrun.nn.cells.math import clip, maximum, minimum, relu, sigmoid, softplus, tanh  # noqa: E402
from riverrun.nn.cells.store import dumps, loads  # noqa: E402

pytestmark = pytest.mark.train


class Tied(Cell):
    """Everything that has a corner, at its corner where input, state and parameters are 0."""

    gates = ("a", "b")
    states = ("h", "c")
    params = ("k",)

    def step(self, x, s, R, p):
        number = maximum(0.5 * s.h, 0.0) + minimum(0.0, s.c + x.a) + clip(s.h + 0.5, 0.5) + relu(s.c - x.b)
        values = maximum(s.h, p.k * x.a) * 0.75 + minimum(x.b, s.c) + maximum(s.c, s.c) + softplus(s.h)
        return s.next(h=number + values, c=tanh(s.c + p.k) + x.a)


GRAPHS: dict[str, Graph] = {
    **{name: make_cell(name).graph for name in CELLS},
    "elman-relu": make_cell({"kind": "elman", "nonlinearity": "relu"}).graph,
    "elman-sigmoid": make_cell({"kind": "elman", "nonlinearity": "sigmoid"}).graph,
    "elman-identity": make_cell({"kind": "elman", "nonlinearity": "identity"}).graph,
    "mogrifier-2": make_cell({"kind": "mogrifier", "rounds": 2}).graph,
    "zoneout": Zoneout(make_cell("lstm"), rate={"h": 0.1, "c": 0.5}).graph,
    "dropout": RecurrentDropout(make_cell("mogrifier")).graph,
    "both": Zoneout(RecurrentDropout(make_cell("layernorm-gru"))).graph,
    "tied": Tied().graph,
}
# name -> class of the recurrence, exchanges of a step, groups of products
FOUND = {
    "elman": ("dense", 1, 1),
    "lstm": ("dense", 1, 1),
    "lstm-no-output-gate": ("dense", 1, 1),
    "lstm-1997": ("dense", 1, 1),
    "lstm-peephole": ("dense", 1, 1),
    "lstm-coupled": ("dense", 1, 1),
    "lstm-projected": ("dense", 2, 2),
    "gru": ("dense", 2, 2),
    "gru-reset-after": ("dense", 1, 1),
    "sru": ("diagonal", 0, 0),
    "sru-projected": ("diagonal", 0, 0),
    "mingru": ("linear", 0, 0),
    "layernorm-lstm": ("dense", 3, 1),
    "layernorm-gru": ("dense", 2, 1),
    "mogrifier": ("dense", 6, 6),
    "slstm": ("dense", 1, 1),
}
WAYS: dict[str, Callable[[Graph], Graph]] = {
    "json": lambda graph: loads(dumps(graph)),
    "pickle": lambda graph: pickle.loads(pickle.dumps(graph)),
}
WIDTHS = {"input": 3, "hidden": 3, "output": 2}
Values = dict[int, Tensor]


def draw(graph: Graph, scale: float = 1.0) -> tuple[Values, dict[str, Tensor]]:
    """Leaves and matrices, at random; the leaves times ``scale``."""
    torch.manual_seed(0)
    nodes = ancestors(graph.new.values())
    leaves = {
        id(n): (scale * torch.randn(2, WIDTHS[n.width.size()], dtype=torch.float64)).requires_grad_()
        for n in nodes
        if n.op in ("x", "s", "p")
    }
    shapes = {str(n.tag): (n.width.size(), n.args[0].width.size()) for n in nodes if n.op == "dot"}
    R = {
        gate: torch.randn(WIDTHS[out], WIDTHS[into], dtype=torch.float64).requires_grad_()
        for gate, (out, into) in shapes.items()
    }
    return leaves, R


OPS: dict[str, Callable[..., Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "neg": torch.neg,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "exp": torch.exp,
    "log": torch.log,
    "rsqrt": torch.rsqrt,
    "softplus": torch.nn.functional.softplus,
    "max": torch.maximum,
    "min": torch.minimum,
    "gt": lambda a, b: (a > b).double(),
    "mean": lambda *vs: torch.cat([v.expand(2, vs[0].shape[-1]) for v in vs], -1).mean(-1, keepdim=True),
    "var": lambda *vs: torch.cat(vs, -1).var(-1, correction=0, keepdim=True),
}


CLAMPS = {"max": "min", "min": "max"}  # with a number, where torch.maximum takes none


def evaluate(nodes: Iterable[Node], known: Mapping[int, Tensor], R: Mapping[str, Tensor]) -> Values:
    """Each node from its arguments, one operation at a time."""
    values = dict(known)
    for node in nodes:
        if id(node) in values:
            continue
        args = [values[id(a)] for a in node.args]
        if node.op == "const":
            values[id(node)] = torch.full((2, 1), float(str(node.tag)), dtype=torch.float64)
        elif node.op == "dot":
            values[id(node)] = args[0] @ R[str(node.tag)].mT
        elif node.op == "dotT":
            values[id(node)] = sum(a @ R[gate] for a, gate in zip(args, node.tag, strict=True))
        elif node.op == "mean":
            wide = [a.expand(2, WIDTHS[b.width.size()]) for a, b in zip(args, node.args, strict=True)]
            values[id(node)] = OPS["mean"](*wide)
        elif node.op in CLAMPS and node.args[1].op == "const":
            values[id(node)] = args[0].clamp(**{CLAMPS[node.op]: float(str(node.args[1].tag))})
        else:
            values[id(node)] = OPS[node.op](*args)
    return values


@pytest.mark.parametrize("scale", [1.0, 0.0], ids=["random", "zero"])
@pytest.mark.parametrize("name", GRAPHS)
def test_derivative_is_autograds(name, scale):
    graph = GRAPHS[name]
    leaves, R = draw(graph, scale)
    back = backward(graph)
    forward = ancestors(graph.new.values())
    values = evaluate(forward, leaves, R)
    outs = [values[id(graph.new[state])] for state in graph.states]
    seeds = [torch.randn_like(v) for v in outs]
    wanted = [*leaves.values(), *R.values()]
    expected = torch.autograd.grad(outs, wanted, seeds, allow_unused=True)
    by_leaf = dict(zip(leaves, expected, strict=False))
    known = {key: v.detach() for key, v in values.items()}
    known |= {id(back.seeds[state]): seed for state, seed in zip(graph.states, seeds, strict=True)}
    found = evaluate(ancestors(back.roots), known, R)
    for op, adjoints in (("x", back.x), ("s", back.s), ("p", back.p)):
        for leaf, node in graph.leaves(op).items():
            theirs = by_leaf[id(node)]
            assert (theirs is not None) == (leaf in adjoints), leaf
            if theirs is not None:
                ours = found[id(adjoints[leaf])]
                torch.testing.assert_close(ours.expand_as(theirs), theirs, rtol=1e-9, atol=1e-11)
    total = {gate: torch.zeros_like(matrix) for gate, matrix in R.items()}
    for gate, adjoint, operand in back.R:
        total[gate] += found[id(adjoint)].mT @ found[id(operand)]
    for gate, theirs in zip(R, expected[len(leaves) :], strict=True):
        torch.testing.assert_close(total[gate], theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", GRAPHS)
def test_saved_values_are_enough_for_the_derivative(name):
    graph = GRAPHS[name]
    leaves, R = draw(graph)
    back = backward(graph)
    values = {key: v.detach() for key, v in evaluate(ancestors(graph.new.values()), leaves, R).items()}
    needs = saved(graph, back)
    carried = [graph.new[state] for state in stages(graph).carried]
    free = [n for n in ancestors(graph.new.values()) if n.op in ("s", "p")]
    known = {id(n): values[id(n)] for n in (*needs.keep, *carried, *free)}
    known |= {id(seed): torch.ones(2, WIDTHS[seed.width.size()], dtype=torch.float64) for seed in back.seeds.values()}
    constants = [n for n in graph.nodes if n.op == "const"]
    short = evaluate([*constants, *needs.again, *needs.adjoint], known, R)  # a missing value is a KeyError
    seeds = {key: v for key, v in known.items() if any(key == id(seed) for seed in back.seeds.values())}
    whole = evaluate(ancestors(back.roots), {**values, **seeds}, R)
    for node in needs.adjoint:
        torch.testing.assert_close(short[id(node)], whole[id(node)], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", FOUND)
def test_class_and_plan(name):
    graph = GRAPHS[name]
    kind, exchanges, groups = FOUND[name]
    assert recurrence(graph) == kind
    assert (plan(graph).exchanges, len(plan(graph).groups)) == (exchanges, groups)
    assert (scan_form(graph) is not None) == (kind == "linear")


def test_every_cell_has_a_class():
    assert set(FOUND) == set(CELLS)


@pytest.mark.parametrize("name", [name for name in FOUND if FOUND[name][0] == "linear"])
def test_linear_form_is_the_step(name):
    graph = GRAPHS[name]
    leaves, R = draw(graph)
    form = scan_form(graph)
    assert form is not None
    for state, (a, b) in form.items():
        values = evaluate(ancestors([a, b, graph.new[state]]), leaves, R)
        s = leaves[id(graph.leaves("s")[state])]
        torch.testing.assert_close(values[id(a)] * s + values[id(b)], values[id(graph.new[state])])


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", GRAPHS)
def test_graph_comes_back(name, way):
    graph = GRAPHS[name]
    again = way(graph)
    assert again.signature() == graph.signature()
    assert dumps(again) == dumps(graph)
    assert list(again.traces()) == list(graph.traces())
    assert recurrence(again) == recurrence(graph)
    assert (again.kind, again.params, again.noise, again.widths, again.start, again.equal) == (
        graph.kind,
        graph.params,
        graph.noise,
        graph.widths,
        graph.start,
        graph.equal,
    )
    assert dumps(again.quiet()) == dumps(graph.quiet())


def named(*names: str) -> type[Cell]:
    """A cell in which values have these names."""
    lines = ["def step(self, x, s, R, p):", "    v = x.a", *(f"    {name} = v = tanh(v + R.a(v))" for name in names)]
    scope: dict[str, Any] = {"tanh": tanh}
    exec("\n".join([*lines, "    return s.next(h=v + s.h)"]), scope)
    return type("Named", (Cell,), {"gates": ("a",), "step": scope["step"]})


NAMES = ("α", "α_1", "α_", "_α", "_", "__", "_1", "x_0", "R_0", "v_1", "h_", "raw", "next", "torch", "inf", "ﬁ", "𝐡")


def test_every_name_that_python_takes_comes_back():
    graph = named(*NAMES)().graph
    assert graph is not None
    for way in WAYS.values():
        again = way(graph)
        assert dumps(again) == dumps(graph) and again.signature() == graph.signature()
        assert list(again.traces()) == list(graph.traces())
    assert {unicodedata.normalize("NFKC", name) for name in NAMES} <= set(graph.traces())  # as Python reads them


def test_a_name_that_cannot_be_stored_is_not_given():
    def step(self, x, s, R, p):
        v = tanh(x.a)
        locals_of = {"lambda": v, "not a word": v, "ﬁ": v}
        return eval("s.next(h=kept + s.h)", {"s": s}, locals_of | {"kept": v})

    graph = type("Evaluated", (Cell,), {"gates": ("a",), "step": step})().graph
    assert graph is not None
    assert list(graph.traces()) == ["h", "kept"]
    assert dumps(loads(dumps(graph))) == dumps(graph)


def euler(steps: int) -> Graph:
    class Euler(Cell):
        """Every step reads twice what the one before made."""

        gates = ("a",)

        def step(self, x, s, R, p):
            h = s.h
            for _ in range(steps):
                h = h + 0.1 * x.a * h
            return s.next(h=h)

    graph = Euler().graph
    assert graph is not None
    return graph


def doubled(steps: int) -> Graph:
    class Doubled(Cell):
        """The same with nothing in between that a derivative needs."""

        gates = ("a",)

        def step(self, x, s, R, p):
            h = s.h
            for _ in range(steps):
                h = h + 0.1 * h
            return s.next(h=tanh(h) * sigmoid(x.a))

    graph = Doubled().graph
    assert graph is not None
    return graph


@pytest.mark.parametrize(("make", "kind"), [(euler, "linear"), (doubled, "diagonal")])
def test_shared_values_are_looked_at_once(make, kind):
    graph = make(200)
    start = time.thread_time()
    assert recurrence(graph) == kind
    back = backward(graph)
    assert len(saved(graph, back).adjoint) > 200
    assert len(repr(back.x["a"])) < 100
    assert time.thread_time() - start < 1  # of a hundredth; 2 ** 200 steps where each is looked at twice


def test_linear_form_of_many_steps_is_the_step():
    graph = euler(12)
    leaves, R = draw(graph)
    form = scan_form(graph)
    assert form is not None
    values = evaluate(ancestors([*form["h"], graph.new["h"]]), leaves, R)
    a, b = (values[id(node)] for node in form["h"])
    torch.testing.assert_close(a * leaves[id(graph.leaves("s")["h"])] + b, values[id(graph.new["h"])])


def test_signatures_differ_where_equations_do():
    signatures = {graph.signature() for graph in GRAPHS.values()}
    assert len(signatures) == len(GRAPHS)
    assert RecurrentDropout(make_cell("lstm")).graph.quiet().signature() == GRAPHS["lstm"].signature()
