"""The smallest step model: a table of what follows what. Examples and tests are written with it."""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import array_namespace

from riverrun.data.batch import Batch
from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import like, to_numpy
from riverrun.decode.state import State
from riverrun.decode.step import Step
from riverrun.decode.stepwise import score_by_steps
from riverrun.errors import ShapeError


@dataclass(frozen=True, eq=False)
class Table:
    """A Markov chain: the next symbol depends on the last one alone, so that there is nothing to remember.

    Args:
        log_probs: (V, V), entry (i, j) that of j after i.
        bos: the symbol that is read first.
        eos: the symbol that ends a text, or None.

    >>> import numpy as np
    >>> model = Table(np.log([[0.5, 0.5], [0.25, 0.75]]))
    >>> np.exp(model.step(np.array([[1]]), model.start()).log_probs).tolist()
    [[[0.25, 0.75]]]
    """

    log_probs: Array
    bos: int = 0
    eos: int | None = None

    def __post_init__(self) -> None:
        if self.log_probs.ndim != 2 or self.log_probs.shape[0] != self.log_probs.shape[1]:
            raise ShapeError(f"Table: expected log_probs (V, V), received {tuple(self.log_probs.shape)}")

    @property
    def size(self) -> int:
        """V, how many symbols there are."""
        return int(self.log_probs.shape[0])

    def start(self, source: Batch | None = None, *, rows: int = 1) -> State:
        """Nothing, for any number of rows."""
        return State()

    def step(self, ids: Array, state: State) -> Step:
        """The rows of the table for these symbols (B, K)."""
        xp = array_namespace(self.log_probs)
        index = like(to_numpy(ids).reshape(-1), self.log_probs)
        rows = xp.take(self.log_probs, index, axis=0)
        return Step(xp.reshape(rows, (*ids.shape, self.size)), state)

    def score(self, ids: Padded, state: State) -> tuple[Array, State]:
        """The log probability of each symbol of ``ids`` (B, 1 + T) but the first one of each row."""
        return score_by_steps(self, ids, state)
