"""A cell's graph as Python functions on tensors: before the loop over time, one step of it, after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from riverrun.nn.cells.derive import stages
from riverrun.nn.cells.emit import CLAMP, TORCH, Emitter
from riverrun.nn.cells.graph import Graph, Node, ancestors
from riverrun.nn.engines.padding import zeroed
from riverrun.nn.engines.request import Request, Result, Weights, last_of

_STYLE = {**TORCH, "mean": "mean({all})", "var": "var({all})"}


def _mean(*vs: Tensor) -> Tensor:
    """The mean over the units of all vectors together."""
    return torch.stack([v.mean(-1, keepdim=True) for v in vs]).mean(0)


def _var(*vs: Tensor) -> Tensor:
    """The variance over the units of all vectors together."""
    mean = _mean(*vs)
    return torch.stack([(v - mean).square().mean(-1, keepdim=True) for v in vs]).mean(0)


_SCOPE = {"torch": torch, "softplus": softplus, "mean": _mean, "var": _var, "inf": float("inf")}

Values = dict[int, Tensor]
"""id of a node -> what it is."""


@dataclass(frozen=True, eq=False)
class Section:
    """Some nodes of a graph as one function.

    Args:
        inputs: nodes whose values it is given.
        products: the gates of each recurrent product, the rows of which are stacked.
        addends: the streams that are added to products in the same operation, side by side.
        outputs: nodes whose values it returns.
        run: (inputs..., stacked matrices..., addends...) -> outputs.
        source: the text of ``run``.
    """

    inputs: tuple[Node, ...]
    products: tuple[tuple[str, ...], ...]
    addends: tuple[tuple[Node, ...], ...]
    outputs: tuple[Node, ...]
    run: Callable[..., tuple[Tensor, ...]]
    source: str

    def matrices(self, weights: Weights) -> list[Tensor]:
        """The stacked matrices."""
        return [weights.stack(gates) for gates in self.products]

    def __call__(self, values: Values, weights: Weights) -> Values:
        """The values of the outputs, from values that contain the inputs."""
        results = self.run(*(values[id(n)] for n in self.inputs), *self.matrices(weights))
        return {id(n): value for n, value in zip(self.outputs, results, strict=True)}


def section(
    name: str, graph: Graph, outputs: Sequence[Node], known: Iterable[Node], *, joined: bool = False
) -> Section:
    """The function that computes the outputs from those of the known nodes that it needs.

    Args:
        name: of the function.
        graph: whose nodes they are.
        outputs: what is wanted.
        known: what is there.
        joined: whether a product and the stream of its gate are added in one operation: for single steps, (B, width).
    """
    given = {id(n): n for n in known}
    nodes = ancestors(outputs, stop=given.values())
    rest = [n for n in nodes if id(n) not in given]
    groups: dict[tuple[int, str], list[Node]] = {}
    for node in sorted((n for n in rest if n.op == "dot"), key=lambda n: graph.product_rank(str(n.tag))):
        groups.setdefault(_group(node), []).append(node)
    sums = {key: found for key, dots in groups.items() if joined and (found := _sums(graph, dots, rest, outputs))}
    inside = {id(n) for key, found in sums.items() for n in (*groups[key], *found)}
    used = {id(a) for n in rest if id(n) not in inside for a in n.args}
    used |= {id(n.args[0]) for dots in groups.values() for n in dots} | {id(n) for n in outputs}
    inputs = tuple(n for n in nodes if id(n) in given and id(n) in used and n.op != "const")
    names = {id(n): _argument(n, k) for k, n in enumerate(inputs)}
    matrices = [f"R_{k}" for k in range(len(groups))]
    streams = [f"x_{k}" for k in range(len(sums))]
    reserved = [*_SCOPE, *matrices, *streams]
    emitter = Emitter(_STYLE, nodes, outputs, names=names, reserved=reserved, number=_number, clamp=CLAMP)
    lines: list[str] = []
    batch: list[Node] = []
    order: list[tuple[int, str]] = []  # of the groups, as they come
    addends: list[tuple[Node, ...]] = []
    for node in rest:
        if node.op != "dot":
            batch.append(node)
            continue
        lines += emitter.lines(batch)
        batch = []
        key = _group(node)
        if key in order:
            continue
        operand, matrix = emitter[node.args[0]], f"{matrices[len(order)]}.mT"
        if key in sums:
            found = sums[key]
            product = f"torch.addmm({streams[len(addends)]}, {operand}, {matrix})"
            addends.append(tuple(found.values()))
            called = [emitter.call(n) for n in found]
        else:
            product = f"({operand} @ {matrix})"
            called = [emitter.call(n, f"R_{n.tag}") for n in groups[key]]
        lines.append(f"{', '.join(called)} = {product}" + (f".chunk({len(called)}, -1)" if len(called) > 1 else ""))
        order.append(key)
    lines += emitter.lines(batch)
    result = ", ".join(emitter[n] for n in outputs)
    head = f"def {name}({', '.join([*names.values(), *matrices, *streams])}):"
    source = "\n    ".join([head, *lines, f"return ({result}{',' if outputs else ''})"])
    scope: dict[str, Any] = dict(_SCOPE)
    exec(compile(source, f"<{graph.kind}: {name}>", "exec"), scope)
    products = tuple(tuple(str(n.tag) for n in groups[key]) for key in order)
    return Section(inputs, products, tuple(addends), tuple(outputs), scope[name], source)


def _sums(graph: Graph, dots: Sequence[Node], rest: Sequence[Node], outputs: Sequence[Node]) -> dict[Node, Node]:
    """sum -> stream, in the order of the products; nothing unless each product is only read by the sum with its own."""
    found: dict[Node, Node] = {}
    for dot in dots:
        readers = [n for n in rest if any(a is dot for a in n.args)]
        if len(readers) != 1 or readers[0].op != "add" or any(dot is n for n in outputs):
            return {}
        stream = next((a for a in readers[0].args if a is not dot), dot)
        if stream.op != "x" or stream.tag not in graph.gates:
            return {}
        found[readers[0]] = stream
    return found if len(found) == len(dots) else {}


def _group(node: Node) -> tuple[int, str]:
    """Products of one operand that are equally wide are one product, which falls in equal parts."""
    return id(node.args[0]), node.width.size()


def _argument(node: Node, k: int) -> str:
    return f"{node.op}_{node.tag}" if node.op in ("x", "s", "p") else f"v_{k}"


def _number(value: float) -> str:
    return repr(value) if abs(value) < float("inf") else f"({value})"


@dataclass(frozen=True, eq=False)
class Program:
    """How a graph is run over time.

    Args:
        graph: what is run.
        carried: the states that go from step to step.
        delays: each state that is known for all times before the loop, in an order in which they can be computed.
        before: what the loop and the nodes after it need, for all times.
        fed: the nodes of ``before`` and the streams that vary in time and are read by the loop.
        loop: one step; its outputs are the new carried states, then ``kept``.
        kept: nodes of the loop that are wanted for all times.
        after: everything else that is wanted, for all times.
    """

    graph: Graph
    carried: tuple[str, ...]
    delays: tuple[tuple[str, Section], ...]
    before: Section
    fed: tuple[Node, ...]
    loop: Section
    kept: tuple[Node, ...]
    after: Section

    def sequences(self, request: Request) -> Values:
        """The parameters, and for all times (T, B, width) the streams, the delays and what ``before`` computes."""
        leaves, states = self.graph.leaves("x"), self.graph.leaves("s")
        x = request.inputs()
        streams = {**request.weights.streams(x), "raw": x}
        streams |= {name: noise.expand(len(x), -1, -1) for name, noise in request.noise.items()}
        values = {id(node): streams[name] for name, node in leaves.items()}
        values |= {id(node): request.weights.p[name] for name, node in self.graph.leaves("p").items()}
        first = dict(zip(self.graph.states, request.state, strict=True))
        for name, compute in self.delays:
            values |= compute(values, request.weights)
            values[id(states[name])] = _delayed(first[name], values[id(self.graph.new[name])])
        return values | self.before(values, request.weights)

    def outcome(
        self, request: Request, values: Values, carried: Mapping[str, Tensor], traced: Sequence[str] = ()
    ) -> tuple[Result, dict[str, Tensor]]:
        """The result and name -> (B, T, width), from the sequences of the carried states.

        Those are frozen behind the end of a row, so that their last value is the final state. They have names, not
        nodes: the new values of two states may be one node, or a state itself.
        """
        graph, live = self.graph, request.live
        states, first = graph.leaves("s"), dict(zip(graph.states, request.state, strict=True))
        values = values | {id(graph.new[name]): sequence for name, sequence in carried.items()}
        values |= {id(states[name]): _delayed(first[name], sequence) for name, sequence in carried.items()}
        values |= self.after(values, request.weights)
        final = tuple(
            carried[name][-1] if name in carried else last_of(values[id(node)], request, first[name])
            for name, node in graph.new.items()
        )
        y = _rows(values[id(graph.new[graph.states[0]])], live)
        shape = request.x.shape[1], request.x.shape[0], -1  # a value made of parameters alone has no time
        named = {name: _rows(values[id(graph.traces()[name])].expand(*shape), live) for name in traced}
        return (y, final), named


def _delayed(first: Tensor, sequence: Tensor) -> Tensor:
    """The sequence one step later."""
    return torch.cat([first[None], sequence])[:-1]


def _rows(sequence: Tensor, live: Tensor | None) -> Tensor:
    """(T, B, H) -> (B, T, H), 0 in the padding."""
    masked = sequence if live is None else zeroed(sequence, live)
    return masked.transpose(0, 1)


@lru_cache(maxsize=512)
def program(graph: Graph, traced: tuple[str, ...] = (), *, again: bool = False) -> Program:
    """The program of a graph.

    Args:
        graph: what is to be run.
        traced: names of values that are wanted for all times.
        again: whether ``after`` computes values of the loop a second time, instead of having them kept.
    """
    st = stages(graph)
    states, names = graph.leaves("s"), graph.traces()
    streams = [n for n in st.before if n.op in ("x", "p")]
    known, delays, waiting = list(streams), list[tuple[str, Section]](), list(st.delays)
    while waiting:
        name = next(
            d for d in waiting if not {str(n.tag) for n in ancestors([graph.new[d]]) if n.op == "s"} & set(waiting)
        )
        waiting.remove(name)
        delays.append((name, section("delay", graph, [graph.new[name]], known)))
        known += [states[name], graph.new[name]]
    wanted = [graph.new[name] for name in graph.states] + [names[name] for name in traced]
    carried = [graph.new[name] for name in st.carried]
    early, in_loop = {id(n) for n in st.before}, {id(n) for n in st.loop}
    late = _distinct([n for n in wanted if id(n) not in early])
    kept: list[Node] = []
    if not again:
        needed = [a for n in st.after for a in n.args] + late
        kept = [n for n in _distinct(needed) if id(n) in in_loop and n.op != "s" and all(n is not c for c in carried)]
    late = [n for n in late if all(n is not other for other in (*kept, *carried))]
    inner = ancestors([*carried, *kept], stop=st.before)
    outer = ancestors(late, stop=[*st.before, *carried, *kept])
    rim = [n for n in _distinct([*inner, *outer]) if id(n) in early]
    before = _distinct(
        [n for n in [*rim, *wanted] if id(n) in early and n.op != "const" and all(n is not k for k in known)]
    )
    loop = section("step", graph, [*carried, *kept], [*st.before, *(states[name] for name in st.carried)], joined=True)
    known_after = [*st.before, *(states[name] for name in st.carried), *carried, *kept]
    return Program(
        graph=graph,
        carried=st.carried,
        delays=tuple(delays),
        before=section("before", graph, before, known),
        fed=tuple(n for n in loop.inputs if id(n) in early and _varies(n)),
        loop=loop,
        kept=tuple(kept),
        after=section("after", graph, late, known_after),
    )


def _distinct(nodes: Iterable[Node]) -> list[Node]:
    return list({id(n): n for n in nodes}.values())


def _varies(node: Node) -> bool:
    """Whether a value made before the loop differs from time to time."""
    return any(n.op in ("x", "s") for n in ancestors([node]))
