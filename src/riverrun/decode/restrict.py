"""Which symbols may come next: a vocabulary that is narrowed once, or anew for each prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace

from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import NEGATIVE_INFINITY, like
from riverrun.errors import ConfigError, ShapeError

Mask = npt.NDArray[np.bool_]

Ask = Callable[[Padded, npt.NDArray[np.int64]], Mask]
"""Asked before each symbol: given what N texts consist of, a ``Padded`` (N, T) of the prompt and what was chosen, and
the row of the batch (N,) that each belongs to, it returns a mask (V,) or (N, V), true for what may come next."""

Allowed = Mask | Ask
"""What may come next: always the same (V,), or what a function says."""


def vocabulary(size: int, *, only: Iterable[int] | None = None, without: Iterable[int] = ()) -> Mask:
    """(V,), true for the ids that may be used: all of them or ``only`` some, ``without`` others.

    A text ends by itself only where its ``eos`` may be used.

    >>> vocabulary(4, only=[1, 2, 3], without=[2]).tolist()
    [False, True, False, True]
    """
    mask = np.full(size, only is None)
    if only is not None:
        mask[_checked(only, size)] = True
    mask[_checked(without, size)] = False
    return mask


def restrict(log_probs: Array, mask: Mask) -> Array:
    """Log probabilities (N, V) with -inf where the mask (V,) or (N, V) is false.

    >>> restrict(np.zeros((1, 2)), np.array([True, False])).tolist()
    [[0.0, -inf]]
    """
    mask = np.asarray(mask)
    if mask.dtype != np.bool_ or mask.shape not in (log_probs.shape[1:], tuple(log_probs.shape)):
        raise ShapeError(
            f"allowed: expected booleans of the shape {tuple(log_probs.shape[1:])} or {tuple(log_probs.shape)}, true "
            f"for what may come next, received {mask.dtype} of the shape {mask.shape}"
        )
    xp = array_namespace(log_probs)
    return xp.where(like(mask, log_probs), log_probs, xp.full_like(log_probs, NEGATIVE_INFINITY))


def _checked(ids: Iterable[int], size: int) -> npt.NDArray[Any]:
    found = np.fromiter(ids, np.int64)
    if len(found) and not 0 <= found.min() <= found.max() < size:
        raise ConfigError(f"vocabulary: expected ids from 0 to {size - 1}, received {found.min()} to {found.max()}")
    return found
