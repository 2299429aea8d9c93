"""``[train]``: how a loss becomes small. The same for every recipe that is trained by gradient."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from riverrun.config.struct import Config, Count, NotNegative, Positive, Share, Size

Beta = Annotated[float, msgspec.Meta(ge=0, lt=1)]
Average = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Epochs = Annotated[int, msgspec.Meta(ge=0, le=100_000)]  # their steps are counted before they begin
MOST_THREADS = 1024  # with some more, the libraries that start them end the process
Threads = Annotated[int, msgspec.Meta(ge=1, le=MOST_THREADS)]
Seed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # what torch takes


class Train(Config, frozen=True):
    """Optimiser, schedule, batches, stopping, precision and seed."""

    optimizer: Literal["sgd", "adam", "adamw", "asgd"] = "adam"
    """The rule that turns gradients into steps."""

    rate: Positive = 0.001
    """The learning rate, before the schedule."""

    momentum: Share = 0.0
    """The share of the last step that is kept, for `sgd`."""

    betas: tuple[Beta, Beta] = (0.9, 0.999)
    """The two averages of `adam` and `adamw`."""

    weight_decay: NotNegative = 0.0
    """How strongly weights are drawn to zero."""

    schedule: Literal["constant", "inverse", "linear", "cosine", "one-cycle", "plateau"] = "inverse"
    """How the rate changes: `inverse` is rate / (1 + decay * epoch), constant while `decay` is 0; `linear` and `cosine`
    fall to 0 at the end; `one-cycle` rises and falls; `plateau` halves the rate when the dev metric stops improving."""

    decay: NotNegative = 0.0
    """How fast an `inverse` schedule falls."""

    warmup: Count = 0
    """Steps in which the rate rises from 0, before the schedule begins."""

    clip: Positive | None = 5.0
    """The largest norm of a gradient; `none` does not clip."""

    epochs: Epochs = 20
    """How many times the training data is read."""

    steps: Count | None = None
    """Stop after this many steps of the optimiser, even within an epoch."""

    batch: Size = 32
    """Sentences in a batch; at most so many where `tokens` is given."""

    tokens: Size | None = None
    """Tokens in a batch, padding included: long sentences come in smaller batches."""

    accumulate: Size = 1
    """Batches whose gradients are summed before a step."""

    patience: Size | None = None
    """Stop when the dev metric has not improved in this many evaluations."""

    ema: Average | None = None
    """Evaluate and keep an exponential average of the weights; 0.999 keeps that share at each step."""

    precision: Literal["float32", "bfloat16"] = "float32"
    """The numbers of the large products; weights and sums stay float32."""

    reduce: Literal["token-mean", "sequence-mean", "sum"] = "token-mean"
    """What the summed loss of a batch is divided by."""

    device: str = "auto"
    """`auto` (CUDA where there is one, else the CPU), `cpu`, `cuda` or `cuda:N`."""

    seed: Seed = 1
    """The seed of weights, order and dropout. The same seed, data and thread count give the same model."""

    nan: Literal["stop", "skip", "rollback"] = "stop"
    """When a loss is not finite: stop and say where, skip the batch, or go back to the last checkpoint."""

    threads: Threads | None = None
    """CPU threads; as many as there are cores where it is not given."""

    evaluate_every: Size | None = None
    """Steps between evaluations on dev; each epoch where it is not given."""

    checkpoint_seconds: Positive = 60.0
    """Seconds between checkpoints, from which `--resume` continues."""

    metric: str | None = None
    """The dev metric that chooses the best weights; the task's first one where it is not given."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Settings that the chosen optimiser or schedule would not read, and an unknown device."""
        if self.momentum and self.optimizer != "sgd":
            yield "momentum", f"only optimizer 'sgd' has momentum, received optimizer '{self.optimizer}'; set it to 0"
        if self.betas != (0.9, 0.999) and not self.optimizer.startswith("adam"):
            yield "betas", f"only optimizers 'adam' and 'adamw' have betas, received optimizer '{self.optimizer}'"
        if self.decay and self.schedule != "inverse":
            yield "decay", f"only schedule 'inverse' has a decay, received schedule '{self.schedule}'; set it to 0"
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            yield "device", f"expected auto, cpu, cuda or cuda:N, received '{self.device}'"
