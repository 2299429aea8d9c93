"""What a cell is: names, widths and one equation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from riverrun.errors import ConfigError, nearest
from riverrun.nn.cells.graph import Graph, Noise
from riverrun.nn.cells.trace import trace

_CONTRACT = frozenset(
    {"kind", "gates", "states", "params", "noise", "widths", "start", "init", "forget", "traced", "graph"}
)


class Cell:
    """A recurrent cell: one step as an equation; engines, gradients and exported graphs are derived from it.

    A subclass declares its names and writes ``step``, which is run once on symbols when the class is defined; a
    mistake is a CellError that quotes the line. Other public class attributes are options: ``MyCell(rounds=3)``.

    Attributes:
        gates: rows of W and R, in this order. ``x.g`` is the gate's view of the input, bias included; ``R.g(v)`` its
            recurrent product with v.
        states: carried from step to step as ``s.name``; the first is the output.
        params: learned vectors, one number a unit, read as ``p.name``.
        init: parameter -> start value, where it is not 0.
        widths: state -> ``"output"`` or ``"input"``, where it is not as wide as the memory.
        start: state -> initial value, where it is not 0.
        noise: stream -> Noise, read as ``x.name``; the layer draws it.
        forget: the biases of forget gates, which begin at 1 where first weights are drawn so that memory lasts:
            ``("f",)`` for that of gate f, ``("p.f",)`` for the parameter f.
        traced: False for a cell that no graph can express: its step runs on tensors, in the eager engine only.

    >>> from riverrun.nn.cells.math import tanh
    >>> class Leaky(Cell):
    ...     gates = ("h",)
    ...     rate = 0.5
    ...     def step(self, x, s, R, p):
    ...         return s.next(h=(1 - self.rate) * s.h + self.rate * tanh(x.h + R.h(s.h)))
    >>> Leaky(rate=0.1)
    Leaky(rate=0.1)
    """

    kind: ClassVar[str] = ""
    gates: tuple[str, ...] = ()
    states: tuple[str, ...] = ("h",)
    params: tuple[str, ...] = ()
    init: Mapping[str, float] = {}
    widths: Mapping[str, str] = {}
    start: Mapping[str, float] = {}
    noise: Mapping[str, Noise] = {}
    forget: tuple[str, ...] = ()
    traced: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" not in cls.__dict__:
            cls.kind = f"{cls.__module__}:{cls.__qualname__}"
        if cls.traced and cls.step is not Cell.step:
            trace(object.__new__(cls))  # an equation that cannot run is an error where it is written

    def __init__(self, **options: Any) -> None:
        known = self.options()
        for name, value in options.items():
            if name not in known:
                listed = ", ".join(known) or "none"
                raise ConfigError(
                    f"{type(self).__name__} has no option '{name}'{nearest(name, known)}; options: {listed}"
                )
            setattr(self, name, _fitting(f"{type(self).__name__}: option {name}", value, known[name]))
        self.graph: Graph | None = trace(self) if self.traced else None

    @classmethod
    def options(cls) -> dict[str, Any]:
        """name -> default of everything that the constructor takes."""
        found: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            for name, value in vars(base).items():
                plain = isinstance(value, bool | int | float | str)
                if plain and not name.startswith("_") and name not in _CONTRACT:
                    found[name] = value
        return found

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step: the streams of the input, the states before it, products and parameters -> ``s.next(...)``."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def __repr__(self) -> str:
        known = self.options()
        changed = (f"{name}={getattr(self, name)!r}" for name in known if getattr(self, name) != known[name])
        return f"{type(self).__name__}({', '.join(changed)})"


class TracedCell(Cell):
    """A cell of which only the graph is there, as it is kept in a model folder: its class need not be imported."""

    traced = False

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.kind = graph.kind  # type: ignore[misc]
        self.gates, self.states, self.params = graph.gates, graph.states, tuple(graph.params)
        self.init, self.widths, self.start, self.noise = graph.params, graph.widths, graph.start, graph.noise
        self.forget = graph.forget
        self.graph = graph

    def __repr__(self) -> str:
        return f"TracedCell({self.kind})"


def _fitting(what: str, value: Any, default: Any) -> Any:
    """The value as the type of the default; a whole number may stand for a fraction."""
    wanted = type(default)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise ConfigError(f"{what} must be {wanted.__name__} (default {default!r}), received {value!r}")
    return value
