"""A recurrence without exchange between the units as two loops over numbers, forward and backward, compiled by numba.

The code is generated from the graph, and the derivative from the graph's derivative. It is kept in a file of the user's
cache, so that numba, too, can keep what it compiled.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from riverrun.nn.cells.backward import backward, saved
from riverrun.nn.cells.emit import SCALAR, Emitter
from riverrun.nn.cells.graph import Graph, Node, Width, ancestors
from riverrun.nn.engines.program import Program


@dataclass(frozen=True, eq=False)
class Source:
    """The text of both loops, and in which order they take their arrays.

    Args:
        fed: what varies in time: inputs of the loop.
        fixed: what does not.
        states: the carried states.
        keep: how many values the forward loop stores for the backward one.
        text: the functions ``forward`` and ``backward``.
    """

    fed: tuple[Node, ...]
    fixed: tuple[Node, ...]
    states: tuple[str, ...]
    keep: int
    text: str


def loop_graph(plan: Program) -> tuple[Graph, tuple[Node, ...], tuple[Node, ...]]:
    """The loop as a graph of its own, and what in the whole graph its streams ``x`` and its parameters ``p`` are."""
    previous = {name: plan.graph.leaves("s")[name] for name in plan.carried}
    inputs = [n for n in plan.loop.inputs if all(n is not state for state in previous.values())]
    fed = tuple(n for n in inputs if any(n is other for other in plan.fed))
    fixed = tuple(n for n in inputs if all(n is not other for other in plan.fed))
    names = {id(n): f"k{k}" for k, n in enumerate((*fed, *fixed))}
    graph = Graph(
        plan.graph.kind,
        gates=tuple(names[id(n)] for n in fed),
        states=plan.carried,
        params={names[id(n)]: 0.0 for n in fixed},
    )
    copies = {id(n): graph.node("x", (), names[id(n)], Width()) for n in fed}
    copies |= {id(n): graph.node("p", (), names[id(n)], Width()) for n in fixed}
    copies |= {id(n): graph.node("s", (), name, Width()) for name, n in previous.items()}
    for node in ancestors(plan.loop.outputs, stop=[*fed, *fixed, *previous.values()]):
        if id(node) not in copies:
            copies[id(node)] = graph.node(node.op, [copies[id(a)] for a in node.args], node.tag, Width())
    graph.new = {name: copies[id(plan.graph.new[name])] for name in plan.carried}
    return graph, fed, fixed


def source(plan: Program) -> Source:
    """Both loops of a program whose loop has no exchange."""
    graph, fed, fixed = loop_graph(plan)
    streams = [graph.node("x", (), name) for name in graph.gates]
    fixtures = [graph.node("p", (), name) for name in graph.params]
    states = [graph.node("s", (), name) for name in graph.states]
    back = backward(graph)
    needs = saved(graph, back, operands=False)
    keep = [n for n in needs.keep if n.op != "x"]
    text = "\n\n\n".join(
        (_forward(graph, streams, fixtures, states, keep), _backward(graph, streams, fixtures, states, keep))
    )
    return Source(fed, fixed, graph.states, len(keep), text + "\n")


def _forward(graph: Graph, streams: list[Node], fixtures: list[Node], states: list[Node], keep: list[Node]) -> str:
    outs = [graph.new[str(n.tag)] for n in states]
    names = {
        **{id(n): f"x{k}[u]" for k, n in enumerate(streams)},
        **{id(n): f"p{k}[u]" for k, n in enumerate(fixtures)},
        **{id(n): f"s{k}[u]" for k, n in enumerate(states)},
    }
    nodes = ancestors([*outs, *keep])
    emitter = _emitter(nodes, [*outs, *keep], names)
    body = emitter.lines(n for n in nodes if id(n) not in names and n.op != "const")
    arguments = [
        "T, B, H, lengths",
        *(f"ax{k}, tx{k}, bx{k}" for k in range(len(streams))),
        *(f"p{k}" for k in range(len(fixtures))),
        *(f"first{k}" for k in range(len(states))),
        *(f"seq{k}" for k in range(len(states))),
        *(f"keep{k}" for k in range(len(keep))),
        "tk",
    ]
    rows = [f"s{k} = first{k}[b] if t == 0 else seq{k}[t - 1, b]" for k in range(len(states))]
    rows += [f"new{k} = seq{k}[t, b]" for k in range(len(states))]
    live = [f"x{k} = ax{k}[t * tx{k} + b * bx{k} : t * tx{k} + b * bx{k} + H]" for k in range(len(streams))]
    live += [f"row{k} = keep{k}[t * tk, b]" for k in range(len(keep))]
    stores = [f"new{k}[u] = {emitter[n]}" for k, n in enumerate(outs)]
    stores += [f"row{k}[u] = {emitter[n]}" for k, n in enumerate(keep)]
    frozen = [f"new{k}[u] = s{k}[u]" for k in range(len(states))]
    return _function("forward", arguments, "range(T)", rows, live, [*body, *stores], frozen)


def _backward(graph: Graph, streams: list[Node], fixtures: list[Node], states: list[Node], keep: list[Node]) -> str:
    back = backward(graph)
    after = [graph.new[str(n.tag)] for n in states]
    names = {
        **{id(n): f"x{k}[u]" for k, n in enumerate(streams)},
        **{id(n): f"p{k}[u]" for k, n in enumerate(fixtures)},
        **{id(n): f"s{k}[u]" for k, n in enumerate(states)},
    }
    names = {**{id(n): f"new{k}[u]" for k, n in enumerate(after)}, **names}
    names |= {id(n): f"row{k}[u]" for k, n in enumerate(keep)}
    names |= {id(back.seeds[str(n.tag)]): f"d{k}" for k, n in enumerate(states)}
    roots = [*back.x.values(), *back.p.values(), *back.s.values()]
    given = [n for n in graph.nodes if id(n) in names]
    nodes = ancestors(roots, stop=given)
    emitter = _emitter(nodes, roots, names)
    body = [f"d{k} = carry{k}[u] + g{k}[u]" for k in range(len(states))]
    body += emitter.lines(n for n in nodes if id(n) not in names and n.op != "const")

    def share(found: dict[str, Node], node: Node) -> str:
        return emitter[found[str(node.tag)]] if str(node.tag) in found else "ZERO"

    stores = [f"dx{k}[u] = {share(back.x, n)}" for k, n in enumerate(streams)]
    stores += [f"dp{k}[u] += {share(back.p, n)}" for k, n in enumerate(fixtures)]
    stores += [f"carry{k}[u] = {share(back.s, n)}" for k, n in enumerate(states)]
    arguments = [
        "T, B, H, lengths",
        *(f"ax{k}, tx{k}, bx{k}" for k in range(len(streams))),
        *(f"p{k}" for k in range(len(fixtures))),
        *(f"first{k}" for k in range(len(states))),
        *(f"seq{k}" for k in range(len(states))),
        *(f"keep{k}" for k in range(len(keep))),
        *(f"ag{k}, tg{k}, bg{k}" for k in range(len(states))),
        *(f"adx{k}" for k in range(len(streams))),
        *(f"dp{k}" for k in range(len(fixtures))),
        *(f"dfirst{k}" for k in range(len(states))),
    ]
    rows = [f"g{k} = ag{k}[t * tg{k} + b * bg{k} : t * tg{k} + b * bg{k} + H]" for k in range(len(states))]
    rows += [f"carry{k} = dfirst{k}[b]" for k in range(len(states))]
    rows += [f"dx{k} = adx{k}[t, b]" for k in range(len(streams))]
    live = [f"s{k} = first{k}[b] if t == 0 else seq{k}[t - 1, b]" for k in range(len(states))]
    live += [f"new{k} = seq{k}[t, b]" for k in range(len(states))]
    live += [f"x{k} = ax{k}[t * tx{k} + b * bx{k} : t * tx{k} + b * bx{k} + H]" for k in range(len(streams))]
    live += [f"row{k} = keep{k}[t, b]" for k in range(len(keep))]
    frozen = [f"carry{k}[u] += g{k}[u]" for k in range(len(states))]
    frozen += [f"dx{k}[u] = ZERO" for k in range(len(streams))]
    return _function("backward", arguments, "range(T - 1, -1, -1)", rows, live, [*body, *stores], frozen)


def _emitter(nodes: Iterable[Node], roots: Iterable[Node], names: dict[int, str]) -> Emitter:
    reserved = ["u", "t", "b", "T", "B", "H", "F", "ZERO", "ONE", "lengths", "tk"]
    return Emitter(SCALAR, nodes, roots, names=names, reserved=reserved, number=_number)


def _number(value: float) -> str:
    return f"F({value!r})" if abs(value) < float("inf") else f"F(float('{value}'))"


def _function(
    name: str, arguments: list[str], times: str, rows: list[str], live: list[str], body: list[str], frozen: list[str]
) -> str:
    """One loop: rows before units, so that numba sees arrays of one dimension and vectorises."""
    lines = [f"def {name}({', '.join(arguments)}):", "    for b in range(B):", f"        for t in {times}:"]
    lines += [f"            {line}" for line in rows]
    lines += ["            if t < lengths[b]:"]
    lines += [f"                {line}" for line in live]
    lines += ["                for u in range(H):"]
    lines += [f"                    {line}" for line in body]
    lines += ["            else:", "                for u in range(H):"]
    lines += [f"                    {line}" for line in frozen]
    return "\n".join(lines)


Loop = Callable[..., None]


@lru_cache(maxsize=128)
def compiled(text: str, dtype: str) -> tuple[Loop, Loop]:
    """``forward`` and ``backward`` for numbers of this type; numba compiles each when it is first called."""
    from numba import njit

    from riverrun.nn.engines import scalar

    path = _file(text, hashlib.sha256((text + dtype + inspect.getsource(scalar)).encode()).hexdigest())
    # numba asks for a module by this name when it loads what it kept
    scope: dict[str, Any] = {"__name__": scalar.__name__, **scalar.FUNCTIONS[dtype]}
    exec(compile(text, str(path), "exec"), scope)
    compile_ = njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
    return compile_(scope["forward"]), compile_(scope["backward"])


def _file(text: str, digest: str) -> Path:
    """Where the text lies, for numba's cache and for tracebacks; what runs is always the text itself."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "riverrun" / "kernels"
    path = folder / f"scan_{digest[:32]}.py"
    try:
        if not path.exists() or path.read_text() != text:
            folder.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(f".{os.getpid()}")
            draft.write_text(text)
            draft.replace(path)
    except OSError:  # no place of our own: a folder for this process, where nothing is found again
        path = Path(tempfile.mkdtemp(prefix="riverrun-")) / path.name
        path.write_text(text)
    return path
