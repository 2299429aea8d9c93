"""What a text is made of for a language model: words, characters, bytes, or pieces of words (`riverrun.text.bpe`).

Units turn text into ids and ids into text, and are stored as ``vocab/units.json``. They know nothing of counts: how
many words, characters or bytes a text has is counted on the text itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Protocol

import msgspec
import numpy as np

from riverrun.config import lm
from riverrun.config.struct import tag_of
from riverrun.errors import CheckpointError, ConfigError, DataError
from riverrun.text.bpe import Bpe
from riverrun.text.utf8 import Utf8Pieces, joined, utf8
from riverrun.text.vocab import Vocab

UNKNOWN, END, START = "<unk>", "</s>", "<s>"
SPACE = " \t\n\v\f\r"
"""The characters between words."""

_LINE_END = b"\xff"  # stands for a line break among words; no UTF-8 has this byte
_BLOCK = 1 << 16  # characters that are encoded at once


class Pieces(Protocol):
    """Text out of symbols that come one at a time, as from a model that writes."""

    def feed(self, id: int) -> str:
        """The text that is complete with this symbol; it may be empty, and never ends within a character."""
        ...

    def rest(self) -> str:
        """What was begun and not completed, at the end of the text; then another text may begin."""
        ...


class Units(Protocol):
    """Text to ids and back."""

    @property
    def size(self) -> int:
        """How many symbols there are."""
        ...

    @property
    def bos(self) -> int:
        """The symbol that a model reads first."""
        ...

    @property
    def eos(self) -> int | None:
        """The symbol that ends a text; None where texts do not end."""
        ...

    @property
    def unknown(self) -> int | None:
        """The symbol that stands for those that are not known; None where all are."""
        ...

    def ids(self, text: str) -> list[int]:
        """The ids of one text: of a line of words without the end of the line, else of running text."""
        ...

    def text(self, ids: Iterable[int]) -> str:
        """The text of some ids."""
        ...

    def pieces(self) -> Pieces:
        """A decoder that gives the same text symbol by symbol."""
        ...

    def symbol(self, id: int) -> str:
        """One symbol, to show."""
        ...

    def unknowns(self, text: str) -> list[str]:
        """The words or characters of a text that are not known, each as often as it occurs, in their order."""
        ...

    def encode(self, blocks: Iterable[str]) -> Iterator[np.ndarray]:
        """The ids (int32) of a whole file that comes in blocks, cut anywhere, with the ends of its lines.

        The arrays are the same, one behind the other, wherever the text is cut; memory is bounded.
        """
        ...


class Words(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True, tag="words", tag_field="kind"):
    """Words between white space; the end of each line is a symbol too.

    White space is that of ASCII, as for other tools of language models: a no-break space is part of a word. The names
    of the ends, ``</s>`` and ``<s>``, are not known as words where a text spells them out.

    >>> units = Words(Vocab(["<unk>", "</s>", "it", "rains"], "<unk>"))
    >>> units.ids("it rains cats"), units.text([2, 3, 1, 2]), units.unknowns("it rains cats")
    ([2, 3, 0], 'it rains\\nit', ['cats'])

    Args:
        vocab: of words, with ``<unk>`` as the unknown one, ``</s>``, and ``bos_symbol``.
        lower: read everything in lower case.
        bos_symbol: what a text begins behind: ``</s>`` where lines follow one another in a stream, or ``<s>``, which is
            then a symbol that no text has and no model predicts.
    """

    vocab: Vocab
    lower: bool = False
    bos_symbol: str = END

    def __post_init__(self) -> None:
        if self.vocab.unknown != UNKNOWN or END not in self.vocab:
            raise ConfigError(
                f"units of words: expected a vocabulary with {END} whose unknown symbol is {UNKNOWN}, "
                f"received one of {len(self.vocab)} symbols whose unknown symbol is {self.vocab.unknown}"
            )
        if self.bos_symbol not in (END, START) or self.bos_symbol not in self.vocab:
            raise ConfigError(
                f"units of words: bos_symbol must be {END} or {START} and in the vocabulary, received {self.bos_symbol}"
            )

    @staticmethod
    def learn(
        blocks: Iterable[str],
        *,
        min_count: int = 1,
        limit: int | None = None,
        lower: bool = False,
        bos_symbol: str = END,
    ) -> Words:
        """The words of a text that comes in blocks, cut anywhere; only the distinct ones are held in memory.

        Args:
            blocks: of text.
            min_count: how often a word must occur.
            limit: the largest number of words, the most frequent ones first; the marks are not counted.
            lower: read everything in lower case.
            bos_symbol: as of the class.
        """
        counts: Counter[bytes] = Counter()
        found = False
        for block in gathered(blocks, SPACE):
            found = True
            counts.update(utf8(block.lower() if lower else block).split())
        if not found:
            raise DataError("no text to learn the words from; expected at least one line")
        marks = dict.fromkeys((UNKNOWN, END, bos_symbol))
        words = {word.decode(): n for word, n in counts.items() if word.decode() not in (UNKNOWN, END, START)}
        kept = Vocab.count(words, min_count=min_count, limit=limit)
        return Words(Vocab([*marks, *kept.symbols], UNKNOWN), lower, bos_symbol)

    @property
    def size(self) -> int:
        """How many symbols there are."""
        return len(self.vocab)

    @property
    def bos(self) -> int:
        """``</s>``, the end of the line before, or ``<s>``."""
        return self.vocab.index[self.bos_symbol]

    @property
    def eos(self) -> int:
        """``</s>``."""
        return self.vocab.index[END]

    @property
    def unknown(self) -> int:
        """``<unk>``."""
        return self.vocab.index[UNKNOWN]

    def ids(self, text: str) -> list[int]:
        """The words of a line, without its end; a line break within has the id of ``</s>``."""
        return list(map(self._known.__getitem__, self._split(text)))

    def text(self, ids: Iterable[int]) -> str:
        """Words with a space between, ``</s>`` as a line break."""
        pieces = self.pieces()
        return "".join(map(pieces.feed, ids))

    def pieces(self) -> Pieces:
        """A decoder that gives each word with the space before it."""
        return _WordPieces(self)

    def symbol(self, id: int) -> str:
        """The word, or the name of the mark."""
        return self.vocab.symbols[id]

    def unknowns(self, text: str) -> list[str]:
        """The words that are read as ``<unk>``."""
        known, unknown = self._known, self.unknown
        return [word.decode() for word in self._split(text) if known[word] == unknown]

    def encode(self, blocks: Iterable[str]) -> Iterator[np.ndarray]:
        """The words of all lines, each line with ``</s>`` at its end, empty ones and one without a line feed too."""
        known, last = self._known, "\n"
        for block in gathered(blocks, SPACE):
            words, last = self._split(block), block[-1]
            yield np.fromiter(map(known.__getitem__, words), np.int32, len(words))
        if last != "\n":
            yield np.array([self.eos], np.int32)

    def _split(self, text: str) -> list[bytes]:
        if self.lower:
            text = text.lower()
        return utf8(text).replace(b"\n", b" " + _LINE_END + b" ").split()

    @cached_property
    def _known(self) -> _Known:
        marks = (END, START)
        known = _Known({utf8(word): k for word, k in self.vocab.index.items() if word not in marks})
        known[_LINE_END] = self.eos
        known.unknown = self.unknown
        return known


class _Known(dict[bytes, int]):
    """word -> id; a word that is not known has that of the unknown one, and is not added."""

    unknown: int

    def __missing__(self, word: bytes) -> int:
        return self.unknown


class _WordPieces:
    def __init__(self, units: Words) -> None:
        self._symbols, self._eos = units.vocab.symbols, units.eos
        self._space = ""

    def feed(self, id: int) -> str:
        if id == self._eos:
            self._space = ""
            return "\n"
        text, self._space = self._space + self._symbols[id], " "
        return text

    def rest(self) -> str:
        self._space = ""
        return ""


class Chars(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True, tag="chars", tag_field="kind"):
    """Characters of running text, line breaks among them.

    >>> units = Chars(Vocab(["<unk>", "\\n", "a", "b"], "<unk>"))
    >>> units.ids("ba\\n?"), units.text([3, 2, 1, 0]), units.unknowns("ba\\n?")
    ([3, 2, 1, 0], 'ba\\n�', ['?'])

    Args:
        vocab: of characters, with ``<unk>`` as the unknown one, and the line break.
    """

    vocab: Vocab

    def __post_init__(self) -> None:
        wrong = next((symbol for symbol in self.vocab.symbols if len(symbol) != 1 and symbol != UNKNOWN), None)
        if self.vocab.unknown != UNKNOWN or "\n" not in self.vocab or wrong is not None:
            raise ConfigError(
                f"units of characters: expected single characters, the line break among them, and {UNKNOWN} as the "
                f"unknown symbol, received "
                + (f"the symbol {wrong!r}" if wrong is not None else f"{len(self.vocab)} symbols without one of them")
            )

    @staticmethod
    def learn(blocks: Iterable[str], *, min_count: int = 1) -> Chars:
        """The characters that occur at least ``min_count`` times in a text that comes in blocks."""
        counts: Counter[str] = Counter()
        for block in blocks:
            counts.update(block)
        if not counts:
            raise DataError("no text to learn the characters from; expected at least one")
        counts["\n"] = max(counts["\n"], min_count)
        return Chars(Vocab.count(counts, unknown=UNKNOWN, min_count=min_count))

    @property
    def size(self) -> int:
        """How many symbols there are."""
        return len(self.vocab)

    @property
    def bos(self) -> int:
        """The line break."""
        return self.vocab.index["\n"]

    @property
    def eos(self) -> None:
        """Running text has no end."""
        return None

    @property
    def unknown(self) -> int:
        """The symbol of the characters that are not known."""
        return self.vocab.index[UNKNOWN]

    def ids(self, text: str) -> list[int]:
        """The characters."""
        ids: list[int] = self._encoded(text).tolist()
        return ids

    def text(self, ids: Iterable[int]) -> str:
        """The characters; unknown ones are U+FFFD."""
        pieces = self.pieces()
        return "".join(map(pieces.feed, ids))

    def pieces(self) -> Pieces:
        """A decoder that gives a character for each symbol."""
        return _CharPieces(self)

    def symbol(self, id: int) -> str:
        """The character."""
        return self.vocab.symbols[id]

    def unknowns(self, text: str) -> list[str]:
        """The characters that are not known."""
        return [text[k] for k in np.flatnonzero(self._encoded(text) == self.unknown)]

    def encode(self, blocks: Iterable[str]) -> Iterator[np.ndarray]:
        """The characters of all blocks."""
        return map(self._encoded, gathered(blocks))

    def _encoded(self, text: str) -> np.ndarray:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        return np.asarray(self._codes[np.minimum(codes, len(self._codes) - 1)])

    @cached_property
    def _codes(self) -> np.ndarray:
        """Code point -> id; the last one stands for all that lie beyond."""
        known = {ord(symbol): k for symbol, k in self.vocab.index.items() if symbol != UNKNOWN}
        ids = np.full(max(known) + 2, self.unknown, np.int32)
        ids[list(known)] = list(known.values())
        return ids


class _CharPieces:
    def __init__(self, units: Chars) -> None:
        self._symbols = ["\N{REPLACEMENT CHARACTER}" if k == UNKNOWN else k for k in units.vocab.symbols]

    def feed(self, id: int) -> str:
        return self._symbols[id]

    def rest(self) -> str:
        return ""


class Bytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="bytes", tag_field="kind"):
    """The 256 bytes of UTF-8.

    >>> Bytes().ids("né\\n"), Bytes().text([110, 195, 169, 10])
    ([110, 195, 169, 10], 'né\\n')
    """

    @property
    def size(self) -> int:
        """256."""
        return len(_SPELLED)

    @property
    def bos(self) -> int:
        """The line break."""
        return 10

    @property
    def eos(self) -> None:
        """Running text has no end."""
        return None

    @property
    def unknown(self) -> None:
        """No byte is unknown."""
        return None

    def ids(self, text: str) -> list[int]:
        """The bytes."""
        return list(utf8(text))

    def text(self, ids: Iterable[int]) -> str:
        """The characters of some bytes; those that are no UTF-8 become U+FFFD."""
        return joined(_SPELLED, ids)

    def pieces(self) -> Pieces:
        """A decoder that gives a character when it is complete."""
        return Utf8Pieces(_SPELLED)

    def symbol(self, id: int) -> str:
        """The character of ASCII, or the byte as ``\\xc3``."""
        return _SPELLED[id].decode("utf-8", "backslashreplace")

    def unknowns(self, text: str) -> list[str]:
        """Nothing is unknown."""
        return []

    def encode(self, blocks: Iterable[str]) -> Iterator[np.ndarray]:
        """The bytes of all blocks."""
        for block in gathered(blocks):
            yield np.frombuffer(utf8(block), np.uint8).astype(np.int32)


_SPELLED = [bytes([k]) for k in range(256)]

AnyUnits = Words | Chars | Bytes | Bpe


def learn(settings: lm.AnyUnits, blocks: Iterable[str], *, bos_symbol: str = END) -> AnyUnits:
    """The units that a recipe asks for, from the text of the training file.

    Memory is bounded by the number of distinct words, characters or stretches.

    Args:
        settings: ``units`` of a recipe.
        blocks: of the text, cut anywhere, with its line breaks; each line of a file of lines with its end.
        bos_symbol: of words: ``</s>`` for a stream of lines, ``<s>`` where each line begins anew.

    >>> units = learn(lm.WordUnits(min_count=2), ["a b\\n", "a c\\n"], bos_symbol="<s>")
    >>> units.vocab.symbols
    ['<unk>', '</s>', '<s>', 'a']
    """
    match settings:
        case lm.WordUnits(min_count=min_count, limit=limit, lower=lower):
            return Words.learn(blocks, min_count=min_count, limit=limit, lower=lower, bos_symbol=bos_symbol)
        case lm.CharUnits(min_count=min_count):
            return Chars.learn(blocks, min_count=min_count)
        case lm.BpeUnits(size=size):
            return Bpe.learn(blocks, size=size)
        case lm.ByteUnits():
            return Bytes()


def dump_units(units: AnyUnits) -> bytes:
    """The content of ``vocab/units.json``.

    >>> dump_units(Bytes())
    b'{"kind":"bytes"}'
    """
    return msgspec.json.encode(units)


def load_units(data: bytes, name: str = "vocab/units.json", *, kind: str | None = None) -> AnyUnits:
    """The inverse of ``dump_units``.

    Args:
        data: the content of the file.
        name: what messages call it.
        kind: ``words``, ``chars``, ``bytes`` or ``bpe``, where only that one is right.
    """
    try:
        units: AnyUnits = msgspec.json.decode(data, type=AnyUnits)
    except (msgspec.MsgspecError, ConfigError) as error:
        raise CheckpointError(f"{name}: not the units of a language model: {error}. Copy the model again") from None
    found = tag_of(units)
    if kind not in (None, found):
        raise CheckpointError(f"{name}: expected units of kind '{kind}', received '{found}'. Copy the model again")
    return units


def split_words(text: str) -> list[str]:
    """The words of a text as `Words` tells them apart, in the case in which they stand.

    >>> split_words("  one\\ttwo \\n")
    ['one', 'two']
    """
    return [word.decode() for word in utf8(text).split()]


def gathered(blocks: Iterable[str], cuts: str = "") -> Iterator[str]:
    """The text of the blocks in larger ones, since a reader of lines gives one at a time.

    Args:
        blocks: of text.
        cuts: the characters behind which it may be cut; anywhere where there are none.
    """
    held: list[str] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block)
        if size >= _BLOCK:
            rest = len(block) - max(map(block.rfind, cuts)) - 1 if cuts else 0
            if rest < len(block):
                text = "".join(held)
                yield text[: size - rest]
                held, size = [text[size - rest :]], rest
    if size:
        yield "".join(held)
