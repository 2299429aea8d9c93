"""Against repetition: what has been said already becomes less probable, or impossible.

Each function takes log probabilities (N, V) and what each row has seen, a ``Padded`` (N, T) of numpy ids. The results
need not sum to one; the filters and the sampler do that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from array_api_compat import array_namespace, device

from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import NEGATIVE_INFINITY, like, log_softmax, put_along_axis
from riverrun.errors import ConfigError

Control = Callable[[Array, Padded], Array]  # log probabilities (N, V) and what was seen (N, T) to (N, V)


def penalise_seen(log_probs: Array, seen: Padded, penalty: float) -> Array:
    """The probability of each symbol that was seen, to this power (the penalty of CTRL, Keskar et al. 2019).

    CTRL divides logits, which have no zero of their own; here it is the log probabilities that are multiplied.

    >>> np.exp(penalise_seen(np.log([[0.5, 0.5]]), Padded.of([[1]]), 2.0)).round(3).tolist()
    [[0.5, 0.25]]
    """
    if not 0 < penalty < math.inf:
        raise ConfigError(f"repetition penalty: expected a number above 0 (1 changes nothing), received {penalty}")
    ids, _ = _distinct(seen)
    return _changed(log_softmax(log_probs), ids, lambda values: values * penalty)


def penalise_counts(log_probs: Array, seen: Padded, *, presence: float = 0.0, frequency: float = 0.0) -> Array:
    """Take ``presence`` from the log probability of what was seen, and ``frequency`` for each time that it was.

    >>> penalise_counts(np.zeros((1, 3)), Padded.of([[1, 2, 2]]), presence=1.0, frequency=0.5).tolist()
    [[0.0, -1.5, -2.0]]
    """
    for name, value in (("presence", presence), ("frequency", frequency)):
        if not math.isfinite(value):
            raise ConfigError(f"{name} penalty: expected a finite number (0 changes nothing), received {value}")
    ids, counts = _distinct(seen)
    taken = like(presence + frequency * counts.data, log_probs)
    return _changed(log_probs, ids, lambda values: values - array_namespace(values).astype(taken, values.dtype))


def forbid_repeats(log_probs: Array, seen: Padded, n: int) -> Array:
    """-inf for each symbol that would end an n-gram which was seen before (Paulus et al. 2018).

    >>> forbid_repeats(np.zeros((1, 3)), Padded.of([[0, 1, 2, 0]]), 2).tolist()
    [[0.0, -inf, 0.0]]
    """
    if n < 1:
        raise ConfigError(f"no_repeat: expected the length of n-grams, at least 1, received {n}")
    forbidden = Padded.of([_ends(row, n) for row in seen.rows()])
    return _changed(log_probs, forbidden, lambda values: array_namespace(values).full_like(values, NEGATIVE_INFINITY))


def control(
    *, penalty: float = 1.0, presence: float = 0.0, frequency: float = 0.0, no_repeat: int | None = None
) -> Control:
    """The controls that are given, in this order: ``penalise_seen``, ``penalise_counts``, ``forbid_repeats``.

    >>> control(presence=1.0, no_repeat=1)(np.zeros((1, 2)), Padded.of([[1]])).tolist()
    [[0.0, -inf]]
    """

    def controlled(log_probs: Array, seen: Padded) -> Array:
        if penalty != 1:
            log_probs = penalise_seen(log_probs, seen, penalty)
        if presence != 0 or frequency != 0:
            log_probs = penalise_counts(log_probs, seen, presence=presence, frequency=frequency)
        if no_repeat is not None:
            log_probs = forbid_repeats(log_probs, seen, no_repeat)
        return log_probs

    controlled(np.zeros((1, 1)), Padded.of([[0]]))  # a wrong number is said now, not when the model has been read
    return controlled


def _distinct(seen: Padded) -> tuple[Padded, Padded]:
    """The distinct symbols of each row, and how often each occurs in it."""
    found: Sequence[tuple[Array, Array]] = [np.unique(row, return_counts=True) for row in seen.rows()]
    return Padded.of([ids for ids, _ in found]), Padded.of([counts for _, counts in found])


def _ends(row: Array, n: int) -> Array:
    """Each symbol that in this row comes after the same n - 1 symbols as those at its end."""
    if len(row) < n:
        return row[:0]
    grams = np.lib.stride_tricks.sliding_window_view(row, n)
    same = (grams[:, :-1] == row[len(row) - (n - 1) :]).all(axis=1)
    return np.unique(grams[same, -1])


def _changed(log_probs: Array, ids: Padded, change: Callable[[Array], Array]) -> Array:
    """The log probabilities with those of some ids (N, U), all distinct, changed."""
    if ids.data.shape[1] == 0:
        return log_probs
    xp = array_namespace(log_probs)
    size = log_probs.shape[-1]
    # Padding points at a column that is added for it and taken off again.
    index = like(np.where(ids.mask(), ids.data, size), log_probs)
    room = xp.zeros((log_probs.shape[0], 1), dtype=log_probs.dtype, device=device(log_probs))
    wide = xp.concat([log_probs, room], axis=-1)
    return put_along_axis(wide, index, change(xp.take_along_axis(wide, index, axis=-1)))[:, :size]
