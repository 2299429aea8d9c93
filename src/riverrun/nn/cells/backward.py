"""The derivative of a step, as nodes of the same graph, and the values that the forward pass must keep for it."""

from __future__ import annotations

from dataclasses import dataclass

from riverrun.nn.cells.derive import EXCHANGE, stages
from riverrun.nn.cells.graph import LEAVES, Graph, Node, ancestors


@dataclass(frozen=True)
class Backward:
    """Gradients of one step; the adjoint of everything that left the step is given, that of what entered is computed.

    Args:
        seeds: state -> leaf: the gradient of the loss by the new state.
        x: stream -> gradient by ``x.stream``.
        s: state -> gradient by the state before the step.
        p: parameter -> gradient, to be summed over rows and times.
        R: (gate, adjoint, operand): the gradient of R.gate is the sum over rows and times of adjoint^T operand.
    """

    seeds: dict[str, Node]
    x: dict[str, Node]
    s: dict[str, Node]
    p: dict[str, Node]
    R: list[tuple[str, Node, Node]]

    @property
    def roots(self) -> list[Node]:
        """Everything that is to be computed."""
        return [*self.x.values(), *self.s.values(), *self.p.values(), *(adjoint for _, adjoint, _ in self.R)]


def backward(graph: Graph) -> Backward:
    """Reverse-mode differentiation of the step; products of one operand become one transposed product."""
    nodes = ancestors(graph.new.values())
    adjoint: dict[int, Node] = {}
    pending: dict[int, list[tuple[str, Node]]] = {}
    products: list[tuple[str, Node, Node]] = []
    seeds = {name: graph.node("d", (), name, graph.new[name].width) for name in graph.new}

    def add(node: Node, share: Node) -> None:
        adjoint[id(node)] = adjoint[id(node)] + share if id(node) in adjoint else share

    for name, node in graph.new.items():
        add(node, seeds[name])
    for node in reversed(nodes):
        if id(node) in pending:  # all products of this operand are known by now: one transposed product
            parts = sorted(pending[id(node)], key=lambda part: graph.product_rank(part[0]))
            gates = tuple(gate for gate, _ in parts)
            add(node, graph.node("dotT", (share for _, share in parts), gates, node.width))
        if id(node) not in adjoint or node.op in LEAVES:
            continue
        a = adjoint[id(node)]
        if node.op == "dot":
            pending.setdefault(id(node.args[0]), []).append((str(node.tag), a))
            products.append((str(node.tag), a, node.args[0]))
        else:
            for arg, share in _shares(graph, node, a):
                if arg.op != "const":
                    add(arg, share)
    leaf = {
        op: {str(n.tag): adjoint[id(n)] for n in nodes if n.op == op and id(n) in adjoint} for op in ("x", "s", "p")
    }
    return Backward(seeds, leaf["x"], leaf["s"], leaf["p"], products)


def _shares(g: Graph, n: Node, a: Node) -> list[tuple[Node, Node]]:
    """(argument, its share of the adjoint a) for each argument of n."""
    v, w = n.args[0], n.args[-1]
    match n.op:
        case "add":
            return [(v, a), (w, a)]
        case "sub":
            return [(v, a), (w, -a)]
        case "mul":
            return [(v, a * w), (w, a * v)]
        case "div":
            return [(v, a / w), (w, -(a * n / w))]
        case "neg":
            return [(v, -a)]
        case "sigmoid":
            return [(v, a * (n * (1 - n)))]
        case "tanh":
            return [(v, a * (1 - n * n))]
        case "relu":
            return [(v, a * g.op("gt", n, 0))]
        case "exp":
            return [(v, a * n)]
        case "log":
            return [(v, a / v)]
        case "rsqrt":
            return [(v, a * (-0.5 * (n * n * n)))]
        case "softplus":
            return [(v, a * g.op("sigmoid", v))]
        case "max":
            return _of_extreme(g, n, a, w, v)
        case "min":
            return _of_extreme(g, n, a, v, w)
        case "mean":
            return [(u, g.node("mean", (a,)) / len(n.args)) for u in n.args]
        case "var":  # mean is its own transpose, so a variance needs nothing but means
            mean = g.node("mean", n.args)
            return [(u, g.node("mean", (a,)) * (2 / len(n.args)) * (u - mean)) for u in n.args]
    raise NotImplementedError(f"no derivative of '{n.op}'")


def _of_extreme(g: Graph, n: Node, a: Node, low: Node, high: Node) -> list[tuple[Node, Node]]:
    """The shares of a maximum or minimum, of which the first argument is taken where ``low`` is below ``high``.

    What is equal is as torch has it: beside a number, which is a clamp, the value takes all; two values have half each.
    """
    v, w = n.args
    if w.op == "const":
        return [(v, a * (1 - g.op("gt", low, high)))]
    half = 0.5 * (g.op("gt", high, low) - g.op("gt", low, high))
    return [(v, a * (0.5 + half)), (w, a * (0.5 - half))]


@dataclass(frozen=True)
class Saved:
    """What a backward pass stands on.

    Args:
        keep: forward values to be stored at every step, beside the carried states.
        again: forward values that are computed anew from these.
        adjoint: the nodes of the backward pass.
    """

    keep: tuple[Node, ...]
    again: tuple[Node, ...]
    adjoint: tuple[Node, ...]


def saved(graph: Graph, back: Backward, *, operands: bool = True) -> Saved:
    """The smallest set (greedily) of forward values that the derivative needs and cannot have again cheaply.

    Free are parameters and the carried states before and after the step; cheap is what is elementwise from these and
    from the set. ``operands=False`` leaves out what R multiplied, for an engine that has it in memory anyway.
    """
    forward = ancestors(graph.new.values())
    is_forward = {id(n) for n in forward}
    adjoint = [n for n in ancestors(back.roots, stop=forward) if id(n) not in is_forward]
    want = [a for n in adjoint for a in n.args if id(a) in is_forward]
    want += [operand for _, _, operand in back.R if operands] + [n for n in back.roots if id(n) in is_forward]
    after = [graph.new[name] for name in stages(graph).carried]
    free = {id(n) for n in after} | {id(n) for n in forward if n.op in ("s", "p", "const")}
    there = free | {id(n) for n in want}  # what is kept, and what need not be

    def costly(node: Node) -> bool:
        return node.op == "x" or node.op in EXCHANGE

    def cheap(node: Node) -> bool:
        todo, seen = list(node.args), set[int]()
        while todo:
            each = todo.pop()
            if id(each) not in there and id(each) not in seen:
                if costly(each):
                    return False
                seen.add(id(each))
                todo.extend(each.args)
        return True

    for node in reversed(forward):
        if id(node) in there and id(node) not in free and not costly(node) and cheap(node):
            there.remove(id(node))
    keep = {id(n): n for n in want if id(n) in there and id(n) not in free}
    again = ancestors(want, stop=[*keep.values(), *after])
    return Saved(
        tuple(keep.values()),
        tuple(n for n in again if id(n) not in keep and id(n) not in free),
        tuple(adjoint),
    )
