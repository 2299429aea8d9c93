"""Word vectors: GloVe's text, word2vec's text and binary, fastText's ``.vec`` and ``.bin``; compressed by name.

A file is read as a stream: of its lines only the words that are wanted are kept, and only their numbers are parsed.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import numpy as np

from riverrun.errors import DataError
from riverrun.text.formats.fasttext import MAGIC, read_fasttext
from riverrun.text.formats.kept import Kept, Vectors
from riverrun.text.formats.pieces import Pieces
from riverrun.text.sources import read_blocks

_BLOCK = 1 << 18
_BOM = b"\xef\xbb\xbf"
_HEADER = re.compile(rb"(\d+)[ \t]+(\d+)\s*\Z")  # word2vec, fastText: the number of words and of their numbers
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # what no text has: so the vectors are binary


def read_vectors(
    path: str | Path, *, wanted: set[str] | None = None, extra: int = 0, size: int | None = None
) -> Vectors:
    """The vectors of a file in its order; of a word that stands twice, the first one.

    Args:
        path: GloVe's text (``word 0.1 0.2 ...``), the same behind a line ``words numbers`` (word2vec's text,
            fastText's ``.vec``), word2vec's binary, or fastText's own (``.bin``); known by its content. ``.gz`` and
            ``.zst`` are read.
        wanted: the words to read; all of them without it. fastText's own binary gives a vector to each of them: what
            its dictionary does not have is composed from character n-grams, and stands last, sorted.
        extra: with ``wanted``, how many of the file's first words are read besides. Such files begin with the most
            frequent words.
        size: D, where it is fixed; a file of another width is an error.
    """
    kept = Kept(str(path), wanted, extra, size)
    with closing(read_blocks(path, size=_BLOCK)) as blocks:
        head = next(blocks, b"")
        if not head:
            raise DataError(f"{path}: the file is empty; expected word vectors")
        if head.startswith(MAGIC):
            return read_fasttext(path, head, blocks, kept)
        head = head.removeprefix(_BOM)
        first, _, rest = head.partition(b"\n")
        header = _HEADER.match(first)
        pieces = Pieces(head, blocks)
        if header:
            pieces.until(b"\n")
            kept.set_width(int(header[2]), "1")
            if _CONTROL.search(rest[:4096]):
                _read_binary(pieces, kept, int(header[1]))
                return kept.vectors()
        with np.errstate(over="ignore"):  # what is too large for float32 is found as not finite
            _read_text(pieces, kept, 2 if header else 1)
    return kept.vectors()


def _read_text(pieces: Pieces, kept: Kept, first: int) -> None:
    width = kept.width
    number = -1
    for at, line in enumerate(pieces.lines(), first):
        # word2vec and fastText end their lines with a space.
        if line[-1:] in (b" ", b"\r"):
            line = line.rstrip(b" \r")
        if not line:
            continue
        number += 1
        spaces = line.count(b" ")
        if not width:
            kept.set_width(spaces, f"{at}")
            width = spaces
        if spaces < width:
            raise kept.error(f"{at}", f"expected a word and {width} numbers, received {spaces + 1} cells")
        # A word may hold spaces, as '. . .' does in one of GloVe's lists.
        word = line[: line.find(b" ")] if spaces == width else line.rsplit(b" ", width)[0]
        wanted = kept.wants(word, number)
        if wanted or not number:  # the first one always: it shows whether these are vectors at all
            try:
                numbers = np.array(line[len(word) + 1 :].split(b" "), np.bytes_).astype(np.float32)
            except ValueError:
                raise kept.error(f"{at}", f"expected a word and {width} numbers, received {_shown(line)}") from None
            if wanted:
                kept.add(word, numbers, f"{at}")
    if number < 0:
        raise DataError(f"{kept.name}: the file is empty; expected word vectors")


def _read_binary(pieces: Pieces, kept: Kept, count: int) -> None:
    for number in range(count):
        word = pieces.until(b" ")
        numbers = pieces.take(4 * kept.width)
        if word is None or len(numbers) < 4 * kept.width:
            raise DataError(f"{kept.name}: word {number + 1}: the file ends here; its first line says {count} words")
        word = word.lstrip(b"\n")  # some writers end a vector with a line feed
        if kept.wants(word, number):
            kept.add(word, np.frombuffer(numbers, "<f4"), f"word {number + 1}")


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= 60 else text[:60] + "...")
