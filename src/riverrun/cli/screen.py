"""What the commands print: results on stdout, everything else on stderr, in columns that line up."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

_FLAGS = re.compile(r"\bdata\.(format|columns|encoding)\b")


def as_flags(text: str) -> str:
    """A message with the options of the command line in place of a recipe's keys, for the verbs that have them.

    >>> as_flags("a.txt: read as Latin-1; name it with data.encoding")
    'a.txt: read as Latin-1; name it with --encoding'
    """
    return _FLAGS.sub(r"--\1", text)


def say_notes(notes: Iterable[str]) -> None:
    """What a reader had to say, where the options for it are those of the command line."""
    for note in notes:
        say(f"Note: {as_flags(note)}")


def say(text: str = "") -> None:
    """A line about the work, on stderr; where nobody reads that any more, or it was closed from the start, nothing."""
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except BrokenPipeError:
        silence(2)


def say_object(event: Mapping[str, object]) -> None:
    """A line of JSON on stderr, whatever bytes a name has."""
    say(json.dumps(event))


def silence(descriptor: int) -> None:
    """Let go of stdout (1) or stderr (2) when its reader has gone; Python would complain when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def aligned(rows: Iterable[Sequence[object]], *, right: Sequence[int] = ()) -> str:
    """Rows as lines of columns, two spaces apart.

    Args:
        right: the columns that are aligned on the right, for numbers.

    >>> print(aligned([("tokens", 1200), ("sentences", 90)], right=[1]))
    tokens     1200
    sentences    90
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(4.2), duration(192), duration(7380)
    ('4 s', '3 min 12 s', '2 h 3 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(count: float) -> str:
    """Bytes for people.

    >>> size(900), size(2_500_000)
    ('900 B', '2.5 MB')
    """
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
