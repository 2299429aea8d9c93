"""Texts written symbol by symbol: greedy or by chance, streamed as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace

from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import double, like, nearby, to_numpy
from riverrun.decode.filters import Filter
from riverrun.decode.repetition import Control
from riverrun.decode.restrict import Allowed, restrict, vocabulary
from riverrun.decode.sample import Seed, draw, generators, most_probable
from riverrun.decode.seen import follow, read_prompt
from riverrun.decode.state import State
from riverrun.decode.step import StepModel
from riverrun.decode.stop import StopText
from riverrun.decode.stream import Stream
from riverrun.errors import ConfigError, ShapeError
from riverrun.text.units import Pieces

Ids = npt.NDArray[np.int64]
End = Literal["eos", "stop", "limit"]


@dataclass(frozen=True)
class Symbol:
    """One symbol that was chosen.

    Args:
        row: of which text.
        id: the symbol.
        log_prob: its logarithm of probability under the model, before any filter or penalty.
        text: what can be shown now; it may lag behind where a character or a stop string may be on its way.
        end: why the text ends with this symbol: the model's ``eos``, a stop string or the limit; None where it goes on.
    """

    row: int
    id: int
    log_prob: float
    text: str = ""
    end: End | None = None


@dataclass(frozen=True)
class Text:
    """A whole text.

    Args:
        ids: the symbols that were chosen, ``eos`` included.
        log_probs: of each of them, under the model.
        text: without ``eos``, and up to the stop string.
        end: why it ends; None where not one symbol was chosen.
    """

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    text: str
    end: End | None


@dataclass(frozen=True, eq=False)
class _Live:
    """The texts that still grow: their rows in the batch, and what belongs to each."""

    rows: Ids
    stream: Stream
    seen: Padded

    def keep(self, some: Ids) -> _Live:
        return _Live(self.rows[some], self.stream.keep(some), self.seen.select(some))


_Choose = Callable[[Array, _Live, int], Ids]  # scores (N, V), the texts and how many symbols they have


class _Writer:
    """The text of one row, from the symbols that it is given."""

    def __init__(
        self, pieces: Callable[[], Pieces] | None, stops: Sequence[str], past: Sequence[int], eos: int | None
    ) -> None:
        self._pieces = pieces() if pieces is not None else None
        self._stop = StopText(stops)
        self._eos = eos
        if self._pieces is not None:
            for id in past:  # a character may have begun there
                self._pieces.feed(id)

    def write(self, id: int, *, last: bool) -> tuple[str, End | None]:
        """What can be shown after this symbol, and whether it is the end."""
        text = ""
        if self._pieces is not None and id != self._eos:
            text = self._stop.feed(self._pieces.feed(id))
        if not self._stop.stopped and (last or id == self._eos) and self._pieces is not None:
            text += self._stop.feed(self._pieces.rest()) + self._stop.rest()
        if self._stop.stopped:
            return text, "stop"
        if id == self._eos:
            return text, "eos"
        return text, "limit" if last else None


class Generation(Iterator[Symbol]):
    """The symbols as they are chosen, row after row at each step. Made by ``generate``.

    Attributes:
        rows: how many texts there are.
    """

    def __init__(
        self,
        model: StepModel,
        live: _Live,
        choose: _Choose,
        writers: Sequence[_Writer],
        limit: int | None,
        looks: bool,
    ) -> None:
        self.rows = len(live.rows)
        self._model = model
        self._live = live
        self._ended: list[_Live] = []
        self._choose = choose
        self._writers = writers
        self._limit = limit
        self._looks = looks
        self._symbols = self._steps()

    def __next__(self) -> Symbol:
        return next(self._symbols)

    @property
    def stream(self) -> Stream:
        """Where all texts are now, to go on from: behind the whole step that the last symbol seen belongs to.

        A text that has ended is where it ended.
        """
        parts = [*self._ended, self._live] if len(self._live.rows) or not self._ended else self._ended
        order = np.argsort(np.concatenate([part.rows for part in parts]))
        last = np.concatenate([part.stream.last for part in parts])
        return Stream(State.join([part.stream.state for part in parts]), last).keep(order)

    def finish(self) -> list[Text]:
        """Everything from here to the end, one text for each row."""
        symbols: list[list[Symbol]] = [[] for _ in range(self.rows)]
        for symbol in self:
            symbols[symbol.row].append(symbol)
        return [
            Text(
                tuple(symbol.id for symbol in row),
                tuple(symbol.log_prob for symbol in row),
                "".join(symbol.text for symbol in row),
                row[-1].end if row else None,
            )
            for row in symbols
        ]

    def _steps(self) -> Iterator[Symbol]:
        for position in count() if self._limit is None else range(self._limit):
            if not len(self._live.rows):
                return
            yield from self._step(position)

    def _step(self, position: int) -> list[Symbol]:
        """One symbol for each text that still grows; those that end with it are put aside."""
        live, size = self._live, self._model.size
        state, last = live.stream.state, live.stream.last
        step = self._model.step(state.like(last[:, None]), state)
        if tuple(step.log_probs.shape) != (len(last), 1, size):
            raise ShapeError(
                f"step: expected log_probs {(len(last), 1, size)} of the model, received {tuple(step.log_probs.shape)}"
            )
        scores = nearby(step.log_probs)[:, 0, :]
        ids = self._choose(scores, live, position)
        chosen = array_namespace(scores).take_along_axis(scores, like(ids[:, None], scores), axis=-1)
        symbols = [
            Symbol(row, id, log_prob, *self._writers[row].write(id, last=position + 1 == self._limit))
            for row, id, log_prob in zip(live.rows.tolist(), ids.tolist(), to_numpy(chosen)[:, 0].tolist(), strict=True)
        ]
        # What nobody looks at is not kept: a text without end must not grow in memory.
        seen = follow(live.seen, Padded(ids[:, None], np.ones_like(ids))) if self._looks else live.seen
        self._live = _Live(live.rows, Stream(step.state, ids), seen)
        ended = np.array([symbol.end is not None for symbol in symbols])
        if ended.any():
            self._ended.append(self._live.keep(np.flatnonzero(ended)))
            self._live = self._live.keep(np.flatnonzero(~ended))
        return symbols


def generate(
    model: StepModel,
    stream: Stream,
    *,
    limit: int | None,
    seed: Seed | None = None,
    samples: int = 1,
    prompt: Padded | None = None,
    before: Padded | None = None,
    filter: Filter | None = None,
    control: Control | None = None,
    allowed: Allowed | None = None,
    minimum: int = 0,
    past_eos: bool = False,
    pieces: Callable[[], Pieces] | None = None,
    stops: Sequence[str] = (),
) -> Generation:
    """Go on with each text of a stream until it ends.

    At each step the model's distribution is narrowed by ``allowed`` and ``minimum``, changed by ``control``, then by
    ``filter``; then a symbol is taken. Texts do not see each other, and one that has ended is not computed any more.

    Args:
        stream: where the B texts begin; nothing changes it.
        limit: symbols that a text may be given, ``eos`` included; None for no limit.
        seed: what to draw with: text i draws from the i-th child of a seed or generator, or from the i-th of given
            generators. None draws nothing: the most probable symbol is taken each time.
        samples: texts for each row of the stream, N = B * samples in all; those of row i are i * samples and following.
        prompt: (B, T) symbols that the texts must begin with, ragged or not; read first, not chosen.
        before: (B, T) symbols that the stream has read already, for ``allowed``, ``control`` and ``pieces`` to know of.
        filter: which symbols may be drawn, as ``filters.compose`` makes it.
        control: against repetition, as ``repetition.control`` makes it; it sees ``before``, the prompt and the text.
        allowed: a mask (V,), or a function of what was seen (N, T) and the rows (N,) that gives one for each step.
        minimum: symbols before ``eos`` may come.
        past_eos: go on after ``eos``, as texts of several lines do.
        pieces: makes a decoder from symbols to text for each row, as ``units.pieces``; without it there is no text.
        stops: strings that end a text. Neither they nor what follows is a part of its text.

    >>> from riverrun.decode.table import Table
    >>> model = Table(np.log([[0.1, 0.6, 0.3], [0.2, 0.2, 0.6], [0.7, 0.2, 0.1]]), eos=2)
    >>> writing = generate(model, Stream.begin(model), limit=5)
    >>> [(symbol.id, symbol.end) for symbol in writing], writing.stream.last.tolist()
    ([(1, None), (2, 'eos')], [2])
    """
    _check(model, limit, samples, minimum, stops, pieces)
    stream, past = read_prompt(model, stream, prompt, before)
    copies = np.repeat(np.arange(len(stream)), samples)
    stream, past = stream.repeat(samples), past.select(copies)
    chance = None if seed is None else generators(seed, len(stream))
    eos = None if past_eos else model.eos
    writers = [_Writer(pieces, stops, ids.tolist(), eos) for ids in past.rows()]
    no_eos = None if model.eos is None else vocabulary(model.size, without=[model.eos])

    def choose(scores: Array, live: _Live, position: int) -> Ids:
        scores = double(scores)
        if allowed is not None:
            scores = restrict(scores, allowed(live.seen, live.rows) if callable(allowed) else allowed)
        if no_eos is not None and position < minimum:
            scores = restrict(scores, no_eos)
        if control is not None:
            scores = control(scores, live.seen)
        if filter is not None:
            scores = filter(scores)
        if chance is None:
            return most_probable(scores)
        return draw(scores, np.array([chance[row].random() for row in live.rows]))

    looks = control is not None or callable(allowed)
    return Generation(model, _Live(np.arange(len(stream)), stream, past), choose, writers, limit, looks)


def _check(
    model: StepModel,
    limit: int | None,
    samples: int,
    minimum: int,
    stops: Sequence[str],
    pieces: Callable[[], Pieces] | None,
) -> None:
    if limit is not None and limit < 0:
        raise ConfigError(f"limit: expected a number of symbols from 0 on, or None, received {limit}")
    if samples < 1:
        raise ConfigError(f"samples: expected at least 1, received {samples}")
    if minimum < 0 or (limit is not None and minimum > limit):
        raise ConfigError(f"minimum: expected a number from 0 to the limit ({limit}), received {minimum}")
    if minimum and model.eos is None:
        raise ConfigError(
            f"minimum: the model has no symbol that ends a text, so nothing is too short; remove {minimum}"
        )
    if stops and pieces is None:
        raise ConfigError("stops: strings are looked for in the text; expected pieces, which makes text of symbols")
