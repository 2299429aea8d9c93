"""The training loop: one function that yields what happens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Protocol, TypedDict

import msgspec
import torch
from torch import nn

from riverrun.config.train import Train
from riverrun.data.batch import Batch
from riverrun.errors import CheckpointError, DataError
from riverrun.train import events, schedule
from riverrun.train.average import averaging_begins
from riverrun.train.checkpoint import Checkpoint, Checkpoints
from riverrun.train.diverged import ROLLBACKS, SKIPS_IN_A_ROW, diverged
from riverrun.train.learner import Learner, choose_device, load
from riverrun.train.pace import Pace
from riverrun.train.progress import Progress, improved

FIRST_CHECKPOINT_SECONDS = 60.0
ORDERS = 1_000_003  # a rollback adds so many to the number of the epoch: an order of the batches that was never seen

# Settings that may not change when a training is resumed: they decide what the numbers in a checkpoint mean.
FIXED = ("optimizer", "ema", "seed", "batch", "tokens", "accumulate", "metric", "bptt", "bptt_jitter")


class Loader(Protocol):
    """Batches of numpy arrays; both are functions of their arguments alone, so that a position is two numbers."""

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from number ``start`` on."""
        ...

    def count(self, epoch: int) -> int:
        """How many batches an epoch has."""
        ...


