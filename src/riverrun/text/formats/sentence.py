"""One sentence of a column file, CoNLL-U or CoNLL: what its words say, and all that is needed to write it back."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

from riverrun.errors import DataError, nearest

if TYPE_CHECKING:
    from riverrun.text.sources import TextSource

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


class Range(NamedTuple):
    """A multiword token: the surface form that several words share; first and last are their numbers from 1."""

    first: int
    last: int
    form: str
    misc: str


class EmptyNode(NamedTuple):
    """A word that is not in the text (CoNLL-U's ``8.1``), with its ten columns."""

    id: str
    columns: tuple[str, ...]


class Aside(NamedTuple):
    """A line among the words that is not a word: a multiword range or an empty node, before word ``at`` (from 0)."""

    at: int
    text: str


class Sentence:
    """Words in columns, with the comments, multiword tokens and empty nodes around them.

    A sentence is not changed: `with_column` gives another one. It is made by a reader, or by `Sentence.of`.

    Attributes:
        columns: the names of the columns.
        line: the line of its start in its file, from 1 (its first comment, where it has one); 0 when it has no file.

    >>> sentence = Sentence.of({"form": ["Dogs", "bark"], "tag": ["NOUN", "VERB"]})
    >>> sentence.forms, sentence.column("tag"), sentence.column(-1)
    (['Dogs', 'bark'], ['NOUN', 'VERB'], ['NOUN', 'VERB'])
    >>> print(sentence.with_column("tag", ["N", "V"]), end="")
    Dogs	N
    bark	V
    """

    __slots__ = (
        "_asides",
        "_cells",
        "_gaps",
        "_separator",
        "after",
        "before",
        "columns",
        "comments",
        "line",
        "newline",
    )

    def __init__(
        self,
        columns: tuple[str, ...],
        cells: list[str],
        *,
        comments: tuple[str, ...] = (),
        asides: tuple[Aside, ...] = (),
        separator: str = "\t",
        gaps: Sequence[Sequence[str]] = (),
        line: int = 0,
    ) -> None:
        """Cells are all columns of the first word, then all of the second...; the first cell of every word but the
        first one begins with the line feed that stands before it in the file: so a whole sentence is split at once.
        Gaps are what stands before, between and behind the cells of each word, where that is not one separator."""
        self.columns = columns
        self.comments = comments
        self.line = line
        self.before = ""  # what stands between the sentence before this one and this, if it is not a blank line
        # The blank lines behind it, as they are in the file; None where the file ends in the middle of its last line.
        self.after: str | None = "\n"
        self.newline: str | tuple[str, ...] = "\n"  # how its lines end; where they differ, how each of them does
        self._cells = cells
        self._gaps = gaps
        self._asides = asides
        self._separator = separator

    @staticmethod
    def of(columns: Mapping[str, Sequence[str]], *, comments: Sequence[str] = (), separator: str = "\t") -> Sentence:
        """A sentence from its columns, in their order."""
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) != 1:
            raise DataError(f"Sentence: expected columns of one length, received {lengths}")
        for name, values in columns.items():
            _check(name, values, separator)
        cells = [cell for row in zip(*columns.values(), strict=True) for cell in row]
        width = len(columns)
        cells[width::width] = ["\n" + cell for cell in cells[width::width]]
        return Sentence(tuple(columns), cells, comments=tuple(comments), separator=separator)

    @staticmethod
    def conllu(columns: Mapping[str, Sequence[str]], *, comments: Sequence[str] = ()) -> Sentence:
        """A sentence with CoNLL-U's ten columns: words are numbered, columns that are not given are ``_``.

        >>> print(Sentence.conllu({"form": ["Rain", "!"], "upos": ["NOUN", "PUNCT"]}, comments=["# text = Rain!"]))
        # text = Rain!
        1	Rain	_	NOUN	_	_	_	_	_	_
        2	!	_	PUNCT	_	_	_	_	_	_
        <BLANKLINE>
        """
        for name in columns:
            if name not in CONLLU[1:]:
                raise DataError(f"Sentence: CoNLL-U has no column '{name}' to fill{nearest(name, CONLLU[1:])}")
        size = max(map(len, columns.values()), default=0)
        rows = {name: columns.get(name, ["_"] * size) for name in CONLLU}
        rows["id"] = [str(k) for k in range(1, size + 1)]
        return Sentence.of(rows, comments=comments)

    def __len__(self) -> int:
        """The number of its words."""
        return len(self._cells) // len(self.columns)

    def __repr__(self) -> str:
        return f"Sentence({' '.join(self.forms)!r}, columns={self.columns})"

    def __str__(self) -> str:
        """Its comments and lines, each with LF at the end, without the blank line behind it."""
        lines = (
            self._spaced() if self._gaps else self._separator.join(self._cells).replace(self._separator + "\n", "\n")
        )
        if self._asides:
            rows = lines.split("\n") if lines else []
            for at, text in reversed(self._asides):
                rows.insert(at, text)
            lines = "\n".join(rows)
        head = "".join(comment + "\n" for comment in self.comments)
        return head + lines + "\n" if lines else head

    def written(self) -> str:
        """As it stands in a file, with everything up to the next sentence."""
        text = self._with_blanks()
        if isinstance(self.newline, str):
            return text.replace("\n", self.newline) if self.newline != "\n" else text
        *lines, last = text.split("\n")
        ends = chain(self.newline, repeat("\n"))
        return "".join(line + end for line, end in zip(lines, ends, strict=False)) + last

    def take_ends(self, source: TextSource) -> None:
        """Note how its lines end in the source it was read from, once all that belongs to it is known."""
        if source.uniform:
            self.newline = source.newline
        else:
            first = self.line - self.before.count("\n")
            self.newline = source.line_ends(first, self._with_blanks().count("\n"))

    def column(self, name: str | int) -> list[str]:
        """The values of one column, one for each word; by name, or by number from 0, negative from the end.

        Multiword tokens and empty nodes are not words and are not in it.
        """
        index = self._index(name)
        values = self._cells[index :: len(self.columns)]
        return values if index else [value.lstrip("\n") for value in values]

    @property
    def forms(self) -> list[str]:
        """The words as they are written: the column ``form``."""
        return self.column("form")

    @property
    def upos(self) -> list[str]:
        """The universal parts of speech: the column ``upos``."""
        return self.column("upos")

    def with_column(self, name: str | int, values: Sequence[str]) -> Sentence:
        """A copy with one column replaced, or with one more at the end where it has none of that name.

        CoNLL-U has its ten columns and takes no other. Everything else stays: comments, multiword tokens, empty nodes.
        """
        if len(values) != len(self):
            raise DataError(f"Sentence: column '{name}' has {len(values)} values for {len(self)} words")
        _check(name, values, self._separator)
        width = len(self.columns)
        new = copy.copy(self)
        if isinstance(name, str) and name not in self.columns and self.columns != CONLLU:
            cells = []
            for start, value in zip(range(0, len(self._cells), width), values, strict=True):
                cells += [*self._cells[start : start + width], value]
            new.columns, new._cells = (*self.columns, name), cells
            new._gaps = [(*gaps[:-1], gaps[-1] or self._separator, "") for gaps in self._gaps]
            return new
        index = self._index(name)
        replaced = list(values)
        if index == 0:
            replaced[1:] = ["\n" + value for value in replaced[1:]]
        new._cells = self._cells.copy()
        new._cells[index::width] = replaced
        return new

    @property
    def ranges(self) -> list[Range]:
        """Its multiword tokens in order."""
        found = []
        for _, text in self._asides:
            number, form, *rest = text.split("\t")
            first, dash, last = number.partition("-")
            if dash:
                found.append(Range(int(first), int(last), form, rest[-1]))
        return found

    @property
    def empty_nodes(self) -> list[EmptyNode]:
        """Its empty nodes in order."""
        rows = [tuple(text.split("\t")) for _, text in self._asides]
        return [EmptyNode(row[0], row) for row in rows if "." in row[0]]

    @property
    def space_after(self) -> list[bool]:
        """For each word, whether a space follows it in the text: none after the inner words of a multiword token.

        Said by ``SpaceAfter=No`` in ``misc``; true where the file has no such column.
        """
        if "misc" not in self.columns:
            return [True] * len(self)
        spaces = ["SpaceAfter=No" not in misc.split("|") for misc in self.column("misc")]
        for first, last, _, misc in self.ranges:
            spaces[first - 1 : last] = [False] * (last - first) + ["SpaceAfter=No" not in misc.split("|")]
        return spaces

    def comment(self, key: str) -> str | None:
        """The value of the comment ``# key = value`` ("" for one without a value), or None."""
        for comment in self.comments:
            name, _, value = comment.lstrip("#").partition("=")
            if name.strip() == key:
                return value.strip()
        return None

    @property
    def text(self) -> str | None:
        """The text that it was split from: the comment ``# text = ...``."""
        return self.comment("text")

    @property
    def newdoc(self) -> bool:
        """Whether a document begins here: the comment ``# newdoc``, or a line ``-DOCSTART-`` before it."""
        return self._marked("newdoc") or "-DOCSTART-" in self.before

    @property
    def newpar(self) -> bool:
        """Whether a paragraph begins here."""
        return self._marked("newpar")

    @property
    def lines(self) -> Sequence[int]:
        """The line of each word in its file; 0 when it has no file."""
        if not self.line or self._asides:
            return [self.line_of(word) for word in range(len(self))]
        start = self.line_of(0)
        return range(start, start + len(self))

    def line_of(self, word: int) -> int:
        """The line of a word (from 0) in its file; 0 when it has no file."""
        if not self.line:
            return 0
        return self.line + len(self.comments) + word + sum(at <= word for at, _ in self._asides)

    def _with_blanks(self) -> str:
        """With what stands before it and the blank lines behind it, all lines ended by LF."""
        text = self.before + str(self)
        return text[:-1] if self.after is None else text + self.after

    def _spaced(self) -> str:
        """Its words with the spaces that stand between their cells in the file."""
        width = len(self.columns)
        lines = []
        for start, gaps in zip(range(0, len(self._cells), width), self._gaps, strict=True):
            row = [cell.lstrip("\n") for cell in self._cells[start : start + width]]
            lines.append("".join(chain.from_iterable(zip(gaps, row, strict=False))) + gaps[-1])
        return "\n".join(lines)

    def _marked(self, word: str) -> bool:
        return any(comment.lstrip("# \t").split(None, 1)[:1] == [word] for comment in self.comments)

    def _index(self, name: str | int) -> int:
        columns = self.columns
        if isinstance(name, str):
            if name in columns:
                return columns.index(name)
            raise DataError(
                f"Sentence at line {self.line}: no column '{name}'{nearest(name, columns)}; it has {', '.join(columns)}"
            )
        if not -len(columns) <= name < len(columns):
            raise DataError(
                f"Sentence at line {self.line}: no column {name}; it has {len(columns)} columns, counted from 0"
            )
        return name % len(columns)


def _check(name: str | int, values: Sequence[str], separator: str) -> None:
    for value in values:
        if not value or separator in value or "\n" in value:
            raise DataError(
                f"Sentence: column '{name}' cannot hold {value!r}: it must not be empty, nor hold a line feed or the "
                f"separator {separator!r}"
            )
