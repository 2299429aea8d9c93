"""Logistic regression over named binary features: what a learned yes-or-no decision of the tokeniser is made of."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Weights: TypeAlias = dict[str, int]
"""Feature -> its part of the log-odds of yes, in hundredths: whole numbers are short to write and add up exactly."""

Example: TypeAlias = tuple[Sequence[str], bool, int]
"""The features, the answer, and how often both were seen."""

Floats: TypeAlias = NDArray[np.float64]

_MEMORY = 8  # pairs of steps and gradients that L-BFGS remembers
_ITERATIONS = 120
_SMALLEST = 5  # hundredths; smaller weights decide nothing and would only make the file longer


def score(weights: Weights, features: Iterable[str]) -> int:
    """The log-odds of yes, in hundredths: the sum of the features' weights; one without a weight counts nothing.

    >>> score({"bias": -100, "upper": 150}, ["bias", "upper", "unseen"])
    50
    """
    return sum(map(weights.get, features, repeat(0)))


def fit(
    examples: Iterable[Example],
    *,
    prior: Mapping[str, int] | None = None,
    limit: int = 2500,
    min_count: int = 2,
    ridge: float = 0.3,
) -> Weights:
    r"""The weights w that minimise the loss of all examples i, each seen :math:`n_i` times, with answers y of +-1.

    .. math:: \sum_i n_i \log(1 + e^{-y_i w \cdot x_i}) + \frac{\lambda}{2} |w - w^0|^2

    Without examples they are those of ``prior``, :math:`w^0`. Features seen fewer than ``min_count`` times are left
    out; of the others the ``limit`` most important stay, and are fitted again. Equal examples in the same order give
    equal weights.

    >>> fit([(["bias", "full stop"], True, 10), (["bias", "comma"], False, 10)])["full stop"] > 100
    True
    >>> fit([], prior={"rule": 300})
    {'rule': 300}
    """
    prior = prior or {}
    column = {name: k for k, name in enumerate(prior)}
    # Numbers, not names, so that millions of features fit into memory.
    flat, sizes, answers, times = array("i"), array("i"), array("b"), array("i")
    for features, answer, count in examples:
        flat.extend(column.setdefault(feature, len(column)) for feature in features)
        sizes.append(len(features))
        answers.append(1 if answer else -1)
        times.append(count)
    if not sizes:
        return dict(prior)
    columns = np.frombuffer(flat, np.int32) if flat else np.zeros(0, np.int32)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    sign, seen = np.array(answers, np.float64), np.array(times, np.float64)
    names = list(column)
    center = np.array([prior.get(name, 0) / 100 for name in names])
    counts = np.bincount(columns, seen[rows], len(names))

    def keep(wanted: NDArray[np.bool_]) -> None:
        nonlocal rows, columns, names, center, counts
        inside = wanted[columns]
        rows, columns = rows[inside], (np.cumsum(wanted) - 1)[columns[inside]]
        names = [name for name, stays in zip(names, wanted, strict=True) if stays]
        center, counts = center[wanted], counts[wanted]

    def loss(weights: Floats) -> tuple[float, Floats]:
        margin = sign * np.bincount(rows, weights[columns], len(sign))
        away = weights - center
        value = float(seen @ np.logaddexp(0.0, -margin) + 0.5 * ridge * away @ away)
        slope = -sign * seen * np.exp(-np.logaddexp(0.0, margin))
        return value, np.bincount(columns, slope[rows], len(names)) + ridge * away

    keep((counts >= min_count) | (center != 0))
    weights = _minimise(loss, center)
    if len(names) > limit:
        # Rare features with large weights matter nearly as much as frequent ones: the exponent was chosen on English.
        importance = np.abs(weights) * np.maximum(counts, 1.0) ** 0.25
        importance[center != 0] = np.inf
        wanted = np.zeros(len(names), np.bool_)
        wanted[np.argsort(-importance, kind="stable")[:limit]] = True
        start = weights[wanted]
        keep(wanted)
        weights = _minimise(loss, start)
    rounded = {name: round(100 * float(w)) for name, w in zip(names, weights, strict=True)}
    return {name: rounded[name] for name in sorted(rounded) if abs(rounded[name]) >= _SMALLEST}


def _minimise(loss: Callable[[Floats], tuple[float, Floats]], x: Floats) -> Floats:
    """The minimum of a smooth convex function by L-BFGS with a backtracking line search, started at x."""
    steps: list[Floats] = []
    changes: list[Floats] = []
    value, gradient = loss(x)
    for _ in range(_ITERATIONS):
        direction = -_inverse_hessian_times(gradient, steps, changes)
        descent = float(direction @ gradient)
        length = 1.0 if steps else 1.0 / max(1.0, float(np.linalg.norm(gradient)))
        new_value, new_gradient = loss(x + length * direction)
        while new_value > value + 1e-4 * length * descent and length > 1e-10:
            length /= 2
            new_value, new_gradient = loss(x + length * direction)
        step, change = length * direction, new_gradient - gradient
        if new_value >= value or value - new_value < 1e-7 * value:
            return x
        if float(step @ change) > 1e-12:
            steps, changes = [*steps, step][-_MEMORY:], [*changes, change][-_MEMORY:]
        x, value, gradient = x + step, new_value, new_gradient
    return x


def _inverse_hessian_times(gradient: Floats, steps: list[Floats], changes: list[Floats]) -> Floats:
    """The two loops of L-BFGS: the gradient, straightened by the curvature that the last steps have met."""
    q = gradient.copy()
    shares = []
    for step, change in zip(reversed(steps), reversed(changes), strict=True):
        share = float(step @ q) / float(step @ change)
        q -= share * change
        shares.append(share)
    if steps:
        q *= float(steps[-1] @ changes[-1]) / float(changes[-1] @ changes[-1])
    for step, change, share in zip(steps, changes, reversed(shares), strict=True):
        q += step * (share - float(change @ q) / float(step @ change))
    return q
