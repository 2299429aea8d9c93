"""The graph of an equation: one node for each distinct value of a step. No torch, no numpy.

A node is a vector over units, for one row and one step. Nodes are interned, so that equal expressions are the same
object, and arithmetic is simplified as it is written down, so that derivatives stay short.
"""

from __future__ import annotations

import hashlib
import linecache
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from riverrun.errors import ConfigError

LEAVES = ("x", "s", "p", "d", "const")
"""Operations without arguments: stream of the input, state, parameter, incoming gradient, number."""

ARITY = {
    **dict.fromkeys(("add", "sub", "mul", "div", "max", "min", "gt"), 2),
    **dict.fromkeys(("neg", "sigmoid", "tanh", "relu", "exp", "log", "rsqrt", "softplus", "dot"), 1),
    **dict.fromkeys(LEAVES, 0),
}
"""How many arguments an operation takes; ``mean``, ``var`` and ``dotT`` take one or more."""

VARIADIC = ("mean", "var", "dotT")
COMMUTATIVE = ("add", "mul", "max", "min")
SIZES = ("input", "hidden", "output")
"""The names of widths: sizes that the layer is built with."""

Place = tuple[str, int]


class CellError(ConfigError):
    """An equation that cannot be expressed: says where, what was found, what to write instead."""


def place() -> Place:
    """The line of the equation that is being run: the innermost frame of a function called ``step``."""
    frame = start = sys._getframe(2)
    while frame.f_code.co_name != "step":
        if frame.f_back is None:
            frame = start
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def fail(message: str, where: Place | None = None) -> NoReturn:
    """Raise a CellError with file, line and text of the equation."""
    file, line = where or place()
    text = linecache.getline(file, line).strip()
    raise CellError(f"{file.rsplit('/', 1)[-1]}:{line}: {text}\n    {message}")


