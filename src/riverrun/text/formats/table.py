"""Tables: TSV (tabs, nothing quoted) and CSV (commas, quotes), as rows of strings that all have the same width."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from riverrun.errors import DataError
from riverrun.text.sources import Source, create_text, open_text


def read_tsv(path: Source, *, encoding: str | None = None, notes: list[str] | None = None) -> Iterator[list[str]]:
    """The rows of a file with tabs; quotes mean nothing, empty lines are left out.

    >>> import io
    >>> list(read_tsv(io.StringIO('a "nice" film\\tpos\\n')))
    [['a "nice" film', 'pos']]
    """
    with open_text(path, encoding=encoding, notes=notes) as source:
        width = 0
        for number, line in enumerate(source.lines(), 1):
            if not line:
                continue
            row = line.split("\t")
            width = width or len(row)
            if len(row) != width:
                raise source.error(number, f"expected {width} tab-separated columns, received {len(row)}")
            yield row
        source.require(width > 0, "rows of tab-separated columns")


def read_csv(path: Source, *, encoding: str | None = None, notes: list[str] | None = None) -> Iterator[list[str]]:
    """The rows of a file with commas; a quoted cell may hold commas, quotes (doubled) and line feeds.

    >>> import io
    >>> list(read_csv(io.StringIO('"a ""nice"" film, really",pos\\n')))
    [['a "nice" film, really', 'pos']]
    """
    with open_text(path, encoding=encoding, notes=notes) as source:
        width = 0
        reader = csv.reader((line + "\n" for line in source.lines()), strict=True)
        while True:
            start = reader.line_num + 1  # a row may take several lines
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise source.error(start, f"not valid CSV: {error}") from None
            if row is None:
                break
            if not row:
                continue
            width = width or len(row)
            if len(row) != width:
                raise source.error(start, f"expected {width} comma-separated columns, received {len(row)}")
            yield row
        source.require(width > 0, "rows of comma-separated columns")


def write_tsv(path: str | Path | IO[str], rows: Iterable[Sequence[str]]) -> None:
    """Write rows with tabs; a cell that holds a tab or a line feed is an error, since the format cannot say it."""
    with create_text(path) as file:
        for row in rows:
            for cell in row:
                if "\t" in cell or "\n" in cell:
                    raise DataError(f"tsv: a cell cannot hold a tab or a line feed: {cell!r}; csv and jsonl can")
            file.write("\t".join(row) + "\n")


def write_csv(path: str | Path | IO[str], rows: Iterable[Sequence[str]]) -> None:
    """Write rows with commas, quoted where they must be."""
    with create_text(path) as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
