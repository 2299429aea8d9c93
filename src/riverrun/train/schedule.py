"""Learning rates: pure functions of where the training stands, the same in a run that was resumed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from riverrun.config.lm import LmTrain
from riverrun.config.train import Train
from riverrun.data.batch import Batch

PLATEAU_FACTOR = 0.5
ONE_CYCLE_RISE = 0.3  # the share of the steps in which the rate rises, where no warm-up is given
ONE_CYCLE_START, ONE_CYCLE_END = 1 / 25, 1 / 250_000  # shares of the peak (Smith and Topin 2019)


def rate(settings: Train, *, step: int, total: int, epoch: int, stalls: int) -> float:
    """The learning rate of the update after ``step`` updates.

    Args:
        settings: ``rate``, ``schedule``, ``decay`` and ``warmup`` are read.
        step: updates made so far.
        total: updates there will be.
        epoch: how often the data was read to its end.
        stalls: evaluations so far that did not improve the dev metric.

    >>> settings = Train(rate=1.0, schedule="linear", warmup=2)
    >>> [rate(settings, step=step, total=6, epoch=0, stalls=0) for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if settings.schedule == "one-cycle":
        return settings.rate * _one_cycle(step, total=total, rise=settings.warmup or ONE_CYCLE_RISE * total)
    if step < settings.warmup:
        return settings.rate * (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, total - settings.warmup)  # 0 to 1
    return settings.rate * SCHEDULES[settings.schedule](settings, done, epoch, stalls)


def share_of_window(settings: Train, batches: Sequence[Batch]) -> float:
    """What the rate is multiplied by for windows of drawn lengths: the mean length over the usual one, ``bptt``.

    A short window gives a sum of few losses, whose mean would otherwise count as much as that of a long one (Merity et
    al. 2018).

    >>> from riverrun.data.padded import Padded
    >>> share_of_window(LmTrain(bptt=4, bptt_jitter=True), [Batch(ids=Padded.of([[1, 2, 3], [4]]))])
    0.75
    """
    if not isinstance(settings, LmTrain) or not settings.bptt_jitter:
        return 1.0
    lengths = [batch["ids"].data.shape[1] for batch in batches if "ids" in batch]
    return sum(lengths) / len(lengths) / settings.bptt if lengths else 1.0


def _cosine(done: float) -> float:
    """From 1 to 0 while ``done`` goes from 0 to 1."""
    return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def _one_cycle(step: int, *, total: int, rise: float) -> float:
    """Up from the start to 1 at the last of ``rise`` steps, down to the end at the last of all."""
    peak, last = max(rise - 1, 0), total - 1
    if step < peak:
        return 1 - (1 - ONE_CYCLE_START) * _cosine(step / peak)
    return ONE_CYCLE_END + (1 - ONE_CYCLE_END) * _cosine((step - peak) / (last - peak) if last > peak else 1.0)


# The share of the rate, from (settings, share of the steps that is done, epoch, stalls).
SCHEDULES: Mapping[str, Callable[[Train, float, int, int], float]] = {
    "constant": lambda settings, done, epoch, stalls: 1.0,
    "inverse": lambda settings, done, epoch, stalls: 1 / (1 + settings.decay * epoch),
    "linear": lambda settings, done, epoch, stalls: max(0.0, 1 - done),
    "cosine": lambda settings, done, epoch, stalls: _cosine(done),
    "plateau": lambda settings, done, epoch, stalls: PLATEAU_FACTOR**stalls,
}
