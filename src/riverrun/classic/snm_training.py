"""How the sparse non-negative matrix model is learned: contexts are counted, then the counts are adjusted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from riverrun.classic.arrays import AnyIds, Bits, Ids, Integers
from riverrun.classic.context import NOTHING, known_before
from riverrun.classic.runs import Runs
from riverrun.classic.skipgrams import NO_FEATURE, Pattern, contexts_of, hashed, patterns
from riverrun.classic.snm import SparseNonNegative
from riverrun.classic.windows import Symbols
from riverrun.errors import ConfigError, DataError

_CHUNK = 1 << 16  # symbols whose contexts are held at once
_MOST = np.uint64(2**32 - 1)  # what a count of four bytes can hold


def learn_snm(
    stream: AnyIds | Sequence[AnyIds],
    *,
    size: int,
    bos: int,
    eos: int | None,
    unknown: int | None = None,
    ends: AnyIds | None = None,
    order: int = 5,
    skips: int = 3,
    span: int = 3,
    rate: float = 0.1,
    passes: int = 3,
    buckets: int = 1 << 20,
    memory: float = 1024,
    folder: Path | str | None = None,
) -> SparseNonNegative:
    r"""Count the contexts of a text, and learn from the same text how far each count is to be believed; needs numba.

    The factor of an entry is e to the sum of a few numbers, which it shares with entries that are like it: of the same
    pattern, with similar counts, of the same context or word, and so on, each found by a hash. They are learned by
    AdaGrad with the loss of Poisson, a symbol after the other, each as if it had not been counted.

    Args:
        stream: ids, each line with ``eos`` at its end, in one array or in several; it is read several times.
        size: V, ids are 0 to V - 1.
        bos: what stands before a text.
        eos: what ends a line, or None for running text.
        unknown: what stands for symbols that are not known.
        ends: where lines end in one array of ids without ``eos``.
        order: N, symbols of the longest n-grams.
        skips: symbols that a skip-gram may leave out in one place.
        span: symbols that a context that leaves some out keeps, at most.
        rate: of AdaGrad.
        passes: how many times the text is read to learn.
        buckets: how many numbers there are to learn; the next power of two is taken.
        memory: megabytes for contexts that are not sorted yet. The model, about 25 bytes for each distinct pair of a
            context and a symbol, is in memory in any case.
        folder: where files for what is more are made; the system's place for temporary files where it is not given.

    >>> model = learn_snm(np.array([2, 3, 1] * 9), size=4, bos=0, eos=1, order=2, skips=0, span=0)
    >>> probabilities = np.exp(model.step(np.array([[2]]), model.start()).log_probs)
    >>> int(probabilities.argmax()), round(float(probabilities.sum()), 9)
    (3, 1.0)
    """
    _check(order, skips, span, rate, passes, buckets)
    if not isinstance(stream, Sequence | np.ndarray):
        raise ConfigError("stream: it is read several times; expected an array of ids or a list of arrays")
    from riverrun.classic.snm_loops import index_of, learn, weigh

    text = _Text(Symbols(size=size, bos=bos, eos=eos), stream, ends, patterns(order, skips, span))
    table = text.counted(memory, folder)
    totals = np.add.reduceat(table.count, table.first[:-1], dtype=np.int64)
    index = index_of(table.base, table.feature)
    adjust = np.zeros(1 << (buckets - 1).bit_length(), np.float32)
    squares = np.ones_like(adjust)
    # To begin with, the rows that hold at a place are averaged.
    scale = 1.0 / (len(text.patterns) + 1)
    anything = np.array([math.log(scale), 1.0])
    share = 1.0 / (size - (eos is not None))
    for _ in range(passes):
        for hashes, symbols in text.hashed():
            learn(
                hashes, symbols, table.feature, *index, table.first, table.word, table.count, totals,
                adjust, squares, anything, share, scale, rate,
            )  # fmt: skip
    weight = np.empty(len(table.word), np.float32)
    weigh(
        table.base, table.feature, table.first, table.word, table.count, totals, adjust, scale, weight
    )  # fmt: skip
    return SparseNonNegative(
        size, text.patterns, table.base, table.feature, table.first, table.word, weight, math.exp(anything[0]),
        bos, eos, unknown,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Table:
    """Contexts and what followed them, as in `SparseNonNegative`, with ``count`` (entries,) for weights."""

    base: Integers
    feature: Bits
    first: Integers
    word: Ids
    count: npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class _Text:
    """A text that is read several times.

    Args:
        symbols: how ids are read.
        stream: the ids.
        ends: where lines end.
        patterns: of the contexts.
    """

    symbols: Symbols
    stream: AnyIds | Sequence[AnyIds]
    ends: AnyIds | None
    patterns: tuple[Pattern, ...]

    def hashed(self, only: int | None = None) -> Iterator[tuple[Bits, Ids]]:
        """The contexts (n, P) of each symbol, or those of one pattern, and the symbols (n,), in pieces."""
        bos, eos = self.symbols.bos, self.symbols.eos
        some = self.patterns if only is None else self.patterns[only : only + 1]
        reach = max((pattern[0] for pattern in some if pattern), default=0)
        before, first = np.empty(0, np.int32), True
        for piece in self.symbols.read(self.stream, self.ends):
            for at in range(0, len(piece), _CHUNK):
                joined = np.concatenate([before, piece[at : at + _CHUNK]])
                predicted = np.arange(len(joined)) >= len(before)
                if eos is not None:
                    predicted &= joined != bos
                elif first:
                    predicted[0] = False
                known = known_before(joined, NOTHING if eos is None else bos, reach)
                contexts = contexts_of(joined, reach)
                yield hashed(contexts[predicted], known[predicted], some), joined[predicted]
                before, first = joined[len(joined) - min(reach, len(joined)) :], False

    def counted(self, memory: float, folder: Path | str | None) -> _Table:
        """What followed each context how often, pattern by pattern."""
        feature, first, word, count = [], [], [], []
        base, entries = [0], 0
        for pattern in range(len(self.patterns)):
            with Runs((64, self.symbols.size.bit_length()), memory=memory, folder=folder) as runs:
                for hashes, symbols in self.hashed(pattern):
                    there = hashes[:, 0] != NO_FEATURE
                    runs.add(np.stack([hashes[there, 0], symbols[there].astype(np.uint64)], axis=1))
                rows = runs.merged()
                keys = rows[:, 0]
                new = np.concatenate([[True], keys[1:] != keys[:-1]]) if len(keys) else np.zeros(0, np.bool_)
                feature.append(keys[new])
                first.append(np.flatnonzero(new) + entries)
                word.append(rows[:, 1].astype(np.int32))
                count.append(np.minimum(rows[:, 2], _MOST).astype(np.uint32))
                entries += len(rows)
                base.append(base[-1] + len(feature[-1]))
                del rows, keys
        if not entries:
            raise DataError("no text to count contexts in; expected at least one symbol")
        return _Table(
            np.array(base),
            np.concatenate(feature),
            np.append(np.concatenate(first), entries),
            np.concatenate(word),
            np.concatenate(count),
        )


def _check(order: int, skips: int, span: int, rate: float, passes: int, buckets: int) -> None:
    for name, value, least in (
        ("order", order, 1), ("skips", skips, 0), ("span", span, 0), ("passes", passes, 0), ("buckets", buckets, 1),
    ):  # fmt: skip
        if value < least:
            raise ConfigError(f"{name}: expected at least {least}, received {value}")
    if not rate > 0:
        raise ConfigError(f"rate: expected a number above 0, received {rate}")
