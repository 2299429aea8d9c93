"""Tasks: what people hold. A task has fields, a scorer, a decoder and a metric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from riverrun.errors import CheckpointError

if TYPE_CHECKING:
    from riverrun.tasks.tagger import Tagger


def load(model: str | Path, *, threads: int | None = None) -> Tagger:
    """A trained model, by its folder or the name of a bundled one.

    Args:
        threads: how many one call may use; by default all cores.
    """
    from riverrun.tasks import folder

    place = folder.find(model)
    task = folder.task_of(place)
    if task == "tagger":
        from riverrun.tasks.tagger import Tagger

        return Tagger.load(place, threads=threads)
    raise CheckpointError(
        f"{place}: is a model for the task {task!r}, which this riverrun does not know (known: tagger)"
    )
