"""Where a training stands, as a value that a checkpoint keeps: position, scores, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from riverrun.errors import ConfigError, nearest

# Metrics that are better when they are lower; every other one is better when it is higher.
LOWER_IS_BETTER = frozenset(
    {"loss", "perplexity", "word_perplexity", "bits_per_char", "bits_per_byte", "wer", "per", "cer"}
)


class Evaluation(msgspec.Struct, frozen=True):
    """The scores on dev data after a step.

    Args:
        step: updates made before.
        loss: the mean training loss of the steps since the evaluation before.
        metrics: name -> value; None where it was not finite.
    """

    step: int
    loss: float | None
    metrics: dict[str, float | None]


class Progress(msgspec.Struct):
    """All that the loop counts. With the tensors of the learner, it is all that a resumed run needs to know.

    Args:
        step: updates made, or skipped, so far.
        epoch: how often the data was read to its end.
        index: batches of this epoch that were used.
        elapsed: seconds of training.
        rollbacks: how often the training went back to a checkpoint; each makes another order of the batches.
        skipped: updates left out since the last good one.
        losses: the sum of the losses of the good steps since the last evaluation.
        updates: how many these are.
        metric: the name of the one that chooses the best weights; empty before the first evaluation.
        history: every evaluation.
    """

    step: int = 0
    epoch: int = 0
    index: int = 0
    elapsed: float = 0.0
    rollbacks: int = 0
    skipped: int = 0
    losses: float = 0.0
    updates: int = 0
    metric: str = ""
    history: list[Evaluation] = msgspec.field(default_factory=list)

    def record(self, metrics: Mapping[str, float], *, metric: str | None) -> Evaluation:
        """Add an evaluation of the weights as they are now.

        Args:
            metrics: the scores.
            metric: the one that chooses the best weights; the first where it is None.
        """
        if not metrics:
            raise ConfigError("the evaluation on dev data gave no metrics; expected at least one")
        self.metric = metric or next(iter(metrics))
        if self.metric not in metrics:
            raise ConfigError(
                f"train.metric: the evaluation gives no '{self.metric}'{nearest(self.metric, metrics) or '.'} "
                f"It gives: {', '.join(metrics)}"
            )
        evaluation = Evaluation(
            step=self.step,
            loss=self.losses / self.updates if self.updates else None,
            metrics={name: float(value) if math.isfinite(value) else None for name, value in metrics.items()},
        )
        self.losses, self.updates = 0.0, 0
        self.history.append(evaluation)
        return evaluation

    def advance(self, loss: float | None, *, epoch: int, index: int) -> None:
        """Count a step that ends at a position in the data; its loss is None where the update was skipped."""
        self.step, self.epoch, self.index = self.step + 1, epoch, index
        if loss is None:
            self.skipped += 1
        else:
            self.skipped = 0
            self.losses, self.updates = self.losses + loss, self.updates + 1

    @property
    def scores(self) -> list[float]:
        """The chosen metric at every evaluation, signed so that higher is better; what is not finite is the worst."""
        return [score(evaluation.metrics, self.metric) for evaluation in self.history]

    @property
    def best(self) -> float | None:
        """The best value of the chosen metric; None while there is none."""
        scores = self.scores
        return self.history[scores.index(max(scores))].metrics[self.metric] if scores else None

    def value_at(self, step: int) -> float | None:
        """The chosen metric after a step; None where it was not evaluated then."""
        return next((e.metrics[self.metric] for e in self.history if e.step == step), None)

    @property
    def waited(self) -> int:
        """Evaluations since the best."""
        return waited(self.scores)

    @property
    def stalls(self) -> int:
        """Evaluations that did not improve."""
        return stalls(self.scores)


def score(metrics: Mapping[str, float | None], metric: str) -> float:
    """A metric, signed so that higher is better.

    >>> score({"perplexity": 9.0}, "perplexity"), score({"f1": 0.5}, "f1"), score({"f1": None}, "f1")
    (-9.0, 0.5, -inf)
    """
    value = metrics[metric]
    if value is None:
        return -math.inf
    return -value if metric in LOWER_IS_BETTER else value


def improved(scores: Sequence[float]) -> bool:
    """Whether the last score is better than all before it.

    >>> improved([1.0, 3.0]), improved([3.0, 3.0]), improved([-math.inf])
    (True, False, False)
    """
    return scores[-1] > max(scores[:-1], default=-math.inf)


def waited(scores: Sequence[float]) -> int:
    """How many scores came since the best one; all of them while none is finite.

    >>> waited([1.0, 3.0, 2.0, 3.0]), waited([1.0]), waited([-math.inf])
    (2, 0, 1)
    """
    best = max(scores, default=-math.inf)
    return len(scores) if best == -math.inf else len(scores) - 1 - list(scores).index(best)


def stalls(scores: Sequence[float]) -> int:
    """How many scores were not better than all before them.

    >>> stalls([1.0, 3.0, 2.0, 3.0, 4.0])
    2
    """
    count, best = 0, -math.inf
    for value in scores:
        count += value <= best
        best = max(best, value)
    return count
