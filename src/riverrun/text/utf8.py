"""Text as the bytes of UTF-8 and back, also one byte at a time."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from riverrun.errors import DataError


def utf8(text: str) -> bytes:
    """The bytes of a text.

    >>> utf8("né")
    b'n\\xc3\\xa9'
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"character {error.start + 1} is U+{ord(text[error.start]):04X}, one half of a character of UTF-16; "
            f"expected text that can be written as UTF-8, received {text[max(0, error.start - 20) : error.end]!r}"
        ) from None


class Utf8Pieces:
    """Text out of bytes that come a few at a time; what is no UTF-8 becomes U+FFFD.

    >>> pieces = Utf8Pieces([b"n", b"\\xc3", b"\\xa9"])
    >>> pieces.feed(0), pieces.feed(1), pieces.feed(2), pieces.feed(1), pieces.rest()
    ('n', '', 'é', '', '�')
    """

    def __init__(self, spelled: list[bytes]) -> None:
        self._spelled = spelled
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, id: int) -> str:
        """The characters that are complete with this symbol."""
        return self._decoder.decode(self._spelled[id])

    def rest(self) -> str:
        """What was begun and not completed, at the end of the text; then another text may begin."""
        return self._decoder.decode(b"", final=True)


def joined(spelled: list[bytes], ids: Iterable[int]) -> str:
    """The text of several symbols, given the bytes of each."""
    return b"".join([spelled[k] for k in ids]).decode("utf-8", "replace")
