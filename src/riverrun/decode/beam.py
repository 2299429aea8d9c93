"""Beam search: the best texts of a step model, several hypotheses of each source at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace

from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import NEGATIVE_INFINITY, double, like, nearby, ranked, to_numpy
from riverrun.decode.length import Coverage, LengthPenalty, no_penalty
from riverrun.decode.repetition import Control
from riverrun.decode.restrict import Allowed, Ask, restrict, vocabulary
from riverrun.decode.seen import follow, read_prompt
from riverrun.decode.state import State
from riverrun.decode.step import Step, StepModel
from riverrun.decode.stream import Stream
from riverrun.errors import ConfigError, ShapeError

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Hypothesis:
    """A text that was found.

    Args:
        ids: its symbols behind the prompt, without ``eos``.
        score: what it was ranked by: the log probability after the penalties.
        log_prob: the sum of the log probabilities of its symbols and of ``eos``, after ``control``.
        ended: whether it ends by itself; false where it was cut off at the limit.
    """

    ids: tuple[int, ...]
    score: float
    log_prob: float
    ended: bool


@dataclass(frozen=True, eq=False)
class _Beam:
    """The hypotheses that still grow, K of each of B' sources, all equally long.

    Args:
        rows: (B',), which rows of the batch they are for.
        state: of the model, (B', K, ...).
        last: (B', K), the symbol that each is to read.
        ids: (B', K, t), what each has chosen.
        log_probs: (B', K); -inf where there is no hypothesis.
    """

    rows: Ids
    state: State
    last: Ids
    ids: Ids
    log_probs: Floats

    def keep(self, some: Ids) -> _Beam:
        return _Beam(self.rows[some], self.state.keep(some), self.last[some], self.ids[some], self.log_probs[some])


@dataclass(frozen=True, eq=False)
class _Candidates:
    """The best ways to go on, best first, N for each source; each array is (B', N).

    Args:
        parent: the hypothesis that goes on.
        symbol: what it goes on with.
        score: after the penalties; -inf where there is no such way.
        log_prob: before them.
    """

    parent: Ids
    symbol: Ids
    score: Floats
    log_prob: Floats


def beam_search(
    model: StepModel,
    stream: Stream,
    *,
    width: int,
    limit: int,
    best: int = 1,
    prompt: Padded | None = None,
    before: Padded | None = None,
    length: LengthPenalty = no_penalty,
    coverage: Coverage | None = None,
    control: Control | None = None,
    allowed: Allowed | None = None,
    minimum: int = 0,
    patience: float = 1.0,
) -> list[list[Hypothesis]]:
    """For each row of a stream the texts of the highest scores that the beam finds, best first.

    At each step every hypothesis is continued by every symbol, and the best 2 * ``width`` continuations are looked at.
    Those that end, among the best ``width`` of them, are set aside as finished; of the others the best ``width`` are
    the next hypotheses. A row is done

    - when ``patience * width`` texts are finished (Kasai et al. 2022; 1 is what most toolkits do), or
    - when ``best`` texts are finished and no hypothesis can come to a higher score than these, or
    - when no hypothesis is left, or at the limit, where those that are left are cut off. They come behind all
      finished ones, for they are not texts of the model; of a model without ``eos`` there are no others.

    With width 1 it is greedy search. With a width of at least the number of texts that there are up to the limit,
    nothing falls out of the beam: it is the search of all texts.

    Args:
        stream: where the rows begin; nothing changes it.
        width: K, hypotheses of each row.
        limit: symbols that a text may have, ``eos`` included.
        best: how many texts are wanted of each row; there may be fewer.
        prompt: (B, T) symbols that the texts must begin with, ragged or not. They count neither in the score nor in
            the length, nor are they returned.
        before: (B, T) symbols that the stream has read already, for ``allowed`` and ``control`` to know of.
        length: the penalty by length, as in ``decode.length``.
        coverage: what is added for the ``extras`` of a step, as ``length.coverage_penalty``; never above 0.
        control: against repetition, as ``repetition.control`` makes it. It may lower log probabilities, not raise them.
        allowed: a mask (V,), or a function of what was seen (N, T) and the rows (N,) that gives one for each step.
        minimum: symbols before ``eos`` may come.
        patience: how many times ``width`` texts are finished before a row is done; may be infinite.

    >>> from riverrun.decode.table import Table
    >>> model = Table(np.log([[0.1, 0.5, 0.4], [0.4, 0.2, 0.4], [0.05, 0.05, 0.9]]), eos=2)
    >>> for found in beam_search(model, Stream.begin(model), width=2, limit=4, best=2)[0]:
    ...     print(found.ids, round(float(np.exp(found.log_prob)), 3))
    () 0.4
    (1,) 0.2
    """
    _check(model, width, limit, best, minimum, patience)
    stream, past = read_prompt(model, stream, prompt, before)
    no_eos = None if model.eos is None else vocabulary(model.size, without=[model.eos])

    def narrowed(log_probs: Array, beam: _Beam) -> Array:
        """(B', K, V) after all that forbids or penalises symbols."""
        B, K, V = log_probs.shape
        flat = array_namespace(log_probs).reshape(log_probs, (B * K, V))
        if no_eos is not None and beam.ids.shape[2] < minimum:
            flat = restrict(flat, no_eos)
        if control is not None or callable(allowed):
            seen = follow(past.select(np.repeat(beam.rows, K)), _rectangle(beam.ids))
            if callable(allowed):
                flat = restrict(flat, _asked(allowed, seen, beam, V))
            if control is not None:
                flat = control(flat, seen)
        if allowed is not None and not callable(allowed):
            flat = restrict(flat, allowed)
        return array_namespace(flat).reshape(flat, (B, K, V))

    finished: list[list[Hypothesis]] = [[] for _ in range(len(stream))]
    cut: list[list[Hypothesis]] = [[] for _ in range(len(stream))]
    beam = _Beam(
        np.arange(len(stream)),
        stream.state,
        stream.last[:, None],
        np.zeros((len(stream), 1, 0), np.int64),
        np.zeros((len(stream), 1)),
    )
    for n in range(1, limit + 1):
        if not len(beam.rows):
            break
        step = model.step(beam.state.like(beam.last), beam.state)
        scores = narrowed(double(_expected(step, beam, model.size)), beam)
        offset = None if coverage is None else _offset(coverage, step, beam)
        found = _candidates(scores, beam, n, 2 * width, length, offset)
        ends = (found.symbol == model.eos) & (found.score > NEGATIVE_INFINITY)
        for place in np.argwhere(ends[:, :width]):
            _add(finished, beam, found, tuple(place), ended=True)
        goes = ~ends & (found.score > NEGATIVE_INFINITY)
        if n == limit:
            for place in np.argwhere(goes):
                _add(cut, beam, found, tuple(place), ended=False)
            break
        beam = _continued(beam, step.state, found, goes, width)
        done = [
            _is_done(finished[row], log_probs, best, patience * width, (n + 1, limit), length)
            for row, log_probs in zip(beam.rows.tolist(), beam.log_probs, strict=True)
        ]
        if any(done):
            beam = beam.keep(np.flatnonzero(~np.array(done)))
    return [(_sorted(ended) + _sorted(open_))[:best] for ended, open_ in zip(finished, cut, strict=True)]


def _candidates(
    scores: Array, beam: _Beam, n: int, some: int, length: LengthPenalty, offset: Floats | None
) -> _Candidates:
    """The best continuations by one symbol, after which all texts have n symbols."""
    xp = array_namespace(scores)
    B, K, V = scores.shape
    totals = like(beam.log_probs, scores)[:, :, None] + scores
    ranking = length(totals, n)
    if offset is not None:
        ranking = ranking + like(offset, scores)[:, :, None]
    values, index = ranked(xp.reshape(ranking, (B, K * V)), min(some, K * V))
    log_probs = xp.take_along_axis(xp.reshape(totals, (B, K * V)), index, axis=1)
    index = to_numpy(index)
    return _Candidates(index // V, index % V, to_numpy(values), to_numpy(log_probs))


def _continued(beam: _Beam, state: State, found: _Candidates, goes: npt.NDArray[np.bool_], width: int) -> _Beam:
    """The next hypotheses: the first ``width`` candidates that go on."""
    K = min(width, int(goes.sum(axis=1).max(initial=0)))
    order = np.argsort(~goes, axis=1, stable=True)[:, :K]
    there, log_probs = np.take_along_axis(goes, order, axis=1), np.take_along_axis(found.log_prob, order, axis=1)
    parent, symbol = np.take_along_axis(found.parent, order, axis=1), np.take_along_axis(found.symbol, order, axis=1)
    ids = np.concatenate([np.take_along_axis(beam.ids, parent[:, :, None], axis=1), symbol[:, :, None]], axis=2)
    return _Beam(beam.rows, state.select(parent), symbol, ids, np.where(there, log_probs, NEGATIVE_INFINITY))


def _is_done(
    finished: list[Hypothesis],
    log_probs: Floats,
    best: int,
    enough: float,
    lengths: tuple[int, int],
    length: LengthPenalty,
) -> bool:
    """Whether a row needs no further step, given its hypotheses and the lengths that they can still come to."""
    most = float(log_probs.max(initial=NEGATIVE_INFINITY))
    if most == NEGATIVE_INFINITY or len(finished) >= enough:
        return True
    if len(finished) < best:
        return False
    # Symbols to come only lower the log probability, and the score rises or falls with the length: one end is best.
    bound = max(float(length(most, n)) for n in lengths)
    return _sorted(finished)[best - 1].score >= bound


def _add(to: list[list[Hypothesis]], beam: _Beam, found: _Candidates, place: tuple[int, int], *, ended: bool) -> None:
    ids = beam.ids[place[0], found.parent[place]].tolist()
    if not ended:
        ids.append(int(found.symbol[place]))
    to[beam.rows[place[0]]].append(
        Hypothesis(tuple(ids), float(found.score[place]), float(found.log_prob[place]), ended)
    )


def _sorted(found: list[Hypothesis]) -> list[Hypothesis]:
    return sorted(found, key=lambda hypothesis: -hypothesis.score)  # equal ones stay as they were found


def _asked(allowed: Ask, seen: Padded, beam: _Beam, size: int) -> npt.NDArray[np.bool_]:
    """(B' * K, V): the function is asked about hypotheses that there are; the others have no symbol to lose."""
    there = np.flatnonzero(beam.log_probs.reshape(-1) > NEGATIVE_INFINITY)
    rows = np.repeat(beam.rows, beam.log_probs.shape[1])[there]
    mask = np.ones((beam.log_probs.size, size), np.bool_)
    mask[there] = allowed(seen.select(there), rows)
    return mask


def _offset(coverage: Coverage, step: Step, beam: _Beam) -> Floats:
    offset = np.asarray(to_numpy(coverage(step.extras, beam.rows)), np.float64)
    if offset.shape != beam.log_probs.shape:
        raise ShapeError(f"coverage: expected {beam.log_probs.shape}, received {offset.shape}")
    if (offset > 0).any():
        raise ConfigError(f"coverage: expected penalties, none above 0, received {offset.max()}")
    return offset


def _expected(step: Step, beam: _Beam, size: int) -> Array:
    """The log probabilities of a step, after a look at their shape and at whether they are numbers."""
    log_probs = nearby(step.log_probs)
    expected = (*beam.log_probs.shape, size)
    if tuple(log_probs.shape) != expected:
        raise ShapeError(f"step: expected log_probs {expected} of the model, received {tuple(log_probs.shape)}")
    if not bool(array_namespace(log_probs).all(log_probs < math.inf)):  # NaN is not below anything
        raise ConfigError(
            "beam search: expected log probabilities, received NaN or +inf. The weights of the model or its state "
            "are damaged."
        )
    return log_probs


def _rectangle(ids: Ids) -> Padded:
    """(B', K, t) as rows that are all full."""
    B, K, t = ids.shape
    return Padded(ids.reshape(B * K, t), np.full(B * K, t))


def _check(model: StepModel, width: int, limit: int, best: int, minimum: int, patience: float) -> None:
    if width < 1:
        raise ConfigError(f"width: expected a number of hypotheses, at least 1, received {width}")
    if not 1 <= best <= width:
        raise ConfigError(f"best: expected a number of texts from 1 to the width ({width}), received {best}")
    if limit < 1:
        raise ConfigError(f"limit: expected a number of symbols, at least 1, received {limit}")
    if not 0 <= minimum <= limit:
        raise ConfigError(f"minimum: expected a number from 0 to the limit ({limit}), received {minimum}")
    if minimum and model.eos is None:
        raise ConfigError(
            f"minimum: the model has no symbol that ends a text, so nothing is too short; remove {minimum}"
        )
    if not patience * width >= 1:
        raise ConfigError(f"patience: expected a number from {1 / width} on, received {patience}")
