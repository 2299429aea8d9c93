"""From a file or a stream to its tags: raw text, or columns that are filled; order kept, memory bounded."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from riverrun.errors import ConfigError
from riverrun.tasks.labelled import READERS, Labelled
from riverrun.text.formats.guess import guess_untagged
from riverrun.text.formats.sentence import Sentence
from riverrun.text.sources import TextSource, create_text, lines_of, open_text
from riverrun.text.tokenize import Tokenizer

Tag = Callable[[Sequence[Sequence[str]]], list[list[str]]]

WINDOW = 2048  # sentences of a file that are tagged at once
TEXT = ("text", "lines")


def write_answers(
    tag: Tag,
    tokenizer: Tokenizer,
    source: str | Path,
    target: str | Path,
    *,
    format: str | None,
    columns: Mapping[str, int | str],
    encoding: str | None,
    notes: list[str],
    as_json: bool,
    tags: Collection[str] = (),
    usual: str | None = None,
) -> None:
    """Tag ``source`` and write ``target``; ``-`` is stdin and stdout.

    Raw text gives a line ``form<TAB>tag`` for each word and an empty one after each sentence; of ``lines`` each is a
    text of its own. A format with columns comes back as it was, its tag column filled. JSON is an object a sentence.
    Where no format is named, ``tags`` of the model, and the format that is ``usual`` for it, tell columns from text.
    """
    if format is None:
        where = columns.get("tag")
        format = guess_untagged(
            source,
            tags=tags,
            column=where if isinstance(where, int) else -1,
            usual=usual,
            encoding=encoding,
            notes=notes,
        )
    if format not in TEXT and format not in READERS:
        allowed = ", ".join((*TEXT, *READERS))
        raise ConfigError(
            f"{source}: a tagger predicts the formats {allowed}; received {format}. Name one as data.format"
        )
    with create_text(target) as out:
        if format in READERS:
            _write_columns(tag, Labelled(str(source), format, columns, encoding, notes), out, as_json)
        else:
            with open_text(source, encoding=encoding, notes=notes) as text:
                _write_text(tag, tokenizer, text, out, each_line=format == "lines", as_json=as_json)


def _write_text(
    tag: Tag, tokenizer: Tokenizer, text: TextSource, out: IO[str], *, each_line: bool, as_json: bool
) -> None:
    window: list[list[str]] = []

    def flush() -> None:
        if window:
            out.write("".join(map(_json if as_json else _lines, window, tag(window))))
            out.flush()
            window.clear()

    # What was read is answered before more is waited for: a stream sees its answers, a file is read in large parts.
    for sentence in tokenizer.sentences(_before_each_wait(text.blocks(), flush, each_line=each_line)):
        window.append(sentence)
        if len(window) >= WINDOW:
            flush()
    flush()


def _before_each_wait(blocks: Iterable[str], flush: Callable[[], None], *, each_line: bool) -> Iterator[str]:
    """The lines of a stream; ``flush`` is called when all that was read is used, before more is asked for."""
    for lines in lines_of(blocks, "\n"):
        for line in lines:
            yield line
            if each_line:
                yield ""  # an empty line ends a sentence
        flush()


def _write_columns(tag: Tag, source: Labelled, out: IO[str], as_json: bool) -> None:
    window: list[Sentence] = []

    def flush() -> None:
        if window:
            forms = [source.column(sentence, source.form) for sentence in window]
            for sentence, words, tags in zip(window, forms, tag(forms), strict=True):
                out.write(_json(words, tags) if as_json else _filled(sentence, source, tags))
            out.flush()
            window.clear()

    stream = _Stdin(flush) if source.path == "-" and hasattr(sys.stdin, "buffer") else None
    for sentence in source.sentences(stream):
        window.append(sentence)
        if len(window) >= WINDOW:
            flush()
    flush()


class _Stdin:
    """Standard input, which says when nothing more stands in it: what was read by then is answered before it waits."""

    name = "<stdin>"

    def __init__(self, before_waiting: Callable[[], None]) -> None:
        self._before_waiting = before_waiting
        self._buffer: Any = sys.stdin.buffer

    def read(self, size: int) -> bytes:
        """At most so many bytes: what is there, or comes next."""
        if not self._ready():
            self._before_waiting()
        block: bytes = self._buffer.read1(size)
        return block

    def _ready(self) -> bool:
        """Whether more is there already; no, where the system cannot tell (Windows knows this of sockets only)."""
        try:
            return bool(select.select([self._buffer], [], [], 0)[0])
        except (OSError, ValueError):
            return False


def _filled(sentence: Sentence, source: Labelled, tags: list[str]) -> str:
    """The sentence as it was, its tag column filled; where it has words alone, with a column of tags behind them."""
    return sentence.with_column("tag" if source.untagged(sentence) else source.tag, tags).written()


def _lines(forms: list[str], tags: list[str]) -> str:
    return "".join(f"{form}\t{tag}\n" for form, tag in zip(forms, tags, strict=True)) + "\n"


def _json(forms: list[str], tags: list[str]) -> str:
    return msgspec.json.encode({"forms": forms, "tags": tags}).decode() + "\n"
