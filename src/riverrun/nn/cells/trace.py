"""The tracer: run a cell's step once, on symbols, and get its graph. Every mistake is an error at its line."""

from __future__ import annotations

import keyword
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from riverrun.errors import nearest
from riverrun.nn.cells.graph import LEAVES, SIZES, CellError, Graph, Node, Noise, Place, Width, ancestors, fail

if TYPE_CHECKING:
    from riverrun.nn.cells.cell import Cell


class Names:
    """x, R and p: one attribute for each declared name, and a helpful error for any other."""

    def __init__(self, what: str, make: Callable[[str], Any], names: Iterable[str]) -> None:
        self.__dict__.update(_what=what, _make=make, _names=tuple(names))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._names:
            declared = ", ".join(self._names) or "none"
            fail(f"'{name}' is not {self._what}; declared: {declared}{nearest(name, self._names)}")
        return self._make(name)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        fail("an equation does not assign to its inputs; use a local name")


class Next(dict[str, Any]):
    """The new states: a mapping whose keys are attributes too, for the wrappers."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name] if name in self else fail(f"the new state has no '{name}'; it has {', '.join(self)}")


class Previous(Names):
    """s: the states before the step, and ``next`` for those after it."""

    def next(self, **new: Any) -> Next:
        """The new states. The local variables of the equation give the values their names, for traces and code."""
        for name, value in sys._getframe(1).f_locals.items():
            if isinstance(value, Node) and value.op not in LEAVES and not value.name and local_word(name):
                value.name = name
        return Next(new)


def trace(cell: Cell) -> Graph:
    """The graph of a cell's step; a CellError with file, line and text where the equation cannot run."""
    _check_names(cell)
    graph = Graph(
        cell.kind,
        tuple(cell.gates),
        tuple(cell.states),
        {name: float(cell.init.get(name, 0.0)) for name in cell.params},
        dict(cell.noise),
        dict(cell.widths),
        {name: float(value) for name, value in cell.start.items()},
        tuple(cell.forget),
    )
    state_width = {name: graph.named[graph.widths.get(name, "hidden")] for name in graph.states}

    def stream(name: str) -> Node:
        width = graph.gate_out.get(name) or (graph.named["input"] if name == "raw" else Width())
        return graph.node("x", (), name, width)

    x = Names("a gate, noise or raw", stream, (*graph.gates, "raw", *graph.noise))
    s = Previous("a state", lambda name: graph.node("s", (), name, state_width[name]), graph.states)
    R = Names("a gate", lambda name: lambda *values: _product(graph, name, values), graph.gates)
    p = Names("a parameter", lambda name: graph.node("p", (), name, Width()), graph.params)
    try:
        new = cell.step(x, s, R, p)
    except CellError:
        raise
    except (TypeError, ValueError, AttributeError, ArithmeticError, NameError, LookupError, RuntimeError) as error:
        # What Python or another library says about a symbol gets the line of the equation.
        what = f"{type(error).__name__}: {error}"
        fail(f"{what}; an equation uses Python numbers and the functions of riverrun.nn.cells.math", _inside(error))
    code = type(cell).step.__code__
    where = (code.co_filename, code.co_firstlineno)
    if not isinstance(new, Next):
        fail(f"step returns s.next(...), not {type(new).__name__}", where)
    if set(new) != set(graph.states):
        fail(
            f"s.next must give exactly the states {', '.join(graph.states)}; received {', '.join(new) or 'none'}", where
        )
    for name in graph.states:
        node = graph.new[name] = graph.lift(new[name])
        if node.op not in LEAVES and not node.name:
            node.name = name
        graph.unify(node.width, state_width[name])
        if not any(n.op in ("x", "s") for n in ancestors([node])):
            fail(f"the new {name} is the same at every step; a state depends on the input or on a state", where)
    _check_used(graph, where)
    return graph


