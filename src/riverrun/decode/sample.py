"""From log probabilities to symbols: the most probable one, or one that is drawn.

A row draws one uniform number from a numpy generator of its own and looks up where it falls in the cumulated
distribution, symbols in the order of their ids. So a seed gives one text, whichever library computed the scores and
whatever else is in the batch.

Rounding: the distribution is cumulated on numpy in float64, wherever the scores come from. Two engines whose scores
differ by e then disagree only about a number that falls within about e of a border between two symbols: with float32
scores about one symbol in a million.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace

from riverrun.data.padded import Array
from riverrun.decode.backend import to_numpy
from riverrun.decode.filters import checked
from riverrun.errors import ConfigError

Seed = int | np.random.Generator | Sequence[np.random.Generator]
"""Where chance comes from: a seed, a generator that has children (one for each row), or the rows' own generators."""


def generators(seed: Seed, rows: int) -> list[np.random.Generator]:
    """One generator for each row. That of row i depends on the seed and i alone, not on how many rows there are.

    A list of generators is used as it is: whoever keeps it can go on where a generation ended.

    >>> [bool(a.random() == b.random()) for a, b in zip(generators(7, 2), generators(7, 5))]
    [True, True]
    """
    if isinstance(seed, Sequence):
        if len(seed) != rows:
            raise ConfigError(f"seed: expected a generator for each of {rows} rows, received {len(seed)} generators")
        return list(seed)
    if isinstance(seed, int | np.integer) and seed < 0:
        raise ConfigError(f"seed: expected a number from 0 on, received {seed}")
    return np.random.default_rng(seed).spawn(rows)


def most_probable(log_probs: Array) -> npt.NDArray[np.int64]:
    """(N,), the symbol of the highest log probability (N, V) of each row; of several the first.

    >>> most_probable(np.log([[0.2, 0.4, 0.4]])).tolist()
    [1]
    """
    return np.asarray(to_numpy(array_namespace(log_probs).argmax(checked(log_probs), axis=-1)), np.int64)


def draw(log_probs: Array, uniforms: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """(N,), for each row of log probabilities (N, V) the symbol in whose part of [0, 1) its uniform number falls.

    >>> draw(np.log([[0.25, 0.75]] * 3), np.array([0.0, 0.2, 0.3])).tolist()
    [0, 0, 1]
    """
    values = np.asarray(to_numpy(checked(log_probs)), np.float64)
    cumulated = np.exp(values - values.max(axis=-1, keepdims=True)).cumsum(axis=-1)
    # A number below 1 times the total is below the total, however it is rounded. So the symbol that is found has a part
    # of its own, and is none of probability 0.
    target = uniforms[:, None] * cumulated[:, -1:]
    return np.asarray((cumulated <= target).sum(axis=-1), np.int64)
