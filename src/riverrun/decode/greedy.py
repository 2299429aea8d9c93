"""The best decision taken at once: for labels that stand alone, and from left to right along a chain."""

from __future__ import annotations

from array_api_compat import array_namespace, device

from riverrun.data.padded import Array, Padded
from riverrun.decode.constraints import Allowed, constrain
from riverrun.decode.path import Path, path_scores
from riverrun.decode.scorer import Chain, Labels
from riverrun.decode.skip import leave_out, put_back


def greedy_labels(scores: Labels) -> Array:
    """(B,), the label of the highest score of each example.

    >>> import numpy as np
    >>> greedy_labels(Labels(np.array([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]]))).tolist()
    [1, 0]
    """
    return array_namespace(scores.logits).argmax(scores.logits, axis=1)


def greedy(chain: Chain, *, allowed: Allowed | None = None, mask: Array | None = None) -> Path:
    """From left to right, the tag of the highest score after those already chosen; never taken back.

    It is what a MEMM was often decoded by, and what ``viterbi`` is measured against; for a chain whose decisions do
    not depend on each other the two agree. The arguments are those of ``viterbi``.

    >>> import numpy as np
    >>> chain = Chain(np.array([[[1.0, 0.9], [0.0, 0.0]]]), np.array([[0.0, 0.0], [0.0, 5.0]]), np.zeros(2),
    ...               np.zeros(2), np.array([2]))
    >>> greedy(chain).tags.data.tolist()  # the best path is 1, 1
    [[0, 0]]
    """
    if mask is not None:
        found = greedy(leave_out(chain, mask), allowed=allowed)
        return Path(Padded(put_back(found.tags.data, chain, mask), chain.lengths), found.scores)
    xp = array_namespace(chain.emissions)
    chain = constrain(chain, allowed)
    if chain.emissions.shape[1] == 0:
        nothing = xp.argmax(chain.emissions, axis=2)
        return Path(Padded(nothing, chain.lengths), path_scores(chain, nothing))
    emissions = Padded(chain.emissions, chain.lengths).zeroed().data
    tags: list[Array] = []
    for t in range(emissions.shape[1]):
        step, stop = _given(chain, tags)
        ending = (chain.lengths == t + 1)[:, None]
        scores = emissions[:, t] + step
        tags.append(xp.argmax(xp.where(ending, scores + stop, scores), axis=1))
    chosen = Padded(xp.stack(tags, axis=1), chain.lengths).zeroed()
    return Path(chosen, path_scores(chain, chosen.data))


def _given(chain: Chain, tags: list[Array]) -> tuple[Array, Array]:
    """The scores (B or 1, C) of the step to the next tag after these, and of stopping with it."""
    t = len(tags)
    if chain.order == 1:
        if t == 0:
            return chain.start[None], chain.stop[None]
        if chain.per_position:
            xp = array_namespace(chain.lengths)
            rows = xp.arange(chain.lengths.shape[0], device=device(chain.lengths))
            return chain.transitions[rows, t, tags[-1]], chain.stop[None]
        return chain.transitions[tags[-1]], chain.stop[None]
    if t == 0:
        return chain.start[:1], chain.stop[:1]
    if t == 1:
        return chain.start[1 + tags[0]], chain.stop[1 + tags[0]]
    return chain.transitions[tags[-2], tags[-1]], chain.stop[1 + tags[-1]]
