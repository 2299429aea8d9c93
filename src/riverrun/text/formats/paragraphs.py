"""Text -> paragraphs: the groups of lines between blank lines, in bounded memory and with nothing lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from riverrun.text.sources import TextSource

# A line of nothing but spaces and tabs is blank too, also where the text ends with it.
_BLANK = re.compile(r"\n((?:[ \t]*\n)+(?:[ \t]+\Z)?|[ \t]+\Z)")
_UNUSUAL = re.compile(r"\n(?=[ \t]|\n\n)")
_LEADING = re.compile(r"(?:[ \t]*\n)*")
_LONGEST = 1 << 22  # characters; no sentence is as long, so the file is another one than it is said to be


class Paragraph(NamedTuple):
    """Lines without a blank one among them.

    ``before + text + LF + after`` of all paragraphs, one behind the other, is the whole file, except that its last
    line end may be missing in the file: then ``after`` of the last one is None.
    """

    line: int
    before: str
    text: str
    after: str | None


def paragraphs(source: TextSource) -> Iterator[Paragraph]:
    """The paragraphs of a source; ``before`` is what stands at the start of the file: blank lines, nothing otherwise.

    >>> from io import StringIO
    >>> from riverrun.text.sources import open_text
    >>> for each in paragraphs(open_text(StringIO("a\\nb\\n\\nc\\n \\n\\n"))): print(tuple(each))
    (1, '', 'a\\nb', '\\n')
    (4, '', 'c', ' \\n\\n')
    """
    source.keep_ends = True  # until the readers ask for those of each sentence
    line, tail = 1, ""
    for block in source.blocks():
        tail += block
        cut = _last_cut(tail)
        if cut:
            yield from _split(tail[:cut], line)
            line += tail.count("\n", 0, cut)
            tail = tail[cut:]
        elif len(tail) > _LONGEST:
            raise source.error(line, f"no blank line in {tail.count(chr(10))} lines; a sentence ends with a blank line")
    yield from _split(tail, line)


def _last_cut(text: str) -> int:
    """Where the last paragraph that has begun begins; 0 if it is the first one."""
    body = text.rstrip()
    cut = body.rfind("\n\n") + 2
    if cut < 2 or body[cut : cut + 1] in (" ", "\t"):
        cut = max((blank.end() for blank in _BLANK.finditer(body)), default=0)
    return cut if body[:cut].strip() else 0  # blank lines at the start of the file go with what follows them


def _split(text: str, line: int) -> Iterator[Paragraph]:
    before = ""
    if text[:1] in ("\n", " ", "\t"):
        leading = _LEADING.match(text)
        before = leading.group() if leading else ""
        text = text[len(before) :]
        line += before.count("\n")
    if not text.strip():
        return
    # Nearly every file has exactly one empty line between sentences; looking for others costs more than splitting.
    if _UNUSUAL.search(text):
        pieces = _BLANK.split(text)
    else:
        pieces = [piece for body in text.split("\n\n") for piece in (body, "\n")]
        if not pieces[-2]:  # the text ended with a blank line
            del pieces[-2:]
        else:  # and here it did not: the last paragraph may end with a line end, or with none
            pieces.pop()
    for k in range(0, len(pieces), 2):
        body = pieces[k]
        if not body:
            break
        after: str | None
        if k + 1 < len(pieces):
            after = pieces[k + 1]
        else:
            after = "" if body.endswith("\n") else None
            body = body.removesuffix("\n")
        yield Paragraph(line, before, body, after)
        before = ""
        line += body.count("\n") + 1 + (after or "").count("\n")
