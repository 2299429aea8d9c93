"""Plain text: one example a line, or running text with its line breaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from riverrun.errors import DataError
from riverrun.text.sources import Source, create_text, open_text


def read_lines(path: Source, *, encoding: str | None = None, notes: list[str] | None = None) -> Iterator[str]:
    """The lines without their ends, empty ones too.

    >>> import io
    >>> list(read_lines(io.StringIO("one\\n\\ntwo")))
    ['one', '', 'two']
    """
    with open_text(path, encoding=encoding, notes=notes) as source:
        yield from source.lines()


def write_lines(path: str | Path | IO[str], lines: Iterable[str]) -> None:
    """Write each with a line feed behind it."""
    with create_text(path) as file:
        for line in lines:
            if "\n" in line:
                raise DataError(f"lines: a line cannot hold a line feed: {line!r}")
            file.write(line + "\n")


def read_text(path: Source, *, encoding: str | None = None, notes: list[str] | None = None) -> Iterator[str]:
    """Running text in blocks of bounded size, cut anywhere; joined they are the text, line breaks as LF.

    >>> import io
    >>> "".join(read_text(io.StringIO("one\\r\\n\\r\\ntwo")))
    'one\\n\\ntwo'
    """
    with open_text(path, encoding=encoding, notes=notes) as source:
        yield from source.blocks()


def write_text(path: str | Path | IO[str], blocks: Iterable[str]) -> None:
    """Write pieces of text, one behind the other."""
    with create_text(path) as file:
        file.writelines(blocks)
