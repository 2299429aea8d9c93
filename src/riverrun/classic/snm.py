"""The sparse non-negative matrix model of Shazeer, Pelemans and Chelba (2015): n-grams that may leave words out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from riverrun.classic.arrays import Bits, Floats, Ids, Integers
from riverrun.classic.context import NOTHING, ContextModel, known_before
from riverrun.classic.engine import Engine, choose_engine
from riverrun.classic.skipgrams import NO_FEATURE, Pattern, contexts_of, hashed
from riverrun.classic.trie import search, spread
from riverrun.errors import ShapeError

_BLOCK = 1 << 14  # symbols whose contexts are looked up at once


@dataclass(frozen=True, eq=False)
class SparseNonNegative(ContextModel):
    r"""A matrix with a row for each context that was seen, of words next to each other or with some left out.

    Several rows hold at a place of a text: those of the contexts that stand before it, of each pattern one at most, and
    one that says nothing. Their sum is what is predicted,

    .. math:: p(w \mid h) = \frac{\sum_{i \in h} M_{iw}}{\sum_{i \in h} \sum_v M_{iv}}

    where an entry is how often the word followed that context among all that did, adjusted by a learned factor,
    :math:`M_{ij} = e^{A(i, j)} \, C_{ij} / C_{i*}`.

    Args:
        symbols: V, how many there are.
        patterns: P of them, what each context looks at.
        base: (P + 1,), the rows of pattern p are ``base[p]`` to ``base[p + 1]``.
        feature: (rows,), the hash of each context, sorted within a pattern.
        first: (rows + 1,), the entries of row i are ``first[i]`` to ``first[i + 1]``.
        word: (entries,), of which symbol each is, sorted within a row.
        weight: (entries,), :math:`M_{ij}`.
        anything: the weight of the row that holds everywhere and is the same for all symbols; the paper has none, but
            without it a symbol that was never seen would be impossible.
        bos: what a text begins behind. Where texts end it is never predicted.
        eos: what ends a text, or None for running text.
        unknown: what stands for symbols that are not known, or None.
        engine: what runs over long texts: ``numba``, ``numpy``, or ``auto``. Both give the same numbers.

    >>> model = SparseNonNegative(3, ((),), np.array([0, 1]), np.array([1], np.uint64), np.array([0, 2]),
    ...     np.array([1, 2], np.int32), np.array([1.5, 0.5], np.float32), 1.0, bos=0, eos=1)
    >>> np.exp(model.step(np.array([[0]]), model.start()).log_probs).round(3).tolist()
    [[[0.0, 0.667, 0.333]]]
    """

    symbols: int
    patterns: tuple[Pattern, ...]
    base: Integers
    feature: Bits
    first: Integers
    word: Ids
    weight: npt.NDArray[np.float32]
    anything: float
    bos: int
    eos: int | None
    unknown: int | None = None
    engine: Engine = "auto"

    def __post_init__(self) -> None:
        rows, entries = len(self.feature), len(self.word)
        if self.base.shape != (len(self.patterns) + 1,) or self.first.shape != (rows + 1,):
            raise ShapeError(
                f"SparseNonNegative: expected base {(len(self.patterns) + 1,)} and first {(rows + 1,)}, received "
                f"{self.base.shape} and {self.first.shape}"
            )
        if self.weight.shape != (entries,):
            raise ShapeError(f"SparseNonNegative: expected weight {(entries,)}, received {self.weight.shape}")

    @property
    def size(self) -> int:
        """V, how many symbols there are."""
        return self.symbols

    @property
    def reach(self) -> int:
        """The farthest that a pattern looks back."""
        return max((pattern[0] for pattern in self.patterns if pattern), default=0)

    @property
    def normalised(self) -> bool:
        """The scores are logarithms of probabilities."""
        return True

    @property
    def share(self) -> float:
        """The part of ``anything`` that each symbol gets that may be predicted."""
        return 1.0 / (self.symbols - (self.eos is not None))

    @cached_property
    def totals(self) -> Floats:
        """(rows,), the sum of each row."""
        if not len(self.feature):
            return np.zeros(0)
        return np.add.reduceat(self.weight, self.first[:-1], dtype=np.float64)

    def distributions(self, contexts: Integers) -> Floats:
        """(R, V) natural logarithms, of the symbol that follows each context (R, ``reach``); -1 is nothing."""
        there = np.cumprod(contexts[:, ::-1] >= 0, axis=1).sum(axis=1)
        hashes = hashed(contexts, there, self.patterns)
        below = np.full(len(contexts), self.anything)
        out = np.full((len(contexts), self.size), self.anything * self.share)
        for pattern in range(len(self.patterns)):
            row = self._rows(hashes[:, pattern], pattern)
            some = np.flatnonzero(row >= 0)
            below[some] += self.totals[row[some]]
            start = self.first[row[some]]
            which, entry = spread(start, self.first[row[some] + 1] - start)
            out[some[which], self.word[entry]] += self.weight[entry]
        np.log(out / below[:, None], out=out)
        if self.eos is not None:
            out[:, self.bos] = -np.inf
        return out

    def _scores(self, symbols: Ids) -> Floats:
        begins = NOTHING if self.eos is None else self.bos
        known = known_before(symbols, begins, self.reach)
        before = contexts_of(symbols, self.reach)
        compiled = choose_engine(self.engine, len(symbols)) == "numba"
        out = np.empty(len(symbols))
        for at in range(0, len(symbols), _BLOCK):
            some = slice(at, at + _BLOCK)
            hashes = hashed(before[some], known[some], self.patterns)
            out[some] = self._compiled(hashes, symbols[some]) if compiled else self._vectorised(hashes, symbols[some])
        return np.asarray(np.log(out))

    def _compiled(self, hashes: Bits, symbols: Ids) -> Floats:
        from riverrun.classic.snm_loops import scores

        return scores(
            hashes, symbols, self.feature, *self._index, self.first, self.word, self.weight, self.totals,
            self.anything, self.share,
        )  # fmt: skip

    def _vectorised(self, hashes: Bits, symbols: Ids) -> Floats:
        above = np.full(len(symbols), self.anything * self.share)
        below = np.full(len(symbols), self.anything)
        for pattern in range(len(self.patterns)):
            row = self._rows(hashes[:, pattern], pattern)
            some = np.flatnonzero(row >= 0)
            row = row[some]
            below[some] += self.totals[row]
            entry = search(self.word, self.first[row], self.first[row + 1], symbols[some])
            above[some[entry >= 0]] += self.weight[entry[entry >= 0]]
        return np.asarray(above / below)

    def _rows(self, keys: Bits, pattern: int) -> Integers:
        """(n,): the row of each context of one pattern, or -1."""
        start, stop = int(self.base[pattern]), int(self.base[pattern + 1])
        if start == stop:
            return np.full(len(keys), -1)
        row = start + np.searchsorted(self.feature[start:stop], keys)
        return np.where((keys != NO_FEATURE) & (self.feature[np.minimum(row, stop - 1)] == keys), row, -1)

    @cached_property
    def _index(self) -> tuple[Integers, Integers]:
        from riverrun.classic.snm_loops import index_of

        return index_of(self.base, self.feature)
