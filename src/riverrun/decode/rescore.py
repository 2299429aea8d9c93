"""Lists of candidates, from a recogniser or a translator, ranked anew with the help of a language model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from riverrun.data.padded import Padded
from riverrun.decode.step import StepModel
from riverrun.decode.stream import Stream
from riverrun.errors import ConfigError, ShapeError

Candidate = tuple[Sequence[int], float]  # its symbols, without ``eos``, and its score


def rescore(
    model: StepModel,
    lists: Sequence[Sequence[Candidate]],
    weight: float,
    *,
    stream: Stream | None = None,
    end: bool = True,
    batch: int = 64,
) -> list[list[Candidate]]:
    r"""Each list with new scores, best first; equal ones in their order.

    .. math:: s' = s + w \log P(\text{symbols})

    Args:
        lists: of candidates, with scores in natural logarithm.
        weight: w.
        stream: what stands before the candidates of each list, one row for each; the beginning of a text without it.
        end: whether a candidate is a whole text, so that the probability of its end counts too.
        batch: candidates that are read side by side.

    >>> from riverrun.decode.table import Table
    >>> model = Table(np.log([[0.25, 0.5, 0.25], [0.25, 0.25, 0.5], [0.5, 0.25, 0.25]]), eos=2)
    >>> [(ids, round(score, 3)) for ids, score in rescore(model, [[([0], 0.0), ([1], -0.5)]], 1.0)[0]]
    [([1], -1.886), ([0], -2.773)]
    """
    if not 0 <= weight < math.inf:
        raise ConfigError(f"rescore: expected a weight from 0 on, received {weight}")
    if batch < 1:
        raise ConfigError(f"rescore: expected a batch of at least 1 candidate, received {batch}")
    stream = Stream.begin(model, rows=len(lists)) if stream is None else stream
    if len(stream) != len(lists):
        raise ShapeError(f"rescore: expected a text before each of {len(lists)} lists, received {len(stream)}")
    tail = [model.eos] if end and model.eos is not None else []
    candidates = [(row, [*ids, *tail], score) for row, some in enumerate(lists) for ids, score in some]
    # Candidates of about the same length side by side, so that little is computed for padding.
    order = sorted(range(len(candidates)), key=lambda k: len(candidates[k][1]))
    scores = np.zeros(len(candidates))
    if weight == 0:  # then a candidate that the model holds for impossible keeps its score
        scores, order = np.array([score for _, _, score in candidates]), []
    for first in range(0, len(order), batch):
        some = order[first : first + batch]
        rows = stream.keep([candidates[k][0] for k in some])
        log_probs, _ = rows.feed(model, Padded.of([candidates[k][1] for k in some]))
        scores[some] = [candidates[k][2] for k in some] + weight * log_probs.sum(axis=1)
    found, result = iter(scores.tolist()), []
    for some_candidates in lists:
        scored = [(ids, next(found)) for ids, _ in some_candidates]
        result.append(sorted(scored, key=lambda candidate: -candidate[1]))
    return result
