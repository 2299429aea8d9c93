"""Is the exported graph the language model? Ragged batches through both, after states of many kinds, in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Protocol

import numpy as np

from riverrun.data.batch import Batch
from riverrun.data.padded import Array, Padded
from riverrun.decode.state import State
from riverrun.export.parity import Parity, difference, ragged_batches


class Reader(Protocol):
    """What reads symbols with a state: the net, and its graph. Arrays are numpy's."""

    def start(self, *, rows: int) -> State:
        """The state that has read nothing."""
        ...

    def read(self, ids: Padded, state: State) -> tuple[Array, State]:
        """(B, T) after a state -> the log probabilities (B, T, V) of what comes next, and the state behind."""
        ...


Trial = tuple[Padded, State]


def trials(original: Reader, size: int) -> Iterator[Trial]:
    """Random symbols with lengths 0, 1 and T, and what was read before them: nothing, or other random symbols.

    Args:
        original: the net, which reads what comes before.
        size: V.
    """
    everything = Batch(ids=Padded(np.arange(size)[None], np.array([size])))
    rng = np.random.default_rng(1)
    for number, batch in enumerate(ragged_batches(everything, {"ids": "BT"})):
        ids = batch["ids"]
        state = original.start(rows=len(ids))
        if number % 2:
            before = Padded(rng.integers(0, size, (len(ids), 3)), rng.integers(1, 4, len(ids)))
            _, state = original.read(before, state)
        yield ids, state


def compare_reading(original: Reader, exported: Reader, over: Iterable[Trial]) -> Parity:
    """The largest error of log probabilities and states, and the share of equal most probable symbols.

    The graph reads each batch at once, all but its first symbol after that, and symbol by symbol up to a few.
    """
    worst, equal, total, count = 0.0, 0, 0, 0
    for ids, state in over:
        expected, last = original.read(ids, state)
        mask = ids.mask()
        for cuts in _cuts(ids.data.shape[1]):
            received, behind = _in_pieces(exported, ids, state, cuts)
            pairs = [(expected[mask], received[mask])]
            pairs += [(value, behind.moving[name]) for name, value in last.moving.items()]
            for before, after in pairs:
                worst = float(np.maximum(worst, difference(before, after)))  # a NaN stays
        decided, again = expected[mask].argmax(-1), received[mask].argmax(-1)
        equal += int((decided == again).sum())
        total += len(decided)
        count += 1
    return Parity(worst, equal / total if total else 1.0, count)


def _cuts(longest: int) -> list[list[int]]:
    """Where pieces begin and end."""
    return [[0, longest], [0, 1, longest], [*range(min(3, longest)), longest]]


def _in_pieces(reader: Reader, ids: Padded, state: State, cuts: list[int]) -> tuple[Array, State]:
    found = []
    for begin, end in pairwise(cuts):
        piece = Padded(ids.data[:, begin:end], np.clip(ids.lengths - begin, 0, end - begin))
        log_probs, state = reader.read(piece, state)
        found.append(log_probs)
    return np.concatenate(found, axis=1), state
