"""A model of one number a symbol, small enough to know what training does to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from riverrun.config.train import Train  # noqa: E402
from riverrun.data.batch import Batch  # noqa: E402
from riverrun.data.padded import Padded  # noqa: E402
from riverrun.nn.models.loss import Loss  # noqa: E402
from riverrun.train import events  # noqa: E402
from riverrun.train.checkpoint import Checkpoints  # noqa: E402
from riverrun.train.loop import fit  # noqa: E402


class Toy(nn.Module):
    """Its loss is the sum of squares of the weights of the symbols it reads; a batch may be spoilt by a factor."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(1, 2, 6, dtype=torch.float64))
        self.spoilt: Callable[[int], float] = lambda call: 1.0
        self.calls = 0
        self.seen: list[float] = []

    def loss(self, batch: Batch) -> Loss:
        words: Padded = batch["words"]
        self.calls += 1
        self.seen.append(float(words.data.sum()))
        values = self.weight[words.data[words.mask()]]
        return Loss((values**2).sum() * self.spoilt(self.calls), tokens=len(values), sequences=len(words))


class ToyData:
    """Four batches an epoch, each of one row, whose sum tells epoch and number."""

    def count(self, epoch: int) -> int:
        return 4

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        for index in range(start, 4):
            words = np.random.default_rng((epoch, index)).integers(0, 6, 5)
            words.flags.writeable = False  # as those of a memory-mapped file
            yield Batch(words=Padded(words[None], np.array([5])))


class Bench:
    """A toy, its data and its folder: ``run`` trains and returns the events."""

    def __init__(self, folder: Path) -> None:
        self.model = Toy()
        self.data = ToyData()
        self.checkpoints = Checkpoints(folder / "checkpoint")

    def events(self, train: Train, **more: object) -> Iterator[events.Event]:
        """The events as they come."""
        return fit(self.model, self.data, train, checkpoints=self.checkpoints, **more)

    def run(self, train: Train, **more: object) -> list[events.Event]:
        """All events."""
        return list(self.events(train, **more))

    def scored(self, *values: float) -> Callable[[], dict[str, float]]:
        """An evaluation that gives these values of f1, one after the other."""
        iterator = iter(values)
        return lambda: {"f1": next(iterator)}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A toy in training in a folder of its own."""
    return Bench(tmp_path)