class Width:
    """How many units a vector has: a name of SIZES, or not known yet."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.same: Width | None = None

    def root(self) -> Width:
        """The width that this one was found to be equal to."""
        while self.same and self.same.same:
            self.same = self.same.same  # so that the next one finds it sooner
        return self.same or self

    def size(self) -> str:
        """Its name; what no equation determines is as wide as the memory."""
        return self.root().name or "hidden"


@dataclass(frozen=True)
class Noise:
    """A stream of random numbers that the layer draws: ``high`` with probability ``rate``, else 0; its mean outside
    training.

    Args:
        rate: the probability of ``high``.
        high: the value that is not 0.
        each: drawn anew at every ``"step"``, or once a ``"sequence"``.
    """

    rate: float
    high: float
    each: str

    @property
    def mean(self) -> float:
        """What takes its place outside training."""
        return self.rate * self.high


class Node:
    """One value of the equation. Operators record; everything else is an error that names the line."""

    __slots__ = ("args", "graph", "index", "name", "op", "tag", "width")

    graph: Graph
    op: str
    args: tuple[Node, ...]
    tag: object
    width: Width
    name: str | None
    index: int

    def __repr__(self) -> str:
        # Not the arguments' arguments: what is shared would be written again and again.
        return self.name or f"{self.op}({', '.join(a.name or a.op for a in self.args) or self.tag})"

    def __bool__(self) -> bool:
        fail("the equation branches on a value; Python runs step once, before there are values")

    def __lt__(self, other: object) -> NoReturn:
        fail("values cannot be compared; write maximum(a, b), minimum(a, b), relu(v) or clip(v, limit)")

    __gt__ = __le__ = __ge__ = __eq__ = __ne__ = __lt__
    __hash__ = object.__hash__  # nodes are interned: the same value is the same object, and is asked for by ``is``
    __array_ufunc__ = None  # numpy numbers ask us instead of broadcasting over us

    def __add__(self, other: Value) -> Node:
        return self.graph.op("add", self, other)

    def __radd__(self, other: Value) -> Node:
        return self.graph.op("add", other, self)

    def __sub__(self, other: Value) -> Node:
        return self.graph.op("sub", self, other)

    def __rsub__(self, other: Value) -> Node:
        return self.graph.op("sub", other, self)

    def __mul__(self, other: Value) -> Node:
        return self.graph.op("mul", self, other)

    def __rmul__(self, other: Value) -> Node:
        return self.graph.op("mul", other, self)

    def __truediv__(self, other: Value) -> Node:
        return self.graph.op("div", self, other)

    def __rtruediv__(self, other: Value) -> Node:
        return self.graph.op("div", other, self)

    def __neg__(self) -> Node:
        return self.graph.op("neg", self)

    def __pow__(self, power: object) -> Node:
        if not isinstance(power, Node) and power == 2:
            return self * self
        fail(f"only v ** 2 is known, not v ** {power!r}")

    def __matmul__(self, other: object) -> NoReturn:
        fail("products with matrices are written R.gate(v), so that the plan can group them")

    def __getitem__(self, index: object) -> NoReturn:
        fail("a value has no parts; declare a gate, state or parameter for each")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        fail(f"a value has no '{name}'; functions are written f(v) and come from riverrun.nn.cells.math")


Value = Node | float
"""What an equation may combine: nodes and Python numbers."""


def _softplus(v: float) -> float:
    return max(v, 0.0) + math.log1p(math.exp(-abs(v)))


FOLD: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "sigmoid": lambda a: math.exp(-_softplus(-a)),
    "tanh": math.tanh,
    "relu": lambda a: max(a, 0.0),
    "exp": math.exp,
    "log": math.log,
    "rsqrt": lambda a: 1 / math.sqrt(a),
    "softplus": _softplus,
    "max": max,
    "min": min,
    "gt": lambda a, b: float(a > b),
}


@dataclass(eq=False)
class Graph:
    """What a cell's step computes, with everything that a layer must know about the cell.

    Args:
        kind: the cell's name in CELLS, or ``module:Class``.
        gates: the names of the rows of W and R.
        states: the names of the states; the first is the output.
        params: learned vector -> its start value.
        noise: stream -> how the layer draws it.
        widths: state -> a name of SIZES, where it is not ``hidden``.
        start: state -> its initial value, where it is not 0.
        forget: the biases of the forget gates, as ``Cell.forget`` names them.
    """

    kind: str
    gates: tuple[str, ...]
    states: tuple[str, ...] = ("h",)
    params: Mapping[str, float] = field(default_factory=dict)
    noise: Mapping[str, Noise] = field(default_factory=dict)
    widths: Mapping[str, str] = field(default_factory=dict)
    start: Mapping[str, float] = field(default_factory=dict)
    forget: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.nodes: list[Node] = []
        self.new: dict[str, Node] = {}
        self.equal: list[tuple[str, str, str]] = []
        self.named = {name: Width(name) for name in SIZES}
        self.gate_out = {name: Width() for name in self.gates}
        self.gate_in: dict[str, Width] = {}
        self._table: dict[tuple[object, ...], Node] = {}

    def __deepcopy__(self, memo: object) -> Graph:
        return self  # a traced graph only ever gains interned nodes

    def __reduce__(self) -> tuple[Callable[[str], Graph], tuple[str]]:
        from riverrun.nn.cells.store import dumps, loads  # the format of a graph builds on this file

        return loads, (dumps(self),)

    # -- building

    def node(self, op: str, args: Iterable[Node] = (), tag: object = None, width: Width | None = None) -> Node:
        """The node for this operation; the same object when it was asked for before."""
        args = tuple(args)
        ids = [id(a) for a in args]
        key = (op, tag, *(sorted(ids) if op in COMMUTATIVE else ids))
        if key not in self._table:
            node = Node()
            node.graph, node.op, node.args, node.tag, node.name = self, op, args, tag, None
            node.width, node.index = width or self._common(args), len(self.nodes)
            self.nodes.append(node)
            self._table[key] = node
        return self._table[key]

    def const(self, value: float) -> Node:
        """A number."""
        return self.node("const", (), float(value), Width())

    def lift(self, value: object) -> Node:
        """A node as it is, a Python number as a constant; anything else is an error."""
        if isinstance(value, Node):
            return value if value.graph is self else fail("this value belongs to another cell's graph")
        if isinstance(value, int | float) and not isinstance(value, bool) and type(value).__module__ == "builtins":
            return self.const(value)
        fail(f"expected a value of the equation or a Python number, received {type(value).__name__}")

    def op(self, op: str, *values: object) -> Node:
        """An operation on nodes and numbers, simplified."""
        args = [self.lift(v) for v in values]
        if op in COMMUTATIVE and args[0].op == "const":
            args.reverse()  # numbers stand on the right
        simpler = self._simpler(op, args)
        return self.node(op, args) if simpler is None else simpler

    def _simpler(self, op: str, args: list[Node]) -> Node | None:
        numbers = [a.tag if a.op == "const" else None for a in args]
        if all(v is not None for v in numbers):
            return self.const(FOLD[op](*numbers))
        a, b = args[0], args[-1]
        left, right = numbers[0], numbers[-1]
        match op:
            case "add":
                if right == 0:
                    return a
                if b.op == "neg":
                    return self.op("sub", a, b.args[0])
                if a.op == "neg":
                    return self.op("sub", b, a.args[0])
            case "sub":
                if right == 0 or left == 0:
                    return a if right == 0 else self.op("neg", b)
                if b.op == "neg":
                    return self.op("add", a, b.args[0])
            case "mul":
                if right == 0:
                    return self.const(0)
                if right in (1, -1):
                    return a if right == 1 else self.op("neg", a)
            case "div":
                if right == 1 or left == 0:
                    return a if right == 1 else self.const(0)
            case "neg":
                if a.op == "neg":
                    return a.args[0]
        return None

    def dot(self, gate: str, value: object) -> Node:
        """The product of a gate's recurrent matrix with a value."""
        v = self.lift(value)
        self.unify(self.gate_in.setdefault(gate, Width()), v.width)
        return self.node("dot", (v,), gate, self.gate_out.setdefault(gate, Width()))

    # -- widths

    def _common(self, args: tuple[Node, ...]) -> Width:
        wide = [a.width for a in args if a.op != "const"]
        for other in wide[1:]:
            self.unify(wide[0], other)
        return wide[0] if wide else Width()

    def unify(self, a: Width, b: Width) -> None:
        """Two vectors meet: their widths are the same, or become an equation between sizes that the layer checks."""
        a, b = a.root(), b.root()
        if a is b or (a.name and a.name == b.name):
            return
        if a.name and b.name:
            file, line = place()
            where = f"{file.rsplit('/', 1)[-1]}:{line}: {linecache.getline(file, line).strip()}"
            self.equal.append((a.name, b.name, where))
        elif a.name:
            b.same = a
        else:
            a.same = b

    # -- reading

    def leaves(self, op: str) -> dict[str, Node]:
        """name -> node, for the streams ("x"), states ("s") or parameters ("p") that the new states are made of."""
        return {str(n.tag): n for n in ancestors(self.new.values()) if n.op == op}

    def product_rank(self, gate: str) -> tuple[int, int]:
        """The place of a product among the rows of R: ``i_1`` (second operand of gate i) stands behind all ``_0``."""
        if gate in self.gates:
            return 0, self.gates.index(gate)
        name, number = gate.rsplit("_", 1)
        return 1 + int(number), self.gates.index(name)

    def traces(self) -> dict[str, Node]:
        """name -> node for everything that the equation gave a name, new states first."""
        found = dict(self.new)
        for node in ancestors(self.new.values()):
            if node.name and node.op not in LEAVES:
                found.setdefault(node.name, node)
        return found

    def signature(self) -> str:
        """A digest of what is computed, whatever the kind and the local names are called."""
        digest: dict[int, str] = {}
        for node in ancestors(self.new.values()):
            parts = [digest[id(a)] for a in node.args]
            text = f"{node.op}:{node.tag}:{','.join(sorted(parts) if node.op in COMMUTATIVE else parts)}"
            digest[id(node)] = hashlib.sha256(text.encode()).hexdigest()
        new = {name: digest[id(node)] for name, node in self.new.items()}
        whole = repr((self.gates, new, sorted(self.widths.items()), sorted(self.start.items())))
        return hashlib.sha256(whole.encode()).hexdigest()

    def quiet(self) -> Graph:
        """The graph outside training: every noise stream replaced by its mean and simplified away."""
        if not self.noise:
            return self
        means = {name: noise.mean for name, noise in self.noise.items()}
        return rewrite(self, lambda out, n: out.const(means[n.tag]) if n.op == "x" and n.tag in means else None)


