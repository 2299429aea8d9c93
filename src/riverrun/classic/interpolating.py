"""The sums of interpolated smoothing, context by context."""

from __future__ import annotations

from riverrun.classic.arrays import Floats, Integers, Truths
from riverrun.classic.compiled import loop


@loop
def interpolate(
    start: int,
    stop: int,
    first: Integers,
    count: Integers,
    kept: Truths,
    shorter: Integers,
    discount: Floats,
    types: float,
    prob: Floats,
    weight: Floats,
) -> None:
    """The probabilities of what follows the contexts ``start`` to ``stop``, and the weights of these contexts.

    Args:
        start: the first node of an order.
        stop: the first one of the next.
        first: of the tree.
        count: (nodes,), of each n-gram.
        kept: (nodes,), false for n-grams that are left out: their share goes to the shorter context.
        shorter: (nodes,), the node without the first symbol.
        discount: (4,), what is taken from a count of 0, 1, 2, and 3 or more.
        types: what the shorter context gets for each different symbol that follows.
        prob: (nodes,), of which those of the shorter n-grams are read and those of the children are written.
        weight: (inner,), written.
    """
    for context in range(start, stop):
        total, free = 0.0, 0.0
        for node in range(first[context], first[context + 1]):
            total += count[node]
            free += types
            if kept[node]:
                free += discount[min(count[node], 3)]
            else:
                free += count[node]
        total += types * (first[context + 1] - first[context])
        weight[context] = 1.0
        if total > 0.0:
            weight[context] = free / total
            for node in range(first[context], first[context + 1]):
                own = count[node] - discount[min(count[node], 3)] if kept[node] else 0.0
                prob[node] = own / total + weight[context] * prob[shorter[node]]
