"""``riverrun train``: a recipe, your files, settings on top; a model folder comes out."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Annotated

import msgspec
from tyro.conf import Positional, arg

from riverrun.cli.options import Dir, Flag, Settings
from riverrun.cli.progress import listeners
from riverrun.cli.screen import say, say_object
from riverrun.config.recipe import load_recipe
from riverrun.errors import ConfigError, RiverrunError, needs_torch
from riverrun.train.events import Event


class Train(msgspec.Struct, frozen=True, kw_only=True):
    """Train a recipe on your files; `riverrun export` makes of the result a folder that needs no torch."""

    recipe: Annotated[Positional[str], arg(metavar="RECIPE", help_behavior_hint="")]
    """A shipped recipe (`riverrun recipes` lists them) or a TOML file."""

    train: Annotated[Positional[str | None], arg(metavar="[TRAIN]", help_behavior_hint="")] = None
    """The file to learn from; or as the recipe says."""

    dev: Annotated[Positional[str | None], arg(metavar="[DEV]", help_behavior_hint="")] = None
    """The file that chooses the best epoch; without it a tenth of TRAIN is held out."""

    set: Settings = ()
    """A setting of the recipe, for example train.epochs=3; may be given again and again."""

    out: Dir = None
    """The model's folder; runs/RECIPE-1, -2, ... where it is not given."""

    resume: Flag = False
    """Continue the run in --out where it was interrupted."""

    allow_import: Flag = False
    """Import the module of a cell of your own, package.module:Class; which runs its code."""

    json: Flag = False
    """One JSON object an event on stderr instead of a progress bar."""

    def run(self) -> None:
        """Decode the recipe, train, and say where the model is."""
        recipe = load_recipe(self.recipe, settings=self.set, data={"train": self.train, "dev": self.dev})
        if recipe.data.train is None:
            raise ConfigError(
                f"data.train: the recipe {self.recipe} names no training file. "
                f"Give one: riverrun train {self.recipe} TRAIN [DEV]"
            )
        if self.resume and self.out is None:
            raise ConfigError("--resume: which run? Give its folder with --out")
        if recipe.by_gradient:
            needs_torch("training")
        if self.allow_import:
            sys.path.insert(0, "")  # as for `python -m`: a module of one's own lies in the current folder
        from riverrun import tasks

        out = Path(self.out) if self.out else new_folder(self.recipe)
        self._say(f"{self.recipe} -> {out}", event="run", recipe=self.recipe, out=str(out))
        model = tasks.new(recipe)
        begun: list[Event] = []

        def begin(event: Event) -> None:
            begun[:] = [event]

        with listeners(out, as_json=self.json) as heard:
            try:
                model.fit(out=out, resume=self.resume, listeners=[*heard, begin], allow_import=self.allow_import)
            except KeyboardInterrupt:
                self._say(f"Stopped. To go on: {self.again(out)}", event="stopped", again=self.again(out))
                raise
            except (RiverrunError, OSError, MemoryError):
                if self.out is None:
                    remove_empty(out)
                if begun and has_checkpoint(out):
                    self._say(
                        f"What was saved is kept. To go on: {self.again(out)}", event="kept", again=self.again(out)
                    )
                raise
        for note in model.notes:
            self._say(f"Note: {note}", event="note", note=note)
        first = model.first_use.format(shlex.quote(str(out)))
        draft = out / "checkpoint"
        spare = f" ({shlex.quote(str(draft))} is not needed any more and may be deleted)" if draft.is_dir() else ""
        self._say(f"Done: {out}{spare}. Try: {first}", event="done", out=str(out), **{"try": first})

    def _say(self, text: str, **event: str) -> None:
        """A line for people, or for machines."""
        if self.json:
            say_object(event)
        else:
            say(text)

    def again(self, out: Path) -> str:
        """The command that continues this run, or begins it again where nothing of it is there yet."""
        files = [file for file in (self.train, self.dev) if file]
        given = [part for setting in self.set for part in ("--set", setting)]
        flags = ["--allow-import"] * self.allow_import
        flags += ["--resume"] * (out.is_dir() and any(out.iterdir()))
        return shlex.join(["riverrun", "train", self.recipe, *files, *given, "--out", str(out), *flags])


def has_checkpoint(folder: Path) -> bool:
    """Whether there is something to go on from."""
    return any(path.name.isdecimal() for path in (folder / "checkpoint").glob("*"))


def next_folder(recipe: str, root: Path = Path("runs")) -> Path:
    """The first free ``runs/<recipe>-<n>``.

    >>> next_folder("mine/best.toml", Path("nowhere")).as_posix()
    'nowhere/best-1'
    >>> next_folder("tagger/ner", Path("nowhere")).as_posix()
    'nowhere/tagger/ner-1'
    """
    name = Path(recipe).stem if recipe.endswith(".toml") else recipe
    return next(folder for n in count(1) if not (folder := root / f"{name}-{n}").exists())


def new_folder(recipe: str) -> Path:
    """The first free folder, made at once: of two runs that begin together, each has its own."""
    while True:
        folder = next_folder(recipe)
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder


def remove_empty(folder: Path) -> None:
    """Take a folder away in which nothing came to be, and those above it that were made for it."""
    with suppress(OSError):
        for each in (folder, *folder.parents[:-1]):
            each.rmdir()
