"""From counts to probabilities that leave something for n-grams that were not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from riverrun.classic import discounts
from riverrun.classic.arrays import Floats, Integers, Truths
from riverrun.classic.counts import Counts
from riverrun.classic.ngram import NGram
from riverrun.errors import ConfigError, nearest

Smoothing = Literal["kneser-ney", "absolute", "witten-bell", "add-k", "stupid-backoff"]


def smooth(
    counts: Counts,
    smoothing: Smoothing = "kneser-ney",
    *,
    discount: float | None = None,
    k: float = 1.0,
    backoff: float = 0.4,
    prune: Sequence[int] = (),
    fallback: discounts.Three | None = None,
    dtype: npt.DTypeLike = np.float32,
) -> NGram:
    r"""A model of the counts; needs numba.

    Interpolated smoothing gives a context h what it counted, and mixes in what the context without its first symbol
    says; below single symbols is the uniform distribution over all symbols that may be predicted:

    .. math:: p(w \mid h) = \frac{c(hw) - D(c(hw))}{c(h)} + \gamma(h) \, p(w \mid h')

    - ``kneser-ney``, modified (Chen and Goodman 1998): below the highest order c is the number of different symbols
      before the n-gram, but for n-grams at the beginning of a text, which have nothing before them; D depends on
      whether c is 1, 2 or more, and on the order. The conventions are those of KenLM's ``lmplz``.
    - ``absolute`` (Ney, Essen and Kneser 1994): c is the count, D one number an order.
    - ``witten-bell`` (1991): nothing is taken off; :math:`\gamma(h) = T / (c(h) + T)` where T different symbols follow,
      and the counts are divided by :math:`c(h) + T` too.

    The others are not interpolated:

    - ``add-k``: :math:`(c(hw) + k) / (c(h) + kV)` in the longest context that the text gives, and 1 / V where that
      context was not seen.
    - ``stupid-backoff`` (Brants et al. 2007): the relative frequency where the n-gram was seen, else ``backoff`` times
      the score in the shorter context. These are scores; they do not sum to 1.

    Args:
        counts: of the text.
        smoothing: one of these names.
        discount: D of ``absolute`` for all orders; estimated for each order where it is not given.
        k: of ``add-k``.
        backoff: of ``stupid-backoff``.
        prune: for each order from 1 on, n-grams that occur at most so often are left out; the last number holds for all
            orders above it. The first must be 0 and none smaller than the one before. What is left out goes to the
            shorter context, so that sums stay 1.
        fallback: the three discounts of ``kneser-ney`` for orders where they cannot be estimated; such an order is
            named in the ``notes`` of the model. Without them it is an error.
        dtype: of the logarithms that are kept.

    >>> from riverrun.classic.counts import count
    >>> counts = count(np.array([2, 3, 1, 2, 2, 1]), order=2, size=4, bos=0, eos=1)
    >>> model = smooth(counts, "add-k", k=1.0)
    >>> np.exp(model.step(np.array([[0]]), model.start()).log_probs).round(2).tolist()
    [[[0.0, 0.2, 0.6, 0.2]]]
    """
    _check(smoothing, discount, k, backoff, fallback, dtype)
    kept = _kept(counts, prune)
    if smoothing == "stupid-backoff":
        return _stupid(counts, kept, backoff, dtype)
    if smoothing == "add-k":
        return _add_k(counts, kept, k, dtype)
    return _interpolated(counts, kept, smoothing, discount, fallback, dtype)


def _interpolated(
    counts: Counts,
    kept: Truths,
    smoothing: Smoothing,
    discount: float | None,
    fallback: discounts.Three | None,
    dtype: npt.DTypeLike,
) -> NGram:
    from riverrun.classic.growing import shorter
    from riverrun.classic.interpolating import interpolate

    trie = counts.trie
    link = shorter(trie.word, trie.first, trie.size)
    count = _different_before(counts, link) if smoothing == "kneser-ney" else _predicted(counts)
    prob, weight = np.empty(len(trie.word)), np.empty(trie.inner)
    types = 1.0 if smoothing == "witten-bell" else 0.0
    notes = []
    for order in range(1, trie.order + 1):
        level = trie.level(order)
        taken = np.zeros(4)
        if level.start == level.stop:
            notes.append(f"no text is so long that it has n-grams of order {order}")
        elif smoothing == "kneser-ney":
            taken, note = discounts.modified(count[level], order, fallback)
            notes += [note] if note else []
        elif smoothing == "absolute":
            taken = discounts.absolute(count[level], order, discount)
        if order == 1:
            prob[level] = _single(counts, count[level], taken, types)
        else:
            above = trie.level(order - 1)
            interpolate(above.start, above.stop, trie.first, count, kept, link, taken, types, prob, weight)
    return _model(counts, kept, prob, weight, smoothing, dtype, notes=notes)


def _single(counts: Counts, count: Integers, taken: discounts.Discount, types: float) -> Floats:
    """The probabilities of single symbols: what is taken off goes to all of them alike."""
    seen = count > 0
    mass = taken[np.minimum(count, 3)]
    total = count.sum() + types * seen.sum()
    free = (mass[seen].sum() + types * seen.sum()) / total
    uniform = np.full(len(count), 1.0 / _predictable(counts))
    prob = np.where(seen, count - mass, 0.0) / total + free * uniform
    if counts.eos is not None:
        prob[counts.bos] = 0.0
    return np.asarray(prob)


def _add_k(counts: Counts, kept: Truths, k: float, dtype: npt.DTypeLike) -> NGram:
    trie, count = counts.trie, _predicted(counts)
    size = _predictable(counts)
    parent = trie.parents()
    above = parent[trie.size :]
    total = np.bincount(above, count[trie.size :], trie.inner)
    prob = np.empty(len(trie.word))
    prob[: trie.size] = (count[: trie.size] + k) / (count[: trie.size].sum() + k * size)
    prob[trie.size :] = (count[trie.size :] + k) / (total[above] + k * size)
    # What a context has left goes in equal parts to all that did not follow it, or were left out behind it.
    stays = kept[trie.size :]
    followers = np.bincount(above[stays], minlength=trie.inner)
    left = 1.0 - np.bincount(above[stays], prob[trie.size :][stays], trie.inner)
    some = followers < size
    weight = np.where(some, np.maximum(left, 0.0) / np.where(some, size - followers, 1), 0.0)
    return _model(counts, kept, prob, weight, "add-k", dtype, flat=True, absent=-math.log(size))


def _stupid(counts: Counts, kept: Truths, backoff: float, dtype: npt.DTypeLike) -> NGram:
    trie, count = counts.trie, _predicted(counts)
    above = trie.parents()[trie.size :]
    total = np.bincount(above, count[trie.size :], trie.inner)
    prob = np.empty(len(trie.word))
    prob[: trie.size] = count[: trie.size] / count[: trie.size].sum()
    prob[trie.size :] = count[trie.size :] / total[above]
    note = "stupid back-off gives scores, not probabilities: they do not sum to 1, and there is no perplexity"
    absent = math.log(backoff)
    return _model(
        counts, kept, prob, np.full(trie.inner, backoff), "stupid-backoff", dtype, absent=absent, notes=[note]
    )


def _model(
    counts: Counts,
    kept: Truths,
    prob: Floats,
    weight: Floats,
    smoothing: Smoothing,
    dtype: npt.DTypeLike,
    *,
    notes: Sequence[str] = (),
    **more: Any,
) -> NGram:
    trie = counts.trie
    if counts.eos is not None:
        prob[counts.bos] = 0.0
    with np.errstate(divide="ignore"):  # of what is never predicted the logarithm is -inf
        log_prob, log_backoff = np.log(prob).astype(dtype), np.log(weight).astype(dtype)
    if not kept.all():
        trie, log_prob, log_backoff = trie.kept(kept), log_prob[kept], log_backoff[kept[: trie.inner]]
    return NGram(
        trie, log_prob, log_backoff, counts.bos, counts.eos, counts.unknown, smoothing, notes=tuple(notes), **more
    )


def _predicted(counts: Counts) -> Integers:
    """How often each n-gram was seen with its last symbol predicted: ``bos`` before a text was not."""
    count = counts.seen.copy()
    count[counts.bos] = 0 if counts.eos is not None else count[counts.bos] - 1
    return count


def _different_before(counts: Counts, shorter: Integers) -> Integers:
    """(nodes,): how many different symbols stand before each n-gram, itself the end of a longer one.

    N-grams of the highest order have their counts; so have those at the beginning of a text, before which is nothing.
    """
    trie = counts.trie
    if trie.order == 1:
        return _predicted(counts)
    count = counts.seen.copy()
    count[: trie.inner] = np.bincount(shorter[trie.size :], minlength=trie.inner)
    if counts.eos is None:
        for length in range(2, min(trie.order, len(counts.beginning) + 1)):
            count[trie.walk(list(counts.beginning[:length]))] += 1
        return count
    level = slice(counts.bos, counts.bos + 1)
    for _ in range(2, trie.order):
        level = trie.below(level)
        count[level] = counts.seen[level]
    return count


def _predictable(counts: Counts) -> int:
    """How many symbols may be predicted: all but a ``bos`` of lines."""
    return counts.trie.size - (counts.eos is not None)


def _kept(counts: Counts, prune: Sequence[int]) -> Truths:
    """(nodes,), false for n-grams that are left out."""
    order = counts.trie.order
    thresholds = [int(value) for value in prune]
    if thresholds and (thresholds[0] != 0 or thresholds != sorted(thresholds) or len(thresholds) > order):
        raise ConfigError(
            f"prune: expected at most {order} thresholds for a model of order {order}, the first of them 0 and none "
            f"smaller than the one before, received {thresholds}"
        )
    kept = np.ones(len(counts.seen), np.bool_)
    if thresholds:
        for n in range(2, order + 1):
            level = counts.trie.level(n)
            kept[level] = counts.seen[level] > thresholds[min(n, len(thresholds)) - 1]
    return kept


def _check(
    smoothing: str,
    discount: float | None,
    k: float,
    backoff: float,
    fallback: discounts.Three | None,
    dtype: npt.DTypeLike,
) -> None:
    names = get_args(Smoothing)
    if smoothing not in names:
        raise ConfigError(
            f"smoothing: expected one of {', '.join(names)}, received {smoothing!r}{nearest(smoothing, names)}"
        )
    if discount is not None and not 0 < discount <= 1:
        raise ConfigError(f"discount: expected a number above 0 and at most 1, received {discount}")
    if not k > 0:
        raise ConfigError(f"k: expected a number above 0, received {k}")
    if not 0 < backoff <= 1:
        raise ConfigError(f"backoff: expected a number above 0 and at most 1, received {backoff}")
    if fallback is not None and not (len(fallback) == 3 and all(0 <= d <= j for j, d in enumerate(fallback, 1))):
        raise ConfigError(f"fallback: expected three discounts of at most 1, 2 and 3, received {fallback}")
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ConfigError(f"dtype: expected float32 or float64, received {dtype}")
