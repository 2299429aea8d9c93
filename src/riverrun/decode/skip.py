"""Positions that are left out: a chain without them, and what was found for it put back in place."""

from __future__ import annotations

from array_api_compat import array_namespace, device

from riverrun.data.padded import Array, Padded
from riverrun.decode.scorer import Chain
from riverrun.errors import ShapeError


def leave_out(chain: Chain, mask: Array) -> Chain:
    """The chain of the positions where the mask (B, T) is true, moved together as if the others were not there.

    A position keeps its own transitions where there are some for each position: they then are the step from the last
    position that was kept.

    >>> import numpy as np
    >>> chain = Chain(np.arange(3.0).reshape(1, 3, 1), np.zeros((1, 1)), np.zeros(1), np.zeros(1), np.array([3]))
    >>> shorter = leave_out(chain, np.array([[False, True, True]]))
    >>> shorter.emissions[0, :, 0].tolist(), shorter.lengths.tolist()
    ([1.0, 2.0, 0.0], [2])
    """
    xp = array_namespace(chain.emissions)
    kept = _kept(chain, mask)
    order = xp.argsort(xp.astype(~kept, xp.int64), axis=1, stable=True)
    rows = xp.arange(kept.shape[0], device=device(chain.emissions))[:, None]
    return Chain(
        chain.emissions[rows, order],
        chain.transitions[rows, order] if chain.per_position else chain.transitions,
        chain.start,
        chain.stop,
        xp.sum(xp.astype(kept, xp.int64), axis=1),
    )


def put_back(values: Array, chain: Chain, mask: Array) -> Array:
    """Values (B, T, ...) of the shorter chain at the positions of the whole one, 0 at those that were left out.

    >>> import numpy as np
    >>> chain = Chain(np.zeros((1, 3, 1)), np.zeros((1, 1)), np.zeros(1), np.zeros(1), np.array([3]))
    >>> put_back(np.array([[7, 8, 0]]), chain, np.array([[False, True, True]])).tolist()
    [[0, 7, 8]]
    """
    xp = array_namespace(values)
    kept = _kept(chain, mask)
    if kept.shape[1] == 0:
        return values
    place = xp.cumulative_sum(xp.astype(kept, xp.int64), axis=1) - 1
    rows = xp.arange(kept.shape[0], device=device(values))[:, None]
    found = values[rows, xp.clip(place, 0, kept.shape[1] - 1)]
    return xp.where(kept[(...,) + (None,) * (values.ndim - 2)], found, xp.zeros_like(found))


def _kept(chain: Chain, mask: Array) -> Array:
    if mask.shape != chain.emissions.shape[:2]:
        raise ShapeError(
            f"mask: expected (B, T) = {tuple(chain.emissions.shape[:2])}, true where a position counts, "
            f"received {tuple(mask.shape)}"
        )
    xp = array_namespace(mask)
    return Padded(chain.emissions, chain.lengths).mask() & xp.astype(mask, xp.bool)
