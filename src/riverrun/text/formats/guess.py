"""Which format a file has, by what its first lines look like and, where they leave it open, by its name."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Generator, Sequence
from pathlib import Path

import msgspec

from riverrun.text.formats.conll import DOCSTART, split_columns
from riverrun.text.formats.lm1b import is_shard
from riverrun.text.sources import TextSource, looked_at, read_blocks

_NAMES = {
    ".conllu": "conllu",
    ".conllup": "conll",
    ".conll": "conll",
    ".iob": "conll",
    ".iob2": "conll",
    ".bio": "conll",
    ".bioes": "conll",
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_FIRST_WORD = re.compile(r"(1|1-\d+|0\.1)\t")
_CONLLU_COMMENT = re.compile(r"#\s*(sent_id|text|newdoc|newpar)\b")
# What stands in a column of tags, whoever made it: a tag of spans, or the sign for nothing.
_TAG = re.compile(r"O|_|[BIES]-.+")


def guess_format(path: str | Path, *, encoding: str | None = None) -> str:
    r"""``conllu``, ``conll``, ``jsonl``, ``scan``, ``brackets``, ``csv``, ``tsv``, ``lm1b``, or else ``lines``.

    Shards, or a folder of them, are ``lm1b`` by their names. Of standard input (``"-"``) only what has arrived already
    is looked at, and nothing is taken from it.

    >>> format_of("Paris\tB-LOC\nsleeps\tO\n\n"), format_of("a nice film\tpos\n"), format_of("It rains.\nIt pours.\n")
    ('conll', 'tsv', 'lines')
    """
    if is_shard(path) or (Path(path).is_dir() and any(map(is_shard, Path(path).iterdir()))):
        return "lm1b"
    return format_of(_begin(path, encoding), _named(path))


def guess_untagged(
    path: str | Path,
    *,
    tags: Collection[str] = (),
    column: int = -1,
    usual: str | None = None,
    encoding: str | None = None,
    notes: list[str] | None = None,
) -> str:
    """``conllu``, ``conll`` or ``text``: the format of what is to be tagged.

    Most of that is raw text, which may look like columns (lines of two words each), so lines are columns only where
    the file's name says so, where tags stand in the column of the tags, or where tabs stand in all lines of a file for
    a model of columns.

    Args:
        tags: those of the model; tags of spans, and ``_``, are known without.
        column: where tags stand.
        usual: the format that the model's recipe names.
        encoding: where it is not UTF-8.
        notes: a doubt that a user should know of is appended.
    """
    text, named = _begin(path, encoding), _named(path)
    found = format_of(text, named)
    if found == "conllu" or (found == "conll" and named):
        return found
    words, _ = _words(text)
    if words and (words[0].startswith(DOCSTART) or _tagged(words, tags, column, alone=usual == "conll")):
        return "conll"
    if found == "conll" and "\t" in words[0]:
        if usual == "conll":
            return "conll"
        if notes is not None and len(words) > 1:
            notes.append(
                f"{_called(path)}: read as text, though its lines may be columns; if so, give data.format conll"
            )
    return "text"


def format_of(text: str, named: str | None = None) -> str:
    """The format of a text that begins like this; ``named`` is the format that the file's name stands for."""
    words, lines = _words(text)
    first = words[0] if words else ""
    if first.count("\t") == 9 and _FIRST_WORD.match(first) and named not in ("tsv", "csv"):
        return "conllu"
    if named and named != "tsv":
        return named
    if not words:
        return named or ("conllu" if any(map(_CONLLU_COMMENT.match, lines)) else "lines")
    if first.startswith(DOCSTART) or _in_columns(words, lines):
        return "conll"
    if named:
        return named
    if first.startswith("{") and _is_json(first):
        return "jsonl"
    if first.startswith("IN: ") and " OUT: " in first:
        return "scan"
    if first.startswith("(") and first.count("(") > 1 and first.rstrip().endswith(")"):
        return "brackets"
    return "tsv" if "\t" in first else "lines"


def _named(path: str | Path) -> str | None:
    """The format that a file's name stands for."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    return next((_NAMES[suffix] for suffix in reversed(suffixes) if suffix in _NAMES), None)


def _called(path: str | Path) -> str:
    return "<stdin>" if str(path) == "-" else str(path)


def _begin(path: str | Path, encoding: str | None) -> str:
    """The first block of a file; of standard input, what has arrived."""
    with TextSource(_called(path), _head(path), encoding=encoding, notes=[]) as source:
        return next(source.blocks(), "")


def _words(text: str) -> tuple[list[str], list[str]]:
    """The lines of a text that are neither blank nor comments, and all its lines; the last one may be cut."""
    lines = text.split("\n")
    lines = lines[:-1] or lines
    return [line for line in lines if line.strip() and not line.startswith("#")], lines


def _rows(words: Sequence[str]) -> list[list[str]]:
    """Lines as cells."""
    lines = [line for line in words if not line.startswith(DOCSTART)]
    separator = "\t" if lines and "\t" in lines[0] else " "
    return [split_columns(line, separator) for line in lines]


def _in_columns(words: list[str], lines: list[str]) -> bool:
    """Whether lines are words in columns: all of one width, with a blank line behind the first sentence."""
    widths = {len(row) for row in _rows(words)}
    blank = any(not line.strip() for line in lines[lines.index(words[0]) :])
    return blank and len(widths) == 1 and widths.pop() > 1


def _tagged(words: list[str], tags: Collection[str], column: int, *, alone: bool) -> bool:
    """Whether most lines have tags in this column; without ``alone``, a line of spaces by itself says too little."""
    rows = _rows(words)
    width = len(rows[0]) if rows else 0
    if width < 2 or not -width <= column < width or not (alone or len(rows) > 1 or "\t" in words[0]):
        return False
    known = frozenset(tags)
    cells = [row[column] for row in rows if len(row) == width]
    return 2 * sum(cell in known or _TAG.fullmatch(cell) is not None for cell in cells) > len(rows)


def _is_json(line: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except msgspec.DecodeError:
        return False


def _head(path: str | Path) -> Generator[bytes]:
    """The bytes of a file; of standard input, what can be had without taking it."""
    if str(path) != "-":
        yield from read_blocks(looked_at(path))
    else:
        peek = getattr(getattr(sys.stdin, "buffer", None), "peek", None)
        yield peek() if peek else b""
