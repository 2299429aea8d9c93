"""Laws of all that decodes a chain: on numpy and torch, a batch is its rows, padding and masks leave no trace."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import riverrun.decode
from riverrun.data.padded import Padded
from riverrun.decode.constraints import constrain
from riverrun.decode.greedy import greedy, greedy_labels
from riverrun.decode.marginals import log_partition, marginals
from riverrun.decode.path import path_scores
from riverrun.decode.scorer import Chain, Labels
from riverrun.decode.skip import leave_out, put_back
from riverrun.decode.viterbi import viterbi, viterbi_best

try:
    import torch
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]

KINDS = ["numpy", pytest.param("torch", marks=pytest.mark.skipif(torch is None, reason="needs torch"))]
FORMS = ["shared", "per position", "second order", "independent"]
LENGTHS = [4, 0, 1, 6, 2, 3]
TAGS = 3


@dataclass
class Rules:
    transitions: Any
    start: Any
    stop: Any


RULES = Rules(~np.eye(TAGS, dtype=bool), np.array([True, True, False]), np.array([True, False, True]))
FREE = Rules(np.ones((TAGS, TAGS), bool), np.ones(TAGS, bool), np.ones(TAGS, bool))


def best_paths(chain: Chain, **options: Any) -> list[Any]:
    found = viterbi_best(chain, 4, **options)
    return [Padded(np.moveaxis(np.asarray(found.tags), 1, 2), np.asarray(found.lengths)), found.scores]


# Decoder -> what it says of each row: arrays (B, T, ...) as Padded, others (B, ...).
DECODERS: dict[Callable[..., Any], Callable[..., list[Any]]] = {
    viterbi: lambda chain, **options: list(vars(viterbi(chain, **options)).values()),
    viterbi_best: best_paths,
    greedy: lambda chain, **options: list(vars(greedy(chain, **options)).values()),
    marginals: lambda chain, **options: [marginals(chain, **options)],
    log_partition: lambda chain, **options: [log_partition(chain, **options)],
}
# What works on a chain and is no decoder: tested with those, and by itself in tests/unit/decode.
PARTS = {constrain, leave_out, put_back, path_scores, greedy_labels}


def draw(form: str, lengths: list[int] = LENGTHS, seed: int = 0, garbage: float = np.nan, wide: int = 1) -> Chain:
    """Random scores; where nothing may be read stands garbage."""
    rng = np.random.default_rng(seed)
    width = max(lengths, default=0) + wide
    edge = (1 + TAGS, TAGS) if form == "second order" else (TAGS,)
    shapes = {"per position": (len(lengths), width, TAGS, TAGS), "second order": (TAGS, TAGS, TAGS)}
    emissions = rng.normal(size=(len(lengths), width, TAGS))
    parts = [rng.normal(size=shape) for shape in (shapes.get(form, (TAGS, TAGS)), edge, edge)]
    if form == "independent":
        parts = [part * 0 for part in parts]
    for row, length in enumerate(lengths):
        emissions[row, length:] = garbage
        if form == "per position":
            parts[0][row, length:] = garbage
            parts[0][row, :1] = garbage
    return Chain(emissions, *parts, np.array(lengths, np.int64))


def to(kind: str, chain: Chain) -> Chain:
    if kind == "numpy":
        return chain
    return Chain(*(torch.from_numpy(np.ascontiguousarray(part)) for part in vars(chain).values()))


def pick(chain: Chain, row: int) -> Chain:
    """One row, without its padding."""
    length = int(chain.lengths[row])
    steps = chain.transitions[row : row + 1, :length] if chain.per_position else chain.transitions
    alone = {"emissions": chain.emissions[row : row + 1, :length], "transitions": steps}
    return replace(chain, **alone, lengths=chain.lengths[row : row + 1])


def rows(found: list[Any]) -> list[list[Any]]:
    """For each row of the batch what was found for it, without padding."""
    parts = [part.rows() if isinstance(part, Padded) else list(part) for part in found]
    return [[np.asarray(value).tolist() for value in row] for row in zip(*parts, strict=True)]


def same(one: list[Any], other: list[Any]) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def a_batch_is_its_rows(decode: Callable[..., list[Any]], form: str, kind: str) -> None:
    for rules in (None, RULES):
        chain = to(kind, draw(form))
        together = rows(decode(chain, allowed=rules))
        for k in range(len(LENGTHS)):
            same(rows(decode(pick(chain, k), allowed=rules))[0], together[k])


def padding_has_no_influence(decode: Callable[..., list[Any]], form: str, kind: str) -> None:
    values = [decode(to(kind, draw(form, garbage=garbage, wide=2))) for garbage in (np.nan, 1e6)]
    for found in values:
        for part in found:
            if isinstance(part, Padded):
                assert not np.asarray(part.data)[~np.asarray(part.mask())].any()
    for one, other in zip(*map(rows, values), strict=True):
        same(one, other)


def what_a_mask_skips_is_not_there(decode: Callable[..., list[Any]], form: str, kind: str) -> None:
    """A mask that is true everywhere changes nothing, and one with gaps decodes the rest as a chain of its own."""
    chain = draw(form)
    full = np.ones(chain.emissions.shape[:2], bool)
    gaps = np.random.default_rng(5).random(full.shape) < 0.6
    for one, other in zip(rows(decode(chain, mask=full)), rows(decode(chain)), strict=True):
        same(one, other)
    found = decode(to(kind, chain), mask=torch.from_numpy(gaps) if kind == "torch" else gaps)
    for row, length in enumerate(LENGTHS):
        kept = np.flatnonzero(gaps[row, :length])
        steps = chain.transitions[row : row + 1, kept] if chain.per_position else chain.transitions
        emissions = chain.emissions[row : row + 1, kept]
        shorter = replace(chain, emissions=emissions, transitions=steps, lengths=np.array([len(kept)]))
        expected = rows(decode(shorter))[0]
        for part, wanted in zip(found, expected, strict=True):
            value = np.asarray(part.data if isinstance(part, Padded) else part)[row]
            value = value[kept] if isinstance(part, Padded) else value
            np.testing.assert_allclose(value, np.asarray(wanted).reshape(value.shape), rtol=1e-12)


def allowing_everything_changes_nothing(decode: Callable[..., list[Any]], form: str, kind: str) -> None:
    chain = to(kind, draw(form))
    for one, other in zip(rows(decode(chain, allowed=FREE)), rows(decode(chain)), strict=True):
        same(one, other)


LAWS = [
    a_batch_is_its_rows,
    padding_has_no_influence,
    what_a_mask_skips_is_not_there,
    allowing_everything_changes_nothing,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.__name__)
def test_law(decoder: Callable[..., Any], law: Callable[..., None], form: str, kind: str) -> None:
    law(DECODERS[decoder], form, kind)


@pytest.mark.skipif(torch is None, reason="needs torch")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.__name__)
def test_torch_is_numpy(decoder: Callable[..., Any], form: str) -> None:
    chain = draw(form)
    for rules in (None, RULES):
        ours = rows(DECODERS[decoder](chain, allowed=rules))
        theirs = rows(DECODERS[decoder](to("torch", chain), allowed=rules))
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)


def decoders_agree(form: str, rules: Rules | None) -> None:
    chain = draw(form, seed=2)
    best, several = viterbi(chain, allowed=rules), viterbi_best(chain, 4, allowed=rules)
    total, simple = log_partition(chain, allowed=rules), greedy(chain, allowed=rules)
    ruled = constrain(chain, rules)
    np.testing.assert_allclose(best.scores, several.scores[:, 0], rtol=1e-12)
    np.testing.assert_array_equal(best.tags.data, several.tags[:, 0])
    np.testing.assert_allclose(path_scores(ruled, best.tags.data), best.scores, rtol=1e-12)
    np.testing.assert_allclose(path_scores(ruled, simple.tags.data), simple.scores, rtol=1e-12)
    assert (best.scores >= simple.scores - 1e-9).all()  # the same additions in another order
    assert (best.scores <= total + 1e-9).all()
    assert (several.scores[:, :-1] >= several.scores[:, 1:]).all()
    if rules is not None:
        for row, length in enumerate(LENGTHS):
            tags = best.tags.data[row, :length]
            if not length or best.scores[row] == -np.inf:
                continue
            assert rules.start[tags[0]]
            assert rules.stop[tags[-1]]
            assert rules.transitions[tags[:-1], tags[1:]].all()
    if form == "independent" and rules is None:
        np.testing.assert_array_equal(best.tags.data, simple.tags.data)


@pytest.mark.parametrize("rules", [None, RULES], ids=["free", "ruled"])
@pytest.mark.parametrize("form", FORMS)
def test_decoders_agree_with_each_other(form: str, rules: Rules | None) -> None:
    decoders_agree(form, rules)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.__name__)
def test_no_rows_and_no_positions(decoder: Callable[..., Any], form: str, kind: str) -> None:
    for lengths in ([], [0], [0, 0]):
        for wide in (0, 1):
            chain = draw(form, lengths, wide=wide)
            found = DECODERS[decoder](to(kind, chain), allowed=RULES)
            for part in found:
                assert len(part) == len(lengths)
                if isinstance(part, Padded):
                    assert part.data.shape[1] == chain.emissions.shape[1]
            if not isinstance(found[-1], Padded):  # the empty path has the score 0; other paths do not exist
                assert all(np.ravel(score)[0] == 0 for score in np.asarray(found[-1]))


def test_every_public_function_of_a_chain_is_in_the_list() -> None:
    found = set()
    for module in pkgutil.iter_modules(riverrun.decode.__path__, "riverrun.decode."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if inspect.isfunction(value) and value.__module__ == module.name and not name.startswith("_"):
                given = {str(parameter.annotation) for parameter in inspect.signature(value).parameters.values()}
                if given & {"Chain", "Labels"}:
                    found.add(value)
    assert found == {*DECODERS, *PARTS}, "a function of a chain needs a line in DECODERS, or in PARTS with a test"


def test_greedy_labels_on_both_kinds() -> None:
    logits = np.array([[0.0, 2.0], [3.0, 1.0]])
    assert greedy_labels(Labels(logits)).tolist() == [1, 0]
    if torch is not None:
        assert greedy_labels(Labels(torch.from_numpy(logits))).tolist() == [1, 0]
