"""JSON lines: one object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec

from riverrun.text.sources import Source, create_text, open_text


def read_jsonl(
    path: Source, *, encoding: str | None = None, notes: list[str] | None = None
) -> Iterator[dict[str, Any]]:
    """The objects of a file, one a line; empty lines are left out.

    >>> import io
    >>> list(read_jsonl(io.StringIO('{"text": "a nice film", "label": "pos"}\\n')))
    [{'text': 'a nice film', 'label': 'pos'}]
    """
    decoder = msgspec.json.Decoder()
    with open_text(path, encoding=encoding, notes=notes) as source:
        found = False
        for number, line in enumerate(source.lines(), 1):
            if not line.strip():
                continue
            try:
                value = decoder.decode(line)
            except msgspec.DecodeError as error:
                raise source.error(number, f"not valid JSON: {error}") from None
            if not isinstance(value, dict):
                raise source.error(number, f"expected a JSON object a line, received {line[:40]}")
            found = True
            yield value
        source.require(found, "JSON objects, one a line")


def write_jsonl(path: str | Path | IO[str], objects: Iterable[Mapping[str, Any]]) -> None:
    """Write each object on a line; other scripts stay readable."""
    with create_text(path) as file:
        for value in objects:
            file.write(msgspec.json.encode(value).decode() + "\n")
