"""CoNLL-U: ten columns, comments, multiword tokens and empty nodes; what is read can be written back byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import IO

from riverrun.errors import DataError
from riverrun.text.formats.paragraphs import Paragraph, paragraphs
from riverrun.text.formats.sentence import CONLLU, Aside, Sentence
from riverrun.text.sources import Source, TextSource, create_text, open_text

_WIDTH = len(CONLLU)
# A line of a multiword token (3-4) or of an empty node (3.1).
_ASIDE = re.compile(r"\n([0-9]+[-.][0-9]+\t[^\n]*)")
# The first cells of the words of a sentence, as `Sentence` has them: with the line feed before them.
_IDS = ["1"] + [f"\n{k}" for k in range(2, 1001)]


def read_conllu(path: Source, *, encoding: str | None = None, notes: list[str] | None = None) -> Iterator[Sentence]:
    r"""Sentences of a CoNLL-U file, one at a time.

    >>> import io
    >>> lines = ["# text = Rain!", "1 Rain rain NOUN _ _ 0 root _ SpaceAfter=No", "2 ! ! PUNCT _ _ 1 punct _ _"]
    >>> file = io.StringIO("\n".join([lines[0], *(line.replace(" ", "\t") for line in lines[1:]), "", ""]))
    >>> [sentence] = read_conllu(file)
    >>> sentence.forms, sentence.upos, sentence.text, sentence.space_after
    (['Rain', '!'], ['NOUN', 'PUNCT'], 'Rain!', [False, True])

    Args:
        path: a path, ``"-"``, or an open stream.
        encoding: where it is not UTF-8.
        notes: what a user should be told about the file is appended.
    """
    with open_text(path, encoding=encoding, notes=notes) as source:
        found = False
        for paragraph in paragraphs(source):
            sentence = _sentence(paragraph, source)
            if not found:
                sentence.before = source.bom + sentence.before
                found = True
            yield sentence
        source.require(found, "sentences in CoNLL-U")


def write_conllu(path: str | Path | IO[str], sentences: Iterable[Sentence]) -> None:
    """Write sentences as they are, a blank line behind each; those that were read unchanged give the same bytes."""
    with create_text(path) as file:
        for sentence in sentences:
            if sentence.columns != CONLLU:
                raise DataError(
                    f"CoNLL-U: expected sentences with the columns {', '.join(CONLLU)}, received "
                    f"{', '.join(sentence.columns)}; Sentence.conllu makes such a sentence"
                )
            file.write(sentence.written())


def _sentence(paragraph: Paragraph, source: TextSource) -> Sentence:
    parts = _words(paragraph.text)
    asides: tuple[Aside, ...] = ()
    if parts is None:
        # Every line now begins with a line feed, also the first.
        pieces = _ASIDE.split("\n" + paragraph.text)
        parts = _words("".join(pieces[::2])[1:])
        if parts is None:
            raise _mistake(paragraph, source)
        before = accumulate(piece.count("\n") for piece in pieces[:-1:2])
        asides = tuple(Aside(at - len(parts[0]), text) for at, text in zip(before, pieces[1::2], strict=True))
        if _misplaced(asides, len(parts[1]) // _WIDTH) is not None:
            raise _mistake(paragraph, source)
    comments, cells = parts
    sentence = Sentence(CONLLU, cells, comments=comments, asides=asides, line=paragraph.line)
    sentence.before, sentence.after = paragraph.before, paragraph.after
    sentence.take_ends(source)
    return sentence


def _words(text: str) -> tuple[tuple[str, ...], list[str]] | None:
    """The comments and the cells of lines that are comments and then words 1, 2, 3... of ten columns; else None.

    All lines are split at once. Line feeds stand only before the first cells of lines, so if every tenth cell is the
    next number behind a line feed, and there are ten cells for each, then every line has ten columns.
    """
    start = text.find("\n1\t") + 1 if text[:1] == "#" else 0
    cells = text[start:].replace("\n", "\t\n").split("\t")
    size = len(cells) // _WIDTH
    ids = _IDS[:size] if size <= len(_IDS) else [*_IDS, *(f"\n{k}" for k in range(len(_IDS) + 1, size + 1))]
    if len(cells) != size * _WIDTH or cells[::_WIDTH] != ids:
        return None
    if not start:
        return (), cells
    comments = tuple(text[: start - 1].split("\n"))
    return (comments, cells) if text.count("\n#", 0, start) == len(comments) - 1 else None


def _misplaced(asides: Iterable[Aside], size: int) -> tuple[Aside, str] | None:
    """The first multiword token or empty node that is not where it belongs, and what was expected there."""
    covered = 0  # the last word that a multiword token covers
    for aside in asides:
        row = aside.text.split("\t")
        first, dash, last = row[0].partition("-")
        if len(row) != _WIDTH:
            return aside, f"expected {_WIDTH} tab-separated columns, received {len(row)}"
        if dash:
            if int(first) != aside.at + 1 or aside.at < covered:
                return aside, f"expected a multiword token that begins with word {max(aside.at, covered) + 1}"
            if not int(first) <= int(last) <= size:
                return aside, f"expected a multiword token that ends with one of the words {first} to {size}"
            covered = int(last)
        elif int(row[0].partition(".")[0]) != aside.at:
            return aside, f"expected an empty node behind word {aside.at}"
    return None


def _mistake(paragraph: Paragraph, source: TextSource) -> DataError:
    """What is wrong in lines that are no sentence: found by looking at them one by one."""
    asides: list[Aside] = []
    places: list[int] = []  # the line of each aside
    size = 0
    number = paragraph.line
    for number, line in enumerate(paragraph.text.split("\n"), paragraph.line):
        if line.startswith("#") and not size and not asides:
            continue
        row = line.split("\t")
        if len(row) != _WIDTH:
            return source.error(number, f"expected {_WIDTH} tab-separated columns, received {len(row)}")
        if _ASIDE.fullmatch("\n" + line):
            asides.append(Aside(size, line))
            places.append(number)
        elif row[0] != str(size + 1):
            return source.error(
                number,
                f"expected the number {size + 1} in the first column, received '{row[0]}'; words are counted from 1, "
                "and a blank line stands between sentences",
            )
        else:
            size += 1
    wrong = _misplaced(asides, size)
    if wrong is None:
        return source.error(number, "a sentence without words; expected lines of ten columns behind its comments")
    aside, expected = wrong
    return source.error(places[asides.index(aside)], f"{expected}, received {aside.text.split(chr(9))[0]}")
