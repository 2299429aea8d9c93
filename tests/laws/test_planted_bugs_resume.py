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


def begins_anew(patch: Patch) -> None:
    restore = Learner.restore

    def forgetful(self: Learner, weights: Any, state: Any) -> None:
        restore(self, weights, state)
        self.carried = None

    patch.setattr(Learner, "restore", forgetful)


def carries_a_batch_too_little(patch: Patch) -> None:
    """What is saved is the state before the last batch."""
    update, state = Learner.update, Learner.state

    def remembering(self: Learner, batches: Any, *, rate: float) -> Any:
        self.before = self.carried  # type: ignore[attr-defined]
        return update(self, batches, rate=rate)

    def late(self: Learner) -> Any:
        now, self.carried = self.carried, self.before  # type: ignore[attr-defined]
        try:
            return state(self)
        finally:
            self.carried = now

    patch.setattr(Learner, "update", remembering)
    patch.setattr(Learner, "state", late)


def evaluates_on_the_carried_state(patch: Patch) -> None:
    evaluate = Learner.evaluate

    def disturbing(self: Learner, score: Any) -> Any:
        found = evaluate(self, score)
        self.carried = None
        return found

    patch.setattr(Learner, "evaluate", disturbing)


def forgets_the_length_of_the_window(patch: Patch) -> None:
    patch.setattr(loop.schedule, "share_of_window", lambda settings, batches: 1.0)


def keeps_the_state_of_a_bad_update(patch: Patch) -> None:
    update = Learner.update

    def careless(self: Learner, batches: Any, *, rate: float) -> Any:
        found = update(self, batches, rate=rate)
        if not found.finite:
            self.carried = self.carried.map(lambda value: value + 1)  # type: ignore[union-attr]
        return found

    patch.setattr(Learner, "update", careless)


def averages_a_score_early(patch: Patch) -> None:
    patch.setattr(training, "averaging_begins", lambda scores: len(scores) > 5 and scores[-1] < max(scores[:-5]))


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


def carrying_law(folder: Path) -> None:
    training.a_resumed_run_carries_on(folder, training.CARRYING)


OF_STREAMS: dict[str, tuple[Callable[[Patch], None], Callable[[Path], None]]] = {
    "a resumed run begins anew": (begins_anew, carrying_law),
    "the state of a batch too early is saved": (carries_a_batch_too_little, carrying_law),
    "an evaluation disturbs the state": (
        evaluates_on_the_carried_state,
        lambda _: training.test_an_evaluation_does_not_disturb_the_carried_state(),
    ),
    "the length of a window does not count": (
        forgets_the_length_of_the_window,
        training.test_the_rate_follows_the_length_of_a_drawn_window,
    ),
    "the state of an update that is left out stays": (
        keeps_the_state_of_a_bad_update,
        lambda _: training.test_an_update_that_is_left_out_leaves_the_state(),
    ),
    "a rollback begins anew": (begins_anew, training.test_a_rollback_takes_the_carried_state_back),
    "averaging begins an evaluation early": (
        averages_a_score_early,
        lambda _: training.test_averaging_begins_where_merity_begins_it(),
    ),
}


@pytest.mark.parametrize("bug", OF_STREAMS)
def test_the_laws_of_streams_catch(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, broken = OF_STREAMS[bug]
    plant(monkeypatch)
    with pytest.raises((AssertionError, AttributeError)):
        broken(tmp_path)


def test_without_a_bug_the_law_holds(tmp_path: Path) -> None:
    law(tmp_path)


@pytest.mark.parametrize("bug", BUGS)
def test_the_law_catches(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    with pytest.raises(AssertionError):
        law(tmp_path)
