"""The table of engines, and which one runs a cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch

from riverrun.errors import ConfigError, nearest
from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.graph import Graph
from riverrun.nn.engines import eager, scan, vendor
from riverrun.nn.engines.request import Request, Result


@dataclass(frozen=True)
class Engine:
    """A way to run an equation over time.

    Args:
        name: as users write it.
        run: all steps of a request.
        refusal: (graph, device, dtype) -> why it cannot run that, or None.
        reason: graph -> why it is the one to take.
        slower: whether the eager engine is faster for this request.
        note: (device, dtype) -> what a user must know of its numbers there, or nothing.
    """

    name: str
    run: Callable[[Request], Result]
    refusal: Callable[[Graph | None, torch.device, torch.dtype], str | None]
    reason: Callable[[Graph], str]
    slower: Callable[[Request], bool]
    note: Callable[[torch.device, torch.dtype], str] = lambda *_: ""


ENGINES: dict[str, Engine] = {
    "vendor": Engine("vendor", vendor.run, vendor.refusal, vendor.reason, vendor.slower, vendor.note),
    "scan": Engine("scan", scan.run, scan.refusal, scan.reason, scan.slower),
    "eager": Engine("eager", eager.run, lambda *_: None, lambda _: "it runs every cell", lambda _: False),
}
"""Name -> engine, the fastest first; ``eager`` runs everything."""


def check_name(name: str) -> None:
    """A ConfigError unless this is ``auto`` or an engine."""
    if name not in ("auto", *ENGINES):
        listed = ", ".join(("auto", *ENGINES))
        raise ConfigError(f"engine: no engine '{name}'{nearest(name, ('auto', *ENGINES))}; expected one of {listed}")


def choose(name: str, cell: Cell, graph: Graph | None, device: torch.device, dtype: torch.dtype) -> Engine:
    """The engine of this name, or with ``auto`` the first that can run the graph; a ConfigError where it cannot."""
    if name == "auto":
        return next(engine for engine in ENGINES.values() if _refusal(engine.name, graph, device, dtype) is None)
    why = _refusal(name, graph, device, dtype)
    if why is not None:
        raise ConfigError(
            f"engine='{name}' cannot run {cell!r} on {device} in {str(dtype).removeprefix('torch.')}: {why}; "
            "use engine='auto'"
        )
    return ENGINES[name]


def choose_for(name: str, request: Request) -> Engine:
    """The engine for one request: the chosen one, or with ``auto`` the eager one where that is faster."""
    chosen = choose(name, request.cell, request.graph, request.x.device, request.dtype)
    return ENGINES["eager"] if name == "auto" and chosen.slower(request) else chosen


@lru_cache(maxsize=512)
def _refusal(name: str, graph: Graph | None, device: torch.device, dtype: torch.dtype) -> str | None:
    return ENGINES[name].refusal(graph, device, dtype)


def explain(name: str, cell: Cell, graph: Graph | None, device: torch.device, dtype: torch.dtype) -> str:
    """The chosen engine, why it is that one, and what is to be known of its numbers, in words."""
    chosen = choose(name, cell, graph, device, dtype)
    if name != "auto":
        said = [f"{name}, as asked"]
    elif chosen.name != "eager" and graph is not None:
        said = [f"{chosen.name}, because {chosen.reason(graph)}", "a few steps run in eager where that is faster"]
    else:
        refused = [f"{k} cannot: {_refusal(k, graph, device, dtype)}" for k in ENGINES if k != chosen.name]
        said = [f"{chosen.name}, because it runs every cell", *refused]
    note = chosen.note(device, dtype)
    return "; ".join([*said, note] if note else said)
