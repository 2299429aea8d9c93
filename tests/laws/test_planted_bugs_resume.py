"""A test of the tests: each bug planted in saving and resuming breaks the law that a resumed run is the whole run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from riverrun.train import loop  # noqa: E402
from riverrun.train.average import Average  # noqa: E402
from riverrun.train.learner import Learner  # noqa: E402

from .borrowed import borrow  # noqa: E402

pytestmark = pytest.mark.train

Patch = pytest.MonkeyPatch


training = borrow("laws/test_training.py")


def without(prefix: str) -> Callable[[Patch], None]:
    """What is saved under this name is not given back: the state at the start stays."""

    def plant(patch: Patch) -> None:
        restore = Learner.restore

        def forgetful(self: Learner, weights: Any, state: Any) -> None:
            mine = self.state()
            kept = {k: mine[k] if k.startswith(prefix) and k in mine else v for k, v in state.items()}
            if prefix == "optimizer":
                kept = {k: v for k, v in state.items() if not k.startswith(prefix)}
            restore(self, weights, kept)

        patch.setattr(Learner, "restore", forgetful)

    return plant


def resumes_a_batch_late(patch: Patch) -> None:
    steps = loop._steps

    def late(loader: Any, progress: Any, *, size: int) -> Any:
        found = steps(loader, progress, size=size)
        if progress.step:
            next(found)
        return found

    patch.setattr(loop, "_steps", late)


def repeats_the_epoch(patch: Patch) -> None:
    restore = loop._restore

    def from_its_start(learner: Learner, checkpoint: Any) -> Any:
        progress = restore(learner, checkpoint)
        progress.index = 0
        return progress

    patch.setattr(loop, "_restore", from_its_start)


def forgets_the_best(patch: Patch) -> None:
    restore = loop._restore

    def forgetful(learner: Learner, checkpoint: Any) -> Any:
        progress = restore(learner, checkpoint)
        progress.history.clear()
        return progress

    patch.setattr(loop, "_restore", forgetful)


def starts_the_average_anew(patch: Patch) -> None:
    restore = Learner.restore

    def anew(self: Learner, weights: Any, state: Any) -> None:
        restore(self, weights, state)
        if self.average is not None:
            self.average = Average(self.trained, decay=0.8)

    patch.setattr(Learner, "restore", anew)


def law(folder: Path) -> None:
    # These settings have checkpoints within an epoch.
    training.test_a_resumed_run_is_the_run_that_never_stopped(folder, "adam", "plateau", 0.8, 1)


BUGS: dict[str, Callable[[Patch], None]] = {
    "the random generator is not restored": without("rng"),
    "the optimiser is not restored": without("optimizer"),
    "the weights behind the average are not restored": without("weights."),
    "the average starts anew": starts_the_average_anew,
    "it goes on one batch late": resumes_a_batch_late,
    "it repeats the epoch": repeats_the_epoch,
    "it forgets the best score": forgets_the_best,
}


def test_without_a_bug_the_law_holds(tmp_path: Path) -> None:
    law(tmp_path)


@pytest.mark.parametrize("bug", BUGS)
def test_the_law_catches(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    with pytest.raises(AssertionError):
        law(tmp_path)
