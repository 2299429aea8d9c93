"""CoNLL columns: a word a line, a blank line between sentences, columns that the user names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from riverrun.errors import DataError, nearest
from riverrun.text.formats.paragraphs import Paragraph, paragraphs
from riverrun.text.formats.sentence import Sentence
from riverrun.text.sources import Source, TextSource, create_text, open_text

DOCSTART = "-DOCSTART-"
"""How lines begin that stand between documents."""

_NAMES = "# global.columns ="  # CoNLL-U Plus: a first line that names the columns
_CELL = re.compile(r"[^ \t]+")
_ALIGNED = re.compile(r"  |\t|^ | $", re.MULTILINE)  # anything but one space between two columns


def read_conll(
    path: Source,
    *,
    columns: Mapping[str, int | str] | None = None,
    encoding: str | None = None,
    notes: list[str] | None = None,
) -> Iterator[Sentence]:
    """Sentences of a column file, one at a time.

    Columns are separated by tabs if the first word's line has one, else by spaces, however many: they are kept for
    writing. All lines have as many columns as the first.
    A line that begins with ``#`` before the words is a comment if it has another number of columns (so that the word
    ``#`` is a word). ``-DOCSTART-`` lines are kept for writing and are no sentences.

    >>> import io
    >>> file = io.StringIO("Paris NNP I-NP I-LOC\\nsleeps VBZ I-VP O\\n")
    >>> [sentence] = read_conll(file, columns={"form": 0, "tag": 3})
    >>> sentence.columns, sentence.column("tag"), sentence.column(1)
    (('form', '1', '2', 'tag'), ['I-LOC', 'O'], ['NNP', 'VBZ'])

    Args:
        path: a path, ``"-"``, or an open stream.
        columns: name -> number from 0 (negative from the end), or the name that the file's own first line
            ``# global.columns = ...`` gives it; columns without a name are called by their number. By default the
            first one is ``form`` and the last one ``tag``.
        encoding: where it is not UTF-8.
        notes: what a user should be told about the file is appended.
    """
    with open_text(path, encoding=encoding, notes=notes) as source:
        layout: _Layout | None = None
        last: Sentence | None = None
        between = ""  # lines that belong to no sentence: document starts, comments on their own
        for paragraph in paragraphs(source):
            layout = layout or _Layout.of(paragraph, columns, source)
            sentence = layout.sentence(paragraph) if layout else None
            if sentence is None:
                between += paragraph.before + paragraph.text
                between += "" if paragraph.after is None else f"\n{paragraph.after}"
                continue
            sentence.before = between + sentence.before
            between = ""
            if last is None:
                sentence.before = source.bom + sentence.before
            else:
                last.take_ends(source)
                yield last
            last = sentence
        if last is not None:
            last.after = (last.after or "") + between if between else last.after
            last.take_ends(source)
            yield last
        source.require(last is not None, "sentences in columns")


def write_conll(path: str | Path | IO[str], sentences: Iterable[Sentence]) -> None:
    """Write sentences as they are, with a blank line behind each."""
    with create_text(path) as file:
        for sentence in sentences:
            file.write(sentence.written())


class _Layout:
    """How the lines of one file are split: fixed by its first word."""

    def __init__(self, source: TextSource, separator: str, names: tuple[str, ...]) -> None:
        self.source = source
        self.separator = separator
        self.names = names

    @staticmethod
    def of(paragraph: Paragraph, columns: Mapping[str, int | str] | None, source: TextSource) -> _Layout | None:
        """The layout that the first word of a paragraph shows; None if it has only comments and document starts."""
        lines = [line for line in paragraph.text.split("\n") if not line.startswith(DOCSTART)]
        words = [line for line in lines if not line.startswith("#")]
        if not words:
            return None
        separator = "\t" if "\t" in words[0] else " "
        own = [line.removeprefix(_NAMES).split() for line in lines if line.startswith(_NAMES)]
        width = len(split_columns(words[0], separator))
        try:
            names = _names(columns, width, own[0] if own else [])
        except DataError as error:
            raise source.error(paragraph.line + paragraph.text.split("\n").index(words[0]), str(error)) from None
        return _Layout(source, separator, names)

    def sentence(self, paragraph: Paragraph) -> Sentence | None:
        """The sentence that a paragraph is, or None."""
        lines = paragraph.text.split("\n")
        width = len(self.names)
        first = 0
        while first < len(lines) and lines[first].startswith(DOCSTART):
            first += 1
        comments = first
        while comments < len(lines) and lines[comments].startswith("#"):
            if len(split_columns(lines[comments], self.separator)) == width:
                break
            comments += 1
        cells: list[str] = []
        for number, line in enumerate(lines[comments:], paragraph.line + comments):
            row = split_columns(line, self.separator)
            if len(row) != width:
                kind = "tab" if self.separator == "\t" else "space"
                raise self.source.error(number, f"expected {width} {kind}-separated columns, received {len(row)}")
            if cells:
                row[0] = "\n" + row[0]
            cells += row
        if not cells:
            return None
        aligned = self.separator == " " and _ALIGNED.search(paragraph.text)
        sentence = Sentence(
            self.names,
            cells,
            comments=tuple(lines[first:comments]),
            separator=self.separator,
            gaps=[_CELL.split(line) for line in lines[comments:]] if aligned else (),
            line=paragraph.line + first,
        )
        sentence.before = paragraph.before + "".join(line + "\n" for line in lines[:first])
        sentence.after = paragraph.after
        return sentence


def split_columns(line: str, separator: str) -> list[str]:
    """The cells of a line: between tabs, or between any number of spaces."""
    if separator == "\t":
        return line.split("\t")
    # Not str.split(): it would also split at a no-break space, which is part of a word.
    return [cell for cell in line.replace("\t", " ").split(" ") if cell]


def _names(columns: Mapping[str, int | str] | None, width: int, own: list[str]) -> tuple[str, ...]:
    """The names of all columns of a file of this width, those without a name called by their number."""
    names = [str(k) for k in range(width)]
    if columns is None:
        if own:
            return tuple(own) if len(own) == width else _wrong_names(own, width)
        columns = {"form": 0, "tag": -1} if width > 1 else {"form": 0}
    taken: dict[int, str] = {}
    for name, where in columns.items():
        index = _number(name, where, own)
        if not -width <= index < width:
            raise DataError(f"data.columns: '{name}' is column {index}, but there are {width}, counted from 0")
        index %= width
        if index in taken:
            raise DataError(f"data.columns: '{taken[index]}' and '{name}' are both column {index} of {width}")
        taken[index] = names[index] = name
    return tuple(names)


def _wrong_names(own: list[str], width: int) -> tuple[str, ...]:
    raise DataError(f"'{_NAMES}' names {len(own)} columns, but there are {width}")


def _number(name: str, where: int | str, own: list[str]) -> int:
    if isinstance(where, int):
        return where
    if where.lstrip("-").isdecimal():
        return int(where)
    if where in own:
        return own.index(where)
    if own:
        raise DataError(
            f"data.columns: '{name}' is column '{where}', which the file does not have{nearest(where, own)}"
        )
    raise DataError(
        f"data.columns: '{name}' is column '{where}', but the file names no columns; give its number, counted from 0"
    )
