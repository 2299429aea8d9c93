"""What all tasks have in common: a recipe, what was learned by it, and the folder that holds both."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import msgspec

from riverrun.config.recipe import Recipe, decode_recipe, encode_recipe, load_recipe
from riverrun.config.struct import tag_of
from riverrun.config.train import MOST_THREADS
from riverrun.errors import CheckpointError, ConfigError, DataError, missing
from riverrun.tasks import folder as folders
from riverrun.tasks.draft import changes, differences
from riverrun.tasks.folder import GRAPH, VOCABULARIES
from riverrun.tasks.lock import locked, refuse_running
from riverrun.tasks.training import Listener
from riverrun.text.sources import sha256
from riverrun.train.events import Event, Prepared

METRICS = "metrics.json"


class Held(ABC):
    """What a task has once it is trained or loaded."""

    config: folders.Config
    papers: dict[str, bytes]
    """The card and the scores, as files."""

    @property
    @abstractmethod
    def exportable(self) -> bool:
        """Whether there is a net, which ``export`` can write as a graph."""

    @abstractmethod
    def content(self) -> dict[str, bytes]:
        """name -> content of the model's files: weights or graph."""

    @abstractmethod
    def vocabularies(self) -> dict[str, bytes]:
        """name -> content of what turns text into numbers and back."""


RecipeT = TypeVar("RecipeT", bound=Recipe)
HeldT = TypeVar("HeldT", bound=Held)


