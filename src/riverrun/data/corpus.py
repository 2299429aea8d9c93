"""A corpus as ids of distinct strings in memory-mapped files: larger than memory, read in any order."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from riverrun.errors import DataError
from riverrun.text.durable import write_durably

_CHUNK = 1 << 18  # ids that are held before they are written


class _Ids(dict[str, int]):
    """symbol -> id in the order of first use."""

    def __missing__(self, symbol: str) -> int:
        self[symbol] = new = len(self)
        return new


@dataclass(eq=False)
class Corpus:
    """Sentences of several parallel columns, each a list of strings of the same length.

    What is on disk is one file of ids a column, one of sentence offsets, and a list of each column's distinct symbols
    with their counts. Only the last is held in memory.

    >>> import tempfile
    >>> rows = [{"form": ["dogs", "bark"], "tag": ["NOUN", "VERB"]}, {"form": ["bark"], "tag": ["VERB"]}]
    >>> corpus = Corpus.build(rows, tempfile.mkdtemp(), columns=("form", "tag"))
    >>> len(corpus), corpus.tokens, corpus.symbols["form"], corpus.counts["form"].tolist()
    (2, 3, ['dogs', 'bark'], [1, 2])
    >>> corpus.sentence(1)
    {'form': ['bark'], 'tag': ['VERB']}
    """

    folder: Path
    symbols: dict[str, list[str]]
    counts: dict[str, np.ndarray]
    offsets: np.ndarray
    ids: dict[str, np.ndarray] = field(repr=False)

    @staticmethod
    def build(
        sentences: Iterable[Mapping[str, Sequence[str]]], folder: Path | str, *, columns: Sequence[str]
    ) -> Corpus:
        """Read sentences once, in bounded memory, and write the files; the last one written is the index."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        index = {name: _Ids() for name in columns}
        held = {name: array("i") for name in columns}
        offsets = array("q", [0])
        # Under other names first: what was here may be mapped by another run, and to shorten a mapped file kills it.
        drafts = {name: folder / f".{name}.ids.{os.getpid()}" for name in columns}
        files = {name: draft.open("wb") for name, draft in drafts.items()}
        try:
            for sentence in sentences:
                sizes = set()
                for name in columns:
                    values = sentence[name]
                    sizes.add(len(values))
                    held[name].extend(map(index[name].__getitem__, values))
                if len(sizes) != 1:
                    raise DataError(f"sentence {len(offsets)}: columns of different lengths {sorted(sizes)}")
                offsets.append(offsets[-1] + sizes.pop())
                if len(held[columns[0]]) >= _CHUNK:
                    for name in columns:
                        held[name].tofile(files[name])
                        held[name] = array("i")
            for name in columns:
                held[name].tofile(files[name])
        except BaseException:
            for draft in drafts.values():
                draft.unlink(missing_ok=True)
            raise
        finally:
            for file in files.values():
                file.close()
        for name, draft in drafts.items():
            draft.replace(folder / f"{name}.ids")
        write_durably(folder / "offsets", np.asarray(offsets, np.int64).tobytes())
        write_durably(folder / "symbols.json", msgspec.json.encode({name: list(index[name]) for name in columns}))
        return Corpus.open(folder)

    @staticmethod
    def open(folder: Path | str) -> Corpus:
        """A corpus that was built before."""
        folder = Path(folder)
        symbols = msgspec.json.decode((folder / "symbols.json").read_bytes(), type=dict[str, list[str]])
        offsets = _map(folder / "offsets", np.int64)
        ids = {name: _map(folder / f"{name}.ids", np.int32) for name in symbols}
        counts = {name: _count(ids[name], len(symbols[name])) for name in symbols}
        return Corpus(folder, symbols, counts, offsets, ids)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def tokens(self) -> int:
        """The number of tokens of all sentences."""
        return int(self.offsets[-1])

    @property
    def lengths(self) -> np.ndarray:
        """(N,), the length of each sentence."""
        return np.asarray(np.diff(self.offsets))

    def lengths_of(self, sentences: np.ndarray) -> np.ndarray:
        """The lengths of several sentences."""
        return np.asarray(self.offsets[sentences + 1] - self.offsets[sentences])

    def take(self, sentences: np.ndarray, column: str) -> np.ndarray:
        """The ids of several sentences in a column, one sentence after the other."""
        ids, offsets = self.ids[column], self.offsets
        return np.concatenate([np.zeros(0, np.int32), *(ids[offsets[k] : offsets[k + 1]] for k in sentences)])

    def sentence(self, k: int) -> dict[str, list[str]]:
        """Sentence k as strings."""
        part = slice(int(self.offsets[k]), int(self.offsets[k + 1]))
        return {name: [self.symbols[name][i] for i in self.ids[name][part]] for name in self.symbols}

    def column(self, name: str) -> Iterator[list[str]]:
        """One column of all sentences, in order."""
        symbols, ids, offsets = self.symbols[name], self.ids[name], self.offsets
        for k in range(len(self)):
            yield [symbols[i] for i in ids[offsets[k] : offsets[k + 1]]]

    def recode(self, name: str, convert: Callable[[list[str]], Sequence[str]]) -> Corpus:
        """The same corpus with one column converted sentence by sentence (another tag scheme, say)."""

        def converted() -> Iterator[dict[str, Sequence[str]]]:
            for k in range(len(self)):
                sentence: dict[str, Sequence[str]] = dict(self.sentence(k))
                sentence[name] = convert(list(sentence[name]))
                yield sentence

        return Corpus.build(converted(), self.folder / f"recoded-{name}", columns=tuple(self.symbols))


def _map(path: Path, dtype: type) -> np.ndarray:
    """A file as an array; an empty file cannot be mapped."""
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.zeros(0, dtype)


def _count(ids: np.ndarray, size: int) -> np.ndarray:
    """How often each id occurs, a part of the file at a time."""
    total = np.zeros(size, np.int64)
    for start in range(0, len(ids), _CHUNK):
        total += np.bincount(ids[start : start + _CHUNK], minlength=size)
    return total
