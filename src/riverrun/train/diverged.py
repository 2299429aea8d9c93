"""What to say when a loss or a gradient is not a number and the training cannot go on."""

from __future__ import annotations

from riverrun.errors import RiverrunError
from riverrun.train.checkpoint import Checkpoints
from riverrun.train.learner import Update

SKIPS_IN_A_ROW = 20
ROLLBACKS = 3


class TrainingError(RiverrunError):
    """The training cannot go on; its last checkpoint is untouched."""


def diverged(update: Update, *, step: int, rate: float, after: str, checkpoints: Checkpoints) -> TrainingError:
    """The error for an update that is not finite.

    Args:
        update: with its loss and the norm of its gradient.
        step: at which it happened, counted from 1.
        rate: the learning rate.
        after: what was tried before, as the end of a sentence, or nothing.
        checkpoints: those that were saved.
    """
    steps = checkpoints.steps()
    kept = f"The checkpoint {checkpoints.folder / str(steps[-1])} is untouched" if steps else "No checkpoint was saved"
    return TrainingError(
        f"step {step}: expected a finite loss and gradient, received loss {update.loss:g} and gradient norm "
        f"{update.norm:g} at learning rate {rate:g}{after}. {kept}. Try a smaller train.rate, a smaller train.clip, "
        f"some train.warmup or train.precision=float32; train.nan=skip leaves such batches out, train.nan=rollback "
        f"goes back to a checkpoint"
    )
