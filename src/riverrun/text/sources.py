"""Where text comes from and goes to: files, compressed files, standard input and output, open streams.

Everything is read in blocks, so that a file larger than memory can be read; a compressed one is known by its name
(``.gz``, ``.zst``). Text is UTF-8. A byte order mark is taken off and remembered, CRLF becomes LF. A file that is not
UTF-8 but reads as Latin-1 is read as such and reported; one that is neither is an error with its line.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import os
import re
import sys
import warnings
import zlib
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, AnyStr, TextIO

from riverrun.errors import ConfigError, DataError, missing, nearest

Source = str | Path | IO[str] | IO[bytes]
"""A path, ``"-"`` for standard input, or an open stream."""

BLOCK = 1 << 16  # small enough to stay in a cache: larger blocks are slower to split
_PACKED = 1 << 10  # bytes of a .zst that are unpacked at once; of a bomb, 40 MB
_BOM = "\ufeff"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Control characters that no text has: tab, line ends, form feed and escape are left out.
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class TextSource:
    """Decoded text in blocks or lines, read once from the start to the end.

    Args:
        name: what messages call it.
        blocks: bytes, or text that is decoded already.
        encoding: what the user named; else UTF-8, or what is detected.
        needed: whether to hold no text at all is an error.
        notes: what a user should be told is appended here; without such a list it is given as a warning.

    Attributes:
        bom: the byte order mark that was taken off, or "".
        newline: how the last line that was read ends: LF or CRLF.
        keep_ends: whether how each line ends is kept until `line_ends` is asked; set it before anything is read.
        uniform: whether all lines whose ends are kept end as the last one does.
    """

    def __init__(
        self,
        name: str,
        blocks: Generator[bytes] | Generator[str],
        *,
        encoding: str | None = None,
        needed: bool = False,
        notes: list[str] | None = None,
    ) -> None:
        self.name = name
        self.bom = ""
        self.newline = "\n"
        self.keep_ends = False
        self.uniform = True
        self.needed = needed
        self._blocks = blocks
        self._line = 1  # the one in which the text that was decoded so far ends
        self._ends = deque([(1, "\n")])  # from which line on lines end how
        self._encoding = encoding and _known(encoding)
        self._notes = notes

    def __enter__(self) -> TextSource:
        return self

    def __exit__(self, *exception: object) -> None:
        self._blocks.close()

    def line_ends(self, first: int, count: int) -> str | tuple[str, ...]:
        """How ``count`` lines from ``first`` on end, or where they differ, each of them. Lines before are forgotten."""
        ends, last = self._ends, first + count
        while len(ends) > 1 and ends[1][0] <= first:
            ends.popleft()
        self.uniform = len(ends) == 1
        if len(ends) == 1 or ends[1][0] >= last:
            return ends[0][1]
        each: list[str] = []
        for begin, newline in ends:
            if begin >= last:
                break
            each[max(begin - first, 0) :] = [newline] * (last - max(begin, first))
        return tuple(each)

    def blocks(self) -> Iterator[str]:
        """The text in pieces of at most about 64 kB, cut anywhere, with LF at the ends of lines."""
        begun = found = False
        held = ""
        for block in self._decoded():
            if not begun and block:
                begun = True
                self.bom = _BOM if block.startswith(_BOM) else ""
                block = block.removeprefix(_BOM)
            if held or "\r" in block or self.newline != "\n":
                block = held + block
                held = "\r" if block.endswith("\r") else ""  # its LF may stand in the next block
                block = block[: len(block) - len(held)]
                self._remember_ends(block)
                block = block.replace("\r\n", "\n")
            if block:
                found = True
                yield block
        if held:
            yield held
        self.require(found or bool(held), "text")

    def lines(self) -> Iterator[str]:
        """The lines without their ends; only LF and CRLF end a line, not the other separators of Unicode."""
        for lines in lines_of(self.blocks(), "\n"):
            yield from lines

    def require(self, found: bool, what: str) -> None:
        """Raise a DataError where a file holds nothing that can be read; an empty stream is none."""
        if self.needed and not found:
            raise DataError(f"{self.name}: the file is empty; expected {what}")

    def error(self, line: int, message: str) -> DataError:
        """The error about one line of this source."""
        return DataError(f"{self.name}:{line}: {message}")

    def _remember_ends(self, block: str) -> None:
        """Note how the lines that end in a block do; most files have one way, and then nothing is looked at twice."""
        count, both = block.count("\n"), block.count("\r\n")
        ends = ["\r\n" if both else "\n"] * min(count, 1)
        if both not in (0, count):
            ends = ["\r\n" if line.endswith("\r") else "\n" for line in block.split("\n")[:-1]]
        for line, newline in enumerate(ends, self._line - count):
            before, known = self._ends[-1]
            if newline != known:
                if before == line or not self.keep_ends:
                    self._ends.pop()
                self._ends.append((line, newline))
        self.newline, self.uniform = self._ends[-1][1], len(self._ends) == 1

    def _note(self, message: str) -> None:
        if self._notes is None:
            warnings.warn(message, stacklevel=2)
        else:
            self._notes.append(message)

    def _decoded(self) -> Iterator[str]:
        """Blocks of bytes as text; the last one may be empty."""
        encoding = self._encoding
        decoder: codecs.IncrementalDecoder | None = None
        plain = True  # nothing but ASCII so far
        for block in _then_end(self._blocks):
            if isinstance(block, str):
                text = block
            else:
                if decoder is None:
                    if encoding is None and block.startswith(_UTF16):
                        encoding = "utf-16"
                        self._note(f"{self.name}: not UTF-8; read as UTF-16, by its byte order mark")
                    decoder = codecs.getincrementaldecoder(encoding or "utf-8")()
                try:
                    text = decoder.decode(block, final=not block)
                except UnicodeDecodeError as error:
                    if encoding is not None:
                        raise self._undecodable(error, encoding) from None
                    self._reject_unless_latin(error, plain)
                    # Latin-1 leaves 0x80 to 0x9F to control characters that no text has; this superset uses them.
                    encoding, decoder = "cp1252", codecs.getincrementaldecoder("cp1252")()
                    self._note(f"{self.name}: not UTF-8; read as Latin-1; name it with data.encoding")
                    try:
                        text = decoder.decode(error.object)
                    except UnicodeDecodeError as second:
                        raise self._undecodable(second, encoding) from None
            if "\0" in text:
                raise self._binary(self._line + text[: text.index("\0")].count("\n"))
            plain = plain and text.isascii()
            self._line += text.count("\n")
            yield text

    def _undecodable(self, error: UnicodeDecodeError, encoding: str) -> DataError:
        if encoding == "utf-16" and not self._encoding:
            return DataError(
                f"{self.name}: begins with the byte order mark of UTF-16, but is not valid UTF-16; expected text. Name "
                "the encoding with data.encoding"
            )
        if self._encoding:
            what = f"is not valid {encoding}, the encoding that was named"
        else:
            what = "is neither UTF-8 nor Latin-1; name the encoding with data.encoding"
        line = self._line + error.object[: error.start].count(b"\n")
        return self.error(line, f"byte 0x{error.object[error.start]:02X} {what}")

    def _reject_unless_latin(self, error: UnicodeDecodeError, plain: bool) -> None:
        """Binary data, and UTF-8 with some bad bytes, are not Latin-1."""
        control = _CONTROL.search(error.object)
        if control:
            raise self._binary(self._line + error.object[: control.start()].count(b"\n"))
        repaired = error.object.decode("utf-8", "replace")
        bad = repaired.count("\N{REPLACEMENT CHARACTER}")
        good = sum(character > "\x7f" for character in repaired) - bad
        if not plain or good > bad:
            raise self.error(
                self._line + error.object[: error.start].count(b"\n"),
                f"byte 0x{error.object[error.start]:02X} is not valid UTF-8, although the rest of the file is; it is "
                "damaged or mixes encodings; to read it nevertheless name one with data.encoding",
            )

    def _binary(self, line: int) -> DataError:
        return self.error(line, "a binary file; expected text")


def _known(encoding: str) -> str:
    try:
        " ".encode(encoding)  # empty text would not even look the encoding up
    except LookupError:
        close = nearest(encoding, ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "iso-8859-15", "koi8-r"])
        raise ConfigError(f"data.encoding: unknown encoding '{encoding}'{close}") from None
    return encoding


def _then_end(blocks: Iterable[bytes] | Iterable[str]) -> Iterator[bytes | str]:
    """The blocks, and an empty one at which a decoder finds out whether the last character was complete."""
    block: bytes | str = b""
    for block in blocks:
        yield block
    yield block[:0]


def lines_of(blocks: Iterable[AnyStr], end: AnyStr) -> Iterator[list[AnyStr]]:
    r"""For each block, the lines that end in it, without their ends; at last the one that no end follows.

    However long a line is, its parts are joined once.

    >>> list(lines_of(["one\ntw", "o", "\nthree"], "\n"))
    [['one'], [], ['two'], ['three']]
    """
    nothing = end[:0]
    parts: list[AnyStr] = []
    for block in blocks:
        lines = block.split(end)
        parts.append(lines[0])
        if len(lines) > 1:
            lines[0] = nothing.join(parts)
            parts = [lines.pop()]
            yield lines
        else:
            yield []
    if tail := nothing.join(parts):
        yield [tail]


def read_blocks(path: str | Path, *, size: int = BLOCK) -> Generator[bytes]:
    """The bytes of a file, decompressed by its name, in blocks of at most ``size``; ``"-"`` is standard input."""
    if path == "-":
        stream: Any = _stdin().buffer
        while block := stream.read1(size):  # what is there: a pipe need not fill a block
            yield block
        return
    path = existing(path)
    try:
        with closing(_open(path)) as file:
            while block := file.read(size):
                yield block
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _stdin() -> Any:
    """Standard input, which a program may be started without."""
    if sys.stdin is None:
        raise DataError("<stdin>: standard input is closed; name a file")
    return sys.stdin


def existing(path: str | Path) -> Path:
    """The path of a file that is there, or a DataError that names the one most like it."""
    path = Path(path)
    try:
        folder = path.is_dir()
    except OSError as error:  # a name that no file can have
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if folder:
        raise DataError(f"{path}: this is a folder; expected a file")
    if not path.exists():
        if not path.parent.is_dir():
            raise DataError(f"{path}: no such file; there is no folder {path.parent}")
        raise DataError(f"{path}: no such file{nearest(path.name, [each.name for each in path.parent.iterdir()])}")
    return path


def looked_at(path: str | Path) -> Path:
    """The path of a file that may be read twice, first to see what it holds; a pipe gives what it holds once."""
    path = existing(path)
    if not path.is_file():
        raise DataError(
            f"{path}: a pipe can be read only once; name its format (data.format), or give it as standard input: -"
        )
    return path


def open_text(path: Source, *, encoding: str | None = None, notes: list[str] | None = None) -> TextSource:
    """Text to read: a path (``.gz`` and ``.zst`` too), ``"-"`` for standard input, or an open stream.

    >>> with open_text(io.StringIO("one\\r\\ntwo")) as source:
    ...     list(source.lines()), source.newline
    (['one', 'two'], '\\r\\n')
    """
    if isinstance(path, str | Path):
        if path == "-" and not hasattr(_stdin(), "buffer"):
            return TextSource("<stdin>", _stream_blocks(sys.stdin), notes=notes)
        name = "<stdin>" if path == "-" else str(path)
        return TextSource(name, read_blocks(path), encoding=encoding, needed=path != "-", notes=notes)
    return TextSource(str(getattr(path, "name", "<stream>")), _stream_blocks(path), encoding=encoding, notes=notes)


def _stream_blocks(stream: IO[Any]) -> Generator[Any]:
    while block := stream.read(BLOCK):
        yield block


@contextmanager
def create_text(path: str | Path | IO[str]) -> Iterator[TextIO | IO[str]]:
    """A place to write UTF-8 text with LF: a path (``.gz`` and ``.zst`` too), ``"-"`` or an open stream.

    The same text gives the same bytes: a ``.gz`` holds no time and no name.
    """
    if not isinstance(path, str | Path):
        yield path
        return
    if path == "-":
        if sys.stdout is None:
            raise DataError("<stdout>: standard output is closed; name a file to write")
        yield sys.stdout
        sys.stdout.flush()
        return
    path = Path(path)
    # A file gets its name when it is whole: it may be what is read meanwhile. Devices and pipes are written at once.
    try:
        real = Path(os.path.realpath(path))
        draft = real if real.exists() and not real.is_file() else real.with_name(f".{real.name}.{os.getpid()}")
        if path.is_dir():
            raise DataError(f"{path}: this is a folder; expected a file to write")
        if not path.parent.is_dir():
            raise DataError(f"{path}: cannot be written: there is no folder {path.parent}")
        file: Any = draft.open("wb")
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        with file:
            packed: Any = file
            if path.suffix == ".gz":
                packed = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
            elif path.suffix == ".zst":
                packed = _zstandard(path).ZstdCompressor().stream_writer(file)
            with io.TextIOWrapper(packed, encoding="utf-8", newline="") as text:
                yield text
    except BaseException:
        if draft != real:
            draft.unlink(missing_ok=True)
        raise
    if draft != real:
        draft.replace(real)


def sha256(path: str | Path) -> str:
    """The SHA-256 of a file's bytes as they lie on the disk, in hexadecimal."""
    with existing(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open(path: Path) -> Any:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    if path.suffix == ".zst":
        return _Zstandard(path)
    return path.open("rb")


def _zstandard(path: Path) -> Any:
    try:
        import zstandard
    except ImportError:
        raise missing("zstandard", "zst", str(path)) from None
    return zstandard


class _Zstandard:
    """A reader of ``.zst`` whose errors are those of the other readers: a file that ends within a frame is one."""

    def __init__(self, path: Path) -> None:
        package = _zstandard(path)
        self._file = path.open("rb")
        self._begin = package.ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._error: type[Exception] = package.ZstdError

    def read(self, size: int) -> bytes:
        # A little at a time, whatever was asked for: a few bytes may become megabytes.
        while packed := self._file.read(_PACKED):
            if block := self._unpacked(packed):
                return block
        if self._frame is not None:
            raise EOFError("compressed file ended early")
        return b""

    def _unpacked(self, packed: bytes) -> bytes:
        """What some bytes of the file hold; a frame may end in them, and the next one begin."""
        parts = []
        while packed:
            frame = self._frame or self._begin()
            try:
                parts.append(frame.decompress(packed))
            except self._error as error:
                raise OSError(str(error)) from None
            packed = frame.unused_data if frame.eof else b""
            self._frame = None if frame.eof else frame
        return b"".join(parts)

    def close(self) -> None:
        self._file.close()
