"""A vocabulary: symbols and their ids, frozen once it is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from riverrun.errors import ConfigError, DataError


class Vocab(msgspec.Struct, frozen=True, dict=True, tag="vocab", tag_field="kind"):
    """Symbols in the order of their ids. With ``unknown``, a symbol that is not listed has that symbol's id.

    >>> vocab = Vocab.count({"a": 3, "b": 1, "c": 2}, unknown="<unk>", min_count=2)
    >>> vocab.symbols
    ['<unk>', 'a', 'c']
    >>> vocab.ids(["c", "b"])
    [2, 0]
    >>> vocab.decode([1, 2])
    ['a', 'c']
    """

    symbols: list[str]
    unknown: str | None = None

    def __post_init__(self) -> None:
        index = {symbol: k for k, symbol in enumerate(self.symbols)}
        if len(index) != len(self.symbols):
            raise ConfigError(f"a vocabulary of {len(self.symbols)} symbols lists some of them twice")
        if self.unknown is not None and self.unknown not in index:
            raise ConfigError(f"the vocabulary's unknown symbol {self.unknown!r} is not among its symbols")
        self.__dict__["index"] = index  # follows from the symbols: neither compared nor stored

    @property
    def index(self) -> dict[str, int]:
        """symbol -> id."""
        return self.__dict__["index"]  # type: ignore[no-any-return]  # a struct's dict is untyped

    @staticmethod
    def count(
        counts: Mapping[str, int], *, unknown: str | None = None, min_count: int = 1, limit: int | None = None
    ) -> Vocab:
        """The symbols with at least ``min_count`` occurrences, most frequent first, equal ones in code point order."""
        kept = [symbol for symbol, n in counts.items() if n >= min_count and symbol != unknown]
        kept.sort(key=lambda symbol: (-counts[symbol], symbol))
        head = [] if unknown is None else [unknown]
        return Vocab(head + kept[:limit], unknown)

    def __len__(self) -> int:
        return len(self.symbols)

    def __contains__(self, symbol: str) -> bool:
        return symbol in self.index

    def id(self, symbol: str) -> int:
        """The id of one symbol; a DataError where it is not known and there is no unknown symbol."""
        found = self.index.get(symbol)
        if found is None:
            if self.unknown is None:
                known = ", ".join(self.symbols[:20]) + (", ..." if len(self.symbols) > 20 else "")
                raise DataError(f"{symbol!r} is not among the {len(self.symbols)} known symbols: {known}")
            return self.index[self.unknown]
        return found

    def ids(self, symbols: Iterable[str]) -> list[int]:
        """The ids of several symbols."""
        if self.unknown is None:
            return [self.id(symbol) for symbol in symbols]
        unknown, get = self.index[self.unknown], self.index.get
        return [get(symbol, unknown) for symbol in symbols]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The symbols of several ids."""
        return [self.symbols[k] for k in ids]
