"""A small step model that remembers: what the laws of generation are asked of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from riverrun.data.batch import Batch
from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import like
from riverrun.decode.state import State
from riverrun.decode.step import Step
from riverrun.decode.stepwise import score_by_steps

try:
    import torch
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]


def move(kind: str, values: Any) -> Any:
    """Numpy values as arrays of a kind: ``numpy``, ``torch`` or ``cuda``."""
    if kind == "numpy":
        return values
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    return tensor.cuda() if kind == "cuda" else tensor


@dataclass
class History:
    """The next symbol depends on the source, on where in the text it stands and on the last two symbols.

    Args:
        table: (sources, P, V, V, V) log probabilities: of a source, after so many symbols (modulo P), by the last but
            one and the last symbol.
        attention: (sources, V, S), where in the source each symbol looks.
    """

    table: Array
    attention: Array
    eos: int | None = None
    bos: int = 0
    calls: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return int(self.table.shape[-1])

    def start(self, source: Batch | None = None, *, rows: int = 1) -> State:
        which = np.zeros(rows, np.int64) if source is None else source["source"]
        moving = {
            "before": np.full((len(which), 1), self.bos),
            "position": np.zeros((len(which), 1), np.int64),
            "coverage": np.zeros((len(which), 1, self.attention.shape[-1])),
        }
        return State({"source": which}, moving).map(lambda value: like(value, self.table))

    def step(self, ids: Array, state: State) -> Step:
        self.calls.append(tuple(ids.shape))
        assert type(ids) is type(self.table), "ids of the kind of the state's arrays"
        source, before = state.fixed["source"][:, None], state.moving["before"]
        coverage = state.moving["coverage"] + self.attention[source, ids]
        position = state.moving["position"]
        return Step(
            self.table[source, position % self.table.shape[1], before, ids],
            State(state.fixed, {"before": ids, "position": position + 1, "coverage": coverage}),
            {"coverage": coverage},
        )

    def score(self, ids: Padded, state: State) -> tuple[Array, State]:
        return score_by_steps(self, ids, state)


def draw_model(
    kind: str = "numpy",
    *,
    size: int = 5,
    eos: int | None = 4,
    sources: int = 3,
    positions: int = 3,
    sharp: float = 1.5,
    seed: int = 0,
    dtype: Any = np.float64,
) -> History:
    """Random tables; ``bos`` is never predicted."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(sources, 4, size, size, size)) * sharp
    scores[..., 0] = -np.inf
    table = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    attention = rng.dirichlet(np.ones(positions) * 0.5, size=(sources, size))
    return History(move(kind, table.astype(dtype)), move(kind, attention), eos)
