"""Reading and writing text: compression, encodings, line ends, and every message about a file that is not text."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import threading
import time
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from riverrun.errors import ConfigError, DataError
from riverrun.text.formats import guess_format
from riverrun.text.formats.pieces import Pieces
from riverrun.text.sources import BLOCK, TextSource, create_text, looked_at, open_text, read_blocks, sha256


def _read(path: Path, encoding: str | None = None) -> tuple[str, list[str]]:
    notes: list[str] = []
    with open_text(path, encoding=encoding, notes=notes) as source:
        return "".join(source.blocks()), notes


def _written(folder: Path, data: bytes, name: str = "file.txt") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    text = "Füße\n" * 50_000  # several blocks, so that characters are cut
    with create_text(path) as file:
        file.write(text)
    assert _read(path) == (text, [])
    raw = path.read_bytes()
    assert raw[:2] == {"a.txt": b"F\xc3", "a.txt.gz": b"\x1f\x8b", "a.txt.zst": b"\x28\xb5"}[name]


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
def test_the_same_text_gives_the_same_bytes(tmp_path: Path, name: str) -> None:
    (tmp_path / "other").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        with create_text(folder / name) as file:
            file.write("text\n")
    assert sha256(tmp_path / name) == sha256(tmp_path / "other" / name)
    raw = (tmp_path / name).read_bytes()
    assert sha256(tmp_path / name) == hashlib.sha256(raw).hexdigest()
    assert name != "a.gz" or raw[3:8] == bytes(5)  # no name, no time


def test_compressed_files_of_several_parts_are_read_whole(tmp_path: Path) -> None:
    gz = _written(tmp_path, gzip.compress(b"one\n") + gzip.compress(b"two\n"), "a.gz")
    zst = _written(tmp_path, zstandard.compress(b"one\n") + zstandard.compress(b"two\n"), "a.zst")
    assert _read(gz) == _read(zst) == ("one\ntwo\n", [])


def test_a_mark_and_line_ends_are_taken_off_and_remembered(tmp_path: Path) -> None:
    path = _written(tmp_path, b"\xef\xbb\xbfone\r\ntwo\r\n")
    with open_text(path) as source:
        assert list(source.lines()) == ["one", "two"]
        assert (source.bom, source.newline) == ("\ufeff", "\r\n")


@given(st.text(alphabet="ab\r\nü", max_size=12), st.integers(1, 4))
def test_blocks_may_be_cut_anywhere(text: str, size: int) -> None:
    data = text.encode()
    with TextSource("x", (data[k : k + size] for k in range(0, len(data), size)), notes=[]) as source:
        assert "".join(source.blocks()) == text.replace("\r\n", "\n")


@given(st.text(alphabet="ab\n\u2028\x0c\x85", max_size=12))
def test_only_line_feeds_end_lines(text: str) -> None:
    with open_text(io.StringIO(text, newline="")) as source:
        assert list(source.lines()) == (text.removesuffix("\n").split("\n") if text else [])


def test_how_each_line_ends_is_kept_where_they_differ() -> None:
    text = "a\r\nb\nc\n\r\nd\r\n"
    with TextSource("x", (char for char in text), notes=[]) as source:
        source.keep_ends = True
        assert "".join(source.blocks()) == "a\nb\nc\n\nd\n"
        assert source.line_ends(1, 2) == ("\r\n", "\n")
        assert source.line_ends(2, 3) == ("\n", "\n", "\r\n")
        assert (source.line_ends(4, 2), source.uniform) == ("\r\n", True)  # what was before is forgotten
    with TextSource("x", (char for char in text * 99), notes=[]) as source:
        assert len(list(source.lines())) == 5 * 99 and source.uniform  # nobody asks, nothing is kept


@pytest.mark.parametrize("read", ["lines", "pieces"])
def test_a_long_line_takes_linear_time(read: str) -> None:
    def seconds(size: int, tries: int = 1) -> float:
        found = []
        for _ in range(tries):
            start = time.process_time()
            if read == "lines":
                with TextSource("x", ("x" * BLOCK for _ in range(size)), notes=[]) as source:
                    (line,) = map(len, source.lines())
            else:
                (line,) = map(len, Pieces(b"x", (b"x" * BLOCK for _ in range(size))).lines())
            found.append(time.process_time() - start)
            assert line >= size * BLOCK
        return min(found)

    # Quadratic time would be 64 times as long: 8 is expected, noise gets the rest.
    assert seconds(8 * 60, 2) < 24 * max(seconds(60, 4), 2e-3)


def test_latin_1_is_detected_and_reported(tmp_path: Path) -> None:
    path = _written(tmp_path, b"plain\n" * BLOCK + "Füße “quoted”\n".encode("cp1252"))
    text, notes = _read(path)
    assert text.endswith("\nFüße “quoted”\n")
    assert notes == [f"{path}: not UTF-8; read as Latin-1; name it with data.encoding"]
    with pytest.warns(UserWarning, match="read as Latin-1"), open_text(path) as source:
        list(source.blocks())


def test_an_encoding_that_is_named_is_used_and_not_reported(tmp_path: Path) -> None:
    path = _written(tmp_path, "да\n".encode("koi8-r"))
    assert _read(path, "koi8-r") == ("да\n", [])


def test_utf_16_is_known_by_its_mark(tmp_path: Path) -> None:
    path = _written(tmp_path, "Füße\r\n".encode("utf-16"))
    assert _read(path) == ("Füße\n", [f"{path}: not UTF-8; read as UTF-16, by its byte order mark"])


@pytest.mark.parametrize(
    ("data", "encoding", "message"),
    [
        (b"", None, r": the file is empty; expected text$"),
        (b"\xef\xbb\xbf", None, r": the file is empty; expected text$"),
        (b"one\ntw\xc3", "utf-8", r":2: byte 0xC3 is not valid utf-8, the encoding that was named$"),
        (b"one\n\xe4\n\x81\n", None, r":3: byte 0x81 is neither UTF-8 nor Latin-1; name the encoding with data.enc"),
        ("ä\nö\n".encode() * 9 + b"\xe4\n", None, r":19: byte 0xE4 is not valid UTF-8, although the rest of the file"),
        (b"one\n\x00\x01", None, r":2: a binary file; expected text$"),
        (b"one\n\n\x89PNG\x01", None, r":3: a binary file; expected text$"),
    ],
)
def test_what_is_not_text_is_an_error(tmp_path: Path, data: bytes, encoding: str | None, message: str) -> None:
    path = _written(tmp_path, data)
    with pytest.raises(DataError, match=message) as error:
        _read(path, encoding)
    assert str(error.value).startswith(str(path))


def test_damage_behind_the_first_block_is_found_with_its_line(tmp_path: Path) -> None:
    path = _written(tmp_path, "ä\n".encode() * BLOCK + b"\xff\n")
    with pytest.raises(DataError, match=rf":{BLOCK + 1}: byte 0xFF is not valid UTF-8"):
        _read(path)


def test_an_unknown_encoding_is_named_with_the_nearest(tmp_path: Path) -> None:
    path = _written(tmp_path, b"text")
    with pytest.raises(ConfigError, match=r"data.encoding: unknown encoding 'latin1-x'; did you mean 'latin-1'\?"):
        _read(path, "latin1-x")
    with pytest.raises(ConfigError, match="unknown encoding 'rot13'"):
        _read(path, "rot13")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    _written(tmp_path, b"text", "train.conllu")
    with pytest.raises(DataError, match=r"train\.conlu: no such file; did you mean 'train\.conllu'\?$"):
        _read(tmp_path / "train.conlu")
    with pytest.raises(DataError, match=r"no such file; there is no folder .*nowhere$"):
        _read(tmp_path / "nowhere" / "file")
    with pytest.raises(DataError, match=r"this is a folder; expected a file$"):
        _read(tmp_path)
    with pytest.raises(DataError, match=r"cannot be read: File name too long$"):
        _read(Path("a text, not a file. " * 99))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.gz", b"plain text", "Not a gzipped file"),
        ("a.gz", gzip.compress(b"text" * 999)[:-20], "ended before the end-of-stream marker"),
        ("a.gz", gzip.compress(bytes(range(256)))[:30] + b"\xff" * 40, "."),
        ("a.zst", b"plain text", "Unknown frame descriptor"),
    ],
)
def test_damaged_compression(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = _written(tmp_path, data, name)
    with pytest.raises(DataError, match=rf"{name}: cannot be read: .*{message}"):
        _read(path)


def test_zst_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ConfigError, match=r"needs the package 'zstandard'.*pip install 'riverrun\[zst\]'"):
        _read(_written(tmp_path, b"", "a.zst"))


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    for path, message in [
        (tmp_path, r"this is a folder; expected a file to write$"),
        (tmp_path / "nowhere" / "a", r"cannot be written: there is no folder .*nowhere$"),
        (tmp_path / ("a" * 300), r"cannot be written: File name too long$"),
    ]:
        with pytest.raises(DataError, match=message), create_text(path):
            pass


def test_a_file_is_written_beside_what_stands_there(tmp_path: Path) -> None:
    path = _written(tmp_path, b"one\ntwo\n")
    with open_text(path) as source, create_text(path) as file:  # onto its own input
        for line in source.lines():
            file.write(f"{line}!\n")
    assert path.read_bytes() == b"one!\ntwo!\n"
    with pytest.raises(ValueError, match="a bad line"), create_text(path) as file:
        file.write("half of it")
        raise ValueError("a bad line")
    assert path.read_bytes() == b"one!\ntwo!\n"
    assert os.listdir(tmp_path) == ["file.txt"]


@pytest.mark.skipif(os.name == "nt", reason="Windows wants a privilege for a link")
def test_what_a_link_or_a_device_names_is_written(tmp_path: Path) -> None:
    path, link = _written(tmp_path, b"before"), tmp_path / "link"
    link.symlink_to(path)
    with create_text(link) as file:
        file.write("after")
    assert link.is_symlink() and path.read_bytes() == b"after"
    with create_text(os.devnull) as file:
        file.write("nowhere")
    assert not Path(os.devnull).is_file()


def _pipe(path: Path, data: bytes) -> threading.Thread:
    """A named pipe; the thread writes this into it when somebody reads, and once."""
    os.mkfifo(path)
    thread = threading.Thread(target=path.write_bytes, args=(data,), daemon=True)
    thread.start()
    return thread


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    thread = _pipe(path, b"one\n")
    for look in (looked_at, guess_format):
        with pytest.raises(
            DataError, match=r"pipe: a pipe can be read only once; name its format \(data\.format\), or"
        ):
            look(path)
    assert _read(path) == ("one\n", [])  # nobody has opened it until now
    thread.join()


def test_standard_input_and_output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Füße\n".encode()), encoding="ascii"))
    with open_text("-") as source:
        assert list(source.lines()) == ["Füße"]
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with open_text("-") as source:
        assert list(source.lines()) == []  # nothing piped in is no mistake
    with create_text("-") as file:
        file.write("out\n")
    assert capsys.readouterr().out == "out\n"


def test_open_streams_are_read_and_written_where_they_are() -> None:
    with open_text(io.BytesIO(b"one\n")) as source:
        assert list(source.lines()) == ["one"]
    stream = io.StringIO()
    with create_text(stream) as file:
        file.write("two")
    assert stream.getvalue() == "two"


def test_without_standard_input_and_output_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stdout", None)
    for read in (open_text, lambda path: next(read_blocks(path))):
        with pytest.raises(DataError, match="<stdin>: standard input is closed; name a file"):
            read("-")
    with pytest.raises(DataError, match="<stdout>: standard output is closed; name a file"), create_text("-"):
        pass


def test_what_only_looks_like_utf_16_is_said(tmp_path: Path) -> None:
    path = _written(tmp_path, b"\xff\xfe\x80\x81\n")
    with pytest.raises(DataError, match="begins with the byte order mark of UTF-16, but is not valid UTF-16"):
        _read(path)


def test_a_zst_that_was_cut_anywhere_is_an_error(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    pack = zstandard.ZstdCompressor().compress
    text = "".join(f"{k * k} line\n" for k in range(3000)).encode()
    first, second = pack(text), pack(b"second\n")
    whole = first + second
    assert b"".join(read_blocks(_written(tmp_path, whole, "a.zst"))) == text + b"second\n"
    assert b"".join(read_blocks(_written(tmp_path, first, "a.zst"))) == text
    assert b"".join(read_blocks(_written(tmp_path, b"", "a.zst"))) == b""
    for end in [*range(1, 40), *range(40, len(first), 97), *range(len(first) + 1, len(whole))]:
        with pytest.raises(DataError, match=r"a\.zst: cannot be read: compressed file ended early"):
            list(read_blocks(_written(tmp_path, whole[:end], "a.zst")))


def test_a_zst_that_unpacks_to_very_much_is_read_in_parts(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    size = 200 << 20
    path = _written(tmp_path, zstandard.ZstdCompressor().compress(bytes(size)), "a.zst")
    parts = [len(block) for block in read_blocks(path)]
    assert sum(parts) == size and max(parts) < size // 4


def test_blocks_are_bounded(tmp_path: Path) -> None:
    path = _written(tmp_path, gzip.compress(bytes(1000)), "a.gz")
    assert [len(block) for block in read_blocks(path, size=400)] == [400, 400, 200]
