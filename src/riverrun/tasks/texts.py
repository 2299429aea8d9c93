"""Files of text: lines that are a text each, or running text."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from riverrun.errors import ConfigError
from riverrun.tasks.labelled import held_out
from riverrun.text.formats import read_lines, read_text
from riverrun.text.formats.lm1b import lm1b_shards, read_lm1b
from riverrun.text.sources import existing, lines_of, sha256

LINES = ("lines", "lm1b")
"""Formats in which each line is a text."""


@dataclass
class Texts:
    """A file, or the part of one, that a language model reads.

    Args:
        path: of the file; of a folder where the format is ``lm1b``.
        format: ``lines``, ``text`` or ``lm1b``.
        encoding: where it is not UTF-8.
        notes: what the reader had to say, filled while the file is read.
        share: the part that is held out of the file, 0 for none of it.
        held: whether this is the part that is held out, or the rest.
    """

    path: str
    format: str
    encoding: str | None = None
    notes: list[str] = field(default_factory=list)
    share: float = 0.0
    held: bool = False

    def __post_init__(self) -> None:
        if self.format not in (*LINES, "text"):
            raise ConfigError(
                f"{self.path}: a language model reads the formats lines, text and lm1b, received {self.format}. "
                "Name the right one as data.format"
            )
        if self.format == "lm1b":
            lm1b_shards(self.path)
        else:
            existing(self.path)

    def lines(self) -> Iterator[str]:
        """Each text of its own; of running text, its lines."""
        if self.format == "text":
            for some in lines_of(self.blocks(), "\n"):
                yield from some
            return
        reader = read_lm1b if self.format == "lm1b" else read_lines
        held = held_out(self.share) if self.share else None
        for number, line in enumerate(self._told(lambda notes: reader(self.path, encoding=self.encoding, notes=notes))):
            if held is None or held(number) == self.held:
                yield line

    def blocks(self) -> Iterator[str]:
        """Running text in pieces; of lines, each with its end."""
        if self.format in LINES:
            yield from (f"{line}\n" for line in self.lines())
            return
        begin, end = self._part()
        position = 0
        for block in self._told(lambda notes: read_text(self.path, encoding=self.encoding, notes=notes)):
            part = block[max(0, begin - position) : None if end is None else max(0, end - position)]
            position += len(block)
            if part:
                yield part

    def checksum(self) -> str:
        """The SHA-256 of the file; of several shards, that of their names and sums."""
        if self.format != "lm1b":
            return sha256(self.path)
        shards = (f"{shard.name} {sha256(shard)}" for shard in lm1b_shards(self.path))
        return hashlib.sha256("\n".join(shards).encode()).hexdigest()

    def origin(self) -> dict[str, str]:
        """What the text is, whatever it is called."""
        part = f"{'' if self.held else 'all but '}{self.share}" if self.share else "all"
        return {"sha256": self.checksum(), "format": self.format, "encoding": str(self.encoding), "part": part}

    def parts(self, share: float) -> tuple[Texts, Texts]:
        """What is left, and what is held out of it: of running text its end, of lines every so manieth."""
        return tuple(  # type: ignore[return-value]  # two of them
            Texts(self.path, self.format, self.encoding, self.notes, share, held) for held in (False, True)
        )

    def _part(self) -> tuple[int, int | None]:
        """From which character to which."""
        if not self.share:
            return 0, None
        total = sum(map(len, read_text(self.path, encoding=self.encoding, notes=[])))
        cut = total - int(total * self.share)
        return (cut, None) if self.held else (0, cut)

    def _told(self, read: Callable[[list[str]], Iterable[str]]) -> Iterator[str]:
        """What a reader gives; what it notes is noted once, however often the file is read."""
        notes: list[str] = []
        yield from read(notes)
        self.notes += [note for note in notes if note not in self.notes]


@contextmanager
def read_twice(source: str | Path) -> Iterator[str]:
    """A path that can be read again: that of a file, or of what stdin gives."""
    if str(source) != "-":
        yield str(source)
        return
    with tempfile.TemporaryDirectory(prefix="riverrun-") as place:
        copy = Path(place) / "stdin"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield str(copy)
