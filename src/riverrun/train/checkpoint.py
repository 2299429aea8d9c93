"""The folder ``checkpoint/``: from each ``<step>/`` in it, a training goes on as if it had never stopped.

A checkpoint is written under another name, waited for and renamed, so that a name of digits is a complete checkpoint
whatever kills the process. It holds no pickles::

    checkpoint/1200/model.safetensors   the weights that were evaluated (the averaged ones, where there is an average)
                    state.safetensors   the rest: optimiser, random generators, the weights behind the average, and
                                        what a net remembers of the text before the next batch
                    checkpoint.json     progress, settings, score, and the sha256 of the two files
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from torch import Tensor

from riverrun.config.train import Train
from riverrun.errors import CheckpointError
from riverrun.text.durable import sync_folder, write_durably
from riverrun.train.progress import Progress
from riverrun.train.weights import from_bytes, to_bytes

FORMAT = 1
NEWEST = 2  # how many of the newest stay, besides the best

MODEL, STATE, RECORD = "model.safetensors", "state.safetensors", "checkpoint.json"


class Record(msgspec.Struct, frozen=True):
    """What stands in ``checkpoint.json``.

    Args:
        format: of the folder.
        progress: where the training stood.
        settings: of the training, as they stand in a recipe.
        score: the dev metric of these weights, signed so that higher is better; None where they were not evaluated.
        files: name -> sha256.
    """

    format: int
    progress: Progress
    settings: dict[str, Any]
    score: float | None
    files: dict[str, str]


@dataclass(frozen=True)
class Checkpoint:
    """One complete checkpoint.

    Args:
        path: its folder.
        record: what stands in its ``checkpoint.json``.
    """

    path: Path
    record: Record

    def weights(self) -> dict[str, Tensor]:
        """Name -> tensor: the state dict of the model."""
        return self._read(MODEL)

    def state(self) -> dict[str, Tensor]:
        """Name -> tensor: what else the learner needs to go on."""
        return self._read(STATE)

    def _read(self, name: str) -> dict[str, Tensor]:
        path = self.path / name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise _damaged(self.path, f"{name} cannot be read ({error.strerror})") from error
        if hashlib.sha256(data).hexdigest() != self.record.files.get(name):
            raise _damaged(self.path, f"{name} is not the file that was written (its sha256 differs)")
        return from_bytes(data, path)


class Checkpoints:
    """The checkpoints of one training.

    Args:
        folder: ``checkpoint/`` of the model folder; made when the first one is saved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def steps(self) -> list[int]:
        """The steps at which there is a checkpoint, in order."""
        return sorted(int(path.name) for path in self.folder.glob("*") if path.name.isdecimal())

    def latest(self) -> Checkpoint | None:
        """The newest one, from which a training goes on; None where there is none."""
        steps = self.steps()
        return self.read(steps[-1]) if steps else None

    def best(self) -> Checkpoint | None:
        """The one with the best score, the earliest of equals; the newest where none has a score."""
        steps = self.steps()
        return self.read(self._best(steps)) if steps else None

    def read(self, step: int) -> Checkpoint:
        """The one at a step."""
        path = self.folder / str(step)
        try:
            record = msgspec.json.decode((path / RECORD).read_bytes(), type=Record)
        except OSError as error:
            raise _damaged(path, f"{RECORD} cannot be read ({error.strerror})") from error
        except msgspec.MsgspecError as error:
            raise _damaged(path, f"{RECORD} is not what this release writes ({error})") from error
        if record.format != FORMAT:
            raise CheckpointError(f"{path}: expected format {FORMAT}, received format {record.format}")
        return Checkpoint(path, record)

    def save(
        self,
        progress: Progress,
        *,
        weights: Mapping[str, Tensor],
        state: Mapping[str, Tensor],
        settings: Train,
        score: float | None,
    ) -> Path:
        """Write a checkpoint, then remove those that are neither among the newest nor the best.

        Raises CheckpointError when the disk is full or refuses; the checkpoints before it are then untouched.
        """
        target = self.folder / str(progress.step)
        temporary = self._temporary(progress.step)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._remove_partial()
            temporary.mkdir()
            contents = {MODEL: to_bytes(weights), STATE: to_bytes(state)}
            for name, data in contents.items():
                write_durably(temporary / name, data)
            files = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
            finite = score if score is None or math.isfinite(score) else None
            said = msgspec.to_builtins(settings)
            record = Record(format=FORMAT, progress=progress, settings=said, score=finite, files=files)
            write_durably(temporary / RECORD, msgspec.json.encode(record))
            sync_folder(temporary)
            self._discard(progress.step)
            os.rename(temporary, target)
            sync_folder(self.folder)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            kept = (
                "The checkpoints before it are untouched; where there is room again, --resume goes on from them"
                if self.steps()
                else "It is the first one, so that nothing is kept yet; make room, or write to another disk with --out"
            )
            raise CheckpointError(f"{target}: the checkpoint could not be written: {error.strerror}. {kept}") from error
        with suppress(OSError, CheckpointError):  # what is too many now can go with the next one
            self._prune()
        return target

    def _best(self, steps: list[int]) -> int:
        scored = [(score, -step) for step in steps if (score := self.read(step).record.score) is not None]
        return -max(scored)[1] if scored else steps[-1]

    def _prune(self) -> None:
        steps = self.steps()
        for step in set(steps) - set(steps[-NEWEST:]) - {self._best(steps)}:
            self._discard(step)

    def _discard(self, step: int) -> None:
        """Rename first: a removal that is cut short must not leave half a checkpoint under a name of digits."""
        if (self.folder / str(step)).exists():
            removed = self.folder / f".{step}.removed"
            shutil.rmtree(removed, ignore_errors=True)
            os.rename(self.folder / str(step), removed)
            shutil.rmtree(removed, ignore_errors=True)

    def _temporary(self, step: int) -> Path:
        return self.folder / f".{step}.partial"

    def _remove_partial(self) -> None:
        """What a process that was killed while it wrote or removed has left."""
        for pattern in (".*.partial", ".*.removed"):
            for path in self.folder.glob(pattern):
                shutil.rmtree(path, ignore_errors=True)


def _damaged(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: this checkpoint is damaged: {why}. Remove the folder {path} to go on from the one before it"
    )
