"""What smoothing refuses, what it says, and what it keeps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from riverrun.classic.counts import Counts, count
from riverrun.classic.smoothing import smooth
from riverrun.errors import ConfigError, DataError

pytest.importorskip("numba")


def tiny(order: int = 2) -> Counts:
    return count(np.array([2, 3, 1, 2, 2, 1]), order=order, size=5, bos=4, eos=1, unknown=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"smoothing": "knesser-ney"},
            "smoothing: expected one of .*received 'knesser-ney'; did you mean 'kneser-ney'?",
        ),
        ({"smoothing": "absolute", "discount": 1.5}, "discount: expected a number above 0 and at most 1, received 1.5"),
        ({"smoothing": "add-k", "k": 0}, "k: expected a number above 0, received 0"),
        ({"smoothing": "add-k", "k": math.nan}, "k: expected a number above 0, received nan"),
        (
            {"smoothing": "stupid-backoff", "backoff": 0.0},
            "backoff: expected a number above 0 and at most 1, received 0",
        ),
        ({"fallback": (0.5, 2.5, 1.0)}, "fallback: expected three discounts of at most 1, 2 and 3"),
        ({"fallback": (0.5,)}, "fallback: expected three discounts"),
        ({"prune": (1,)}, "prune: expected at most 2 thresholds for a model of order 2, the first of them 0"),
        ({"prune": (0, 2, 1)}, "prune: expected at most 2 thresholds"),
        ({"prune": (0, 1, 1)}, "prune: expected at most 2 thresholds"),
        ({"dtype": np.int32}, "dtype: expected float32 or float64"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        smooth(tiny(), **settings)


def test_a_text_that_is_too_small_for_discounts() -> None:
    with pytest.raises(
        DataError,
        match=r"discounts of order 1 need n-grams with counts of 1, 2 and 3, of which there are 1, 2 and 0: the text "
        r"is too small or made up.*fallback",
    ):
        smooth(tiny())
    with pytest.raises(DataError, match=r"the discount of order 1 needs n-grams with counts of 1 and 2.*0 and 1"):
        smooth(count(np.array([2, 1, 2, 3, 1, 2, 3, 1]), order=1, size=5, bos=4, eos=1), "absolute")


def test_discounts_that_come_out_wrong() -> None:
    """n1 = 1, n2 = 4, n3 = 1, n4 = 9: Y = 1/9, D1 = 1/9, D2 = 23/12, D3 = 3 - 4/9 * 9 = -1."""
    ids = [2, *[3, 4, 5, 6] * 2, *[7] * 3, *list(range(8, 17)) * 4]
    counts = count(np.array(ids), order=1, size=20, bos=17, eos=None)
    with pytest.raises(DataError, match=r"of order 1 come out as 0.111, 1.92, -1, which must be 0 to 1, 2 and 3"):
        smooth(counts)


def test_a_fallback_is_noted() -> None:
    model = smooth(tiny(), fallback=(0.5, 1.0, 1.5))
    assert len(model.notes) == 2
    assert "discounts of order 1 need" in model.notes[0] and "taken instead: 0.5, 1.0, 1.5" in model.notes[0]


def test_orders_that_no_text_has_are_noted() -> None:
    model = smooth(tiny(6), "witten-bell")
    assert model.notes == tuple(f"no text is so long that it has n-grams of order {n}" for n in (5, 6))
    assert np.exp(model.step(np.array([[2]]), model.start()).log_probs).sum() == pytest.approx(1, abs=1e-6)


def test_scores_of_stupid_backoff_have_no_perplexity() -> None:
    model = smooth(tiny(), "stupid-backoff")
    assert not model.normalised and "do not sum to 1" in model.notes[0]
    with pytest.raises(ConfigError, match=r"not probabilities .stupid back-off., so there is no perplexity"):
        model.perplexity(np.array([2, 1]))


def test_perplexity_with_and_without_unknown_symbols() -> None:
    model = smooth(tiny(), "add-k")
    ids = np.array([2, 0, 1])
    symbols, scores = next(model.read(ids))
    assert (symbols == 0).tolist() == [False, True, False]
    assert model.perplexity(ids) == pytest.approx(math.exp(-scores.mean()))
    assert model.perplexity(ids, unknown=False) == pytest.approx(math.exp(-scores[[0, 2]].mean()))
    with pytest.raises(DataError, match="no text to score"):
        model.perplexity(np.array([], np.int64))


def test_pruning_leaves_out_what_is_rare_and_never_single_symbols() -> None:
    ids = np.array([2, 3, 1, 2, 3, 1, 3, 2, 1, 0, 1])
    counts = count(ids, order=3, size=6, bos=4, eos=1)
    model = smooth(counts, "witten-bell", prune=(0, 1))
    trie = model.trie
    for n in (2, 3):
        full = counts.trie.level(n)
        assert trie.base[n] - trie.base[n - 1] == (counts.seen[full] > 1).sum()
    assert trie.size == 6
    assert trie.walk([2, 3]) >= 0 and trie.walk([3, 2]) == -1 and trie.walk([4, 2, 3]) >= 0


def test_numbers_of_four_bytes_are_near_those_of_eight() -> None:
    for smoothing in ("kneser-ney", "absolute", "witten-bell", "add-k", "stupid-backoff"):
        models = [
            smooth(tiny(3), smoothing, fallback=(0.5, 1.0, 1.5), discount=0.5, dtype=kind)  # type: ignore[arg-type]
            for kind in (np.float32, np.float64)
        ]
        assert models[0].log_prob.dtype == np.float32
        found = [model.step(np.array([[2]]), model.start()).log_probs for model in models]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
