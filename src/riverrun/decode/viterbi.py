"""The best path, and the k best paths, through a chain: exact, by dynamic programming."""

from __future__ import annotations

from array_api_compat import array_namespace

from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import NEGATIVE_INFINITY, topk
from riverrun.decode.constraints import Allowed, constrain
from riverrun.decode.lattice import History, Lattice
from riverrun.decode.path import Path, Paths
from riverrun.decode.scorer import Chain
from riverrun.decode.skip import leave_out, put_back
from riverrun.errors import ConfigError


def viterbi(chain: Chain, *, allowed: Allowed | None = None, mask: Array | None = None) -> Path:
    r"""The path of the highest score for each row.

    .. math:: v_0(k) = \text{start}_k + e_{0,k} \qquad v_t(k) = e_{t,k} + \max_i \left( v_{t-1}(i) + A_{i,k} \right)

    Args:
        chain: the scores; of the first order, with transitions of its own for each position, or of the second order.
        allowed: only steps that are true here are taken.
        mask: (B, T), positions where it is false are skipped as if they were not there.

    >>> import numpy as np
    >>> chain = Chain(np.array([[[1.0, 0.0], [0.0, 0.5]]]), np.array([[2.0, 0.0], [0.0, 0.0]]), np.zeros(2),
    ...               np.zeros(2), np.array([2]))
    >>> best = viterbi(chain)
    >>> best.tags.data.tolist(), best.scores.tolist()
    ([[0, 0]], [3.0])
    """
    if mask is not None:
        found = viterbi(leave_out(chain, mask), allowed=allowed)
        return Path(Padded(put_back(found.tags.data, chain, mask), chain.lengths), found.scores)
    xp = array_namespace(chain.emissions)
    chain = constrain(chain, allowed)
    if chain.emissions.shape[1] == 0:
        return Path(Padded(_no_tags(chain), chain.lengths), xp.sum(chain.emissions, axis=(1, 2)))
    if _is_independent(chain):
        return _each_alone(chain)
    lattice = Lattice.of(chain)
    forward = lattice.forward(lambda scores, axis: xp.max(scores, axis=axis))
    final = xp.reshape(forward[-1] + lattice.stop, (lattice.histories, len(chain.lengths)))
    history = _unravel(xp.argmax(final, axis=0), lattice)
    tags = [history[-1]]
    # The predecessor is looked up again on the way back, among C, instead of kept on the way for all C * C.
    for t in range(len(forward) - 1, 0, -1):
        previous = (xp.argmax(lattice.arriving(forward[t - 1], t, history), axis=0), *_rest(history))
        history = _while_going(t < chain.lengths, previous, history)
        tags.append(history[-1])
    scores = xp.max(final, axis=0)
    tags_by_row = Padded(xp.stack(tags[::-1], axis=1), chain.lengths).zeroed()
    return Path(tags_by_row, xp.where(chain.lengths > 0, scores, xp.zeros_like(scores)))


