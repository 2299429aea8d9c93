"""Which symbols a sample may be drawn from: each filter makes one distribution into another.

A filter takes log probabilities (..., V), which may lack their normalisation, and returns log probabilities in float64
that sum to one over the symbols that it keeps, -inf elsewhere. It keeps at least one, and decides between equally
probable symbols for those that come first, so that the same filter keeps the same symbols on numpy and torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from array_api_compat import array_namespace

from riverrun.data.padded import Array
from riverrun.decode.backend import NEGATIVE_INFINITY, double, largest, log_softmax, to_numpy, topk
from riverrun.errors import ConfigError

Filter = Callable[[Array], Array]  # (..., V) to (..., V)

# A mass that falls short of its threshold by less is taken to reach it: 0.1 + 0.2 must not depend on rounding.
SLACK = 1e-9


def checked(scores: Array) -> Array:
    """The same scores (..., V); a ConfigError where a row of them has no symbol to choose, or NaN.

    >>> checked(np.log([1.0, 3.0])).round(2).tolist()
    [0.0, 1.1]
    """
    xp = array_namespace(scores)
    # A maximum passes NaN on, so this finds NaN, +inf and rows of -inf at once.
    fine = xp.isfinite(xp.max(scores, axis=-1))
    if bool(xp.all(fine)):
        return scores
    row = int(to_numpy(fine).reshape(-1).argmin())
    values = to_numpy(scores).reshape(-1, scores.shape[-1])[row]
    if (values == NEGATIVE_INFINITY).all():
        received, why = "only -inf", "What is forbidden leaves nothing to choose from; allow more symbols."
    else:
        received, why = "NaN or +inf", "The weights of the model or its state are damaged."
    raise ConfigError(f"row {row}: expected log probabilities, one of them above -inf, received {received}. {why}")


def normalised(scores: Array) -> Array:
    """Scores (..., V) up to a constant as log probabilities in float64.

    >>> np.exp(normalised(np.log([1.0, 3.0]))).round(4).tolist()
    [0.25, 0.75]
    """
    return log_softmax(double(checked(scores)))


def with_temperature(log_probs: Array, temperature: float) -> Array:
    """Probabilities to the power 1/temperature: sharper below 1, flatter above; at 0 the most probable one alone.

    >>> np.exp(with_temperature(np.log([0.2, 0.8]), 0.5)).round(3).tolist()
    [0.059, 0.941]
    """
    if not 0 <= temperature < math.inf:
        raise ConfigError(f"temperature: expected a number from 0 on, received {temperature}")
    if temperature == 0:
        return keep_top_k(log_probs, 1)
    log_probs = normalised(log_probs)
    # From the peak down, so that a very small temperature leaves the most probable symbols at 0 instead of -inf.
    return log_softmax((log_probs - array_namespace(log_probs).max(log_probs, axis=-1, keepdims=True)) / temperature)


def keep_top_k(log_probs: Array, k: int) -> Array:
    """The k most probable symbols (Fan et al. 2018); all of them where there are fewer than k.

    >>> np.exp(keep_top_k(np.log([0.1, 0.3, 0.6]), 2)).round(3).tolist()
    [0.0, 0.333, 0.667]
    """
    if k < 1:
        raise ConfigError(f"top_k: expected a number of symbols, at least 1, received {k}")
    log_probs = normalised(log_probs)
    if k >= log_probs.shape[-1]:
        return log_probs
    return _only(log_probs, largest(log_probs, topk(log_probs, k)[0][..., -1:], k))


def keep_top_p(log_probs: Array, p: float) -> Array:
    """The fewest most probable symbols whose probabilities sum to p or more (Holtzman et al. 2020).

    At 0 it is the most probable one, at 1 they are all kept.

    >>> np.exp(keep_top_p(np.log([0.1, 0.3, 0.6]), 0.7)).round(3).tolist()
    [0.0, 0.333, 0.667]
    """
    _share("top_p", p)
    log_probs = normalised(log_probs)
    if p == 1:
        return log_probs
    xp = array_namespace(log_probs)
    ordered = xp.sort(log_probs, axis=-1, descending=True)
    count = _count(xp.exp(ordered), p)
    return _only(log_probs, largest(log_probs, xp.take_along_axis(ordered, count - 1, axis=-1), count))


def keep_min_p(log_probs: Array, p: float) -> Array:
    """The symbols that are at least p times as probable as the most probable one (Nguyen et al. 2024).

    >>> np.exp(keep_min_p(np.log([0.1, 0.3, 0.6]), 0.5)).round(3).tolist()
    [0.0, 0.333, 0.667]
    """
    _share("min_p", p)
    log_probs = normalised(log_probs)
    if p == 0:
        return log_probs
    peak = array_namespace(log_probs).max(log_probs, axis=-1, keepdims=True)
    return _only(log_probs, log_probs >= peak + math.log(p) - SLACK)


def keep_typical(log_probs: Array, mass: float) -> Array:
    r"""The symbols whose surprise is nearest to the expected one, as few as sum to this mass (Meister et al. 2022).

    They are ranked by :math:`|-\log p_i - H|`, with :math:`H = -\sum_j p_j \log p_j`; so a very probable symbol may be
    left out. At 0 the most typical symbol is kept, at 1 all of them.

    >>> np.exp(keep_typical(np.log([0.1, 0.3, 0.6]), 0.5)).round(3).tolist()  # H is 0.9, the surprises 2.3, 1.2, 0.5
    [0.0, 0.333, 0.667]
    >>> np.exp(keep_typical(np.log([0.1, 0.3, 0.6]), 0.3)).round(3).tolist()
    [0.0, 1.0, 0.0]
    """
    _share("typical", mass)
    log_probs = normalised(log_probs)
    if mass == 1:
        return log_probs
    xp = array_namespace(log_probs)
    possible = log_probs > NEGATIVE_INFINITY
    probs, zeros = xp.exp(log_probs), xp.zeros_like(log_probs)
    entropy = -xp.sum(probs * xp.where(possible, log_probs, zeros), axis=-1, keepdims=True)
    typical = -xp.abs(log_probs + entropy)
    order = xp.argsort(typical, axis=-1, descending=True, stable=True)
    count = _count(xp.take_along_axis(probs, order, axis=-1), mass)
    least = xp.take_along_axis(typical, xp.take_along_axis(order, count - 1, axis=-1), axis=-1)
    return _only(log_probs, largest(typical, least, count))


def compose(
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical: float | None = None,
) -> Filter:
    """The filters that are given, in this order: temperature, top-k, top-p, min-p, typical.

    Each one sees the distribution that those before it leave: ``top_p`` after ``top_k`` is a share of the k symbols.

    >>> np.exp(compose(top_k=2, top_p=0.6)(np.log([0.1, 0.3, 0.6]))).tolist()
    [0.0, 0.0, 1.0]
    """
    chosen: list[Filter] = []
    if temperature != 1:
        chosen.append(partial(with_temperature, temperature=temperature))
    if top_k is not None:
        chosen.append(partial(keep_top_k, k=top_k))
    if top_p is not None:
        chosen.append(partial(keep_top_p, p=top_p))
    if min_p is not None:
        chosen.append(partial(keep_min_p, p=min_p))
    if typical is not None:
        chosen.append(partial(keep_typical, mass=typical))

    def composed(log_probs: Array) -> Array:
        for each in chosen or [normalised]:
            log_probs = each(log_probs)
        return log_probs

    composed(np.zeros(1))  # a wrong number is said now, not when the model has been read
    return composed


def _count(probs: Array, mass: float) -> Array:
    """(..., 1), how many of the probabilities, in their order, are needed for this mass; at least one."""
    xp = array_namespace(probs)
    before = xp.cumulative_sum(probs, axis=-1) - probs
    count = xp.sum(xp.astype(before < mass - SLACK, xp.int64), axis=-1, keepdims=True)
    return xp.where(count > 0, count, xp.ones_like(count))


def _only(log_probs: Array, kept: Array) -> Array:
    xp = array_namespace(log_probs)
    return log_softmax(xp.where(kept, log_probs, xp.full_like(log_probs, NEGATIVE_INFINITY)))


def _share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ConfigError(f"{name}: expected a share from 0 to 1, received {value}")
