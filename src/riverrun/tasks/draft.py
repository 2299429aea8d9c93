"""What a run leaves beside its checkpoints, so that it can be used, or continued on the same data, after it was cut
off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from riverrun.config.recipe import decode_recipe, encode_recipe
from riverrun.errors import CheckpointError, ConfigError
from riverrun.tasks import folder as folders
from riverrun.text.sources import sha256

if TYPE_CHECKING:
    from riverrun.nn.cells import Cell


def write_draft(checkpoints: Path, config: folders.Config, files: Mapping[str, bytes], *, resume: bool) -> None:
    """Write config and vocabularies; of a run that is resumed, refuse what is not the same any more."""
    if resume and (checkpoints / folders.CONFIG).is_file():
        before = folders.read(checkpoints)
        for name, checksum in config.data.items():
            if before.data.get(name, checksum) != checksum:
                raise CheckpointError(
                    f"{name}: was changed since the run began (its SHA-256 is another one); a run is resumed on the "
                    "same data. Restore the file, or train into another folder"
                )
        if _read_of(before) != _read_of(config):
            raise CheckpointError(
                f"{checkpoints}: the run that is here reads other data, or reads it in another way ([data]); a run is "
                "resumed on the same data. Give what the first call was given, or train into another folder"
            )
        # Of a task that has one way alone to count, and of a run that an older release began, it is that one.
        if before.recipe.get("scoring", "conlleval") != config.recipe.get("scoring", "conlleval"):
            raise CheckpointError(
                f"{checkpoints}: the run that is here counts spans in another way (scoring), so that the best score so "
                "far says nothing here. Give what the first call was given, or train into another folder"
            )
        if before.graph != config.graph:
            raise CheckpointError(
                f"{checkpoints}: the equation of the cell was changed since the run began; a run is resumed with the "
                "same one. Restore it, or train into another folder"
            )
        if before.recipe.get("model") != config.recipe["model"]:
            raise CheckpointError(
                f"{checkpoints}: the run that is here has other settings in [model]; a run is resumed with the same "
                "ones. Give those of the first call, or train into another folder"
            )
        told = changes(checkpoints, before, config.recipe)
        config = msgspec.structs.replace(config, changes=[*before.changes, *told])
        if msgspec.structs.replace(before, files={}) == config:
            return
    folders.write(checkpoints, config, files)


def changes(checkpoints: Path, before: folders.Config, recipe: Mapping[str, Any]) -> list[str]:
    """How ``[train]`` differs from what the run that is here was begun with: ``train.rate was 0.1 until step 120``."""
    steps = [int(path.name) for path in checkpoints.glob("*") if path.name.isdecimal()]
    if not steps:
        return []  # nothing was learned with it yet
    was, now = before.recipe.get("train", {}), _plain(recipe).get("train", {})
    return [
        f"train.{key} was {shown(was[key])} until step {max(steps)}, is {shown(value)} from there on"
        for key, value in now.items()
        if key in was and was[key] != value and key != "checkpoint_seconds"
    ]


def differences(before: folders.Config, recipe: Mapping[str, Any]) -> list[str]:
    """What a finished model was trained with in another way, a line for each setting; files count by their contents."""
    found = []
    known, recipe = _plain(encode_recipe(decode_recipe(before.recipe))), _plain(recipe)
    for key in _FILES:
        was, now = known["data"][key], recipe["data"][key]
        if was != now and (was is None or now is None or _sum(now) != before.data.get(was)):
            found.append(f"data.{key} = {shown(was)}, received {shown(now)}")
        elif now is not None and _sum(now) not in (None, before.data.get(was)):
            found.append(f"data.{key} = {shown(now)}, whose content was another one")
    flat, given = dict(_flat(known)), dict(_flat(recipe))
    for key in dict.fromkeys((*flat, *given)):
        if key not in _FREE and flat.get(key) != given.get(key):
            found.append(f"{key} = {shown(flat.get(key))}, received {shown(given.get(key))}")
    return found


_FILES = ("train", "dev", "test")
# What may differ without making a finished model another one; files are compared by their contents.
_FREE = {*(f"data.{key}" for key in (*_FILES, "cache")), *(f"train.{key}" for key in ("device", "checkpoint_seconds"))}


def shown(value: object) -> str:
    """A value of a recipe in a message."""
    return "none" if value is None else str(value)


def _plain(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe as it comes back from JSON, which knows no tuples."""
    table: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(recipe))
    return table


def _sum(path: str) -> str | None:
    return sha256(path) if Path(path).is_file() else None


def _flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield path + key, value


def _read_of(config: folders.Config) -> dict[str, Any]:
    """What is learned from and chosen by: the contents, wherever they lie, and how they are read."""
    data = config.recipe["data"]
    sums = {part: config.data[data[part]] for part in ("train", "dev") if data[part] is not None}
    return {**sums, **{name: data[name] for name in ("format", "columns", "encoding", "hold_out")}}


def own_cell(kind: str, options: Mapping[str, Any], *, allow_import: bool) -> Cell | None:
    """A cell of the user's own, imported; None where the recipe names one of riverrun's."""
    if ":" not in kind:
        return None
    from riverrun.nn.cells import make_cell

    return make_cell({"kind": kind, **options}, allow_import=allow_import)


def stored_graph(cell: Cell | None) -> str | None:
    """The equation of a user's own cell, so that the folder runs without its code."""
    if cell is None:
        return None
    from riverrun.nn.cells.store import dumps

    if cell.graph is None:
        raise ConfigError(
            f"model.encoder.cell: {cell.kind} has no traced equation (traced = False), so that a model with it could "
            "not be loaded again without its code. Write its step with riverrun.nn.cells.math"
        )
    return dumps(cell.graph)