class Task(ABC, Generic[RecipeT, HeldT]):
    """What a user holds: text in, text out.

    Args:
        recipe: a shipped recipe, a TOML file, or a recipe that was made in Python.
        settings: texts like ``train.epochs=3``, on top of it.
    """

    recipe_type: ClassVar[type[Any]]
    first_use: ClassVar[str]
    """A command to try on a model's folder, which is put into the braces."""

    def __init__(self, recipe: RecipeT | str | Path, *, settings: Iterable[str] = ()) -> None:
        found = load_recipe(recipe, settings=settings) if isinstance(recipe, str | Path) else recipe
        if not isinstance(found, self.recipe_type):
            raise ConfigError(
                f"{type(self).__name__}: expected a recipe with task = '{tag_of(self.recipe_type)}', received one with "
                f"task = '{tag_of(found)}'"
            )
        self.recipe: RecipeT = found
        self.notes: list[str] = []
        """What a user should be told of the files that were read."""
        self._held: HeldT | None = None

    # -- what each task does in its own way

    @abstractmethod
    def _train(
        self, recipe: RecipeT, place: Path, *, resume: bool, listeners: Sequence[Listener], allow_import: bool
    ) -> HeldT:
        """Learn in the folder ``place``; notes go to ``self.notes``."""

    @abstractmethod
    def _read(self, root: Path, config: folders.Config, *, unfinished: bool, threads: int | None) -> HeldT:
        """What lies in a folder whose files were checked."""

    @abstractmethod
    def _export(self, path: Path, *, int8: bool) -> list[str]:
        """Write the graph, compared with the net before; what a user should know of it."""

    # -- training

    def fit(
        self,
        train: str | Path | None = None,
        dev: str | Path | None = None,
        *,
        out: str | Path | None = None,
        resume: bool = False,
        listeners: Sequence[Listener] = (),
        allow_import: bool = False,
    ) -> Self:
        """Learn from files; the model is then in ``out`` too, where that is given.

        Learning begins anew, whatever was learned or loaded before.

        Args:
            train, dev: files; those of the recipe where they are not given. Without dev a share of train is held out;
                the dev and test files that a trained model remembers belong to its own train.
            out: the model's folder, where a run is saved while it lasts: after Ctrl-C or a crash, ``resume`` goes on
                from there. Without it nothing is on the disk, and what was learned is lost with the process.
            resume: continue the run that is in ``out``; one that is finished is loaded.
            listeners: are called with each event of the training.
            allow_import: whether a cell of the user's own, ``package.module:Class``, may be imported.

        Raises:
            KeyboardInterrupt: after Ctrl-C, and after SIGTERM; its message says how to go on.
        """
        recipe = self._with_files(train, dev)
        with ExitStack() as stack:
            if out is None:
                if resume:
                    raise ConfigError("resume: which run? Give its folder as out")
                place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="riverrun-")))
            else:
                place = folders.named(out)
                folders.fresh(place, resume=resume)
                if (place / folders.CONFIG).is_file():
                    return self._finished(place, recipe)
            _check_files(recipe)
            stack.enter_context(folders.left_as_found(place))
            stack.enter_context(locked(place))
            told = _changes(place, recipe) if resume else []
            try:
                held = self._train(
                    recipe, place, resume=resume, listeners=_telling(listeners, told), allow_import=allow_import
                )
            except KeyboardInterrupt:
                raise KeyboardInterrupt(_how_to_go_on(out, place)) from None
            except RuntimeError as error:  # torch has no error of its own for this on a CPU
                if any(said in str(error) for said in ("allocate memory", "out of memory")):
                    raise MemoryError(str(error)) from error
                raise
            self.notes += told
            held.config = msgspec.structs.replace(held.config, changes=folders.changes(place))
            self.recipe, self._held = recipe, held
            if out is not None:
                self._write(place)
        return self

    def _with_files(self, train: str | Path | None, dev: str | Path | None) -> RecipeT:
        """The recipe with the files that were given."""
        given: dict[str, str | None] = {
            name: str(path) for name, path in (("train", train), ("dev", dev)) if path is not None
        }
        if train is not None and self._held is not None:  # of files that nobody has named, none is read
            given = {"dev": None, "test": None, **given}
        return msgspec.structs.replace(self.recipe, data=msgspec.structs.replace(self.recipe.data, **given))

    def _finished(self, place: Path, recipe: RecipeT) -> Self:
        """The model of a run that is over, which is asked for again."""
        done = type(self).load(place)
        if other := differences(done._model.config, encode_recipe(recipe)):
            raise ConfigError(
                "\n".join(
                    [
                        f"{place}: this training is finished, with other settings or data; nothing was done.",
                        *other,
                        "To train with these, give another folder (--out)",
                    ]
                )
            )
        self.recipe, self._held, self.notes = done.recipe, done._held, done.notes
        self.notes.append(f"{place}: this training is finished; nothing to resume")
        return self

    # -- folders

    @classmethod
    def load(cls, model: str | Path, *, threads: int | None = None) -> Self:
        """The model of a folder, or a bundled one; one that was exported needs no torch.

        Args:
            threads: how many one call of an exported model may use; by default all cores.
        """
        if threads is not None and not 1 <= threads <= MOST_THREADS:
            raise ConfigError(f"threads: expected a whole number from 1 to {MOST_THREADS}, received {threads}")
        place = folders.find(model)
        root, unfinished = folders.root(place)
        config = folders.read(root)
        expected = tag_of(cls.recipe_type)
        if config.task != expected:
            raise CheckpointError(f"{place}: is a model for the task {config.task!r}, expected {expected!r}")
        task = cls(decode_recipe(config.recipe, source=str(root / folders.CONFIG)))  # type: ignore[arg-type]
        held = task._read(root, config, unfinished=unfinished, threads=threads)
        papers = (folders.CARD, *(name for name in (METRICS,) if name in config.files))  # people write into the card
        held.papers = {name: (root / name).read_bytes() for name in papers if (root / name).is_file()}
        if unfinished:
            learned = folders.weights_of(place)
            task.notes.append(
                f"{place}: {folders.CONFIG} is missing, so that {learned.name} cannot be trusted; these are the best "
                f"weights of {folders.DRAFT}. Copy the folder again, or write it anew with --resume"
                if learned
                else f"{place}: the training is not finished; these are the best weights so far"
            )
        task._held = held
        return task

    @classmethod
    def from_pretrained(cls, model: str | Path, **options: Any) -> Self:
        """The model of a folder, a bundled one, or one of the Hugging Face hub, ``owner/name``.

        Args:
            options: those of ``huggingface_hub.snapshot_download``, for example ``revision``.
        """
        if "/" not in str(model) or Path(model).exists():
            return cls.load(model)
        try:
            from huggingface_hub import snapshot_download
        except ImportError:
            raise missing("huggingface_hub", "hub", f"{model}: no such folder, and a model of the hub") from None
        return cls.load(snapshot_download(str(model), **options))

    def save_pretrained(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the model's folder: a new or empty one, or one that holds this very model already.

        Args:
            overwrite: replace another model or a run, with what that run has left; other files stay. A folder that
                holds no model and no run is never written into.
        """
        held, place = self._model, folders.named(folder)
        if not folders.holds(place, {**held.content(), **held.vocabularies()}):
            if not folders.holds_model_or_run(place):
                folders.empty(place)
            elif not overwrite:
                raise ConfigError(
                    f"{place}: holds another model, or a run that is not finished; expected a new or empty folder. "
                    "Give another one, or overwrite=True to replace what is there"
                )
            else:
                refuse_running(place)
                folders.remove_run(place)
        self._write(place)

    def _write(self, place: Path) -> None:
        held = self._model
        folders.write(place, held.config, {**held.content(), **held.vocabularies(), **held.papers})

    def push_to_hub(self, name: str, **options: Any) -> None:
        """Upload the model's folder to the Hugging Face hub; options are those of ``HfApi.upload_folder``."""
        try:
            from huggingface_hub import HfApi
        except ImportError:
            raise missing("huggingface_hub", "hub", "pushing a model to the hub") from None
        with tempfile.TemporaryDirectory(prefix="riverrun-") as place:
            self.save_pretrained(place)
            api = HfApi()
            api.create_repo(name, exist_ok=True)
            api.upload_folder(repo_id=name, folder_path=place, **options)

    def export(self, folder: str | Path, *, int8: bool = False) -> list[str]:
        """Write the model as a folder that runs without torch; what a user should know of it is returned.

        The graph is compared with the net on random ragged batches, and on dev data where that is at hand, before
        anything is written.
        """
        held = self._model
        if GRAPH in held.config.files:
            raise ConfigError("this model is exported already; export the folder that training wrote")
        if not held.exportable:
            raise ConfigError("this model has no net and runs without torch as it is; there is nothing to export")
        place = folders.named(folder)
        folders.empty(place)
        with folders.left_as_found(place, (GRAPH, VOCABULARIES, METRICS, folders.CARD, folders.CONFIG)):
            try:
                said = self._export(place / GRAPH, int8=int8)
            except ModuleNotFoundError as error:
                if error.name is None or error.name.startswith("riverrun"):
                    raise
                raise missing(error.name, "export", "exporting a model") from None
            config = msgspec.structs.replace(held.config, files={GRAPH: sha256(place / GRAPH)})
            folders.write(place, config, {**held.vocabularies(), **held.papers})
        return said

    @property
    def _model(self) -> HeldT:
        if self._held is None:
            name = type(self).__name__
            raise ConfigError(f"this model is not trained yet: call fit(train, dev), or {name}.load(folder)")
        return self._held


def _check_files(recipe: Recipe) -> None:
    """A training reads its files several times and remembers their names."""
    for name in ("train", "dev", "test"):
        path: str | None = getattr(recipe.data, name)
        if path is None:
            continue
        if path == "-" or (Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()):
            raise DataError(
                f"{path}: {'standard input' if path == '-' else 'a pipe'} can be read only once, and a training reads "
                f"data.{name} several times; expected a file. Save it to one first"
            )
        folders.named(path)
    if recipe.data.dev is None and not recipe.data.hold_out:
        raise ConfigError(
            "data.hold_out: 0 holds nothing out, and there is no dev file; expected one of the two, to choose the best "
            "weights by. Give a dev file, or hold out more, for example 0.1"
        )


def _changes(place: Path, recipe: Recipe) -> list[str]:
    """What is changed in the run that is resumed here."""
    draft = place / folders.DRAFT
    return changes(draft, folders.read(draft), encode_recipe(recipe)) if (draft / folders.CONFIG).is_file() else []


def _telling(listeners: Sequence[Listener], told: Sequence[str]) -> Sequence[Listener]:
    """Listeners that hear more facts before the training begins."""
    if not told:
        return listeners

    def with_more(listener: Listener) -> Listener:
        def hear(event: Event) -> None:
            if isinstance(event, Prepared):
                more = {f"changed {k}": what for k, what in enumerate(told, 1)}
                event = msgspec.structs.replace(event, facts={**event.facts, **more})
            listener(event)

        return hear

    return [with_more(listener) for listener in listeners]


def _how_to_go_on(out: str | Path | None, place: Path) -> str:
    """What a KeyboardInterrupt tells who trains in Python."""
    if out is None:
        return "stopped, and what was learned is lost: give fit a folder, out=..., and it is saved there while it lasts"
    if any(path.name.isdecimal() for path in (place / folders.DRAFT).glob("*")):
        return f"stopped and saved in {place}: the same call with resume=True goes on"
    return "stopped before anything was saved"
