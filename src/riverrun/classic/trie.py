"""N-grams as a tree in three arrays: what follows a context lies side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riverrun.classic.arrays import AnyIds, Ids, Integers, Truths


@dataclass(frozen=True, eq=False)
class Trie:
    """Every n-gram of 1 to ``order`` symbols is a node; below it are those that are longer by one symbol.

    Nodes are numbered order by order, within an order by their symbols. So all V symbols come first and have their ids
    as numbers, and the children of a node are a range in which they are sorted by their last symbol.

    Args:
        base: (order + 1,), the nodes of order k are ``base[k - 1]`` to ``base[k]``.
        word: (nodes,), the last symbol of each.
        first: (inner + 1,), the children of node g are ``first[g]`` to ``first[g + 1]``; the ``inner`` nodes are those
            of all orders but the last.

    >>> trie = Trie(np.array([0, 3, 5]), np.array([0, 1, 2, 0, 2], np.int32), np.array([3, 3, 5, 5]))
    >>> trie.find(np.array([1, 1, 0]), np.array([2, 1, 0])).tolist()
    [4, -1, -1]
    >>> trie.walk([1, 0])
    3
    """

    base: Integers
    word: Ids
    first: Integers

    @property
    def order(self) -> int:
        """Symbols of the longest n-grams."""
        return len(self.base) - 1

    @property
    def size(self) -> int:
        """V, how many symbols there are."""
        return int(self.base[1])

    @property
    def inner(self) -> int:
        """Nodes that may have children."""
        return len(self.first) - 1

    def level(self, order: int) -> slice:
        """The nodes of one order."""
        return slice(int(self.base[order - 1]), int(self.base[order]))

    def find(self, nodes: Integers, words: AnyIds) -> Integers:
        """(n,): for each node its child of this symbol, -1 where there is none, or where node or symbol is -1."""
        known = (nodes >= 0) & (nodes < self.inner) & (words >= 0)
        at = np.where(known, nodes, 0)
        low = self.first[at]
        end = np.where(known, self.first[np.minimum(at + 1, self.inner)], low)
        return search(self.word, low, end, words)

    def walk(self, ids: list[int]) -> int:
        """The node of one n-gram, -1 where it is not there.

        Args:
            ids: at least one.
        """
        node = np.array([ids[0] if 0 <= ids[0] < self.size else -1])
        for word in ids[1:]:
            node = self.find(node, np.array([word]))
        return int(node[0])

    def parents(self) -> Integers:
        """(nodes,): the node above each; of single symbols -1."""
        above = np.repeat(np.arange(self.inner), np.diff(self.first))
        return np.concatenate([np.full(self.size, -1), above])

    def below(self, nodes: slice) -> slice:
        """The children of a range of nodes."""
        return slice(int(self.first[nodes.start]), int(self.first[nodes.stop]))

    def kept(self, keep: Truths) -> Trie:
        """The nodes where ``keep`` (nodes,) is true; it must be true of what is above them, and of single symbols."""
        before = np.concatenate([[0], np.cumsum(keep)])
        inner = keep[: self.inner]
        first = np.append(before[self.first[:-1]][inner], before[-1])
        return Trie(before[self.base], self.word[keep], first)


def search(values: Ids, low: Integers, end: Integers, wanted: AnyIds) -> Integers:
    """(n,): where each number stands among the sorted values from ``low`` to ``end``, or -1.

    >>> search(np.array([4, 6, 5, 9], np.int32), np.array([0, 2, 2]), np.array([2, 4, 4]), np.array([6, 9, 6])).tolist()
    [1, 3, -1]
    """
    high, last = end, len(values) - 1
    while (low < high).any():
        middle = (low + high) >> 1
        before = (low < high) & (values[np.minimum(middle, last)] < wanted)
        # Where nothing is left to search, low, high and the middle are equal: high stays.
        low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
    if last < 0:
        return np.full(len(low), -1)
    return np.where((low < end) & (values[np.minimum(low, last)] == wanted), low, -1)


def spread(start: Integers, size: Integers) -> tuple[Integers, Integers]:
    """Every place of several ranges: which range it is in, and where it is.

    >>> spread(np.array([7, 2]), np.array([2, 1]))
    (array([0, 0, 1]), array([7, 8, 2]))
    """
    which = np.repeat(np.arange(len(start)), size)
    return which, np.arange(len(which)) + np.repeat(start - (np.cumsum(size) - size), size)
