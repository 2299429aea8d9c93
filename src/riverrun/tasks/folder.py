"""The model folder: what is in it, how it is written so that a half-written one is never taken for a whole one, and
how it is read so that an altered one is noticed.

``config.json`` names every other file with its SHA-256. It is written last and deleted first.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path, PurePath
from typing import Any

import msgspec

from riverrun.errors import CheckpointError, ConfigError, nearest
from riverrun.tasks.lock import LOCK, refuse_running
from riverrun.text.durable import sync_folder, write_durably
from riverrun.text.sources import sha256
from riverrun.version import __version__

FORMAT = 1
CONFIG, CARD = "config.json", "README.md"
GRAPH, WEIGHTS, VOCABULARIES = "model.onnx", "model.safetensors", "vocab"
DRAFT, CACHE = "checkpoint", "cache"
# What a run leaves in its folder while it lasts.
_OF_A_RUN = (DRAFT, CACHE, "metrics.jsonl")


class Config(msgspec.Struct, kw_only=True):
    """What ``config.json`` holds."""

    format: int
    task: str
    riverrun: str
    recipe: dict[str, Any]
    data: dict[str, str] = {}
    files: dict[str, str] = {}
    graph: str | None = None
    changes: list[str] = []
    """Settings that were other ones before the run was resumed, and until which step."""


def named(path: str | Path) -> Path:
    """The path of a file or folder whose name can be written down: in a recipe, in a log."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{path}: this name is not UTF-8, in which recipes and logs are written; rename it") from None
    return Path(path)


def bundled() -> dict[str, Path]:
    """name -> folder of the models that come with riverrun."""
    root = Path(str(resources.files("riverrun").joinpath("bundled")))
    return {folder.name: folder for folder in sorted(root.glob("*")) if (folder / CONFIG).is_file()}


def find(path_or_name: str | Path) -> Path:
    """The folder of a model, given as a path or as the name of a bundled model."""
    folder = Path(path_or_name)
    if folder.is_dir():
        return folder
    models = bundled()
    if str(path_or_name) in models:
        return models[str(path_or_name)]
    if folder.exists():
        raise CheckpointError(f"{folder}: a model is a folder, this is a file. Give the folder that `train` wrote")
    names = ", ".join(models) or "none"
    raise CheckpointError(
        f"{path_or_name}: no such folder, nor a bundled model{nearest(str(path_or_name), models)} (bundled: {names})"
    )


def root(folder: Path) -> tuple[Path, bool]:
    """Where the config of a model lies, and whether its training is not finished."""
    draft = folder / DRAFT
    unfinished = not (folder / CONFIG).is_file() and (draft / CONFIG).is_file()
    return (draft if unfinished else folder), unfinished


def task_of(folder: Path) -> str:
    """The task of a model; what else is in the folder is looked at when it is loaded."""
    return _decoded(root(folder)[0] / CONFIG).task


