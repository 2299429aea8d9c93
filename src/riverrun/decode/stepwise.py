"""Whole rows through a model that can only step: the meaning of ``StepModel.score``, and a way to have it."""

from __future__ import annotations

from array_api_compat import array_namespace, device

from riverrun.data.padded import Array, Padded
from riverrun.decode.state import State
from riverrun.decode.step import StepModel


def score_by_steps(model: StepModel, ids: Padded, state: State) -> tuple[Array, State]:
    """What ``model.score(ids, state)`` must return, by one ``model.step`` for each column.

    Args:
        ids: (B, 1 + T), numpy or of the kind of the model, first the last symbol before the text.
        state: it has read nothing of ``ids``; K is 1.

    Returns:
        (B, T) log probabilities, 0 in the padding, and the state that has read each row but its last symbol.

    >>> import numpy as np
    >>> from riverrun.decode.table import Table
    >>> model = Table(np.log([[0.5, 0.5], [0.25, 0.75]]))
    >>> scores, _ = score_by_steps(model, Padded.of([[0, 1, 1], [0]]), model.start(rows=2))
    >>> np.exp(scores).tolist()
    [[0.5, 0.75], [1.0, 1.0]]
    """
    data, lengths = state.like(ids.zeroed().data), state.like(ids.lengths)
    columns: list[Array] = []
    for t in range(1, data.shape[1]):
        step = model.step(data[:, t - 1 : t], state)
        xp = array_namespace(step.log_probs)
        next_ids = xp.asarray(data[:, t], device=device(step.log_probs))
        scores = xp.take_along_axis(step.log_probs[:, 0, :], next_ids[:, None], axis=1)[:, 0]
        going = t < lengths
        state = state.where(going[:, None], step.state)
        there = xp.asarray(going, device=device(scores))
        columns.append(xp.where(there, scores, xp.zeros_like(scores)))
    if columns:
        return array_namespace(columns[0]).stack(columns, axis=1), state
    # Nothing is scored: the kind and type of the scores are known from one step, which is then forgotten.
    scores = model.step(data[:, :1], state).log_probs
    return scores[:, 0, :0], state
