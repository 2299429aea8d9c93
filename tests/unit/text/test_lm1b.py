"""The layout of the One Billion Word benchmark."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from riverrun.errors import DataError
from riverrun.text.formats import guess_format, read_lm1b, write_lines

TRAIN = "training-monolingual.tokenized.shuffled"
HELD = "heldout-monolingual.tokenized.shuffled"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """All but the first of four shards of training, the held-out ones, and a file that is not read."""
    for number in (3, 1, 2):
        write_lines(_made(tmp_path / TRAIN / f"news.en-0000{number}-of-00004"), [f"{number} a .", f"{number} b ."])
    for number in (1, 0):
        write_lines(_made(tmp_path / HELD / f"news.en.heldout-0000{number}-of-00002"), [f"held {number} ."])
    (tmp_path / TRAIN / "README").write_text("not a shard\n")
    return tmp_path


def _made(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    return path


def test_a_folder_is_read_in_the_order_of_its_shards(root: Path) -> None:
    notes: list[str] = []
    assert list(read_lm1b(root / TRAIN, notes=notes)) == ["1 a .", "1 b .", "2 a .", "2 b .", "3 a .", "3 b ."]
    assert list(read_lm1b(root / HELD, notes=notes)) == ["held 0 .", "held 1 ."]
    assert notes == []  # shard 0 of training is the held-out set


def test_a_pattern_one_shard_and_a_stream(root: Path) -> None:
    assert list(read_lm1b(str(root / TRAIN / "news.en-0000[12]*"))) == ["1 a .", "1 b .", "2 a .", "2 b ."]
    assert list(read_lm1b(root / HELD / "news.en.heldout-00001-of-00002")) == ["held 1 ."]
    assert list(read_lm1b(io.StringIO("one .\ntwo .\n"))) == ["one .", "two ."]


def test_shards_may_be_compressed(root: Path) -> None:
    (root / TRAIN / "news.en-00002-of-00004").unlink()
    write_lines(root / TRAIN / "news.en-00002-of-00004.gz", ["packed ."])
    assert list(read_lm1b(root / TRAIN)) == ["1 a .", "1 b .", "packed .", "3 a .", "3 b ."]
    write_lines(root / TRAIN / "news.en-00001-of-00004.gz", ["again ."])
    with pytest.raises(DataError, match=r"shuffled: some shards are there twice, compressed and not; remove one"):
        list(read_lm1b(root / TRAIN))


def test_missing_shards_are_noted(root: Path) -> None:
    (root / TRAIN / "news.en-00002-of-00004").unlink()
    (root / HELD / "news.en.heldout-00000-of-00002").unlink()
    notes: list[str] = []
    assert len(list(read_lm1b(root / TRAIN, notes=notes))) == 4
    assert len(list(read_lm1b(root / HELD, notes=notes))) == 1
    assert notes == [
        f"{root / TRAIN}: 1 of 3 shards are missing, the first one 00002",
        f"{root / HELD}: 1 of 2 shards are missing, the first one 00000",
    ]


def test_the_root_holds_two_sets(root: Path) -> None:
    with pytest.raises(DataError, match=rf"no files with names like .*; give one of its folders: {HELD}, {TRAIN}$"):
        list(read_lm1b(root))
    with pytest.raises(DataError, match=r"expected shards of one set, received news.en of 4 and news.en.heldout of 2"):
        list(read_lm1b(root / "*" / "news.*"))


def test_other_paths(root: Path) -> None:
    with pytest.raises(DataError, match=r"no files with names like news.en-00001-of-00100; name another format"):
        list(read_lm1b(_made(root / "empty" / "x").parent))
    with pytest.raises(DataError, match=r"no such file; did you mean 'training-"):
        list(read_lm1b(root / "training-monolingual"))
    (root / TRAIN / "news.en-00001-of-00004").write_text("")
    with pytest.raises(DataError, match=r"news.en-00001-of-00004: the file is empty; expected text"):
        list(read_lm1b(root / TRAIN))


def test_shards_are_known_by_their_names(root: Path) -> None:
    assert guess_format(root / TRAIN) == guess_format(root / TRAIN / "news.en-00001-of-00004") == "lm1b"
    with pytest.raises(DataError, match="this is a folder"):
        guess_format(root)