def fit(
    model: nn.Module,
    loader: Loader,
    settings: Train,
    *,
    checkpoints: Checkpoints,
    evaluate: Callable[[], Mapping[str, float]] | None = None,
    resume: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[events.Event]:
    """Train a model. Nothing happens until the events are read; after ``Finished`` the model has its best weights.

    On a CPU the weights depend on the model, the data, the settings and the number of threads alone, bit for bit,
    however often the process is killed and resumed. torch's global generator is seeded, since dropout draws from it,
    and its number of threads is set where ``settings.threads`` is given; no other global state is touched.

    Args:
        model: with ``loss(batch) -> Loss``, or one that carries a state from batch to batch, see ``Learner``.
        loader: of the training batches.
        settings: the ``[train]`` table of a recipe.
        checkpoints: where the training and its best weights are saved.
        evaluate: scores the model, which is then in evaluation mode, on dev data; without it the last weights are best.
        resume: go on from the newest checkpoint, or begin where there is none.
        stop: asked after each step; when it says yes, the training saves and ends with ``Interrupted``.
    """
    latest = _to_resume(checkpoints, settings, resume=resume)
    learner = _learner(model, settings, evaluated=evaluate is not None)
    progress = Progress() if latest is None else _restore(learner, latest)
    total = _count_steps(loader, settings)
    pace = Pace(progress.elapsed)
    next_save = pace.elapsed() + min(settings.checkpoint_seconds, FIRST_CHECKPOINT_SECONDS)

    def now() -> _Now:
        progress.elapsed = pace.elapsed()
        return {"step": progress.step, "total": total, "epoch": progress.epoch, "elapsed": progress.elapsed}

    yield events.Started(
        parameters=sum(weight.numel() for weight in learner.trained.values()),
        device=str(learner.device),
        precision=settings.precision,
        resumed=latest is not None,
        **now(),
    )
    if settings.nan == "rollback" and latest is None:
        path = _save(learner, progress, checkpoints, score=None)  # something to go back to
        yield events.Saved(path=str(path), **now())

    steps = _steps(loader, progress, size=settings.accumulate)
    stalls = progress.stalls
    while _reason_to_end(progress, settings) is None:
        batches, epoch, index = next(steps)
        rate = schedule.rate(settings, step=progress.step, total=total, epoch=progress.epoch, stalls=stalls)
        rate *= schedule.share_of_window(settings, batches)
        begin = pace.elapsed()
        update = learner.update(batches, rate=rate)
        pace.count(update.tokens, pace.elapsed() - begin)

        if not update.finite and settings.nan != "skip":
            failed, rollbacks = progress.step + 1, progress.rollbacks
            latest = checkpoints.latest() if settings.nan == "rollback" and rollbacks < ROLLBACKS else None
            if latest is None:
                after = f" after {rollbacks} rollbacks" if rollbacks else ""
                raise diverged(update, step=failed, rate=rate, after=after, checkpoints=checkpoints)
            progress = _restore(learner, latest)
            progress.rollbacks = rollbacks + 1
            stalls = progress.stalls
            steps = _steps(loader, progress, size=settings.accumulate)
            yield events.RolledBack(
                failed=failed, loss=update.loss, norm=update.norm, rollbacks=progress.rollbacks, **now()
            )
            continue

        progress.advance(update.loss if update.finite else None, epoch=epoch, index=index)
        if update.finite:
            yield events.Step(
                loss=update.loss,
                parts=update.parts,
                rate=rate,
                norm=update.norm,
                tokens=update.tokens,
                speed=pace.speed(),
                remaining=pace.remaining(total - progress.step),
                **now(),
            )
        elif progress.skipped == SKIPS_IN_A_ROW:
            after = f" after {progress.skipped} skipped updates in a row"
            raise diverged(update, step=progress.step, rate=rate, after=after, checkpoints=checkpoints)
        else:
            yield events.Skipped(loss=update.loss, norm=update.norm, in_a_row=progress.skipped, **now())

        score = None
        better = False
        if evaluate is not None and _evaluation_is_due(progress, settings):
            evaluation = progress.record(learner.evaluate(evaluate), metric=settings.metric)
            scores = progress.scores
            score, better, stalls = scores[-1], improved(scores), progress.stalls
            if settings.optimizer == "asgd" and learner.average is None and averaging_begins(scores):
                learner.begin_averaging()
            yield events.Evaluated(
                loss=evaluation.loss,
                metrics=evaluation.metrics,
                metric=progress.metric,
                improved=better,
                best=progress.best,
                waited=progress.waited,
                patience=settings.patience,
                **now(),
            )

        over = _reason_to_end(progress, settings) is not None
        stopping = stop() and not over
        if better or over or stopping or pace.elapsed() >= next_save:
            now()
            next_save = pace.elapsed() + settings.checkpoint_seconds
            try:
                path = _save(learner, progress, checkpoints, score=score)
            except CheckpointError as error:
                if over or stopping:
                    raise  # nothing would try again
                yield events.SaveFailed(message=str(error), **now())
            else:
                yield events.Saved(path=str(path), **now())
        if stopping:
            yield events.Interrupted(path=str(path), **now())
            return

    best = checkpoints.best()
    if best is not None:
        load(model, best.weights())
    yield events.Finished(
        reason=_reason_to_end(progress, settings) or "done",
        best=best.record.progress.value_at(best.record.progress.step) if best else None,
        best_step=best.record.progress.step if best else 0,
        **now(),
    )


class _Now(TypedDict):
    """The fields of every event."""

    step: int
    total: int
    epoch: int
    elapsed: float


def _learner(model: nn.Module, settings: Train, *, evaluated: bool) -> Learner:
    """The model on its device, its optimiser and average, with the seed set."""
    device = choose_device(settings.device)
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    learner = Learner(model, settings, device)
    if settings.optimizer == "asgd" and not evaluated:
        learner.begin_averaging()  # no evaluation will say when
    return learner


def _to_resume(checkpoints: Checkpoints, settings: Train, *, resume: bool) -> Checkpoint | None:
    latest = checkpoints.latest()
    if latest is None:
        return None
    if not resume:
        raise CheckpointError(
            f"{checkpoints.folder}: expected no checkpoints of another training, received {latest.path.name}. Go on "
            f"from it with --resume, or train into another folder"
        )
    before, now = latest.record.settings, msgspec.to_builtins(settings)
    for name in FIXED:
        if name in now and before.get(name) != now[name]:
            raise CheckpointError(
                f"{latest.path}: was trained with train.{name} = {before.get(name)}, received {now[name]}; a training "
                f"cannot be resumed with another one. Give it {before.get(name)}, or train into another folder"
            )
    return latest


def _restore(learner: Learner, checkpoint: Checkpoint) -> Progress:
    learner.restore(checkpoint.weights(), checkpoint.state())
    return checkpoint.record.progress


def _save(learner: Learner, progress: Progress, checkpoints: Checkpoints, *, score: float | None) -> Path:
    return checkpoints.save(
        progress, weights=learner.weights(), state=learner.state(), settings=learner.settings, score=score
    )


def _count_steps(loader: Loader, settings: Train) -> int:
    """How many updates the epochs have, or ``settings.steps`` where that is less."""
    total = 0
    for epoch in range(settings.epochs):
        total += math.ceil(loader.count(epoch) / settings.accumulate)
        if settings.steps is not None and total >= settings.steps:
            return settings.steps
    return total


def _steps(loader: Loader, progress: Progress, *, size: int) -> Iterator[tuple[list[Batch], int, int]]:
    """The batches of each update from a position on, with the position after them: epoch, and batches used of it."""
    epoch, index = progress.epoch, progress.index
    while True:
        order = epoch + ORDERS * progress.rollbacks
        count = loader.count(order)
        if not count:
            raise DataError("the training data is empty: expected at least one batch in an epoch, received none")
        index = min(index, count - 1)  # after a rollback, the other order may have fewer batches
        batches = loader.batches(order, index)
        while index < count:
            group = list(islice(batches, size))
            if not group:
                raise DataError(f"epoch {epoch}: expected {count} batches, as the loader counts, received {index}")
            index += len(group)
            yield group, *((epoch, index) if index < count else (epoch + 1, 0))
        epoch, index = epoch + 1, 0


def _evaluation_is_due(progress: Progress, settings: Train) -> bool:
    """At the end of each epoch or every so many steps, and at the end."""
    if settings.steps is not None and progress.step >= settings.steps:
        return True
    if settings.evaluate_every is None or progress.epoch >= settings.epochs:
        return progress.index == 0
    return progress.step % settings.evaluate_every == 0


def _reason_to_end(progress: Progress, settings: Train) -> str | None:
    if progress.epoch >= settings.epochs or (settings.steps is not None and progress.step >= settings.steps):
        return "done"
    return "patience" if settings.patience is not None and progress.waited >= settings.patience else None