def rewrite(graph: Graph, replace: Callable[[Graph, Node], Node | None]) -> Graph:
    """The same graph without noise, with the nodes for which ``replace`` gives another one exchanged."""
    out = Graph(graph.kind, graph.gates, graph.states, graph.params, {}, graph.widths, graph.start)
    out.gate_out |= {name: Width(width.size()) for name, width in graph.gate_out.items()}
    out.gate_in = {name: Width(width.size()) for name, width in graph.gate_in.items()}
    out.equal = list(graph.equal)
    copies: dict[int, Node] = {}
    for node in ancestors(graph.new.values()):
        args = [copies[id(a)] for a in node.args]
        copy = replace(out, node)
        if copy is None:
            simple = node.op in FOLD
            copy = out.op(node.op, *args) if simple else out.node(node.op, args, node.tag, Width(node.width.size()))
            if copy.op not in LEAVES:
                copy.name = copy.name or node.name
        copies[id(node)] = copy
    out.new = {name: copies[id(node)] for name, node in graph.new.items()}
    used = {n.tag for n in ancestors(out.new.values()) if n.op == "p"}
    out.params = {name: value for name, value in graph.params.items() if name in used}
    out.forget = tuple(name for name in graph.forget if name in out.gates or name.removeprefix("p.") in used)
    return out


def ancestors(roots: Iterable[Node], stop: Iterable[Node] = ()) -> list[Node]:
    """The nodes that the roots are made of, arguments first; nothing beyond the nodes of ``stop``."""
    stops = {id(n) for n in stop}
    seen: dict[int, Node] = {}
    todo = list(roots)
    while todo:
        node = todo.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            if id(node) not in stops:
                todo.extend(node.args)
    return sorted(seen.values(), key=lambda n: n.index)
