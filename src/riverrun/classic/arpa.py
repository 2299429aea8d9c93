r"""The text format of n-gram models, ARPA: read and written.

``\data\`` and how many n-grams of each order there are; then for each order ``\n-grams:`` and a line an n-gram: its log
probability to the base of ten, a tab, its words, and below the highest order a tab and the log of its back-off weight;
``\end\`` at last. Ids are parted by white space of ASCII.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from riverrun.classic.arrays import Floats, Ids, Integers
from riverrun.classic.ngram import NGram
from riverrun.classic.trie import Trie
from riverrun.errors import ConfigError, DataError
from riverrun.text.sources import Source, TextSource, create_text, open_text
from riverrun.text.utf8 import utf8
from riverrun.text.vocab import Vocab

START, END, UNKNOWN = "<s>", "</s>", "<unk>"

_TEN = math.log(10)
_NEVER = -99.0  # how the format spells the logarithm of 0
_NO_UNKNOWN = -100.0  # of unknown words where the file says nothing of them, as KenLM has it
_BLOCK = 1 << 16  # lines that are taken apart, or put together, at once
_COUNT = re.compile(r"ngram\s+(\d+)\s*=\s*(\d+)\s*$")
_SPACE = re.compile(r"[ \t\n\r\v\f]")


def write_arpa(path: str | Path | IO[str], model: NGram, vocab: Vocab) -> None:
    r"""Write a model of lines of words; ``.gz`` and ``.zst`` are compressed.

    Args:
        path: the file.
        model: it has ends of lines, and probabilities with back-off weights: those of ``add-k`` have none, and those
            of ``stupid-backoff`` are no probabilities.
        vocab: the words in the order of their ids, ``<s>`` and ``</s>`` as ``bos`` and ``eos`` of the model.

    >>> import sys
    >>> trie = Trie(np.array([0, 3, 4]), np.array([0, 1, 2, 2], np.int32), np.array([3, 4, 4, 4]))
    >>> model = NGram(trie, np.log([1e-9, 0.5, 0.5, 0.8]), np.log([0.4, 1, 1]), bos=0, eos=1)
    >>> write_arpa(sys.stdout, model, Vocab(["<s>", "</s>", "a"]))  # doctest: +ELLIPSIS
    \data\
    ngram 1=3
    ngram 2=1
    <BLANKLINE>
    \1-grams:
    -9	<s>	-0.397940009
    -0.301029996	</s>	0
    ...
    """
    _check_writable(model, vocab)
    trie, parents = model.trie, model.trie.parents()
    with create_text(path) as file:
        file.write("\\data\\\n")
        for order in range(1, trie.order + 1):
            file.write(f"ngram {order}={trie.base[order] - trie.base[order - 1]}\n")
        for order in range(1, trie.order + 1):
            file.write(f"\n\\{order}-grams:\n")
            level = trie.level(order)
            for start in range(level.start, level.stop, _BLOCK):
                nodes = np.arange(start, min(start + _BLOCK, level.stop))
                file.writelines(_lines(model, nodes, order, parents, vocab.symbols))
        file.write("\n\\end\\\n")


def _lines(model: NGram, nodes: Integers, order: int, parents: Integers, symbols: list[str]) -> Iterator[str]:
    trie, at, columns = model.trie, nodes, []
    for _ in range(order):
        columns.append([symbols[k] for k in trie.word[at].tolist()])
        at = parents[at]
    grams = map(" ".join, zip(*columns[::-1], strict=True))
    probs = _to_ten(model.log_prob[nodes])
    if order == trie.order:
        return (f"{prob:.9g}\t{gram}\n" for prob, gram in zip(probs, grams, strict=True))
    weights = _to_ten(model.log_backoff[nodes])
    return (f"{prob:.9g}\t{gram}\t{w:.9g}\n" for prob, gram, w in zip(probs, grams, weights, strict=True))


def _to_ten(natural: npt.NDArray[np.floating]) -> list[float]:
    """Natural logarithms as those to the base of ten."""
    values = natural.astype(np.float64) / _TEN + 0.0  # which makes a 0 of -0
    numbers: list[float] = np.where(np.isfinite(values), values, _NEVER).tolist()
    return numbers


def _check_writable(model: NGram, vocab: Vocab) -> None:
    if model.flat or not model.normalised:
        raise ConfigError(
            f"a model with smoothing '{model.smoothing}' cannot be written as ARPA, which has probabilities with "
            "back-off weights; save it as arrays, or smooth in another way"
        )
    if model.eos is None:
        raise ConfigError(
            "a model of running text cannot be written as ARPA, which has lines that end; save its arrays"
        )
    if len(vocab) != model.size:
        raise ConfigError(f"vocab: expected the {model.size} symbols of the model, received {len(vocab)}")
    for name, id, expected in (("bos", model.bos, START), ("eos", model.eos, END), ("unknown", model.unknown, UNKNOWN)):
        if id is not None and vocab.symbols[id] not in (expected, expected.upper() if name == "unknown" else expected):
            raise ConfigError(f"vocab: expected {expected} as the {name} of the model, received {vocab.symbols[id]!r}")
    for symbol in vocab.symbols:
        if not symbol or _SPACE.search(symbol):
            raise DataError(f"the symbol {symbol!r} cannot be written as ARPA, where white space parts the words")


def read_arpa(path: Source, *, dtype: npt.DTypeLike = np.float32) -> tuple[NGram, Vocab]:
    r"""A model and its vocabulary, from a file of any toolkit; ``.gz`` and ``.zst`` are decompressed.

    The ids are those of the order of the 1-grams. ``<s>`` is never predicted, whatever number it has. Where there is no
    ``<unk>`` it is added with the log probability -100, and the model's notes say so.

    Args:
        path: the file.
        dtype: of the logarithms that are kept.

    >>> import io
    >>> text = "\\data\\\nngram 1=3\nngram 2=1\n\n\\1-grams:\n-99 <s> -0.4\n-0.3 </s>\n-0.3 a\n\n" + (
    ...     "\\2-grams:\n-0.1 <s> a\n\n\\end\\\n")
    >>> model, vocab = read_arpa(io.StringIO(text))
    >>> vocab.symbols, model.notes
    (['<s>', '</s>', 'a', '<unk>'], ('no <unk> among the 1-grams: unknown words have the log probability -100',))
    """
    with open_text(path) as source:
        reader = _Reader(source)
        sizes = reader.header()
        table = _Table(reader)
        for order, size in enumerate(sizes, 1):
            table.add(reader.section(order, size, last=order == len(sizes), index=table.index))
        reader.end()
    return table.model(dtype)


@dataclass
class _Section:
    """The n-grams of one order as they stand in the file.

    Args:
        line: the number of the first of them.
        words: (n, order), of 1-grams the ids in their order.
        log_prob: (n,), to the base of ten.
        log_backoff: (n,), NaN where there is none.
    """

    line: int
    words: Ids
    log_prob: Floats
    log_backoff: Floats


class _Reader:
    """The lines of a file and what they must be."""

    def __init__(self, source: TextSource) -> None:
        self._source = source
        self._lines = source.lines()
        self._number = 0

    def error(self, message: str, line: int | None = None) -> DataError:
        return self._source.error(self._number if line is None else line, message)

    def header(self) -> list[int]:
        """How many n-grams of each order there are; the title of the 1-grams has been read too."""
        while (line := self._line("a line '\\data\\'")) != "\\data\\":
            pass
        sizes: list[int] = []
        while (line := self._line("the title '\\1-grams:'")) != "\\1-grams:":
            found = _COUNT.match(line)
            if not found and line:
                raise self.error(
                    f"expected 'ngram {len(sizes) + 1}=' and a number, or '\\1-grams:', received {_shown(line)}"
                )
            if found:
                if int(found[1]) != len(sizes) + 1:
                    raise self.error(
                        f"expected the number of {len(sizes) + 1}-grams, received that of {found[1]}-grams"
                    )
                sizes.append(int(found[2]))
        if not sizes or not sizes[0]:
            raise self.error("the header does not say how many 1-grams there are")
        return sizes

    def section(self, order: int, size: int, *, last: bool, index: dict[bytes, int]) -> _Section:
        """So many lines of n-grams; the words of 1-grams are added to the index."""
        if order > 1:
            self._title(f"\\{order}-grams:", order - 1)
        start, done = self._number + 1, 0
        # What the header says may be wrong: nothing is made of that size.
        parts = [(np.empty((0, order), np.int32), np.empty(0), np.empty(0))]
        while done < size:
            fields, counts = self._fields(order, min(_BLOCK, size - done), last, f"{size} {order}-grams", done)
            at, lines = np.cumsum(counts) - counts, np.arange(len(counts)) + start + done
            log_prob, log_backoff = self._numbers(fields[at], lines), np.full(len(counts), np.nan)
            if order == 1:
                self._learn(fields[at + 1], index)
            words = np.stack([self._ids(fields[at + 1 + k], index) for k in range(order)], axis=1)
            weighed = counts == order + 2
            log_backoff[weighed] = self._numbers(fields[(at + order + 1)[weighed]], lines[weighed])
            parts.append((words, log_prob, log_backoff))
            done += len(counts)
            self._number += len(counts)
        return _Section(start, *map(np.concatenate, zip(*parts, strict=True)))

    def end(self) -> None:
        """Nothing but the end of the file may follow."""
        self._title("\\end\\", None)
        for line in self._lines:
            self._number += 1
            if line.strip():
                raise self.error(f"expected nothing behind '\\end\\', received {_shown(line)}")

    def _line(self, expected: str) -> str:
        line = next(self._lines, None)
        if line is None:
            raise self.error(f"the file ends here; expected {expected}")
        self._number += 1
        return line.strip()

    def _title(self, title: str, before: int | None) -> None:
        while not (line := self._line(f"'{title}'")):
            pass
        if line != title:
            more = "" if line.startswith("\\") else "; there are more n-grams above than the header says"
            raise self.error(f"expected '{title}', received {_shown(line)}{more}")

    def _fields(
        self, order: int, count: int, last: bool, promised: str, done: int
    ) -> tuple[npt.NDArray[np.object_], Integers]:
        """The fields of the next lines, one behind the other, and how many of them each line has."""
        data = utf8("\n".join(islice(self._lines, count)))
        found = data.split()
        # Counting spaces is three times as fast as splitting each line; it counts too many where some stand together.
        bytes_ = np.frombuffer(data + b"\n", np.uint8)
        ends = np.flatnonzero(bytes_ == ord("\n"))
        spaces = np.cumsum((bytes_ == ord(" ")) | (bytes_ == ord("\t")))[ends]
        counts = np.diff(spaces, prepend=0) + 1
        if counts.sum() != len(found):
            counts = np.array([len(line.split()) for line in data.split(b"\n")])
        wrong = counts != order + 1 if last else (counts != order + 1) & (counts != order + 2)
        if wrong.any() or len(counts) < count:
            at = int(np.argmax(wrong)) if wrong.any() else len(counts)
            line = (*data.split(b"\n"), b"")[at]
            if not line.strip() or line.startswith(b"\\"):
                self._number += at + 1
                raise self.error(f"the header says {promised}, received {done + at}")
            wanted = f"a log probability and {order} words" + ("" if last else ", and a back-off weight or none")
            raise self.error(f"expected {wanted}, received {counts[at]} fields", self._number + at + 1)
        fields = np.empty(len(found), np.object_)
        fields[:] = found
        return fields, counts

    def _numbers(self, texts: npt.NDArray[np.object_], lines: Integers) -> Floats:
        try:
            values = np.fromiter(map(float, texts.tolist()), np.float64, len(texts))
        except ValueError:
            values = np.array([_number(text) for text in texts])
        wrong = ~np.isfinite(values)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise self.error(f"expected a number, received {_shown(texts[at])}", int(lines[at]))
        return values

    def _learn(self, words: npt.NDArray[np.object_], index: dict[bytes, int]) -> None:
        for k, word in enumerate(words, 1):
            new = len(index)
            if index.setdefault(word, new) != new:
                raise self.error(f"the 1-gram {_shown(word)} is there twice", self._number + k)

    def _ids(self, words: npt.NDArray[np.object_], index: dict[bytes, int]) -> Ids:
        ids = np.fromiter(map(index.get, words.tolist(), repeat(-1)), np.int32, len(words))
        if (ids < 0).any():
            at = int(np.argmax(ids < 0))
            raise self.error(f"the word {_shown(words[at])} is not among the 1-grams", self._number + at + 1)
        return ids


class _Table:
    """The tree, order by order."""

    def __init__(self, reader: _Reader) -> None:
        self.index: dict[bytes, int] = {}
        self._reader = reader
        self._sections: list[_Section] = []
        self._lines = np.empty(0, np.int64)  # where the n-grams of the last order stand, in the order of their nodes
        self._base = [0]
        self._first: list[Integers] = []
        self._notes: list[str] = []

    def add(self, section: _Section) -> None:
        """The n-grams of the next order."""
        if not self._sections:
            self._complete(section)
        lines = np.arange(len(section.words)) + section.line
        self._check(section.log_prob, lines)
        if self._sections:
            parents = self._parents(section.words, lines)
            keys = parents * self._base[1] + section.words[:, -1]
            order = np.argsort(keys, kind="stable")
            twice = np.flatnonzero(np.diff(keys[order]) == 0)
            if len(twice):
                again = int(order[twice + 1].min())
                raise self._error("the n-gram {} is there twice", section.words[again], lines[again])
            self._follow(parents)
            lines = lines[order]
            section = _Section(section.line, section.words[order], section.log_prob[order], section.log_backoff[order])
        self._lines = lines
        self._base.append(self._base[-1] + len(lines))
        self._sections.append(section)

    def model(self, dtype: npt.DTypeLike) -> tuple[NGram, Vocab]:
        """The model of all orders."""
        log_prob = np.concatenate([section.log_prob for section in self._sections]) * _TEN
        weights = [section.log_backoff for section in self._sections[:-1]]
        log_backoff = np.nan_to_num(np.concatenate([np.empty(0), *weights]), nan=0.0) * _TEN
        symbols = [word.decode() for word in self.index]
        vocab = Vocab(symbols, next(symbol for symbol in symbols if symbol.lower() == UNKNOWN))
        bos, eos, unknown = vocab.id(START), vocab.id(END), vocab.id(UNKNOWN)
        log_prob[bos] = -np.inf
        model = NGram(
            self._trie(), log_prob.astype(dtype), log_backoff.astype(dtype), bos, eos, unknown, notes=tuple(self._notes)
        )
        return model, vocab

    def _trie(self) -> Trie:
        words = [np.ascontiguousarray(section.words[:, -1]) for section in self._sections]
        first = np.concatenate([*self._first, np.array([self._base[-1]])])
        return Trie(np.array(self._base), np.concatenate(words), first)

    def _complete(self, section: _Section) -> None:
        """What every model has among its 1-grams."""
        for name in (START, END):
            if name.encode() not in self.index:
                raise self._reader.error(f"there is no {name} among the 1-grams", section.line)
        if not any(word.lower() == UNKNOWN.encode() for word in self.index):
            self._notes.append(
                f"no {UNKNOWN} among the 1-grams: unknown words have the log probability {_NO_UNKNOWN:g}"
            )
            self.index[UNKNOWN.encode()] = len(self.index)
            section.words = np.arange(len(self.index), dtype=np.int32)[:, None]
            section.log_prob = np.append(section.log_prob, _NO_UNKNOWN)
            section.log_backoff = np.append(section.log_backoff, np.nan)

    def _check(self, log_prob: Floats, lines: Integers) -> None:
        wrong = log_prob > 0
        if not self._sections:
            wrong[self.index[START.encode()]] = False
        if wrong.any():
            at = int(np.argmax(wrong))
            raise self._reader.error(
                f"expected a log probability of at most 0, received {log_prob[at]:g}", int(lines[at])
            )

    def _parents(self, words: Ids, lines: Integers) -> Integers:
        trie = self._trie()
        nodes = words[:, 0].astype(np.int64)
        for column in range(1, words.shape[1] - 1):
            nodes = trie.find(nodes, words[:, column])
        if (nodes < 0).any():
            at = int(np.argmax(nodes < 0))
            raise self._error("the n-gram {} is there, but not what it begins with", words[at], lines[at])
        return nodes

    def _follow(self, parents: Integers) -> None:
        """Where the children of the last order begin."""
        section, start, end = self._sections[-1], *self._base[-2:]
        sizes = np.bincount(parents - start, minlength=end - start)
        wanting = np.flatnonzero((sizes > 0) & np.isnan(section.log_backoff))
        if len(wanting):
            at = int(wanting[np.argmin(self._lines[wanting])])
            problem = "longer n-grams begin with {}: it needs a back-off weight"
            raise self._error(problem, section.words[at], self._lines[at])
        self._first.append(end + np.cumsum(sizes) - sizes)

    def _error(self, problem: str, words: Ids, line: int) -> DataError:
        symbols = list(self.index)
        gram = " ".join(symbols[k].decode() for k in words)
        return self._reader.error(problem.format(repr(gram)), int(line))


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _shown(text: str | bytes) -> str:
    """A piece of the file between quotes; backslashes stay single, as they stand there."""
    text = text.decode() if isinstance(text, bytes) else text
    return f"'{text if len(text) < 80 else text[:77] + '...'}'"