def _product(graph: Graph, gate: str, values: tuple[object, ...]) -> Node:
    """R.g(v); R.g(u, v) is the product with both, one under the other, that is R_g [u; v]."""
    if not values:
        fail(f"R.{gate}() multiplies nothing; write R.{gate}(s.h)")
    if len(values) == 1:
        return graph.dot(gate, values[0])
    parts = []
    for k, value in enumerate(values):
        graph.gate_out.setdefault(f"{gate}_{k}", graph.gate_out[gate])
        parts.append(graph.dot(f"{gate}_{k}", value))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _inside(error: Exception) -> Place | None:
    """The innermost line of a step through which an error came."""
    found, trail = None, error.__traceback__
    while trail:
        if trail.tb_frame.f_code.co_name == "step":
            found = trail.tb_frame.f_code.co_filename, trail.tb_lineno
        trail = trail.tb_next
    return found


def local_word(name: str) -> bool:
    """Whether a value may have this name: what Python takes for a variable, and reads as it is written."""
    # Python reads ﬁ as fi: two names that differ here would be one in generated code.
    return name.isidentifier() and not keyword.iskeyword(name) and unicodedata.normalize("NFKC", name) == name


def plain_word(name: str) -> bool:
    """Whether a name may be declared: an identifier that generated code can use, with room for its own beside it."""
    reserved = name in ("raw", "next") or name.startswith("_") or name.endswith("_")
    return local_word(name) and not reserved and not re.search(r"_\d+$", name)


def _check_names(cell: Cell) -> None:
    what = type(cell).__name__
    for kind in ("gates", "states", "params", "noise", "forget"):
        if isinstance(names := getattr(cell, kind), str):
            raise CellError(f'{what}: {kind} is a tuple of names, write {kind} = ("{names}",)')
    for kind in ("gates", "states", "params", "noise"):
        names = getattr(cell, kind)
        bad = [name for name in names if not plain_word(name)]
        if bad or len(set(names)) < len(names):
            raise CellError(
                f"{what}: {kind} must be different plain words, without raw, next, _ at an end or _0 behind; "
                f"received {', '.join(bad or names)}"
            )
    for option, names, kind in (
        ("init", cell.params, "params"),
        ("widths", cell.states, "states"),
        ("start", cell.states, "states"),
        ("forget", (*cell.gates, *(f"p.{name}" for name in cell.params)), "gates or p.<params>"),
    ):
        for name in getattr(cell, option):
            if name not in names:
                raise CellError(f"{what}: {option} names '{name}', which is not among {kind}{nearest(name, names)}")
    for name, width in cell.widths.items():
        if width not in SIZES:
            raise CellError(f"{what}: the width of '{name}' must be one of {', '.join(SIZES)}; received '{width}'")
    for name, noise in cell.noise.items():
        if not isinstance(noise, Noise):
            raise CellError(f"{what}: noise '{name}' must be a Noise(rate, high, each), received {noise!r}")
    if not cell.states:
        raise CellError(f"{what}: a cell has at least one state, the first of which is its output")


def _check_used(graph: Graph, where: Place) -> None:
    streams = {str(n.tag) for n in graph.nodes if n.op == "x"}
    used = streams | {str(n.tag) for n in graph.nodes if n.op == "p"}
    gates = {str(n.tag) for n in graph.nodes if n.op in ("x", "dot")}
    gates |= {gate.rsplit("_", 1)[0] for gate in gates}
    live = {id(n) for n in ancestors(graph.new.values())}
    for kind, names, found in (
        ("gate", graph.gates, gates),
        ("parameter", graph.params, used),
        ("noise", graph.noise, used),
    ):
        for name in names:
            if name not in found:
                fail(f"{kind} '{name}' is declared but the equation never uses it", where)
    for name in graph.forget:
        if name in graph.gates and name not in streams:
            fail(
                f"forget names '{name}', but without x.{name} it has no bias; name what is added, as 'p.{name}'", where
            )
    for node in graph.nodes:
        if node.op in ("x", "p", "dot") and id(node) not in live:
            fail(f"'{node.op}.{node.tag}' is read, but no new state depends on it", where)
