"""What follows from a graph, as plain functions: stages, plan of the products, class of the recurrence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from riverrun.nn.cells.graph import Graph, Node, ancestors

EXCHANGE = ("dot", "dotT", "mean", "var")
"""Operations that need the units of the whole vector."""


def reads(roots: Iterable[Node]) -> set[str]:
    """The states that these nodes are made of."""
    return {str(n.tag) for n in ancestors(roots) if n.op == "s"}


@dataclass(frozen=True)
class Stages:
    """What is computed when.

    Args:
        carried: states that the loop over time must carry.
        delays: states known for all times at once, because their new value depends on the input alone.
        before: nodes computed for all times before the loop.
        loop: nodes computed step by step.
        after: nodes computed for all times from the sequences of states.
    """

    carried: tuple[str, ...]
    delays: tuple[str, ...]
    before: tuple[Node, ...]
    loop: tuple[Node, ...]
    after: tuple[Node, ...]


def stages(graph: Graph) -> Stages:
    """Before the loop, in it, after it. A state that no step reads is output only and is not carried."""
    nodes = ancestors(graph.new.values())
    read = {str(n.tag) for n in nodes if n.op == "s"}
    below = _reads_of_each(nodes)
    delays: set[str] = set()
    while more := {k for k, n in graph.new.items() if k not in delays and below[id(n)] <= delays}:
        delays |= more
    delays &= read
    carried = tuple(k for k in graph.new if k in read and k not in delays)
    needed = {id(n) for n in ancestors(graph.new[k] for k in carried)}
    before = [n for n in nodes if below[id(n)] <= delays]
    rest = [n for n in nodes if not below[id(n)] <= delays]
    return Stages(
        carried,
        tuple(k for k in graph.new if k in delays),
        tuple(before),
        tuple(n for n in rest if id(n) in needed),
        tuple(n for n in rest if id(n) not in needed),
    )


def _reads_of_each(nodes: Sequence[Node]) -> dict[int, set[str]]:
    below: dict[int, set[str]] = {}
    for node in nodes:
        own = {str(node.tag)} if node.op == "s" else set()
        below[id(node)] = own.union(*(below[id(a)] for a in node.args))
    return below


def levels(nodes: Sequence[Node], known: Iterable[Node] = ()) -> dict[int, int]:
    """id of node -> how many exchanges between the units must have happened before it can be computed."""
    ready = {id(n) for n in known}
    level: dict[int, int] = {}
    for node in nodes:
        below = max((level.get(id(a), 0) for a in node.args), default=0)
        level[id(node)] = 0 if id(node) in ready else below + (node.op in EXCHANGE)
    return level


@dataclass(frozen=True)
class Group:
    """Products that multiply the same operand, and so are one product with stacked rows of R.

    Args:
        level: how many exchanges a step must have made when this one is done.
        operand: what is multiplied.
        nodes: the products, in the order of the rows of R.
    """

    level: int
    operand: Node
    nodes: tuple[Node, ...]

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of the rows."""
        return tuple(str(n.tag) for n in self.nodes)


@dataclass(frozen=True)
class Plan:
    """The groups of products in the loop, in the order in which they are exchanged, and the exchanges of a step."""

    groups: tuple[Group, ...]
    exchanges: int


def plan(graph: Graph) -> Plan:
    """Products grouped by operand; a step makes one exchange for each level (the LSTM one, reset-before GRU two)."""
    st = stages(graph)
    level = levels(ancestors(graph.new.values()), st.before)
    found: dict[int, list[Node]] = {}
    for node in st.loop:
        if node.op == "dot":
            found.setdefault(id(node.args[0]), []).append(node)
    groups = [
        Group(level[id(ns[0])], ns[0].args[0], tuple(sorted(ns, key=lambda n: graph.product_rank(str(n.tag)))))
        for ns in found.values()
    ]
    exchanges = max((level[id(n)] for n in st.loop), default=0)
    return Plan(tuple(sorted(groups, key=lambda group: group.level)), exchanges)


Pair = tuple[Node, Node]


def linear(graph: Graph, node: Node, state: str) -> Pair | None:
    """(a, b) with node = a * s.state + b and a, b free of s.state, or None where it is not linear."""
    nodes = ancestors([node])
    below = _reads_of_each(nodes)
    pairs: dict[int, Pair | None] = {}  # of every node once: a value that is read twice doubles no work
    for each in nodes:
        free = state not in below[id(each)]
        pairs[id(each)] = (graph.const(0), each) if free else _linear(graph, each, pairs, below, state)
    return pairs[id(node)]


def _linear(
    graph: Graph, node: Node, pairs: dict[int, Pair | None], below: dict[int, set[str]], state: str
) -> Pair | None:
    """The same for a node that reads the state, from what was found for its arguments."""
    if node.op == "s":
        return graph.const(1), graph.const(0)
    if node.op not in ("add", "sub", "neg", "mul", "div"):
        return None
    first, last = pairs[id(node.args[0])], pairs[id(node.args[-1])]
    if first is None or last is None:
        return None
    free = [state not in below[id(arg)] for arg in node.args]
    if node.op in ("add", "sub"):
        return graph.op(node.op, first[0], last[0]), graph.op(node.op, first[1], last[1])
    if node.op == "neg":
        return -first[0], -first[1]
    if node.op == "mul" and any(free):
        factor, (a, b) = (node.args[0], last) if free[0] else (node.args[1], first)
        return factor * a, factor * b
    if node.op == "div" and free[1]:
        return first[0] / node.args[1], first[1] / node.args[1]
    return None


def scan_form(graph: Graph) -> dict[str, Pair] | None:
    """state -> (a, b) in an order in which each is linear given those before it; None if one state is not."""
    st = stages(graph)
    pairs: dict[str, Pair] = {}
    for name in st.carried:
        pair = linear(graph, graph.new[name], name)
        if pair is None:
            return None
        pairs[name] = pair
    needs = {name: reads(pair) for name, pair in pairs.items()}
    done, form = set(st.delays), dict[str, Pair]()
    while len(form) < len(st.carried):
        ready = next((name for name in pairs if name not in form and needs[name] <= done), None)
        if ready is None:
            return None
        form[ready] = pairs[ready]
        done.add(ready)
    return form


def recurrence(graph: Graph) -> str:
    """``linear``: the new state is a * s + b with a, b free of s; ``diagonal``: no unit sees another in the loop;
    ``dense``: everything else.

    >>> from riverrun.nn.cells.lstm import LSTM
    >>> recurrence(LSTM().graph)
    'dense'
    """
    if scan_form(graph) is not None:
        return "linear"
    return "dense" if plan(graph).exchanges else "diagonal"
