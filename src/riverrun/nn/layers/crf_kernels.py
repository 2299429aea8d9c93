"""The sums of a linear-chain CRF and their gradients as compiled loops for the CPU.

Scores are kept as logarithms in float64, whatever comes in. The C * C work of a step is done on exponentials of them
that are scaled to at most 1: there a forbidden step is an exact zero. A sum that comes out so small that terms may have
vanished in it is taken again from the logarithms, so that no score is too large or too small.

Nothing is compiled when this module is imported; the first call compiles, and the result is kept on disk.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.floating[Any]]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Terms smaller than the smallest normal float64 (2e-308) may be lost: they do not show in a sum of this size.
_SAFE_SUM = 1e-250
# exp of it is far from overflow, and times a lost term it is still nothing.
_SAFE_EXPONENT = 600.0


@njit(cache=True, nogil=True)
def _peak(scores: Doubles) -> float:
    """The largest score; 0 where all are -inf, so that a difference from it is never -inf - -inf."""
    peak = -math.inf
    for score in scores:
        if score > peak:
            peak = score
    return peak if peak > -math.inf else 0.0


@njit(cache=True, nogil=True)
def _scaled(step: Floats, exponentials: Doubles, transposed: bool) -> float:
    """exp(step - shift) into ``exponentials``; returns the shift, the largest finite score."""
    shift = -math.inf
    size = step.shape[0]
    for i in range(size):
        for k in range(size):
            if step[i, k] > shift:
                shift = step[i, k]
    shift = shift if shift > -math.inf else 0.0
    for i in range(size):
        for k in range(size):
            value = math.exp(step[i, k] - shift)
            if transposed:
                exponentials[k, i] = value
            else:
                exponentials[i, k] = value
    return shift


@njit(cache=True, nogil=True)
def _log_sum(scores: Doubles, step: Floats) -> float:
    """log of the sum of exp(scores + step), from the logarithms alone."""
    peak = -math.inf
    for i in range(len(scores)):
        if scores[i] + step[i] > peak:
            peak = scores[i] + step[i]
    if peak == -math.inf:
        return peak
    total = 0.0
    for i in range(len(scores)):
        total += math.exp(scores[i] + step[i] - peak)
    return math.log(total) + peak


@njit(cache=True, nogil=True)
def forward(
    emissions: Floats,
    steps: Floats,
    per_position: bool,
    start: Floats,
    stop: Floats,
    lengths: Integers,
    forwards: Doubles,
    totals: Doubles,
) -> None:
    """log Z of each row into ``totals`` (B,), the sums over the beginnings into ``forwards`` (B, T, C).

    ``steps`` is (1, C, C), or (B * T, C, C) where every position has its own.
    """
    batch, width, tags = emissions.shape
    exponentials, weights, sums = np.empty((tags, tags)), np.empty(tags), np.empty(tags)
    shift = 0.0 if per_position else _scaled(steps[0], exponentials, False)
    for b in range(batch):
        totals[b] = 0.0
        for t in range(lengths[b]):
            now = forwards[b, t]
            if t == 0:
                for k in range(tags):
                    now[k] = start[k] + emissions[b, t, k]
                continue
            step = steps[b * width + t] if per_position else steps[0]
            if per_position:
                shift = _scaled(step, exponentials, False)
            before = forwards[b, t - 1]
            peak = _peak(before)
            sums[:] = 0.0
            for i in range(tags):
                weights[i] = math.exp(before[i] - peak)
                for k in range(tags):
                    sums[k] += weights[i] * exponentials[i, k]
            for k in range(tags):
                if sums[k] < _SAFE_SUM:
                    now[k] = _log_sum(before, step[:, k]) + emissions[b, t, k]
                else:
                    now[k] = math.log(sums[k]) + peak + shift + emissions[b, t, k]
        if lengths[b] > 0:
            totals[b] = _log_sum(forwards[b, lengths[b] - 1], stop)


@njit(cache=True, nogil=True)
def backward(
    emissions: Floats,
    steps: Floats,
    per_position: bool,
    stop: Floats,
    lengths: Integers,
    forwards: Doubles,
    totals: Doubles,
    weight: Floats,
    d_emissions: Floats,
    d_steps: Floats,
    d_start: Doubles,
    d_stop: Doubles,
) -> None:
    """Adds the gradient of sum(weight * log Z), which is the expected counts, to the four ``d_`` arrays."""
    batch, width, tags = emissions.shape
    exponentials = np.empty((tags, tags))  # transposed: from the later tag to the earlier
    counts = np.zeros((tags, tags))  # transposed too
    behind, later, weights, sums = np.empty(tags), np.empty(tags), np.empty(tags), np.empty(tags)
    shift = 0.0 if per_position else _scaled(steps[0], exponentials, True)
    for b in range(batch):
        if lengths[b] == 0 or totals[b] == -math.inf or weight[b] == 0:
            continue
        for k in range(tags):
            behind[k] = stop[k]
        for t in range(lengths[b] - 1, -1, -1):
            for k in range(tags):
                share = weight[b] * math.exp(forwards[b, t, k] + behind[k] - totals[b])
                d_emissions[b, t, k] += share
                if t == lengths[b] - 1:
                    d_stop[k] += share
                if t == 0:
                    d_start[k] += share
                later[k] = emissions[b, t, k] + behind[k]
            if t == 0:
                break
            step = steps[b * width + t] if per_position else steps[0]
            if per_position:
                shift = _scaled(step, exponentials, True)
                counts[:] = 0.0
            before = forwards[b, t - 1]
            peak, later_peak = _peak(before), _peak(later)
            exponent = peak + later_peak + shift - totals[b]
            scale = weight[b] * math.exp(min(exponent, _SAFE_EXPONENT))
            for i in range(tags):
                weights[i] = math.exp(before[i] - peak)
                sums[i] = 0.0
            for k in range(tags):
                share = math.exp(later[k] - later_peak)
                for i in range(tags):
                    sums[i] += share * exponentials[k, i]
                if exponent < _SAFE_EXPONENT:
                    share *= scale
                    for i in range(tags):
                        counts[k, i] += share * weights[i] * exponentials[k, i]
                else:
                    for i in range(tags):
                        counts[k, i] += weight[b] * math.exp(before[i] + step[i, k] + later[k] - totals[b])
            for i in range(tags):
                if sums[i] < _SAFE_SUM:
                    behind[i] = _log_sum(later, step[i])
                else:
                    behind[i] = math.log(sums[i]) + later_peak + shift
            if per_position:
                _add_transposed(d_steps[b * width + t], counts)
    if not per_position:
        _add_transposed(d_steps[0], counts)


@njit(cache=True, nogil=True)
def _add_transposed(target: Floats, counts: Doubles) -> None:
    for i in range(len(target)):
        for k in range(len(target)):
            target[i, k] += counts[k, i]


@njit(cache=True, nogil=True)
def path(
    emissions: Floats,
    steps: Floats,
    per_position: bool,
    start: Floats,
    stop: Floats,
    tags: Integers,
    lengths: Integers,
    scores: Doubles,
) -> bool:
    """Adds the score of each row's tags to ``scores`` (B,); false, at once, where a tag is none of 0 to C - 1."""
    batch, width, size = emissions.shape
    for b in range(batch):
        length = lengths[b]
        for t in range(length):
            tag = tags[b, t]
            if not 0 <= tag < size:
                return False
            scores[b] += emissions[b, t, tag]
            if t == 0:
                scores[b] += start[tag]
            else:
                scores[b] += steps[b * width + t if per_position else 0, tags[b, t - 1], tag]
        if length > 0:
            scores[b] += stop[tags[b, length - 1]]
    return True


@njit(cache=True, nogil=True)
def path_backward(
    per_position: bool,
    tags: Integers,
    lengths: Integers,
    weight: Floats,
    d_emissions: Floats,
    d_steps: Floats,
    d_start: Doubles,
    d_stop: Doubles,
) -> None:
    """Adds the gradient of sum(weight * score of the tags), which is the observed counts, to the four ``d_`` arrays."""
    batch, width = tags.shape
    for b in range(batch):
        length = lengths[b]
        for t in range(length):
            d_emissions[b, t, tags[b, t]] += weight[b]
            if t == 0:
                d_start[tags[b, t]] += weight[b]
            else:
                d_steps[b * width + t if per_position else 0, tags[b, t - 1], tags[b, t]] += weight[b]
        if length > 0:
            d_stop[tags[b, length - 1]] += weight[b]
