"""Which format a file has, by what its first lines look like and, where they leave it open, by its name."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from pathlib import Path

import msgspec

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


def guess_format(path: str | Path) -> str:
    r"""``conllu``, ``conll``, ``jsonl``, ``scan``, ``brackets``, ``csv``, ``tsv``, or else ``lines``.

    Of standard input (``"-"``) only what has arrived already is looked at, and nothing is taken from it.

    >>> format_of("Paris\tB-LOC\nsleeps\tO\n\n"), format_of("a nice film\tpos\n"), format_of("It rains.\nIt pours.\n")
    ('conll', 'tsv', 'lines')
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    named = next((_NAMES[suffix] for suffix in reversed(suffixes) if suffix in _NAMES), None)
    with TextSource(str(path), _head(path), notes=[]) as source:
        return format_of(next(source.blocks(), ""), named)


def format_of(text: str, named: str | None = None) -> str:
    """The format of a text that begins like this; ``named`` is the format that the file's name stands for."""
    lines = text.split("\n")
    lines = lines[:-1] or lines  # the last one may be cut
    words = [line for line in lines if line.strip() and not line.startswith("#")]
    first = words[0] if words else ""
    if first.count("\t") == 9 and _FIRST_WORD.match(first) and named not in ("tsv", "csv"):
        return "conllu"
    if named and named != "tsv":
        return named
    if not words:
        return named or ("conllu" if any(map(_CONLLU_COMMENT.match, lines)) else "lines")
    if first.startswith("-DOCSTART-") or _in_columns(words, lines):
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


def _in_columns(words: list[str], lines: list[str]) -> bool:
    """Whether lines are words in columns: all of one width, with a blank line behind the first sentence."""
    separator = "\t" if "\t" in words[0] else None
    widths = {len(line.split(separator)) for line in words if not line.startswith("-DOCSTART-")}
    blank = any(not line.strip() for line in lines[lines.index(words[0]) :])
    return blank and len(widths) == 1 and widths.pop() > 1


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
