"""Decoding a chain against the enumeration of every path, for all forms of a chain, on numpy and torch."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.data.padded import Padded
from riverrun.decode.constraints import constrain
from riverrun.decode.greedy import greedy, greedy_labels
from riverrun.decode.marginals import log_partition, marginals
from riverrun.decode.path import path_scores
from riverrun.decode.scorer import Chain, Labels
from riverrun.decode.viterbi import viterbi, viterbi_best
from riverrun.errors import ConfigError, ShapeError

try:
    import torch
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]

FORMS = ["shared", "per position", "second order", "independent"]
KINDS = ["numpy", pytest.param("torch", marks=pytest.mark.skipif(torch is None, reason="needs torch"))]


@dataclass
class Rules:
    transitions: Any
    start: Any
    stop: Any


def draw(rng: np.random.Generator, form: str, lengths: list[int], tags: int, wide: int = 0) -> Chain:
    """Random scores, NaN wherever nothing may be read."""
    width = max(lengths, default=0) + wide
    emissions = rng.normal(size=(len(lengths), width, tags)) * 2
    edge = (1 + tags, tags) if form == "second order" else (tags,)
    steps = {"shared": (tags, tags), "per position": (len(lengths), width, tags, tags)}
    transitions = rng.normal(size=steps.get(form, (tags, tags, tags))) * 2
    start, stop = rng.normal(size=edge), rng.normal(size=edge)
    for row, length in enumerate(lengths):
        emissions[row, length:] = np.nan
        if form == "per position":
            transitions[row, length:] = np.nan
            transitions[row, :1] = np.nan
    if form == "independent":
        transitions, start, stop = np.zeros((tags, tags)), np.zeros(tags), np.zeros(tags)
    return Chain(emissions, transitions, start, stop, np.array(lengths, np.int64))


def to(kind: str, chain: Chain) -> Chain:
    if kind == "numpy":
        return chain
    return Chain(*(torch.from_numpy(np.ascontiguousarray(part)) for part in vars(chain).values()))


def score(chain: Chain, row: int, path: tuple[int, ...], rules: Rules | None, positions: list[int]) -> float:
    """The definition, one tag at a time."""
    if not path:
        return 0.0
    second = chain.transitions.ndim == 3
    total = float(chain.start[0][path[0]] if second else chain.start[path[0]])
    if second:
        total += float(chain.stop[1 + path[-2] if len(path) > 1 else 0, path[-1]])
    else:
        total += float(chain.stop[path[-1]])
    forbidden = rules is not None and not (rules.start[path[0]] and rules.stop[path[-1]])
    for t, tag in enumerate(path):
        total += float(chain.emissions[row, positions[t], tag])
        if t == 0:
            continue
        forbidden |= rules is not None and not rules.transitions[path[t - 1], tag]
        if second and t == 1:
            total += float(chain.start[1 + path[0], tag])
        elif second:
            total += float(chain.transitions[path[t - 2], path[t - 1], tag])
        elif chain.transitions.ndim == 4:
            total += float(chain.transitions[row, positions[t], path[t - 1], tag])
        else:
            total += float(chain.transitions[path[t - 1], tag])
    return -np.inf if forbidden else total


def enumerate_row(
    chain: Chain, row: int, rules: Rules | None = None, mask: np.ndarray | None = None
) -> tuple[list[int], list[tuple[float, tuple[int, ...]]]]:
    """The positions that count, and every path over them that exists with its score, best first."""
    positions = [t for t in range(int(chain.lengths[row])) if mask is None or mask[row, t]]
    paths = itertools.product(range(chain.emissions.shape[2]), repeat=len(positions))
    scored = [(score(chain, row, path, rules, positions), path) for path in paths]
    return positions, sorted([pair for pair in scored if pair[0] > -np.inf], reverse=True)


def check(chain: Chain, kind: str, rules: Rules | None = None, mask: np.ndarray | None = None, k: int = 5) -> None:
    given_chain = to(kind, chain)
    given_mask = torch.from_numpy(mask) if kind == "torch" and mask is not None else mask
    best = viterbi(given_chain, allowed=rules, mask=given_mask)
    several = viterbi_best(given_chain, k, allowed=rules, mask=given_mask)
    total = np.asarray(log_partition(given_chain, allowed=rules, mask=given_mask))
    shares = marginals(given_chain, allowed=rules, mask=given_mask)
    data, found_shares = np.asarray(best.tags.data), np.asarray(shares.data)
    assert data.shape == chain.emissions.shape[:2]
    assert found_shares.shape == chain.emissions.shape
    for row in range(len(chain.lengths)):
        positions, paths = enumerate_row(chain, row, rules, mask)
        skipped = [t for t in range(data.shape[1]) if t not in positions]
        assert not data[row, skipped].any()
        assert not found_shares[row, skipped].any()
        expected = np.zeros((data.shape[1], chain.emissions.shape[2]))
        if paths:
            assert tuple(data[row, positions]) == paths[0][1]
            np.testing.assert_allclose(float(best.scores[row]), paths[0][0], rtol=1e-12)
            scores = np.array([value for value, _ in paths])
            np.testing.assert_allclose(total[row], np.logaddexp.reduce(scores), rtol=1e-11, atol=1e-11)
            for value, path in paths:
                for t, tag in zip(positions, path, strict=True):
                    expected[t, tag] += np.exp(value - total[row])
        else:
            assert float(best.scores[row]) == -np.inf
            assert total[row] == -np.inf
        np.testing.assert_allclose(found_shares[row], expected, atol=1e-11)
        found = several.rows()[row]
        assert len(found) == min(k, len(paths))
        for (tags, value), (wanted, path) in zip(found, paths, strict=False):
            assert [tags[t] for t in positions] == list(path)
            assert sum(tags) == sum(path)
            np.testing.assert_allclose(value, wanted, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_every_length(form: str, kind: str, rng: np.random.Generator) -> None:
    check(draw(rng, form, [3, 0, 1, 5, 2, 4], tags=3, wide=1), kind)


@pytest.mark.parametrize("form", FORMS)
@given(
    lengths=st.lists(st.integers(0, 4), max_size=4),
    tags=st.integers(1, 3),
    k=st.integers(1, 9),
    masked=st.booleans(),
    ruled=st.booleans(),
    wide=st.integers(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_any_size(
    form: str, lengths: list[int], tags: int, k: int, masked: bool, ruled: bool, wide: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    chain = draw(rng, form, lengths, tags, wide)
    mask = rng.random(chain.emissions.shape[:2]) < 0.6 if masked else None
    rules = Rules(*(rng.random(shape) < 0.7 for shape in ((tags, tags), (tags,), (tags,)))) if ruled else None
    for kind in ["numpy"] if torch is None else ["numpy", "torch"]:
        check(chain, kind, rules, mask, k)
        left_to_right(chain, kind, rules, mask)


def left_to_right(chain: Chain, kind: str, rules: Rules | None, mask: np.ndarray | None) -> None:
    given_mask = torch.from_numpy(mask) if kind == "torch" and mask is not None else mask
    found = greedy(to(kind, chain), allowed=rules, mask=given_mask)
    for row in range(len(chain.lengths)):
        positions = [t for t in range(int(chain.lengths[row])) if mask is None or mask[row, t]]
        path: tuple[int, ...] = ()
        for t in range(len(positions)):
            # An open end: the stop counts for the last tag alone.
            open_ended = Chain(chain.emissions, chain.transitions, chain.start, chain.stop * 0, chain.lengths)
            if rules is not None:
                free = Rules(rules.transitions, rules.start, np.ones_like(rules.stop))
            else:
                free = None
            last = t == len(positions) - 1
            options = [
                score(chain if last else open_ended, row, (*path, tag), rules if last else free, positions)
                for tag in range(chain.emissions.shape[2])
            ]
            if max(options) == -np.inf:
                assert float(found.scores[row]) == -np.inf
                break
            path = (*path, int(np.argmax(options)))
        else:
            assert tuple(np.asarray(found.tags.data)[row, positions]) == path
            np.testing.assert_allclose(float(found.scores[row]), score(chain, row, path, rules, positions), rtol=1e-11)


@pytest.mark.parametrize("form", FORMS)
def test_the_score_of_a_path_reads_nothing_in_the_padding(form: str, rng: np.random.Generator) -> None:
    lengths = [4, 0, 1, 2]
    chain = draw(rng, form, lengths, tags=3, wide=1)
    tags = rng.integers(0, 3, (4, 5))
    expected = [score(chain, k, tuple(tags[k, :n]), None, list(range(n))) for k, n in enumerate(lengths)]
    for row, length in enumerate(lengths):
        tags[row, length:] = -99
    np.testing.assert_allclose(path_scores(chain, tags), expected, rtol=1e-12)
    if torch is not None:
        np.testing.assert_allclose(path_scores(to("torch", chain), torch.from_numpy(tags)), expected, rtol=1e-12)


def test_large_scores_and_forbidden_tags_stay_finite(rng: np.random.Generator) -> None:
    chain = draw(rng, "shared", [4, 3], tags=3)
    chain = Chain(chain.emissions * 1e3, chain.transitions, chain.start, chain.stop, chain.lengths)
    rules = Rules(~np.eye(3, dtype=bool), np.array([True, False, True]), np.ones(3, bool))
    check(chain, "numpy", rules)
    assert np.isfinite(log_partition(chain, allowed=rules)).all()


def test_greedy_labels_are_the_largest(rng: np.random.Generator) -> None:
    logits = rng.normal(size=(5, 3))
    assert greedy_labels(Labels(logits)).tolist() == np.argmax(logits, 1).tolist()
    assert greedy_labels(Labels(np.zeros((0, 3)))).tolist() == []


def test_wrong_shapes_are_said(rng: np.random.Generator) -> None:
    chain = draw(rng, "shared", [2, 1], tags=3)
    with pytest.raises(ShapeError, match=r"mask: expected \(B, T\) = \(2, 2\).* received \(2, 3\)"):
        viterbi(chain, mask=np.ones((2, 3), bool))
    with pytest.raises(ShapeError, match="constraint is for 2 tags, the scores are for 3"):
        constrain(chain, Rules(np.ones((2, 2), bool), np.ones(2, bool), np.ones(2, bool)))
    with pytest.raises(ConfigError, match="k must be at least 1, received 0"):
        viterbi_best(chain, 0)
    with pytest.raises(ShapeError, match=r"start must be \(3,\), received \(2,\)"):
        Chain(chain.emissions, chain.transitions, np.zeros(2), chain.stop, chain.lengths)
    with pytest.raises(ShapeError, match=r"expected emissions \(B, T, C\), received \(2, 2\)"):
        Chain(chain.emissions[:, :, 0], chain.transitions, chain.start, chain.stop, chain.lengths)


def test_a_selection_of_rows_decodes_as_before(rng: np.random.Generator) -> None:
    lengths = [5, 0, 1, 7, 3]
    chain = draw(rng, "shared", lengths, tags=4)
    whole = viterbi(chain)
    for row in range(len(lengths)):
        part = Padded(chain.emissions, chain.lengths).select(np.array([row]))
        alone = viterbi(Chain(part.data, chain.transitions, chain.start, chain.stop, part.lengths))
        assert alone.tags.data.tolist() == whole.tags.data[[row]].tolist()
        assert alone.scores.tolist() == whole.scores[[row]].tolist()
