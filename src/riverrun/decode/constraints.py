"""Forbidden steps: a table of what may follow what becomes -inf in a chain's scores, once, before any decoder runs."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace

from riverrun.data.padded import Array
from riverrun.decode.backend import NEGATIVE_INFINITY, like
from riverrun.decode.scorer import Chain
from riverrun.errors import ShapeError


class Allowed(Protocol):
    """Which tags may begin, follow each other and end, as ``text.tags.allowed`` says it of a tag scheme."""

    @property
    def transitions(self) -> npt.NDArray[np.bool_]:
        """(C, C), true where the column may follow the row."""
        ...

    @property
    def start(self) -> npt.NDArray[np.bool_]:
        """(C,), true where a sequence may begin."""
        ...

    @property
    def stop(self) -> npt.NDArray[np.bool_]:
        """(C,), true where a sequence may end."""
        ...


def constrain(chain: Chain, allowed: Allowed | None) -> Chain:
    """The chain with -inf for every start, step and stop that is not allowed; the same chain for None.

    >>> from types import SimpleNamespace
    >>> scores = np.zeros((1, 2, 2)), np.zeros((2, 2)), np.zeros(2), np.zeros(2), np.array([2])
    >>> no_repeat = SimpleNamespace(transitions=~np.eye(2, dtype=bool), start=np.ones(2, bool), stop=np.ones(2, bool))
    >>> constrain(Chain(*scores), no_repeat).transitions.tolist()
    [[-inf, 0.0], [0.0, -inf]]
    """
    if allowed is None:
        return chain
    tags = chain.emissions.shape[-1]
    if allowed.transitions.shape != (tags, tags):
        raise ShapeError(
            f"The constraint is for {allowed.transitions.shape[0]} tags, the scores are for {tags}. "
            "Make the constraint from the labels of the model that made the scores."
        )
    steps, start, stop = (like(part, chain.emissions) for part in (allowed.transitions, allowed.start, allowed.stop))
    if chain.order == 2:  # the first tag, then the second tag after each first one
        start = array_namespace(start).concat([start[None], steps])
    return Chain(
        chain.emissions,
        _where(steps, chain.transitions),
        _where(start, chain.start),
        _where(stop, chain.stop),
        chain.lengths,
    )


def _where(allowed: Array, scores: Array) -> Array:
    xp = array_namespace(scores)
    return xp.where(allowed, scores, xp.full_like(scores, NEGATIVE_INFINITY))
