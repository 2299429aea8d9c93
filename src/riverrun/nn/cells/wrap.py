"""Cells around a cell: zoneout and recurrent dropout. They add noise streams, so they reach every engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from riverrun.errors import ConfigError, nearest
from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.graph import Graph, Noise, ancestors


class Wrapper(Cell):
    """A cell made of a traced cell: it has the inner one's names and adds noise streams of its own.

    Args:
        cell: the inner cell.
        noise: streams that the wrapper adds.
    """

    cell: Cell

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__dict__.get("kind", f"{cls.__module__}:{cls.__qualname__}")  # traced when there is a cell

    def __init__(self, cell: Cell, noise: Mapping[str, Noise]) -> None:
        if type(cell).step is Cell.step or cell.graph is None:
            raise ConfigError(f"{type(self).__name__} needs a cell with a traced equation, received {cell!r}")
        self.cell = cell
        self.kind = f"{type(self).kind}({cell.kind})"  # type: ignore[misc]
        self.gates, self.states, self.params = cell.gates, cell.states, cell.params
        self.init, self.widths, self.start, self.forget = cell.init, cell.widths, cell.start, cell.forget
        self.noise = {**cell.noise, **noise}
        if len(self.noise) < len(cell.noise) + len(noise):
            raise ConfigError(f"{type(self).__name__}: {cell!r} has noise of these names already: {', '.join(noise)}")
        super().__init__()


def _rate(what: str, rate: object) -> float:
    if isinstance(rate, int | float) and not isinstance(rate, bool) and 0 <= rate < 1:
        return float(rate)
    raise ConfigError(f"{what} must be a probability from 0 to below 1, received {rate!r}")


class Zoneout(Wrapper):
    r"""Some units keep their state as it was (Krueger et al. 2017).

    .. math:: s_t = k_t \odot s_{t-1} + (1 - k_t) \odot \tilde s_t \qquad k_t \sim \mathrm{Bernoulli}(\mathrm{rate})

    for each state that the inner cell carries, anew at every step; outside training k is its mean.

    Args:
        cell: the cell within.
        rate: one probability for all states, or state -> probability.

    >>> from riverrun.nn.cells.lstm import LSTM
    >>> Zoneout(LSTM(), rate={"h": 0.05, "c": 0.5})
    Zoneout(LSTM(), rate={'h': 0.05, 'c': 0.5})
    """

    kind = "zoneout"

    def __init__(self, cell: Cell, *, rate: float | Mapping[str, float] = 0.1) -> None:
        carried = _carried(cell)
        rates = dict(rate) if isinstance(rate, Mapping) else dict.fromkeys(carried, rate)
        for name in rates:
            if name not in carried:
                raise ConfigError(f"Zoneout: {cell!r} carries no state '{name}'{nearest(name, carried)}")
        self.rate = rates
        endless = [name for name in rates if math.isinf(cell.start.get(name, 0.0))]
        if endless:
            raise ConfigError(
                f"Zoneout: state '{endless[0]}' of {cell!r} begins at {cell.start[endless[0]]}, and a mixture with "
                "that is never a number again. Use recurrent dropout, or in Python a rate for each state "
                "that may be kept: Zoneout(cell, rate={'h': 0.1})"
            )
        noise = {f"keep_{name}": Noise(_rate(f"Zoneout: rate of {name}", r), 1.0, "step") for name, r in rates.items()}
        super().__init__(cell, noise)

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        new = dict(self.cell.step(x, s, R, p))
        for name in self.rate:
            keep = getattr(x, f"keep_{name}")
            new[name] = keep * getattr(s, name) + (1 - keep) * new[name]
        return s.next(**new)

    def __repr__(self) -> str:
        return f"Zoneout({self.cell!r}, rate={self.rate})"


class RecurrentDropout(Wrapper):
    r"""Dropout on what the recurrent matrices multiply, one mask a sequence (Gal and Ghahramani 2016).

    .. math:: R_g v \to R_g (d \odot v) \qquad d \sim \mathrm{Bernoulli}(1 - \mathrm{rate}) / (1 - \mathrm{rate})

    Args:
        cell: the cell within.
        rate: the probability of a unit to be dropped.
    """

    kind = "recurrent-dropout"

    def __init__(self, cell: Cell, *, rate: float = 0.5) -> None:
        self.rate = _rate("recurrent dropout", rate)
        if cell.graph is not None and not any(n.op == "dot" for n in ancestors(cell.graph.new.values())):
            raise ConfigError(f"recurrent dropout: {cell!r} has no recurrent products; use dropout between layers")
        super().__init__(cell, {"drop": Noise(1 - self.rate, 1 / (1 - self.rate), "sequence")})

    def step(self, x: Any, s: Any, R: Any, p: Any) -> Any:
        """One step."""
        return self.cell.step(x, s, _Masked(R, x.drop), p)

    def __repr__(self) -> str:
        return f"RecurrentDropout({self.cell!r}, rate={self.rate})"


class _Masked:
    """R with a mask on every operand."""

    def __init__(self, R: Any, mask: Any) -> None:
        self._R, self._mask = R, mask

    def __getattr__(self, gate: str) -> Any:
        product = getattr(self._R, gate)
        return lambda *values: product(*(v * self._mask for v in values))


def _carried(cell: Cell) -> tuple[str, ...]:
    graph: Graph | None = cell.graph
    return tuple(graph.leaves("s")) if graph else cell.states
