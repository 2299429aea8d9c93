"""Models whose next symbol depends on the last few ones: what they all do with a text, once."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from riverrun.classic.arrays import AnyIds, Floats, Ids, Integers
from riverrun.classic.windows import Stream, Symbols
from riverrun.data.batch import Batch
from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import to_numpy
from riverrun.decode.state import State
from riverrun.decode.step import Step
from riverrun.errors import ConfigError, DataError, ShapeError, StateError

NOTHING = -1  # where no symbol stands, as before the beginning
_CHUNK = 1 << 18  # symbols that are scored at once


class ContextModel(ABC):
    """A step model that remembers the last ``reach`` symbols, and nothing else.

    Where texts end (``eos`` is an id) ``bos`` is never predicted, and whoever reads it forgets what was before.

    Attributes:
        bos: the symbol that is read first.
        eos: the symbol that ends a text, or None for running text.
        unknown: the symbol that stands for those that are not known, or None.
    """

    bos: int
    eos: int | None
    unknown: int | None

    @property
    @abstractmethod
    def size(self) -> int:
        """V, how many symbols there are."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """How many symbols a context has."""

    @property
    @abstractmethod
    def normalised(self) -> bool:
        """Whether the scores are logarithms of probabilities."""

    @abstractmethod
    def _scores(self, symbols: Ids) -> Floats:
        """What ``scores`` returns; what it returns for numbers below 0 and a ``bos`` of lines does not matter."""

    @abstractmethod
    def distributions(self, contexts: Integers) -> Floats:
        """(R, V) natural logarithms, of the symbol that follows each context (R, reach); -1 is nothing."""

    def scores(self, symbols: AnyIds) -> Floats:
        """(n,) natural logarithms, of each symbol behind those before it.

        What stands behind a number below 0 begins anew, and so does what stands behind a ``bos`` where texts end. Their
        own scores are 0 and -inf.
        """
        if len(symbols) and symbols.max() >= self.size:
            raise DataError(f"symbols: expected ids below {self.size}, received {symbols.max()}")
        ids = np.ascontiguousarray(symbols, np.int32)
        out = np.where(ids < 0, 0.0, self._scores(ids))
        if self.eos is not None:
            out[ids == self.bos] = -np.inf
        return out

    def start(self, source: Batch | None = None, *, rows: int = 1) -> State:
        """The state that has read nothing; a language model has no source."""
        if source is not None:
            raise ConfigError("a language model is started without a source, received one")
        return State(moving={"context": np.full((rows, 1, self.reach), NOTHING, np.int64)})

    def step(self, ids: Array, state: State) -> Step:
        """Read ids (B, K): the distributions (B, K, V) of the next symbol, and the state that has read them."""
        ids = to_numpy(ids)
        if ids.ndim != 2:
            raise ShapeError(f"step: expected ids (B, K), received {tuple(ids.shape)}")
        context = self._context(state, ids.shape)
        self._check(ids)
        context = self._read(context, ids[:, :, None])
        log_probs = self.distributions(context.reshape(ids.size, self.reach))
        return Step(log_probs.reshape(*ids.shape, self.size), State(state.fixed, {"context": context}))

    def score(self, ids: Padded, state: State) -> tuple[Array, State]:
        """Read whole rows, ids (B, 1 + T): (B, T) scores of all but the first symbol, and the state before the last."""
        data, lengths = to_numpy(ids.data), to_numpy(ids.lengths)
        rows, width = data.shape
        context = self._context(state, (rows, 1))[:, 0]
        mask = ids.map(to_numpy).mask()
        data = np.where(mask, data, NOTHING).astype(np.int64)
        self._check(data[mask])
        out = np.zeros((rows, max(0, width - 1)))
        wide = max(1, _CHUNK // max(1, rows))
        for at in range(0, width - 1, wide):
            some = data[:, at : at + wide + 1]
            # A row is a line of its own between numbers that are no symbols.
            lines = np.concatenate([np.full((rows, 1), NOTHING), context, some], axis=1)
            found = self.scores(lines.reshape(-1)).reshape(lines.shape)
            out[:, at : at + wide] = found[:, self.reach + 2 :]
            read = np.clip(lengths - 1 - at, 0, some.shape[1] - 1)
            joined = np.concatenate([context, some], axis=1)
            context = joined[np.arange(rows)[:, None], read[:, None] + np.arange(self.reach)]
        out = np.where(mask[:, 1:], out, 0.0)
        return out, State(state.fixed, {"context": self._forgotten(context[:, None, :])})

    def read(self, stream: Stream, ends: AnyIds | None = None) -> Iterator[tuple[Ids, Floats]]:
        """The symbols of a whole text and their scores (natural logarithms), in pieces, in bounded memory.

        The text is that of `riverrun.classic.counts.count`: each line begins anew behind ``bos`` and is predicted to
        its ``eos``; running text has no ends. Where ``unknown`` is among the symbols, a word was not known.

        Args:
            stream: ids, each line with ``eos`` at its end.
            ends: where lines end in one array of ids without ``eos``.
        """
        held: list[Ids] = []
        before, waiting = np.empty(0, np.int32), 0
        first = True
        for piece in _and_end(Symbols(size=self.size, bos=self.bos, eos=self.eos).read(stream, ends)):
            if piece is not None:
                held.append(piece)
                waiting += len(piece)
                if waiting < _CHUNK:
                    continue
            if not waiting:
                return
            symbols = np.concatenate([before, *held])
            scores = self.scores(symbols)
            counted = np.arange(len(symbols)) >= len(before)
            if self.eos is not None:
                counted &= symbols != self.bos
            elif first:
                counted[0] = False
            yield symbols[counted], scores[counted]
            before = symbols[len(symbols) - min(self.reach, len(symbols)) :]
            held, waiting, first = [], 0, False

    def perplexity(self, stream: Stream, ends: AnyIds | None = None, *, unknown: bool = True) -> float:
        """exp of the mean of the negative log probabilities of all symbols of a text, ends of lines included.

        Args:
            stream: as in ``read``.
            ends: as in ``read``.
            unknown: count the symbols that are ``unknown``, too.
        """
        if not self.normalised:
            raise ConfigError(
                "the scores of this model are not probabilities (stupid back-off), so there is no perplexity; "
                "smooth the counts in another way"
            )
        total, count = 0.0, 0
        for symbols, scores in self.read(stream, ends):
            if not unknown and self.unknown is not None:
                scores = scores[symbols != self.unknown]
            total += float(scores.sum())
            count += len(scores)
        if not count:
            raise DataError("no text to score; expected at least one symbol")
        return math.exp(-total / count)

    def _context(self, state: State, rows: tuple[int, ...]) -> Integers:
        expected = (*rows, self.reach)
        context = state.moving.get("context")
        if context is None or tuple(context.shape) != expected:
            received = "none" if context is None else str(tuple(context.shape))
            raise StateError(f"state: expected 'context' {expected}, received {received}: it belongs to another model")
        context = np.asarray(to_numpy(context), np.int64)
        if context.size and context.max() >= self.size:
            raise StateError(
                f"state: it has read symbol {context.max()}, this model has {self.size}: it belongs to another model"
            )
        return context

    def _check(self, ids: AnyIds) -> None:
        if ids.size and not 0 <= ids.min() <= ids.max() < self.size:
            raise DataError(f"ids: expected 0 to {self.size - 1}, received {ids.min()} to {ids.max()}")

    def _read(self, context: Integers, ids: AnyIds) -> Integers:
        joined = np.concatenate([context, ids], axis=-1)
        return self._forgotten(joined[..., joined.shape[-1] - self.reach :])

    def _forgotten(self, context: Integers) -> Integers:
        """Nothing in the place of all that stands before a ``bos``."""
        if self.eos is None or not self.reach:
            return context
        begins = (context == self.bos)[..., ::-1]
        behind = np.cumsum(begins, axis=-1) - begins  # how many bos stand behind each place
        return np.where(behind[..., ::-1] > 0, NOTHING, context)


def known_before(symbols: Ids, begins: int, reach: int) -> Integers:
    """(n,): how many symbols stand before each, ``reach`` at most, since the last number below 0 or ``begins``.

    >>> known_before(np.array([5, 6, -1, 0, 7, 8]), begins=0, reach=2).tolist()
    [0, 1, 2, 0, 1, 2]
    """
    place = np.arange(len(symbols))
    # The place behind which a text begins: of a number below 0, or before a bos, which is part of it.
    last = np.maximum.accumulate(np.where(symbols < 0, place, np.where(symbols == begins, place - 1, -1)))
    known = np.zeros(len(symbols), np.int64)
    known[1:] = np.minimum((place - last)[:-1], reach)
    return known


def _and_end(pieces: Iterator[Ids]) -> Iterator[Ids | None]:
    yield from pieces
    yield None
