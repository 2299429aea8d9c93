"""The table of cells, and how a recipe's words become a cell."""

from __future__ import annotations

import importlib
import linecache
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from riverrun.errors import ConfigError, RiverrunError, nearest
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
    imported = _imported(kind, module)
    found = getattr(imported, name, None)
    if found is None:
        raise ConfigError(f"cell: cannot import '{kind}': {module} has no '{name}'{nearest(name, dir(imported))}")
    if not (isinstance(found, type) and issubclass(found, Cell)):
        raise ConfigError(f"cell: '{kind}' is not a subclass of riverrun.nn.cells.Cell")
    return found


def _imported(kind: str, module: str) -> ModuleType:
    """Somebody else's module; whatever it raises is a ConfigError that says where."""
    try:
        return importlib.import_module(module)
    except (RiverrunError, KeyboardInterrupt):  # a CellError quotes its line already
        raise
    except BaseException as error:  # code that we do not know may raise anything, and a script ends in SystemExit
        place = _place(error)
        if place is None:
            what = f"{error}; a module is found in the current folder by python -m riverrun, on PYTHONPATH or installed"
        else:
            said = error.msg if isinstance(error, SyntaxError) else error
            what = f"{place[0]}:{place[1]}: {type(error).__name__}: {said}\n    {linecache.getline(*place).strip()}"
        raise ConfigError(f"cell: cannot import '{kind}': {what}") from error


def _place(error: BaseException) -> tuple[str, int] | None:
    """File and line of a module that could not be imported; None where none was found."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 1
    ours = (__file__, importlib.__file__)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename not in ours and not frame.filename.startswith("<frozen ")
    ]
    # The innermost of those beside the module: within numpy, say, the line would tell its author nothing.
    beside = [frame for frame in frames if Path(frame.filename).parent == Path(frames[0].filename).parent]
    return (beside[-1].filename, beside[-1].lineno or 1) if beside else None
