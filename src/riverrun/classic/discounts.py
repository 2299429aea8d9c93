"""What is taken from counts to have something for n-grams that were not seen."""

from __future__ import annotations

import numpy as np

from riverrun.classic.arrays import Floats, Integers
from riverrun.errors import DataError

Discount = Floats
"""(4,): of a count of 0, 1, 2, and 3 or more."""

Three = tuple[float, float, float]


def of_counts(counts: Integers) -> Integers:
    """(5,): how many n-grams have a count of 0, 1, 2, 3, 4.

    >>> of_counts(np.array([1, 1, 7, 4])).tolist()
    [0, 2, 0, 0, 1]
    """
    return np.bincount(counts[counts < 5], minlength=5)


def modified(counts: Integers, order: int, fallback: Three | None) -> tuple[Discount, str | None]:
    r"""The three discounts of Chen and Goodman (1998, equation 26) for one order, and what to tell of them.

    .. math:: Y = \frac{n_1}{n_1 + 2 n_2} \qquad D_j = j - (j + 1) \, Y \, \frac{n_{j+1}}{n_j}, \quad j = 1, 2, 3

    with :math:`n_j` n-grams of count j. Where there is none of count 1, 2 or 3, or a discount is below 0 or above j,
    as in small or made-up texts, there is no estimate: then ``fallback`` is taken, or it is an error.

    >>> modified(np.array([1] * 6 + [2] * 3 + [3] * 2 + [4]), 2, None)[0].tolist()
    [0.0, 0.5, 1.0, 2.0]
    """
    n = of_counts(counts)
    if n[1:4].all():
        y = n[1] / (n[1] + 2 * n[2])
        j = np.arange(1, 4)
        found = j - (j + 1) * y * n[2:5] / n[1:4]
        if (found >= 0).all() and (found <= j).all():
            return np.array([0.0, *found]), None
        wrong = f"come out as {', '.join(f'{value:.3g}' for value in found)}, which must be 0 to 1, 2 and 3"
    else:
        wrong = f"need n-grams with counts of 1, 2 and 3, of which there are {n[1]}, {n[2]} and {n[3]}"
    problem = f"the Kneser-Ney discounts of order {order} {wrong}"
    if fallback is None:
        raise DataError(
            f"{problem}: the text is too small or made up. Count more text, choose a lower order, say what to take "
            "instead (fallback = (0.5, 1.0, 1.5) is usual), or take smoothing 'witten-bell'"
        )
    return np.array([0.0, *fallback]), f"{problem}; taken instead: {', '.join(map(str, fallback))}"


def absolute(counts: Integers, order: int, given: float | None) -> Discount:
    r"""One discount for all counts, as given, or as Ney, Essen and Kneser (1994) estimate it.

    .. math:: D = \frac{n_1}{n_1 + 2 n_2}

    >>> absolute(np.array([1] * 6 + [2] * 3), 2, None).tolist()
    [0.0, 0.5, 0.5, 0.5]
    """
    if given is None:
        n = of_counts(counts)
        if not (n[1] and n[2]):
            raise DataError(
                f"the discount of order {order} needs n-grams with counts of 1 and 2, of which there are {n[1]} and "
                f"{n[2]}: the text is too small or made up. Count more text, or give a discount (0.75 is usual)"
            )
        given = n[1] / (n[1] + 2 * n[2])
    return np.array([0.0, given, given, given])
