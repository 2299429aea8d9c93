"""Byte-pair encoding (Gage 1994; Sennrich et al. 2016) over the bytes of UTF-8: nothing is unknown, nothing is lost.

A text is first cut into stretches, across which nothing is merged: letters, digits or punctuation, each with the space
before it. Only ASCII is told apart, everything beyond counts as letters, so that the cuts depend on no version of
Unicode. A stretch has at most 64 characters; a line break is always alone.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, pairwise

import msgspec
import numpy as np

from riverrun.errors import ConfigError, DataError
from riverrun.text.utf8 import Utf8Pieces, joined, utf8

BYTES = 256
_STRETCH = re.compile(
    r" ?[^\x00-@\[-`{-\x7f]{1,64}"  # letters
    r"| ?[0-9]{1,64}"
    r"| ?[!-/:-@\[-`{-~]{1,64}"
    r"| {1,64}(?= )"  # of several spaces, the last one belongs to what follows
    r"|[\x00-\x20\x7f]"
)
_BLOCK = 1 << 16  # characters that are cut at once
_HELD = 1 << 18  # stretches whose pieces are held in memory

Pair = tuple[int, int]


class Bpe(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True, tag="bpe", tag_field="kind"):
    """Pieces of words: the 256 bytes, and what the merges make of them, in their order.

    In a stretch of text, the pair whose merge was learned first is merged first, of equal ones the leftmost, until no
    pair is left that was learned.

    >>> bpe = Bpe.learn(["low lower lowest\\n"], size=258)
    >>> bpe.merges, [bpe.symbol(k) for k in bpe.ids("slow")]
    ([(108, 111), (256, 119)], ['s', 'low'])

    Args:
        merges: pairs of ids; each makes the next id, from 256 on.
    """

    merges: list[Pair]

    def __post_init__(self) -> None:
        if len(set(self.spelled)) != self.size:
            raise ConfigError(f"the {len(self.merges)} merges make some pieces twice; expected each once")

    @staticmethod
    def learn(blocks: Iterable[str], *, size: int) -> Bpe:
        """Merge the most frequent pair, of equally frequent ones that of the lowest ids, again and again.

        There are fewer than ``size`` pieces in the end where no pair is left that occurs twice.

        Args:
            blocks: of text, cut anywhere. Held in memory are its distinct stretches.
            size: how many pieces, the 256 bytes included.
        """
        if size < BYTES:
            raise ConfigError(f"model.units.size: bpe has the {BYTES} bytes as pieces at least, received {size}")
        counts: Counter[str] = Counter()
        for part in stretches(blocks):
            counts.update(part)
        if not counts:
            raise DataError("no text to learn the pieces from; expected at least one character")
        return Bpe(learn_merges(counts, size))

    @cached_property
    def spelled(self) -> list[bytes]:
        """The bytes of each piece."""
        spelled = [bytes([k]) for k in range(BYTES)]
        for left, right in self.merges:
            if not (0 <= left < len(spelled) and 0 <= right < len(spelled)):
                raise ConfigError(
                    f"merge {len(spelled) - BYTES + 1} of {len(self.merges)}: expected two of the {len(spelled)} "
                    f"pieces before it, received {left} and {right}"
                )
            spelled.append(spelled[left] + spelled[right])
        return spelled

    @property
    def size(self) -> int:
        """How many pieces there are."""
        return len(self.spelled)

    @property
    def bos(self) -> int:
        """The line break, which a text begins behind."""
        return 10

    @property
    def eos(self) -> None:
        """Running text has no end."""
        return None

    @property
    def unknown(self) -> None:
        """No piece is unknown."""
        return None

    def unknowns(self, text: str) -> list[str]:
        """Nothing is unknown."""
        return []

    def symbol(self, id: int) -> str:
        """One piece, to show; bytes that are no character by themselves as ``\\xc3``."""
        return self.spelled[id].decode("utf-8", "backslashreplace")

    def ids(self, text: str) -> list[int]:
        """The pieces of a text."""
        return list(self._pieces_of(_STRETCH.findall(text)))

    def text(self, ids: Iterable[int]) -> str:
        """The text of some pieces; bytes that are no UTF-8 become U+FFFD."""
        return joined(self.spelled, ids)

    def pieces(self) -> Utf8Pieces:
        """A decoder that gives a text piece by piece and never cuts a character."""
        return Utf8Pieces(self.spelled)

    def encode(self, blocks: Iterable[str]) -> Iterator[np.ndarray]:
        """The ids of a text that comes in blocks, cut anywhere; the same wherever it is cut."""
        for part in stretches(blocks):
            yield np.fromiter(self._pieces_of(part), np.int32)

    def _pieces_of(self, part: list[str]) -> Iterator[int]:
        return chain.from_iterable(map(self._merged.__getitem__, part))

    @cached_property
    def _merged(self) -> _Merged:
        return _Merged(self.merges)


class _Merged(dict[str, list[int]]):
    """stretch -> ids, for those that were met lately: a cache, and nothing more."""

    def __init__(self, merges: list[Pair]) -> None:
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}

    def __missing__(self, stretch: str) -> list[int]:
        none = len(self.ranks)
        ids = list(utf8(stretch))
        while len(ids) > 1:
            rank, k = min((self.ranks.get(pair, none), k) for k, pair in enumerate(pairwise(ids)))
            if rank == none:
                break
            ids[k : k + 2] = [BYTES + rank]
        if len(self) >= _HELD:
            self.clear()
        self[stretch] = ids
        return ids


def stretches(blocks: Iterable[str]) -> Iterator[list[str]]:
    """The stretches of a text that comes in blocks, a list at a time; the same wherever it is cut.

    >>> list(stretches(["a b", "ig, 2"]))
    [['a', ' big', ',', ' 2']]
    """
    held: list[str] = []  # what the text may still go on
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block)
        if size >= _BLOCK:
            found = _STRETCH.findall("".join(held))
            # Of spaces at the end, what follows decides how the last two stretches are cut.
            held, size = found[-2:], 0
            yield found[:-2]
    if held:
        yield _STRETCH.findall("".join(held))


def learn_merges(counts: Mapping[str, int], size: int) -> list[Pair]:
    """The merges that are learned from stretches of text and how often each occurs.

    No piece is made twice: what happens between its ends does not depend on what stands around it, so that it becomes
    one piece by the same merge wherever it does.

    Args:
        counts: stretch -> occurrences.
        size: how many pieces there are in the end, the 256 bytes included.

    >>> learn_merges({"ab": 2, "abc": 1, "cab": 1}, 258)
    [(97, 98)]
    """
    words = [list(utf8(word)) for word in counts]
    weights = list(counts.values())
    pairs: Counter[Pair] = Counter()
    places: dict[Pair, set[int]] = {}  # the words where a pair occurs, and some where it once did
    for k, word in enumerate(words):
        for pair in pairwise(word):
            pairs[pair] += weights[k]
            places.setdefault(pair, set()).add(k)
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    merges: list[Pair] = []
    while BYTES + len(merges) < size and heap:
        count, pair = heapq.heappop(heap)
        count, now = -count, pairs[pair]
        if count > now:  # it has become rarer since it was put here
            heapq.heappush(heap, (-now, pair))
            continue
        if count < 2:
            break
        merges.append(pair)
        new = BYTES + len(merges) - 1
        grown = set()
        for k in places.pop(pair):
            merged = _replaced(words[k], pair, new)
            if len(merged) == len(words[k]):
                continue
            for before in pairwise(words[k]):
                pairs[before] -= weights[k]
            for after in pairwise(merged):
                pairs[after] += weights[k]
                if new in after:
                    places.setdefault(after, set()).add(k)
                    grown.add(after)
            words[k] = merged
        for after in grown:
            heapq.heappush(heap, (-pairs[after], after))
    return merges


def _replaced(word: list[int], pair: Pair, new: int) -> list[int]:
    """A word with each occurrence of a pair merged, from the left."""
    merged: list[int] = []
    for id in word:
        if merged and merged[-1] == pair[0] and id == pair[1]:
            merged[-1] = new
        else:
            merged.append(id)
    return merged