def viterbi_best(chain: Chain, k: int, *, allowed: Allowed | None = None, mask: Array | None = None) -> Paths:
    """The k paths of the highest scores for each row, best first; fewer where fewer exist.

    A path with the score -inf (a forbidden one) does not exist. The other arguments are those of ``viterbi``.

    >>> import numpy as np
    >>> chain = Chain(np.array([[[1.0, 0.0], [0.0, 0.5]]]), np.array([[2.0, 0.0], [0.0, 0.0]]), np.zeros(2),
    ...               np.zeros(2), np.array([2]))
    >>> viterbi_best(chain, 2).rows()
    [[([0, 0], 3.0), ([0, 1], 1.5)]]
    """
    if k < 1:
        raise ConfigError(f"viterbi_best: k must be at least 1, received {k}")
    xp = array_namespace(chain.emissions)
    if mask is not None:
        found = viterbi_best(leave_out(chain, mask), k, allowed=allowed)
        back = put_back(xp.permute_dims(found.tags, (0, 2, 1)), chain, mask)
        return Paths(xp.permute_dims(back, (0, 2, 1)), found.scores, chain.lengths)
    chain = constrain(chain, allowed)
    positions = chain.emissions.shape[1]
    if positions == 0:
        return _best_of_nothing(chain, k)
    lattice = Lattice.of(chain)
    first = lattice.first()
    scores = xp.stack([first] + [xp.full_like(first, NEGATIVE_INFINITY)] * (k - 1))  # (k, H, B)
    pointers: list[Array] = []
    for t in range(1, positions):
        scores, pointer = _advance_best(lattice, scores, t)
        pointers.append(pointer)
    final = xp.reshape(scores + lattice.stop, (k * lattice.histories, len(chain.lengths)))
    best, place = topk(final, k, axis=0)
    rank, history = place // lattice.histories, _unravel(place % lattice.histories, lattice)  # each (k, B)
    tags = [history[-1]]
    for t in range(positions - 1, 0, -1):
        middle = _rest(history)
        pointer = pointers[t - 1][(rank, *middle, history[-1], lattice.rows())]
        width = first.shape[0]
        previous = (pointer // width, pointer % width, *middle)
        rank, *new = _while_going(t < chain.lengths, previous, (rank, *history))
        history = tuple(new)
        tags.append(history[-1])
    found = xp.permute_dims(xp.stack(tags[::-1]), (2, 1, 0))  # (B, k, T)
    best = xp.permute_dims(best, (1, 0))
    best = xp.where((chain.lengths > 0)[:, None], best, _best_of_nothing(chain, k).scores)
    valid = Padded(chain.emissions, chain.lengths).mask()[:, None, :] & (best > NEGATIVE_INFINITY)[:, :, None]
    return Paths(xp.where(valid, found, xp.zeros_like(found)), best, chain.lengths)


def _advance_best(lattice: Lattice, scores: Array, t: int) -> tuple[Array, Array]:
    """The k best ways (k, H, B) to each history after position t, and where each came from: k' * width + tag."""
    xp = array_namespace(scores)
    k, width = scores.shape[:2]
    ways = scores[..., None, :] + lattice.step(t)
    following, pointer = topk(xp.reshape(ways, (k * width, *ways.shape[2:])), k, axis=0)
    following = following + lattice.emissions[t]
    if lattice.order == 2:
        following = xp.concat([xp.full_like(following[:, :1], NEGATIVE_INFINITY), following], axis=1)
    return xp.where(t < lattice.lengths, following, scores), pointer


def _best_of_nothing(chain: Chain, k: int) -> Paths:
    """What there is in rows of length 0: the empty path, with the score 0."""
    xp = array_namespace(chain.emissions)
    tags, zeros = _no_tags(chain), xp.zeros_like(chain.emissions[:, :0, 0].sum(1))[:, None]
    scores = xp.concat([zeros] + [xp.full_like(zeros, NEGATIVE_INFINITY)] * (k - 1), axis=1)
    return Paths(xp.stack([tags] * k, axis=1), scores, chain.lengths)


def _no_tags(chain: Chain) -> Array:
    """(B, 0) of integers."""
    xp = array_namespace(chain.emissions)
    return xp.argmax(chain.emissions[:, :0], axis=2)


def _unravel(index: Array, lattice: Lattice) -> History:
    """The history of an index into the flattened histories."""
    if lattice.order == 1:
        return (index,)
    tags = lattice.emissions.shape[1]
    return index // tags, index % tags


def _rest(history: History) -> list[Array]:
    """What a history keeps of the one before it."""
    return [part - 1 for part in history[:-1]]


def _while_going(going: Array, new: tuple[Array, ...], old: tuple[Array, ...]) -> tuple[Array, ...]:
    xp = array_namespace(going)
    return tuple(xp.where(going, a, b) for a, b in zip(new, old, strict=True))


def _is_independent(chain: Chain) -> bool:
    """Whether no decision depends on another, so that each position can be decided alone."""
    shared = chain.transitions.ndim == 2
    return shared and not any(bool(part.any()) for part in (chain.transitions, chain.start, chain.stop))


def _each_alone(chain: Chain) -> Path:
    xp = array_namespace(chain.emissions)
    valid = Padded(chain.emissions, chain.lengths).mask()
    best = xp.max(chain.emissions, axis=2)
    return Path(
        Padded(xp.argmax(chain.emissions, axis=2), chain.lengths).zeroed(),
        xp.sum(xp.where(valid, best, xp.zeros_like(best)), axis=1),
    )
