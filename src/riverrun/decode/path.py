"""What decoding a chain gives, and the score of any path through it."""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import array_namespace, device

from riverrun.data.padded import Array, Padded
from riverrun.decode.scorer import Chain


@dataclass(frozen=True, eq=False)
class Path:
    """One sequence of tags for each row.

    Args:
        tags: (B, T) integers, 0 in the padding and where a mask skipped a position.
        scores: (B,), the score of each path; -inf where the constraints leave no path at all.
    """

    tags: Padded
    scores: Array


@dataclass(frozen=True, eq=False)
class Paths:
    """The best sequences of tags for each row, best first.

    Args:
        tags: (B, K, T) integers, 0 in the padding and for paths that do not exist.
        scores: (B, K), falling; -inf where a row has fewer than K paths.
        lengths: (B,).
    """

    tags: Array
    scores: Array
    lengths: Array

    def rows(self) -> list[list[tuple[list[int], float]]]:
        """For each row its (tags, score) pairs, as many as there are paths."""
        return [
            [(path[:length], score) for path, score in zip(paths, scores, strict=True) if score > float("-inf")]
            for paths, scores, length in zip(
                self.tags.tolist(), self.scores.tolist(), self.lengths.tolist(), strict=True
            )
        ]


def path_scores(chain: Chain, tags: Array) -> Array:
    """(B,), the score of the given tags (B, T) under the chain; what stands in their padding is not read.

    >>> import numpy as np
    >>> chain = Chain(np.array([[[1.0, 2.0], [4.0, 8.0]]]), np.array([[0.0, 0.5], [0.0, 0.0]]), np.zeros(2),
    ...               np.array([0.0, 0.25]), np.array([2]))
    >>> path_scores(chain, np.array([[0, 1]])).tolist()
    [9.75]
    """
    xp = array_namespace(chain.emissions)
    B, T, _ = chain.emissions.shape
    if T == 0:
        return xp.sum(chain.emissions, axis=(1, 2))
    valid = Padded(tags, chain.lengths).mask()
    tags = xp.astype(xp.where(valid, tags, xp.zeros_like(tags)), xp.int64)
    rows = xp.arange(B, device=device(chain.emissions))
    ends = xp.clip(chain.lengths - 1, 0, T - 1)
    parts = xp.take_along_axis(chain.emissions, tags[:, :, None], axis=2)[:, :, 0] + _step_scores(chain, tags)
    inner = xp.sum(xp.where(valid, parts, xp.zeros_like(parts)), axis=1)
    last = tags[rows, ends]
    if chain.order == 2:
        before = xp.where(ends > 0, 1 + tags[rows, xp.clip(ends - 1, 0, T - 1)], xp.zeros_like(last))
        stop = chain.stop[before, last]
    else:
        stop = chain.stop[last]
    return inner + xp.where(chain.lengths > 0, stop, xp.zeros_like(stop))


def _step_scores(chain: Chain, tags: Array) -> Array:
    """(B, T), the score of the step into each position."""
    xp = array_namespace(chain.emissions)
    first, following, before = tags[:, :1], tags[:, 1:], tags[:, :-1]
    if chain.order == 2:
        begin = [chain.start[0][first], chain.start[1 + before[:, :1], following[:, :1]]]
        return xp.concat([*begin, chain.transitions[before[:, :-1], following[:, :-1], following[:, 1:]]], axis=1)
    if chain.per_position:
        B, T = tags.shape
        rows = xp.arange(B, device=device(chain.emissions))[:, None]
        times = xp.arange(1, T, device=device(chain.emissions))[None, :]
        return xp.concat([chain.start[first], chain.transitions[rows, times, before, following]], axis=1)
    return xp.concat([chain.start[first], chain.transitions[before, following]], axis=1)
