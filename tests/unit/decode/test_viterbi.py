"""Which way Viterbi goes, how fast it is, and that it keeps to the rules of a tag scheme."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from riverrun.decode import viterbi as room
from riverrun.decode.scorer import Chain
from riverrun.decode.skip import leave_out, put_back
from riverrun.decode.viterbi import viterbi
from riverrun.errors import ShapeError
from riverrun.text.tags import allowed


def chain(rng: np.random.Generator, B: int, T: int, C: int, *, zero: bool = False) -> Chain:
    lengths = rng.integers(1, T + 1, B)
    steps, edge = rng.normal(size=(C, C)) * (not zero), rng.normal(size=C) * (not zero)
    parts = [part.astype(np.float32) for part in (rng.normal(size=(B, T, C)), steps, edge, edge)]
    return Chain(*parts, lengths)


def test_independent_decisions_are_taken_one_by_one(rng: np.random.Generator, monkeypatch: Any) -> None:
    scores = chain(rng, 5, 7, 4, zero=True)
    expected = viterbi(Chain(scores.emissions, scores.transitions, scores.start, scores.stop + 1, scores.lengths))
    monkeypatch.setattr(room, "Lattice", None)  # the long way is not there
    found = viterbi(scores)
    np.testing.assert_array_equal(found.tags.data, expected.tags.data)
    np.testing.assert_allclose(found.scores, expected.scores - 1, rtol=1e-5)
    with pytest.raises(AttributeError):
        viterbi(chain(rng, 5, 7, 4))


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "bioes"])
def test_the_rules_of_a_scheme_are_kept(scheme: str, rng: np.random.Generator) -> None:
    letters = {"iob1": "BI", "iob2": "BI", "bioes": "BIES"}[scheme]
    tags = ["O", *(f"{letter}-{kind}" for kind in ("PER", "LOC") for letter in letters)]
    rules = allowed(tags, scheme)
    scores = chain(rng, 40, 9, len(tags))
    free, best = viterbi(scores), viterbi(scores, allowed=rules)
    broken = 0
    for row, length in enumerate(scores.lengths):
        for path, kept in ((free.tags.data[row, :length], False), (best.tags.data[row, :length], True)):
            fine = rules.start[path[0]] and rules.stop[path[-1]] and rules.transitions[path[:-1], path[1:]].all()
            assert fine or not kept
            broken += not fine
    assert broken > 10  # without the rules they are broken


def test_a_tie_is_decided_for_the_first_tag() -> None:
    zeros = np.zeros
    tie = Chain(zeros((1, 3, 2)), np.array([[0.0, 0.0], [0.0, -1.0]]), zeros(2), zeros(2), np.array([3]))
    assert viterbi(tie).tags.data.tolist() == [[0, 0, 0]]


def test_leaving_out_and_putting_back(rng: np.random.Generator) -> None:
    scores = chain(rng, 3, 5, 2)
    mask = rng.random((3, 5)) < 0.5
    shorter = leave_out(scores, mask)
    kept = mask & (np.arange(5) < scores.lengths[:, None])
    assert shorter.lengths.tolist() == kept.sum(1).tolist()
    back = put_back(shorter.emissions, scores, mask)
    np.testing.assert_array_equal(back, np.where(kept[..., None], scores.emissions, 0))
    with pytest.raises(ShapeError, match=r"mask: expected \(B, T\) = \(3, 5\), true where .* received \(3, 4\)"):
        leave_out(scores, mask[:, :4])


@pytest.mark.bench
def test_half_a_million_words_in_a_second(rng: np.random.Generator) -> None:
    """64 sentences of up to 30 words and 17 tags: decoding must be a small part of 40,000 words a second."""
    for zero in (False, True):
        scores = chain(rng, 64, 30, 17, zero=zero)
        taken = []
        for _ in range(20):
            start = time.perf_counter()
            viterbi(scores)
            taken.append(time.perf_counter() - start)
        assert scores.lengths.sum() / min(taken) > 500_000
