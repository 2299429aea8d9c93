"""Token streams: what is refused, what stays as it was, and how much memory they take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from riverrun.data.stream import StreamLoader, TokenStream, WindowLoader
from riverrun.errors import DataError


def test_ids_are_mapped_from_the_disk_and_not_held(tmp_path: Path) -> None:
    stream = TokenStream.build([[1, 2], [3]], tmp_path, ends="chunks")
    assert isinstance(stream.ids, np.memmap) and isinstance(stream.ends, np.memmap)
    assert (stream.ids.dtype, stream.ends.dtype) == (np.int32, np.int64)
    assert sorted(os.listdir(tmp_path)) == ["ends", "ids", "stream.json"]


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([[1], [2, -1]], r"expected chunks \(n,\) of ids from 0 on, received \(2,\), least -1"),
        ([np.ones((2, 2))], r"received \(2, 2\), least 0"),
    ],
)
def test_chunks_that_are_no_ids_leave_the_stream_before(tmp_path: Path, chunks: list[object], message: str) -> None:
    TokenStream.build([[1, 2]], tmp_path)
    with pytest.raises(DataError, match=message):
        TokenStream.build(chunks, tmp_path)  # type: ignore[arg-type]
    assert sorted(os.listdir(tmp_path)) == ["ends", "ids", "stream.json"]
    assert TokenStream.open(tmp_path).ids.tolist() == [1, 2]


def test_a_stream_that_is_built_over_one_in_use_leaves_it_readable(tmp_path: Path) -> None:
    before = TokenStream.build([np.arange(100_000)], tmp_path)
    inode = (tmp_path / "ids").stat().st_ino
    after = TokenStream.build([[5]], tmp_path)
    # To read from a mapped file that was shortened ends the process; so the file is looked at first.
    assert (tmp_path / "ids").stat().st_ino != inode
    assert before.ids[-1] == 99_999 and after.ids.tolist() == [5]


def test_a_build_that_was_killed_is_not_taken_for_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TokenStream.build([[1, 2]], tmp_path)

    def killed(path: Path, data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("riverrun.data.stream.write_durably", killed)
    with pytest.raises(KeyboardInterrupt):
        TokenStream.build([[3, 4]], tmp_path)
    with pytest.raises(DataError, match=r"no stream.json; here is no stream, or one that is not complete. Build it"):
        TokenStream.open(tmp_path)


@pytest.mark.parametrize("name", ["ids", "ends"])
def test_a_damaged_stream(tmp_path: Path, name: str) -> None:
    TokenStream.build([[1, 2, 3]], tmp_path)
    os.truncate(tmp_path / name, 7)
    expected = {"ids": 12, "ends": 8}[name]
    with pytest.raises(DataError, match=rf"{name}: expected {expected} bytes, received 7; the file is truncated"):
        TokenStream.open(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DataError, match=rf"{name}: expected {expected} bytes, received 0"):
        TokenStream.open(tmp_path)
    (tmp_path / "stream.json").write_text("{")
    with pytest.raises(DataError, match=r"stream.json: .*Remove the folder, and build the stream anew"):
        TokenStream.open(tmp_path)


def test_a_text_without_anything_to_predict(tmp_path: Path) -> None:
    empty = TokenStream.build([], tmp_path / "0")
    one = TokenStream.build([[5]], tmp_path / "1")
    assert len(empty) == 0 and empty.ends.tolist() == [] and empty.counts(2).tolist() == [0, 0]
    for stream, size in ((empty, 0), (one, 1)):
        with pytest.raises(DataError, match=rf"{size}: a text of {size} symbols has nothing to predict; .* least 2"):
            StreamLoader(stream, batch=2, bptt=3)
    with pytest.raises(DataError, match=r"a text of 0 symbols has nothing to predict; expected at least 1"):
        StreamLoader(empty, batch=2, bptt=3, bos=0)
    with pytest.raises(DataError, match=r"a text of 0 symbols has nothing to predict; expected at least 1"):
        WindowLoader(empty, context=2, batch=3, bos=0)
    (batch,) = StreamLoader(one, batch=2, bptt=3, bos=0).batches(0)
    assert [row.tolist() for row in batch["ids"].rows()] == [[0], []]
    (batch,) = WindowLoader(one, context=2, batch=3, bos=0).batches(0)
    assert (batch["context"].tolist(), batch["targets"].tolist()) == ([[0, 0]], [5])


def test_texts_that_do_not_end_alike_are_not_kept_apart(tmp_path: Path) -> None:
    stream = TokenStream.build([[1, 9], [2, 8], [3, 7]], tmp_path, ends="chunks")
    message = r"must all end with the symbol that the next one begins behind, a line end; received .* \[8, 9\]"
    with pytest.raises(DataError, match=message):
        StreamLoader(stream, batch=1, bptt=3, apart=True)
    alike = TokenStream.build([[], [1, 9], [], [2, 9], [3]], tmp_path, ends="chunks")  # the last one begins no other
    StreamLoader(alike, batch=1, bptt=3, apart=True)
    with pytest.raises(DataError, match=r"received texts that end with \[5, 9\]"):
        StreamLoader(alike, batch=1, bptt=3, apart=True, bos=5)


def test_no_order_of_the_whole_stream_is_made(tmp_path: Path) -> None:
    size = 1 << 33  # more than memory holds
    stream = TokenStream(tmp_path, np.broadcast_to(np.int32(3), (size,)), np.array([size]))
    loader = WindowLoader(stream, context=2, batch=5, bos=0)
    assert loader.count(0) == -(-size // 5)
    (last,) = loader.batches(0, loader.count(0) - 1)
    assert last["targets"].tolist() == [3, 3]


PROGRAM = """
import resource, sys
from riverrun.config import lm
from riverrun.data.stream import StreamLoader, TokenStream, WindowLoader
from riverrun.text.formats import read_text
from riverrun.text.units import learn

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

settings = {"words": lm.WordUnits(), "chars": lm.CharUnits(), "bytes": lm.ByteUnits(), "bpe": lm.BpeUnits(size=1000)}
path, folder, kind = sys.argv[1:]
begin = peak()
units = learn(settings[kind], read_text(path))
stream = TokenStream.build(units.encode(read_text(path)), folder, ends=units.eos)
print(peak() - begin, len(stream))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["words", "chars", "bytes", "bpe"])
def test_a_large_text_is_built_in_little_memory(kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    words = np.array([f"w{k:x}" for k in range(20_000)])
    block = "\n".join(" ".join(words[random.zipf(1.3, 20) % len(words)]) for _ in range(20_000)) + "\n"
    with (tmp_path / "text").open("w") as file:
        file.writelines(block for _ in range(60_000_000 // len(block)))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "text"), str(tmp_path / "out"), kind],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    megabytes, symbols = map(int, done.stdout.split())
    assert megabytes < 40  # of a text of 60 MB, and of four bytes for each of its symbols
    assert symbols > 10_000_000
