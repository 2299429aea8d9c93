"""Counting: against a dictionary, in memory and on disk, cut anywhere; and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.classic.counts import Counts, count
from riverrun.classic.runs import Runs
from riverrun.classic.windows import Keys, Symbols
from riverrun.errors import ConfigError, DataError, ShapeError

pytest.importorskip("numba")

BOS, EOS = 0, 1


def by_dictionary(lines: list[list[int]], order: int) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for line in lines:
        for i in range(len(line)):
            found.update(tuple(line[i : i + n]) for n in range(1, min(order, len(line) - i) + 1))
    return found


def grams(counts: Counts) -> dict[tuple[int, ...], int]:
    """Every n-gram of the tree with its count."""
    trie, parents = counts.trie, counts.trie.parents()
    found = {}
    for node in np.flatnonzero(counts.seen):
        gram, at = [], node
        while at >= 0:
            gram.append(int(trie.word[at]))
            at = parents[at]
        found[tuple(gram[::-1])] = int(counts.seen[node])
    return found


lines_of = st.lists(st.lists(st.integers(2, 6), max_size=7), min_size=1, max_size=9)


@settings(max_examples=60)
@given(lines=lines_of, order=st.integers(1, 8), pieces=st.integers(1, 9), size=st.sampled_from([7, 300, 70_000]))
def test_lines_are_counted_as_by_a_dictionary(lines: list[list[int]], order: int, pieces: int, size: int) -> None:
    ids = np.array([w for line in lines for w in (*line, EOS)])
    counts = count(np.array_split(ids, pieces), order=order, size=size, bos=BOS, eos=EOS)
    assert grams(counts) == by_dictionary([[BOS, *line, EOS] for line in lines], order)
    assert counts.trie.order == order and counts.trie.size == size


@settings(max_examples=40)
@given(ids=st.lists(st.integers(0, 4), min_size=1, max_size=40), order=st.integers(1, 5), pieces=st.integers(1, 5))
def test_running_text_is_counted_as_by_a_dictionary(ids: list[int], order: int, pieces: int) -> None:
    counts = count(iter(np.array_split(np.array(ids), pieces)), order=order, size=5, bos=3, eos=None)
    assert grams(counts) == by_dictionary([[3, *ids]], order)
    assert counts.beginning == (3, *ids)[:order]


@settings(max_examples=40)
@given(lines=lines_of)
def test_ends_of_lines_may_be_given_by_their_places(lines: list[list[int]]) -> None:
    ends = np.cumsum([len(line) for line in lines])
    ids = np.array([w for line in lines for w in line], np.int32)
    expected = grams(count(np.array([w for line in lines for w in (*line, EOS)]), order=3, size=7, bos=BOS, eos=EOS))
    assert grams(count(ids, ends=ends, order=3, size=7, bos=BOS, eos=EOS)) == expected
    # Where eos stands already it is not put a second time, and a last end that is missing is that of the text.
    closed = np.array([w for line in lines for w in (*line, EOS)])
    ends = np.cumsum([len(line) + 1 for line in lines])
    assert grams(count(closed, ends=ends[:-1], order=3, size=7, bos=BOS, eos=EOS)) == expected


def test_ends_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riverrun.classic.windows._LINES", 2)
    monkeypatch.setattr("riverrun.classic.windows._CHUNK", 3)
    ids, ends = np.array([2, 3, 4, 5, 6, 2, 3]), np.array([2, 2, 3, 6, 7])
    symbols = Symbols(size=7, bos=BOS, eos=EOS)
    found = np.concatenate(list(symbols.read(ids, ends)))
    assert found.tolist() == [0, 2, 3, 1, 0, 1, 0, 4, 1, 0, 5, 6, 2, 1, 0, 3, 1]


def test_a_last_line_without_its_end_is_ended() -> None:
    found = np.concatenate(list(Symbols(size=7, bos=BOS, eos=EOS).read(np.array([2, 1, 3]))))
    assert found.tolist() == [0, 2, 1, 0, 3, 1]


@pytest.mark.parametrize("order", [1, 2, 5, 7])
@pytest.mark.parametrize("size", [50, 40_000])
def test_what_is_sorted_on_disk_is_what_is_sorted_in_memory(order: int, size: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(order)
    ids = rng.zipf(1.4, 20_000) % (size - 2) + 2
    ids[rng.random(20_000) < 0.1] = EOS
    whole = count(ids, order=order, size=size, bos=BOS, eos=EOS)
    parts = count(ids, order=order, size=size, bos=BOS, eos=EOS, memory=0.05, folder=tmp_path)
    for name in ("base", "word", "first"):
        np.testing.assert_array_equal(getattr(whole.trie, name), getattr(parts.trie, name))
    np.testing.assert_array_equal(whole.seen, parts.seen)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bits", [(7,), (64,), (64, 20), (30, 64, 11)])
def test_runs_on_disk(bits: tuple[int, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, min(2**width - 1, 40), 5000).astype(np.uint64) for width in bits]
    columns[0] *= np.uint64((2 ** bits[0] - 1) // 40)  # the highest bits count too
    keys = np.stack(columns, axis=1)
    expected, times = np.unique(keys, axis=0, return_counts=True)
    for memory in (100, 0.01):
        with Runs(bits, memory=memory, folder=tmp_path) as runs:
            for part in np.array_split(keys, 7):
                runs.add(part)
            assert (runs.spilled > 3) == (memory < 1)
            merged = np.array(runs.merged())
        np.testing.assert_array_equal(merged[:, :-1], expected)
        np.testing.assert_array_equal(merged[:, -1], times)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [2, 255, 256, 65_535, 65_536, 2**31])
@pytest.mark.parametrize("order", [1, 4, 7])
def test_keys_hold_their_symbols(size: int, order: int) -> None:
    keys = Keys(size=size, order=order)
    line = np.array([(size - 1 - k) % size for k in range(order)], np.int32)
    rows = np.concatenate(list(keys.windows([line], None)))
    assert rows.shape == (order, len(keys.columns))
    assert all(width <= 64 for width in keys.columns)
    for k, row in enumerate(rows):
        assert keys.unpacked(row) == tuple(line[k:].tolist())


def test_keys_are_in_the_order_of_their_symbols() -> None:
    keys = Keys(size=2**31, order=3)
    lines = [[5], [5, 0], [5, 2**31 - 1], [6], [2**31 - 1, 3, 1], [2**31 - 1, 3, 2]]
    rows = [tuple(next(keys.windows([np.array(line, np.int32)], None))[0].tolist()) for line in lines]
    assert rows == sorted(rows)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"order": 0}, "order: expected at least 1, received 0"),
        ({"bos": 9}, "bos: expected an id from 0 to 6, received 9"),
        ({"eos": -1}, "eos: expected an id from 0 to 6, received -1"),
        ({"bos": 1}, "bos and eos are both 1"),
        ({"unknown": 7}, "unknown: expected an id from 0 to 6, received 7"),
        ({"memory": 0}, "memory: expected a positive number of megabytes, received 0"),
        ({"size": 2**31 + 1}, "size: expected 1 to 2\\^31 symbols"),
    ],
)
def test_settings_that_are_refused(settings_: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        count(np.array([2, 1]), **{**{"order": 2, "size": 7, "bos": BOS, "eos": EOS}, **settings_})  # type: ignore[arg-type]


def test_text_that_is_refused(tmp_path: Path) -> None:
    shape = {"order": 2, "size": 7, "bos": BOS, "eos": EOS}
    with pytest.raises(DataError, match="symbol 3 of the text has the id 7: not among 7 symbols"):
        count([np.array([2, 3]), np.array([4, 7])], **shape)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="symbol 1 of the text has the id 0: bos, which stands only before a line"):
        count(np.array([2, BOS]), **shape)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no text to count n-grams in"):
        count(np.array([], np.int64), **shape)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"expected arrays \(n,\) of integers, received \(1,\) of float64"):
        count(np.array([2.0]), **shape)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="ends: they belong to one array of ids"):
        count([np.array([2])], ends=np.array([1]), **shape)  # type: ignore[arg-type]
    for ends in ([2, 1], [-1], [4]):
        with pytest.raises(DataError, match="ends: expected places from 0 to 3 that do not fall"):
            count(np.array([2, 3, 4]), ends=np.array(ends), **shape)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"what memory does not hold cannot be written to .*nowhere"):
        ids = np.arange(100_000) % 5 + 2
        count(ids, memory=0.01, folder=tmp_path / "nowhere", **shape)  # type: ignore[arg-type]


def test_how_often_one_ngram_occurs() -> None:
    counts = count(np.array([2, 3, 1]), order=2, size=7, bos=BOS, eos=EOS)
    assert [counts.of(gram) for gram in ([2], [0, 2], [2, 3], [3, 1], [3, 2], [1, 2], [7], [-1], [2, 3, 1])] == [
        *(1, 1, 1, 1, 0, 0, 0, 0, 0)
    ]
