"""Is the exported graph the model? Random ragged batches through both, before a file gets its name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from riverrun.data.batch import Batch
from riverrun.data.padded import Array, Padded
from riverrun.decode.scorer import Chain, Labels, Scorer
from riverrun.decode.viterbi import viterbi
from riverrun.errors import RiverrunError

# Sizes that differ from each other, from the traced ones and from one batch to the next; ones are their own case.
_SIZES = (
    {"B": 1, "T": 1, "S": 1, "U": 1, "L": 1},
    {"B": 4, "T": 7, "S": 5, "U": 9, "L": 6},
    {"B": 3, "T": 2, "S": 6, "U": 1, "L": 3},
    {"B": 1, "T": 11, "S": 1, "U": 4, "L": 1},
    {"B": 7, "T": 3, "S": 2, "U": 2, "L": 12},
    {"B": 5, "T": 19, "S": 8, "U": 30, "L": 8},
)


@dataclass(frozen=True)
class Parity:
    """How far a graph is from its model.

    Args:
        max_error: the largest difference of a score, relative to the largest score of its array where that is above 1.
        agreement: the share of equal decisions (tags of the best path, labels); 1.0 where there was none to make.
        batches: how many batches were compared.
        cost: how many nats more a symbol of real texts costs a language model; None where there were no texts.
    """

    max_error: float
    agreement: float
    batches: int
    cost: float | None = None


def default_axes(batch: Batch) -> dict[str, str]:
    """The letters of the dimensions that vary: ``chars`` with ``chars.index`` is UL, another ``Padded`` BT, an array B.

    >>> default_axes(Batch(words=Padded.of([[1]]), chars=Padded.of([[2]]), **{"chars.index": Padded.of([[0]])}))
    {'words': 'BT', 'chars': 'UL', 'chars.index': 'BT'}
    """
    return {
        name: "UL" if f"{name}.index" in batch else "BT" if isinstance(value, Padded) else "B"
        for name, value in batch.items()
    }


def random_batch(
    template: Batch, axes: Mapping[str, str], *, sizes: Mapping[str, int], rng: np.random.Generator
) -> Batch:
    """A ragged batch of these sizes with lengths 0, 1 and T, made of the values of the template.

    What stands in the padding is as random as the rest, so that a graph that reads it is found out.
    """
    lengths = {
        axis: _lengths(sizes[axis[0]], sizes[axis[1]], rng) for axis in sorted(set(axes.values())) if len(axis) > 1
    }

    def like(name: str, value: Padded | Array) -> Padded | Array:
        data = value.data if isinstance(value, Padded) else value
        shape = [*(sizes[letter] for letter in axes[name]), *data.shape[len(axes[name]) :]]
        if name.endswith(".index") and (whole := name.removesuffix(".index")) in axes:
            new = rng.integers(0, sizes[axes[whole][0]], shape)
        else:
            pool = np.concatenate([row.ravel() for row in value.rows()]) if isinstance(value, Padded) else data.ravel()
            new = rng.choice(pool if pool.size else np.zeros(1), shape)
        new = new.astype(data.dtype)
        return Padded(new, lengths[axes[name]]) if isinstance(value, Padded) else new

    return Batch({name: like(name, value) for name, value in template.items()})


def ragged_batches(template: Batch, axes: Mapping[str, str]) -> Iterator[Batch]:
    """The random batches that every export is tried on; the same ones each time."""
    rng = np.random.default_rng(0)
    for sizes in _SIZES:
        yield random_batch(template, axes, sizes=sizes, rng=rng)


def compare(original: Scorer, exported: Scorer, batches: Iterable[Batch]) -> Parity:
    """The largest error and the share of equal decisions over numpy batches; both scorers return numpy arrays."""
    worst, equal, total, count = 0.0, 0, 0, 0
    for batch in batches:
        expected, received = original.scores(batch), exported.scores(batch)
        if type(expected) is not type(received):
            raise RiverrunError(
                f"export: the model gives {type(expected).__name__}, the exported graph {type(received).__name__}"
            )
        for before, after in zip(_scores(expected), _scores(received), strict=True):
            worst = float(np.maximum(worst, difference(before, after)))  # a NaN stays
        decided, again = _decisions(expected), _decisions(received)
        equal += int((decided == again).sum())
        total += len(decided)
        count += 1
    return Parity(worst, equal / total if total else 1.0, count)


def require(parity: Parity, *, tolerance: float, what: str) -> None:
    """An error that says how far off the graph is, if it is further than the tolerance (or NaN)."""
    if not parity.max_error <= tolerance:
        raise RiverrunError(
            f"export: {what} differs from the model by {parity.max_error:.2g} on {parity.batches} batches, "
            f"allowed is {tolerance:.2g}; nothing was written"
        )


def difference(expected: Array, received: Array) -> float:
    """The largest difference, relative to the largest value that is expected where that is above 1.

    >>> difference(np.array([4.0, 1.0]), np.array([4.0, 2.0]))
    0.25
    """
    if expected.shape != received.shape:
        raise RiverrunError(f"export: expected scores {expected.shape}, the graph gives {received.shape}")
    if not expected.size:
        return 0.0
    same = expected == received  # equal infinities have no difference
    difference = np.abs(np.where(same, 0, expected) - np.where(same, 0, received))
    finite = np.abs(expected[np.isfinite(expected)])
    return float(np.max(difference) / max(1.0, finite.max(initial=0.0)))


def _lengths(rows: int, longest: int, rng: np.random.Generator) -> Array:
    """0 to ``longest``, with each extreme where there are rows enough: full, empty, one, then anything."""
    first = [longest, 0, min(1, longest)][:rows]
    return rng.permutation(np.array([*first, *rng.integers(0, longest + 1, rows - len(first))], np.int64))


def _scores(scores: Chain | Labels) -> list[Array]:
    """The arrays to compare; of what stands at a position, the positions that are there."""
    if isinstance(scores, Labels):
        return [scores.logits]
    mask = np.arange(scores.emissions.shape[1])[None] < scores.lengths[:, None]
    transitions = scores.transitions[mask] if scores.transitions.ndim == 4 else scores.transitions
    return [scores.emissions[mask], transitions, scores.start, scores.stop]


def _decisions(scores: Chain | Labels) -> Array:
    if isinstance(scores, Labels):
        return scores.logits.argmax(-1)
    rows = viterbi(scores).tags.rows()
    return np.concatenate(rows) if rows else np.zeros(0, np.int64)
