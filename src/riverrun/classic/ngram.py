"""The n-gram model: log probabilities of n-grams, and what it costs to leave a context for a shorter one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from riverrun.classic.arrays import Floats, Ids, Integers
from riverrun.classic.context import NOTHING, ContextModel, known_before
from riverrun.classic.engine import Engine, choose_engine
from riverrun.classic.trie import Trie, spread
from riverrun.errors import ShapeError

_BLOCK = 1 << 15  # symbols that numpy looks up at once: their arrays stay in a cache


@dataclass(frozen=True, eq=False)
class NGram(ContextModel):
    r"""The next symbol after the last N - 1 ones, a step model.

    An n-gram that is in the table has its probability there; another one has that of the n-gram without its first
    symbol, times the back-off weight of its context:

    .. math:: p(w \mid h) = \begin{cases} \tilde p(w \mid h) & hw \text{ is there} \\
              \gamma(h) \, p(w \mid h') & \text{else} \end{cases}

    with 1 for the weight of a context that is not there. All logarithms are natural, here and in files of arrays;
    ARPA files have those to the base of ten.

    Args:
        trie: the n-grams.
        log_prob: (nodes,), of each n-gram.
        log_backoff: (inner,), of each n-gram as a context; 0 where nothing follows it.
        bos: what a text begins behind. Where texts end it is never predicted.
        eos: what ends a text, or None for running text.
        unknown: what stands for symbols that are not known, or None.
        smoothing: where the numbers come from: a name of `riverrun.classic.smoothing.smooth`, or ``arpa``.
        flat: a symbol that did not follow a context has the weight of the context as its probability, and shorter
            contexts do not matter (``add-k``).
        absent: the weight, or with ``flat`` the probability, in a context that is not there.
        notes: what a user should know of how the numbers were found.
        engine: what runs over long texts: ``numba``, ``numpy``, or ``auto``. Both give the same numbers.

    >>> trie = Trie(np.array([0, 3, 4]), np.array([0, 1, 2, 2], np.int32), np.array([3, 4, 4, 4]))
    >>> model = NGram(trie, np.log([1e-9, 0.5, 0.5, 0.8]), np.log([0.4, 1, 1]), bos=0, eos=1)
    >>> step = model.step(np.array([[0]]), model.start())
    >>> np.exp(step.log_probs).round(3).tolist()
    [[[0.0, 0.2, 0.8]]]
    """

    trie: Trie
    log_prob: npt.NDArray[np.floating[Any]]
    log_backoff: npt.NDArray[np.floating[Any]]
    bos: int
    eos: int | None
    unknown: int | None = None
    smoothing: str = "arpa"
    flat: bool = False
    absent: float = 0.0
    notes: tuple[str, ...] = ()
    engine: Engine = "auto"

    def __post_init__(self) -> None:
        nodes, inner = (len(self.trie.word),), (self.trie.inner,)
        if self.log_prob.shape != nodes or self.log_backoff.shape != inner:
            raise ShapeError(
                f"NGram: expected log_prob {nodes} and log_backoff {inner}, received {self.log_prob.shape} and "
                f"{self.log_backoff.shape}"
            )

    @property
    def order(self) -> int:
        """N, symbols of the longest n-grams."""
        return self.trie.order

    @property
    def size(self) -> int:
        """V, how many symbols there are."""
        return self.trie.size

    @property
    def reach(self) -> int:
        """N - 1, symbols of a context."""
        return self.trie.order - 1

    @property
    def normalised(self) -> bool:
        """Whether the scores are logarithms of probabilities: not those of stupid back-off."""
        return self.smoothing != "stupid-backoff"

    def _scores(self, symbols: Ids) -> Floats:
        begins = NOTHING if self.eos is None else self.bos
        if choose_engine(self.engine, len(symbols)) == "numba":
            from riverrun.classic.query import scores

            return scores(
                symbols, self.order, self.trie.word, self.trie.first, self.log_prob, self.log_backoff,
                self.flat, self.absent, begins,
            )  # fmt: skip
        out = np.empty(len(symbols))
        for at in range(0, len(symbols), _BLOCK):
            start = max(0, at - self.reach)
            out[at : at + _BLOCK] = self._block(symbols[start : at + _BLOCK], begins)[at - start :]
        return out

    def distributions(self, contexts: Integers) -> Floats:
        """(R, V) natural logarithms, of the symbol that follows each context (R, N - 1); -1 is nothing."""
        trie = self.trie
        rows, reach = contexts.shape
        nodes = [np.full(rows, NOTHING)] * (reach + 1)
        for length in range(1, reach + 1):
            node = contexts[:, -length]
            for place in range(reach - length + 1, reach):
                node = trie.find(node, contexts[:, place])
            nodes[length] = node
        there = np.cumprod(contexts[:, ::-1] >= 0, axis=1).sum(axis=1) if reach else np.zeros(rows, np.int64)
        if self.flat:
            node = np.stack(nodes)[there, np.arange(rows)]
            away = np.where(node >= 0, self._backoff(node), self.absent)
            out = np.where((there > 0)[:, None], away[:, None], np.float64(self.log_prob[: self.size]))
            self._put(out, node, np.zeros(rows))
        else:
            # What it costs to come down to each length, from the longest context on.
            rest = [np.zeros(rows)] * (reach + 1)
            for length in range(reach, 0, -1):
                weight = np.where(nodes[length] >= 0, self._backoff(nodes[length]), self.absent)
                rest[length - 1] = rest[length] + np.where(there >= length, weight, 0.0)
            out = rest[0][:, None] + self.log_prob[: self.size]
            for length in range(1, reach + 1):
                self._put(out, nodes[length], rest[length])
        if self.eos is not None:
            out[:, self.bos] = -np.inf
        return out

    def _put(self, out: Floats, nodes: Integers, rest: Floats) -> None:
        """The children of a node for each row into the row, with what it cost to come there."""
        first = self.trie.first
        rows = np.flatnonzero((nodes >= 0) & (nodes < self.trie.inner))
        start = first[nodes[rows]]
        which, child = spread(start, first[nodes[rows] + 1] - start)
        row = rows[which]
        out[row, self.trie.word[child]] = rest[row] + self.log_prob[child]

    def _backoff(self, nodes: Integers) -> Floats:
        """The weights of nodes, 0 for those that are not there or have no children."""
        known = (nodes >= 0) & (nodes < self.trie.inner)
        if not self.trie.inner:
            return np.zeros(len(nodes))
        return np.where(known, self.log_backoff[np.where(known, nodes, 0)], 0.0).astype(np.float64)

    def _block(self, symbols: Ids, begins: int) -> Floats:
        """What the loop of `riverrun.classic.query` computes, for all symbols at once, order by order."""
        known = known_before(symbols, begins, self.reach)
        nodes = [np.where(symbols < 0, NOTHING, symbols).astype(np.int64)]
        for _ in range(1, self.order):
            before = np.concatenate([[NOTHING], nodes[-1][:-1]])
            nodes.append(self.trie.find(before, symbols))
        rest, out = np.zeros(len(symbols)), np.zeros(len(symbols))
        open_ = symbols >= 0
        for length in range(self.reach, -1, -1):
            asked = open_ & (known == length) if self.flat else open_
            found = asked & (nodes[length] >= 0)
            out[found] = rest[found] + self.log_prob[nodes[length][found]]
            open_ = open_ & ~found
            if length:
                context = np.concatenate([[NOTHING], nodes[length - 1][:-1]])
                weight = np.where(context >= 0, self._backoff(context), self.absent)
                if self.flat:
                    away = asked & ~found
                    out[away] = weight[away]
                    open_ = open_ & ~away
                else:
                    rest += np.where(known >= length, weight, 0.0)
        return out
