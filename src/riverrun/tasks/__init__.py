"""Tasks: what people hold. A task has fields, a scorer, a decoder and a metric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from riverrun.config.recipe import Recipe
from riverrun.config.tagger import TaggerRecipe
from riverrun.errors import CheckpointError, nearest

if TYPE_CHECKING:
    from riverrun.tasks.language_model import LanguageModel
    from riverrun.tasks.tagger import Tagger

    AnyTask: TypeAlias = Tagger | LanguageModel

TASKS = ("tagger", "lm")
"""The values of ``task`` in a recipe."""


def load(model: str | Path, *, threads: int | None = None) -> AnyTask:
    """A trained model, by its folder or the name of a bundled one.

    Args:
        threads: how many one call may use; by default all cores.
    """
    from riverrun.tasks import folder

    place = folder.find(model)
    task = folder.task_of(place)
    if task not in TASKS:
        raise CheckpointError(
            f"{place}: is a model for the task {task!r}{nearest(task, TASKS)}, which this riverrun does not know "
            f"(known: {', '.join(TASKS)})"
        )
    found: AnyTask = _class(task).load(place, threads=threads)
    return found


def new(recipe: Recipe) -> AnyTask:
    """What trains a recipe."""
    if isinstance(recipe, TaggerRecipe):
        from riverrun.tasks.tagger import Tagger

        return Tagger(recipe)
    from riverrun.tasks.language_model import LanguageModel

    return LanguageModel(recipe)


def _class(task: str) -> type[AnyTask]:
    """Imported when it is asked for: a tagger needs nothing of a language model."""
    if task == "tagger":
        from riverrun.tasks.tagger import Tagger

        return Tagger
    from riverrun.tasks.language_model import LanguageModel

    return LanguageModel
