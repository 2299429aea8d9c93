"""The weights of a folder, whatever net they are for; and the cell that a folder keeps of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from riverrun.errors import CheckpointError, needs_torch
from riverrun.tasks import folder as folders
from riverrun.tasks.folder import WEIGHTS

if TYPE_CHECKING:
    from torch import Tensor

    from riverrun.nn.cells import TracedCell


def net_weights(root: Path, config: folders.Config, *, unfinished: bool) -> dict[str, Tensor]:
    """The weights; of a training that is not finished, the best ones so far."""
    needs_torch(f"{root}: a model that was not exported")
    from riverrun.train.checkpoint import Checkpoints
    from riverrun.train.weights import load_weights

    if unfinished:
        best = Checkpoints(root).best()
        if best is None:
            raise CheckpointError(f"{root}: holds no checkpoint yet; continue the training with --resume")
        return best.weights()
    if WEIGHTS not in config.files:
        raise CheckpointError(f"{root / WEIGHTS}: not listed in {folders.CONFIG}; copy the whole folder again")
    return load_weights(root / WEIGHTS)


def stored_cell(config: folders.Config) -> TracedCell | None:
    """The cell of a user's own that the folder keeps, or None."""
    if config.graph is None:
        return None
    from riverrun.nn.cells import TracedCell
    from riverrun.nn.cells.store import loads

    return TracedCell(loads(config.graph))
