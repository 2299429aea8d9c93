"""What the training loop says while it runs. A progress bar or a log file listens; the loop knows none.

Without torch, so that a listener need not wait for its import. ``msgspec.json.encode(event)`` is a line of a log.
"""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=str.lower):
    """Something that happened.

    Args:
        step: updates made so far.
        total: updates there will be, if no evaluation stops the training early.
        epoch: how often the data was read to its end.
        elapsed: seconds of training, those before an interruption included.

    >>> msgspec.json.encode(Finished(step=9, total=9, epoch=3, elapsed=1.5, reason="done", best=None, best_step=9))
    b'{"event":"finished","reason":"done","best":null,"best_step":9,"step":9,"total":9,"epoch":3,"elapsed":1.5}'
    """

    step: int
    total: int
    epoch: int
    elapsed: float


class Prepared(Event, frozen=True):
    """The data was read and the model built; what to look at before a long run. The first event.

    Args:
        facts: what is said of sizes, tags, coverage, parameters and the first sentence, by name.
    """

    facts: dict[str, str]


class Started(Event, frozen=True):
    """The model is on its device and the first batch comes next.

    Args:
        parameters: how many numbers are trained.
        device: where, for example ``cpu`` or ``cuda:0``.
        precision: of the large products.
        resumed: whether the training continues from a checkpoint, which was taken at ``step``.
    """

    parameters: int
    device: str
    precision: str
    resumed: bool


class Step(Event, frozen=True):
    """The weights were updated.

    Args:
        loss: of the batches of this step, divided as ``train.reduce`` says.
        parts: its terms by name, divided likewise.
        rate: the learning rate of this step.
        norm: of the gradient, before it was clipped.
        tokens: in the batches of this step.
        speed: tokens a second, since this process began to train, without evaluations and saving.
        remaining: seconds to the end, judged by the time since this process began to train.
    """

    loss: float
    parts: dict[str, float]
    rate: float
    norm: float
    tokens: int
    speed: float
    remaining: float


class Evaluated(Event, frozen=True):
    """The model was scored on dev data.

    Args:
        loss: the mean training loss of the steps since the evaluation before; None if all were skipped.
        metrics: all scores; None where one is not finite.
        metric: the name of the one that chooses the best weights.
        improved: whether these weights are the best so far.
        best: the best value of the metric so far; None while every value was not a number.
        waited: evaluations since the best.
        patience: how many of them stop the training, if any do.
    """

    loss: float | None
    metrics: dict[str, float | None]
    metric: str
    improved: bool
    best: float | None
    waited: int
    patience: int | None


class Saved(Event, frozen=True):
    """A checkpoint was written, complete and on the disk.

    Args:
        path: its folder.
    """

    path: str


class SaveFailed(Event, frozen=True):
    """A checkpoint could not be written. The ones before it are untouched; the training goes on and tries again.

    Args:
        message: why.
    """

    message: str


class Skipped(Event, frozen=True):
    """An update was left out because the loss or the gradient was not finite.

    Args:
        loss: which may be the one that is not finite.
        norm: of the gradient, likewise.
        in_a_row: how many updates were left out since the last good one.
    """

    loss: float
    norm: float
    in_a_row: int


class RolledBack(Event, frozen=True):
    """The training went back to a checkpoint because the loss or the gradient was not finite.

    Args:
        failed: the step at which that happened; ``step`` is the one it went back to.
        loss: which may be the one that is not finite.
        norm: of the gradient, likewise.
        rollbacks: how many times this has happened.
    """

    failed: int
    loss: float
    norm: float
    rollbacks: int


class Interrupted(Event, frozen=True):
    """The user asked to stop; the step was finished and saved. The last event of its run.

    Args:
        path: the folder of the checkpoint from which the training continues.
    """

    path: str


class Finished(Event, frozen=True):
    """The training is over and the model holds its best weights. The last event of its run.

    Args:
        reason: ``done``, or ``patience`` when it stopped because the dev metric no longer improved.
        best: the value of the metric that chose the weights; None where nothing was evaluated.
        best_step: the step they come from.
    """

    reason: str
    best: float | None
    best_step: int
