"""The table of cells, and how a recipe's words become a cell."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from riverrun.errors import ConfigError, nearest
from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.elman import Elman
from riverrun.nn.cells.gru import GRU, GRUResetAfter
from riverrun.nn.cells.lstm import LSTM, LSTM1997, CoupledLSTM, OutputlessLSTM, PeepholeLSTM, ProjectedLSTM
from riverrun.nn.cells.mogrifier import Mogrifier
from riverrun.nn.cells.norm import LayerNormGRU, LayerNormLSTM
from riverrun.nn.cells.slstm import SLSTM
from riverrun.nn.cells.sru import SRU, MinGRU, ProjectedSRU
from riverrun.nn.cells.wrap import Zoneout

CELLS: dict[str, type[Cell]] = {
    "elman": Elman,
    "lstm": LSTM,
    "lstm-no-output-gate": OutputlessLSTM,
    "lstm-1997": LSTM1997,
    "lstm-peephole": PeepholeLSTM,
    "lstm-coupled": CoupledLSTM,
    "lstm-projected": ProjectedLSTM,
    "gru": GRU,
    "gru-reset-after": GRUResetAfter,
    "sru": SRU,
    "sru-projected": ProjectedSRU,
    "mingru": MinGRU,
    "layernorm-lstm": LayerNormLSTM,
    "layernorm-gru": LayerNormGRU,
    "mogrifier": Mogrifier,
    "slstm": SLSTM,
}
"""Name in recipes -> class; the only place where cells are strings."""


def make_cell(spec: str | Mapping[str, Any] | Cell, *, allow_import: bool = False) -> Cell:
    """A cell from its name, or from a table with ``kind``, the cell's options and perhaps ``zoneout``.

    Args:
        spec: ``"lstm"``, ``{"kind": "mogrifier", "rounds": 3, "zoneout": 0.1}``, a cell, or with ``allow_import`` a
            user's own class as ``"package.module:Class"``.
        allow_import: whether a module that the name gives may be imported, which runs its code.

    >>> make_cell({"kind": "elman", "nonlinearity": "relu", "zoneout": 0.1})
    Zoneout(Elman(nonlinearity='relu'), rate={'h': 0.1})
    """
    if isinstance(spec, Cell):
        return spec
    options: dict[str, Any] = {"kind": spec} if isinstance(spec, str) else dict(spec)
    if not isinstance(options.get("kind"), str):
        raise ConfigError(f"cell: expected a name or a table with 'kind', received {spec!r}; cells: {', '.join(CELLS)}")
    cls = _find(options.pop("kind"), allow_import)
    zoneout = options.pop("zoneout", 0.0)
    known = [*cls.options(), "zoneout"]
    for name in options:
        if name not in known:
            raise ConfigError(
                f"cell '{cls.kind}' has no option '{name}'{nearest(name, known) or '.'} Options: {', '.join(known)}"
            )
    cell = cls(**options)
    return Zoneout(cell, rate=zoneout) if zoneout else cell


def _find(kind: str, allow_import: bool) -> type[Cell]:
    if kind in CELLS:
        return CELLS[kind]
    if ":" not in kind:
        raise ConfigError(f"cell: no cell '{kind}'{nearest(kind, CELLS) or '.'} Cells: {', '.join(CELLS)}")
    if not allow_import:
        raise ConfigError(
            f"cell: '{kind}' is code of its own, which is imported only when that is allowed; pass --allow-import"
        )
    module, _, name = kind.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"cell: cannot import '{kind}': {error}") from error
    if not (isinstance(found, type) and issubclass(found, Cell)):
        raise ConfigError(f"cell: '{kind}' is not a subclass of riverrun.nn.cells.Cell")
    return found
