"""The sparse non-negative matrix model: its contexts, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riverrun.classic.skipgrams import hashed, patterns
from riverrun.classic.snm_training import learn_snm
from riverrun.errors import ConfigError, DataError

SHAPE: dict[str, Any] = {"size": 40, "bos": 0, "eos": 1}


def text() -> np.ndarray:
    rng = np.random.default_rng(0)
    ids = rng.zipf(1.5, 4000) % 38 + 2
    ids[rng.random(4000) < 0.1] = 1
    return ids


@pytest.mark.parametrize(("order", "skips", "span"), [(1, 0, 0), (3, 0, 2), (1, 2, 1), (5, 3, 3), (2, 4, 2)])
def test_patterns_are_all_contexts_that_are_asked_for(order: int, skips: int, span: int) -> None:
    found = patterns(order, skips, span)
    expected = {tuple(range(n, 0, -1)) for n in range(order)}
    for far in range(1, span + 1):
        for near in range(span - far + 1):
            for skipped in range(1, skips + 1):
                expected.add((*range(far + skipped + near, skipped + near, -1), *range(near, 0, -1)))
    assert len(found) == len(set(found)) and set(found) == expected


def test_a_context_is_hashed_by_its_words_and_their_order() -> None:
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 1000, (20_000, 4))
    every = patterns(4, 2, 3)
    hashes = hashed(columns, np.full(len(columns), 4), [p for p in every if max(p, default=0) <= 4])
    for place, pattern in enumerate(p for p in every if max(p, default=0) <= 4):
        chosen = columns[:, [4 - distance for distance in pattern]]
        assert len(np.unique(hashes[:, place])) == len(np.unique(chosen, axis=0))
        assert (hashes[:, place] != 0).all()


def test_what_is_sorted_on_disk_is_what_is_sorted_in_memory(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    whole = learn_snm(text(), order=3, skips=1, span=2, passes=1, **SHAPE)
    parts = learn_snm(text(), order=3, skips=1, span=2, passes=1, memory=0.02, folder=tmp_path, **SHAPE)
    for name in ("base", "feature", "first", "word", "weight"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    assert whole.anything == parts.anything and not list(tmp_path.iterdir())


def test_a_text_in_pieces_is_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    whole = learn_snm(text(), order=3, skips=1, span=2, passes=1, **SHAPE)
    monkeypatch.setattr("riverrun.classic.snm_training._CHUNK", 77)
    parts = learn_snm(np.array_split(text(), 13), order=3, skips=1, span=2, passes=1, **SHAPE)
    np.testing.assert_array_equal(whole.weight, parts.weight)


def test_learning_helps_on_other_text() -> None:
    pytest.importorskip("numba")
    rng = np.random.default_rng(1)
    table = rng.dirichlet(np.full(38, 0.05), size=40)
    ids, last = [], 2
    for _ in range(8000):
        last = 1 if rng.random() < 0.1 else 2 + int(rng.choice(38, p=table[last]))
        ids.append(last)
    train, test = np.array(ids[:6000]), np.array(ids[6000:])
    before, after = (
        learn_snm(train, order=3, skips=1, span=1, passes=passes, **SHAPE).perplexity(test) for passes in (0, 2)
    )
    assert after < 0.9 * before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 0}, "order: expected at least 1, received 0"),
        ({"skips": -1}, "skips: expected at least 0, received -1"),
        ({"span": -1}, "span: expected at least 0, received -1"),
        ({"passes": -1}, "passes: expected at least 0, received -1"),
        ({"buckets": 0}, "buckets: expected at least 1, received 0"),
        ({"rate": 0.0}, "rate: expected a number above 0, received 0.0"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        learn_snm(text(), **{**SHAPE, **settings})


def test_text_that_is_refused() -> None:
    pytest.importorskip("numba")
    with pytest.raises(ConfigError, match="it is read several times; expected an array of ids or a list of arrays"):
        learn_snm(iter([text()]), **SHAPE)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no text to count contexts in"):
        learn_snm(np.array([], np.int64), **SHAPE)