def write(folder: Path, config: Config, files: Mapping[str, bytes]) -> None:
    """Write a model: ``config.json`` away first, each file under a temporary name and renamed, ``config.json`` last.

    Files that ``config.files`` names already (a graph that was written elsewhere) are kept as they are; those of
    another model that was here before go away. The card is not among the files that must stay as they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = _named(folder)
    (folder / CONFIG).unlink(missing_ok=True)
    sums = dict(config.files)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, content)
        if name != CARD:  # people write into it
            sums[name] = hashlib.sha256(content).hexdigest()
    for name in before - sums.keys():
        (folder / name).unlink(missing_ok=True)
    config = msgspec.structs.replace(config, files=sums)
    write_durably(folder / CONFIG, msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n")
    sync_folder(folder)


def _named(folder: Path) -> set[str]:
    """The files of the model that is in a folder, if there is one."""
    try:
        names = _decoded(folder / CONFIG).files
    except CheckpointError:
        return set()
    return {name for name in names if _is_inside(folder, name)}


def read(folder: Path) -> Config:
    """``config.json`` of a finished model, after every file was found to be what it says."""
    config, damaged = compared(folder)
    if damaged:
        raise CheckpointError(next(iter(damaged.values())))
    return config


def compared(folder: Path) -> tuple[Config, dict[str, str]]:
    """``config.json``, and of each file that is not what it says, name -> what is wrong."""
    config = _decoded(folder / CONFIG)
    damaged = {}
    for name, expected in config.files.items():
        inside(folder, name)
        file = folder / name
        if not file.is_file():
            damaged[name] = f"{file}: missing; {CONFIG} lists it. Copy the whole folder again"
        elif sha256(file) != expected:
            damaged[name] = (
                f"{file}: its SHA-256 is not the one in {CONFIG}; the file is truncated or was changed. "
                "Copy it again from where the model came from"
            )
    return config, damaged


def weights_of(folder: Path) -> Path | None:
    """The file of what was learned, whether or not a ``config.json`` names it."""
    return next((folder / name for name in (WEIGHTS, GRAPH) if (folder / name).is_file()), None)


def _decoded(path: Path) -> Config:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (FileNotFoundError, NotADirectoryError):
        if learned := weights_of(path.parent):
            raise CheckpointError(
                f"{path.parent}: no {CONFIG}, although {learned.name} is there; the folder is not complete. "
                "Copy the whole folder again"
            ) from None
        raise CheckpointError(
            f"{path.parent}: no {CONFIG}; this is not a finished model. "
            "If it is a run that was interrupted, continue it with --resume"
        ) from None
    except msgspec.DecodeError as error:
        raise CheckpointError(f"{path}: not valid JSON ({error}). The file is truncated or was edited") from None
    version = found.get("format")
    if version != FORMAT:
        raise CheckpointError(
            f"{path}: format {version!r}, written by riverrun {found.get('riverrun', '?')}; this is riverrun "
            f"{__version__} and reads format {FORMAT}. Install the version that wrote it, or a newer riverrun"
        )
    try:
        return msgspec.convert(found, Config)
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{path}: {error}") from None


def inside(folder: Path, name: str) -> None:
    """Refuse a name that leads out of the folder."""
    path = PurePath(name)
    if path.is_absolute() or path.drive or ".." in path.parts:  # of the name: a hub's cache is made of symbolic links
        raise CheckpointError(f"{folder / CONFIG}: the file name {name!r} leads out of the folder")


def _is_inside(folder: Path, name: str) -> bool:
    return (folder / name).resolve().is_relative_to(folder.resolve())


def holds_model_or_run(folder: Path) -> bool:
    """Whether what is here was written by riverrun: a model, or a run that is not finished."""
    return any((place / CONFIG).is_file() and _is_model(place / CONFIG) for place in (folder, folder / DRAFT))


def holds(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Whether the model that is here was written from just these files."""
    try:
        sums = _decoded(folder / CONFIG).files
    except CheckpointError:
        return False
    return all(sums.get(name) == hashlib.sha256(content).hexdigest() for name, content in files.items())


def remove_run(folder: Path) -> None:
    """Take away what a run has left."""
    for name in _OF_A_RUN:
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
        else:
            (folder / name).unlink(missing_ok=True)


def changes(folder: Path) -> list[str]:
    """What the run that is here, if there is one, remembers of settings that were changed."""
    draft = folder / DRAFT / CONFIG
    return _decoded(draft).changes if draft.is_file() else []


def _is_model(config: Path) -> bool:
    try:
        _decoded(config)
    except CheckpointError:
        return False
    return True


def empty(out: Path, *, instead: str = "Give another folder") -> None:
    """Check that a new model may be written here: nothing is overwritten.

    Args:
        instead: what to do where something is there.
    """
    for place in (out, *out.parents):
        if place.is_file():
            raise ConfigError(f"{place}: is a file; expected the folder of the new model, {out}")
    refuse_running(out)
    if out.is_dir() and any(file.name != LOCK for file in out.iterdir()):
        raise ConfigError(f"{out}: is not empty. {instead}")


def fresh(out: Path, *, resume: bool) -> None:
    """Check that a run may write here: an empty folder, or with ``resume`` one that holds a run."""
    if not resume:
        empty(out, instead="Give another --out, or --resume to continue the run that is there")
    elif not out.is_dir():
        raise ConfigError(f"{out}: no such folder, so there is nothing to resume. Give the --out of the first call")
    else:
        refuse_running(out)


@contextmanager
def left_as_found(place: Path, names: Sequence[str] = _OF_A_RUN) -> Iterator[None]:
    """Where the work within fails, files and folders of these names that it has made go away, and nothing else.

    What stood here before stays, and so does a run that has a checkpoint: it can be resumed.
    """
    new = [folder for folder in (place, *place.parents) if not folder.exists()]
    parts = [part for name in names if not (part := place / name).exists()]
    try:
        yield
    except BaseException:
        if not any(path.name.isdecimal() for path in (place / DRAFT).glob("*")):
            for part in parts:
                if part.is_dir():
                    shutil.rmtree(part, ignore_errors=True)
                else:
                    part.unlink(missing_ok=True)
            with suppress(OSError):  # one that somebody else has put something into
                for folder in new:
                    folder.rmdir()
        raise
