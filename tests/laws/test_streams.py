"""What is promised of running text: every symbol is learned once, in order, and a position is two numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.data.batch import Batch
from riverrun.data.shuffle import shuffled
from riverrun.data.stream import StreamLoader, TokenStream, WindowLoader

END = 7

SIZES = st.integers(2, 60)
SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 70))  # places and symbols of a window, more than there are too


@pytest.fixture(autouse=True, scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where streams are made goes away with pytest's other folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("streams")))
        yield


def made(ids: Any, **settings: Any) -> TokenStream:
    return TokenStream.build([ids], tempfile.mkdtemp(), **settings)


def numbered(size: int) -> TokenStream:
    """A stream in which each symbol is its own position."""
    return made(np.arange(size))


def flat(batch: Batch) -> dict[str, Any]:
    return {name: array.tolist() for name, array in batch.flat().items()}


def along(batches: list[Batch], name: str, row: int) -> list[int]:
    """What one place has read, window after window."""
    return [int(id) for batch in batches for id in batch[name].rows()[row]]


# -- what is stored


@given(chunks=st.lists(st.lists(st.integers(0, 9), max_size=9), max_size=9), data=st.data())
def test_a_stream_gives_back_what_it_was_built_of(chunks: list[list[int]], data: st.DataObject) -> None:
    ends = data.draw(st.sampled_from([None, "chunks", END]))
    given_as = data.draw(st.sampled_from([list, lambda chunk: np.array(chunk, np.int64), np.uint8]))
    whole = [id for chunk in chunks for id in chunk]
    if ends is None:
        texts = [whole] if whole else []
    elif ends == "chunks":
        texts = chunks
    else:
        texts = [[*map(int, text.strip()), END] for text in "".join(map(str, whole)).split(str(END))]
        texts[-1].pop()  # no end symbol behind the last one
        texts = texts if texts[-1] else texts[:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("riverrun.data.stream._CHUNK", 2)
        folder = Path(tempfile.mkdtemp())
        built = TokenStream.build(map(given_as, chunks), folder, ends=ends)  # type: ignore[arg-type]
        for stream in (built, TokenStream.open(folder)):
            assert stream.ids.tolist() == whole and len(stream) == len(whole)
            assert [stream.text(k).tolist() for k in range(len(stream.ends))] == texts
            assert stream.counts(10).tolist() == [whole.count(id) for id in range(10)]


# -- windows in order


@given(size=SIZES, shape=SHAPES, jitter=st.booleans(), bos=st.sampled_from([None, 99]), seed=st.integers(0, 9))
def test_every_symbol_is_a_target_once_and_follows_what_was_read(
    size: int, shape: tuple[int, int], jitter: bool, bos: int | None, seed: int
) -> None:
    places, bptt = shape
    loader = StreamLoader(numbered(size), batch=places, bptt=bptt, jitter=jitter, bos=bos, seed=seed)
    batches = list(loader.batches(0))
    assert len(batches) == loader.count(0)
    first = 1 if bos is None else 0
    read = [id for row in range(places) for id in along(batches, "ids", row)]
    # In the order of the places it is the whole stream: each place goes on where the one before it ends.
    assert [id for row in range(places) for id in along(batches, "targets", row)] == list(range(first, size))
    assert read == [bos if k == 0 else k - 1 for k in range(first, size)]
    lengths = [len(along(batches, "ids", row)) for row in range(places)]
    assert max(lengths) - min(lengths) <= 1
    for k, batch in enumerate(batches):
        assert sorted(batch) == ["fresh", "ids", "targets"]
        assert batch["fresh"].tolist() == [k == 0] * places
        assert batch["ids"].lengths.tolist() == batch["targets"].lengths.tolist()
        width = batch["ids"].data.shape[1]
        assert batch["ids"].data.shape == (places, width) == batch["targets"].data.shape
        assert width == batch["ids"].lengths.max() > 0  # none is empty, and none has more padding than it must
        assert batch["ids"].data.dtype == batch["targets"].data.dtype == np.int64
        for part in (batch["ids"], batch["targets"]):
            assert not part.data[~part.mask()].any()
    if not jitter:
        assert [batch["ids"].data.shape[1] for batch in batches[:-1]] == [bptt] * (len(batches) - 1)


LOADERS: dict[str, Callable[[TokenStream], Any]] = {
    "stream": lambda stream: StreamLoader(stream, batch=3, bptt=4),
    "jitter": lambda stream: StreamLoader(stream, batch=2, bptt=9, jitter=True, seed=3),
    "apart": lambda stream: StreamLoader(stream, batch=3, bptt=4, bos=END, apart=True),
    "window": lambda stream: WindowLoader(stream, context=3, batch=7, bos=END, seed=3),
    "window in order": lambda stream: WindowLoader(stream, context=3, batch=7, bos=END, shuffle=False),
}


@pytest.mark.parametrize("name", LOADERS)
def test_what_a_position_stands_for_depends_on_nothing_else(name: str) -> None:
    ids = np.random.default_rng(0).integers(0, 9, 150)
    ids[-1] = END
    stream = made(ids, ends=END)
    first = LOADERS[name](stream)
    for epoch in (0, 1, 5, 0):  # back to an earlier epoch too
        whole = [flat(batch) for batch in first.batches(epoch)]
        assert len(whole) == first.count(epoch) > 5
        for start in (0, 1, 3, len(whole) - 1, len(whole)):
            other = LOADERS[name](TokenStream.open(stream.folder))
            assert [flat(batch) for batch in other.batches(epoch, start)] == whole[start:]


@pytest.mark.parametrize("name", ["jitter", "window"])
def test_another_seed_and_another_epoch_are_another_order(name: str) -> None:
    stream = numbered(2000)

    def order(seed: int, epoch: int) -> list[Any]:
        loader: StreamLoader | WindowLoader
        if name == "jitter":
            loader = StreamLoader(stream, batch=2, bptt=20, jitter=True, seed=seed)
        else:
            loader = WindowLoader(stream, context=1, batch=50, bos=0, seed=seed)
        return [flat(batch) for batch in loader.batches(epoch)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(2, 0) and order(1, 0) != order(1, 1) and order(2, 0) != order(1, 1)


def test_lengths_of_windows_are_drawn_as_published() -> None:
    loader = StreamLoader(numbered(1_000_000), batch=1, bptt=70, jitter=True, seed=1)
    lengths = np.array([batch["ids"].data.shape[1] for batch in loader.batches(0)][:-1])
    usual, half = lengths[lengths > 52], lengths[lengths <= 52]
    assert 0.04 < len(half) / len(lengths) < 0.06
    # Cut to whole numbers, a normal number is half a unit less on average. Both within four standard errors.
    assert abs(usual.mean() - 69.5) < 4 * 5 / len(usual) ** 0.5 and abs(half.mean() - 34.5) < 4 * 5 / len(half) ** 0.5
    assert 4.8 < usual.std() < 5.2 and 4.5 < half.std() < 5.5
    assert lengths.max() == 80  # 2.3 % of the usual ones would be longer
    short = StreamLoader(numbered(10_000), batch=1, bptt=6, jitter=True)
    found = {batch["ids"].data.shape[1] for batch in short.batches(0)}
    assert found - {short._cuts(0)[-1] - short._cuts(0)[-2]} == set(range(5, 17))


# -- texts kept apart


@given(
    texts=st.lists(st.lists(st.integers(0, 6), max_size=6), min_size=1, max_size=9),
    empty=st.booleans(),
    shape=SHAPES,
)
def test_a_state_begins_anew_where_a_text_begins(texts: list[list[int]], empty: bool, shape: tuple[int, int]) -> None:
    whole = [id for text in texts for id in [*text, END]]
    chunks = [[]] * empty + [[*text, END] for text in texts]  # before the first text perhaps one without any symbol
    stream = TokenStream.build(chunks, tempfile.mkdtemp(), ends="chunks")
    places, bptt = shape
    loader = StreamLoader(stream, batch=places, bptt=bptt, bos=END, apart=True)
    batches = list(loader.batches(0))
    read = [END, *whole[:-1]]
    expected = [True] + [id == END for id in read[1:]]  # every end but the last one begins a text
    assert [id for row in range(places) for id in along(batches, "ids", row)] == read
    resets = []
    for row in range(places):
        for k, batch in enumerate(batches):
            assert batch["resets"].shape == batch["ids"].data.shape and batch["resets"].dtype == np.bool_
            assert not batch["resets"][~batch["ids"].mask()].any()
            found = batch["resets"][row, : batch["ids"].lengths[row]].tolist()
            if k == 0 and row == 0:
                found[0] = True  # the first text: `fresh` says so
            resets += found
    assert resets == expected


@given(texts=st.lists(st.lists(st.integers(0, 6), max_size=6), min_size=1, max_size=6), context=st.integers(1, 8))
def test_the_context_of_a_symbol(texts: list[list[int]], context: int) -> None:
    whole = [id for text in texts for id in [*text, END]]
    for apart in (False, True):
        loader = WindowLoader(made(whole, ends=END), context=context, batch=4, bos=END, shuffle=False, apart=apart)
        batches = list(loader.batches(0))
        assert [id for batch in batches for id in batch["targets"].tolist()] == whole
        begin = 0
        rows = iter([row for batch in batches for row in batch["context"].tolist()])
        for k, id in enumerate(whole):
            before = [END] * context + whole[begin if apart else 0 : k]
            assert next(rows) == before[-context:]
            begin = k + 1 if id == END else begin
        assert {len(batch["targets"]) for batch in batches[:-1]} <= {4}


# -- shuffled


@given(size=st.integers(1, 300), batch=st.integers(1, 80), seed=st.integers(0, 9), epoch=st.integers(0, 9))
def test_every_symbol_is_a_target_once_whatever_the_order(size: int, batch: int, seed: int, epoch: int) -> None:
    loader = WindowLoader(numbered(size), context=2, batch=batch, bos=1000, seed=seed)
    batches = list(loader.batches(epoch))
    assert len(batches) == loader.count(epoch)
    found = np.concatenate([part["targets"] for part in batches])
    assert sorted(found.tolist()) == list(range(size))
    contexts = np.concatenate([part["context"] for part in batches])
    expected = np.stack([found - 2, found - 1], 1)
    assert (contexts == np.where(expected < 0, 1000, expected)).all()


def test_a_shuffled_order_looks_like_any_other() -> None:
    size = 100_000
    order = shuffled(np.arange(size), size, seed=5, epoch=2)
    # Means over 100,000 numbers, each within four standard errors of that of a random permutation.
    assert abs(np.corrcoef(order, np.arange(size))[0, 1]) < 4 / size**0.5
    steps = np.abs(np.diff(order))
    assert abs(steps.mean() / size - 1 / 3) < 4 * 0.2357 / size**0.5
    assert abs((np.diff(order) > 0).mean() - 0.5) < 4 * 0.29 / size**0.5
    digits = np.bincount(order[:1000] * 10 // size, minlength=10)
    assert ((digits - 100) ** 2 / 100).sum() < 27.9  # chi-square of 9 degrees of freedom, one in a thousand
    other = shuffled(np.arange(size), size, seed=5, epoch=3)
    assert (order == other).sum() < 10


def test_neighbours_of_two_epochs_are_not_neighbours() -> None:
    size = 2000
    orders = [shuffled(np.arange(size), size, seed=1, epoch=epoch).tolist() for epoch in range(20)]
    pairs = [{frozenset(pair) for pair in pairwise(order)} for order in orders]
    shared = [len(a & b) for k, a in enumerate(pairs) for b in pairs[:k]]
    assert 1.5 < float(np.mean(shared)) < 2.5  # of two random orders, two neighbours on average
