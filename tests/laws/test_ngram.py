"""What every model that counts promises, as a step model: each smoothing, lines and running text, several orders."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, get_args

import numpy as np
import pytest

from riverrun.classic.context import ContextModel
from riverrun.classic.counts import count
from riverrun.classic.ngram import NGram
from riverrun.classic.smoothing import Smoothing, smooth
from riverrun.classic.snm_training import learn_snm
from riverrun.classic.store import from_bytes, to_bytes
from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.decode.state import State
from riverrun.decode.stepwise import score_by_steps
from riverrun.errors import ConfigError, DataError, ShapeError, StateError

pytest.importorskip("numba")

V, UNKNOWN, EOS, BOS = 9, 0, 1, 8
LINES: dict[str, Any] = {"size": V, "bos": BOS, "eos": EOS, "unknown": UNKNOWN}
RUNNING: dict[str, Any] = {"size": V, "bos": 2, "eos": None, "unknown": UNKNOWN}
FALLBACK = (0.5, 1.0, 1.5)


def text(kind: str, seed: int = 0, symbols: int = 400) -> np.ndarray:
    """Symbols that depend on the one before, with ends of lines where lines end; 0 and 7 do not occur."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(5, 0.4), size=V)
    ids, last = [], 2
    for _ in range(symbols):
        last = EOS if kind == "lines" and rng.random() < 0.15 else 2 + int(rng.choice(5, p=table[last]))
        ids.append(last)
    return np.array(ids, np.int32)


def ngram(kind: str, smoothing: Smoothing, order: int, prune: tuple[int, ...] = ()) -> NGram:
    counts = count(text(kind), order=order, **(LINES if kind == "lines" else RUNNING))
    return smooth(counts, smoothing, prune=prune, fallback=FALLBACK, discount=0.7, dtype=np.float64)


def snm(kind: str, order: int, skips: int, span: int) -> ContextModel:
    shape: dict[str, Any] = LINES if kind == "lines" else RUNNING
    return learn_snm(text(kind), order=order, skips=skips, span=span, passes=2, buckets=1 << 12, **shape)


KINDS = ("lines", "running")
MODELS: dict[str, ContextModel] = {
    f"{smoothing} {kind} {order}": ngram(kind, smoothing, order)
    for smoothing in get_args(Smoothing)
    for kind in KINDS
    for order in (1, 2, 4)
}
MODELS |= {
    f"{smoothing} {kind} pruned": ngram(kind, smoothing, 4, (0, 0, 1, 2))
    for smoothing in get_args(Smoothing)
    for kind in KINDS
}
MODELS |= {
    f"snm {kind} {order} {skips}": snm(kind, order, skips, 2) for kind in KINDS for order, skips in ((1, 0), (3, 2))
}
every = pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))


def rows(model: ContextModel, seed: int = 1) -> Padded:
    """Ragged rows that begin with bos, seen and unseen symbols, lengths 0 and 1 among them; garbage in the padding."""
    rng = np.random.default_rng(seed)
    lengths = np.array([9, 0, 1, 14, 5, 2])
    ids = rng.integers(0, V - 1 if model.eos is not None else V, (len(lengths), 14))
    ids[:, 0] = model.bos
    ids[0, 4] = model.bos  # where lines end, what was before is forgotten
    ids[~Padded(ids, lengths).mask()] = -7
    return Padded(ids, lengths)


@every
def test_distributions_sum_to_1(model: ContextModel) -> None:
    rng = np.random.default_rng(2)
    contexts = rng.integers(0, V, (300, model.reach))
    for row, n in zip(contexts, rng.integers(0, model.reach + 1, 300), strict=True):
        row[:n] = -1
    sums = np.exp(model.distributions(contexts)).sum(axis=1)
    if model.normalised:
        np.testing.assert_allclose(sums, 1.0, rtol=1e-12)
    else:
        assert model.reach == 0 or (abs(sums - 1) > 0.01).any()


@every
def test_bos_of_lines_is_never_predicted(model: ContextModel) -> None:
    log_probs = model.step(np.array([[model.bos, 3]]), model.start().select(np.array([[0, 0]]))).log_probs
    assert log_probs.shape == (1, 2, V)
    assert (log_probs[..., model.bos] == -math.inf).all() == (model.eos is not None)
    assert (np.delete(log_probs, model.bos, axis=-1) > -math.inf).any()


@every
def test_score_is_what_steps_give(model: ContextModel) -> None:
    ids = rows(model)
    expected, state = score_by_steps(model, ids, model.start(rows=len(ids)))
    found, end = model.score(ids, model.start(rows=len(ids)))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(end.moving["context"], state.moving["context"])
    assert (found[~ids.mask()[:, 1:]] == 0).all()


@every
def test_a_row_does_not_depend_on_the_others(model: ContextModel) -> None:
    ids = rows(model)
    found, end = model.score(ids, model.start(rows=len(ids)))
    for k, row in enumerate(ids.rows()):
        alone, state = model.score(Padded.of([row]), model.start())
        np.testing.assert_array_equal(alone[0], found[k, : max(0, len(row) - 1)])
        np.testing.assert_array_equal(state.moving["context"], end.keep(np.array([k])).moving["context"])


@every
@pytest.mark.parametrize("cut", [1, 2, 5])
def test_any_chunks_give_the_same(model: ContextModel, cut: int) -> None:
    ids = rows(model)
    whole, end = model.score(ids, model.start(rows=len(ids)))
    state, parts = model.start(rows=len(ids)), []
    for at in range(0, ids.data.shape[1] - 1, cut):
        part = Padded(ids.data[:, at : at + cut + 1], np.clip(ids.lengths - at, 0, cut + 1))
        part = Padded(part.data, np.minimum(part.lengths, part.data.shape[1]))
        scores, state = model.score(part, state)
        parts.append(scores)
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)
    np.testing.assert_array_equal(state.moving["context"], end.moving["context"])


@every
def test_long_rows_are_scored_in_chunks(model: ContextModel, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = rows(model)
    whole, end = model.score(ids, model.start(rows=len(ids)))
    monkeypatch.setattr("riverrun.classic.context._CHUNK", 20)
    found, state = model.score(ids, model.start(rows=len(ids)))
    np.testing.assert_array_equal(found, whole)
    np.testing.assert_array_equal(state.moving["context"], end.moving["context"])


@every
def test_numba_and_numpy_give_the_same_numbers(model: ContextModel, monkeypatch: pytest.MonkeyPatch) -> None:
    symbols = np.concatenate([[model.bos], text("lines" if model.eos is not None else "running", 3)])
    symbols[[50, 51, 200]] = [-1, 0, 7]
    if model.eos is not None:
        symbols[1:][symbols[:-1] == EOS] = model.bos
    compiled = dataclasses.replace(model, engine="numba").scores(symbols)  # type: ignore[type-var]
    for module in ("ngram", "snm"):
        monkeypatch.setattr(f"riverrun.classic.{module}._BLOCK", 37)
    plain = dataclasses.replace(model, engine="numpy").scores(symbols)  # type: ignore[type-var]
    np.testing.assert_array_equal(compiled, plain)
    assert plain[50] == 0


@every
@pytest.mark.parametrize("pieces", [1, 7])
def test_reading_a_text_scores_every_symbol_once(
    model: ContextModel, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = text("lines" if model.eos is not None else "running", 4, 100)
    if model.eos is not None:
        ids[-1] = EOS
        lines = [[BOS, *line] for line in np.split(ids, np.flatnonzero(ids == EOS) + 1) if len(line)]
    else:
        lines = [[model.bos, *ids]]
    expected = [model.score(Padded.of([line]), model.start())[0][0] for line in lines]
    monkeypatch.setattr("riverrun.classic.context._CHUNK", 23)
    read = list(model.read(np.array_split(ids, pieces)))
    assert np.concatenate([symbols for symbols, _ in read]).tolist() == ids.tolist()
    np.testing.assert_array_equal(np.concatenate([scores for _, scores in read]), np.concatenate(expected))


@every
def test_a_state_is_a_value(model: ContextModel) -> None:
    """Stepping changes no state that is kept, and hypotheses are chosen, repeated and put beside each other."""
    start = model.start(rows=2).select(np.zeros((2, 3), np.int64))
    ids = np.array([[2, 3, 4], [5, 6, 3]])
    first = model.step(ids, start)
    kept = {name: value.copy() for name, value in first.state.moving.items()}
    again = model.step(ids[:, ::-1], first.state)
    for name, value in kept.items():
        np.testing.assert_array_equal(first.state.moving[name], value)
    beams = np.array([[2, 2], [0, 1]])
    chosen = model.step(np.take_along_axis(ids[:, ::-1], beams, 1), first.state.select(beams))
    np.testing.assert_array_equal(chosen.log_probs, np.take_along_axis(again.log_probs, beams[..., None], 1))


@every
def test_memory_of_a_stream_is_constant(model: ContextModel) -> None:
    _, state = model.score(Padded.of([[model.bos, *range(2, 7)] * 20]), model.start())
    assert sum(value.size for value in state.moving.values()) == model.reach


@every
def test_saved_and_loaded_it_is_the_same(model: ContextModel) -> None:
    data = to_bytes(model)
    loaded = from_bytes(data)
    assert to_bytes(loaded) == data
    ids = rows(model)
    np.testing.assert_array_equal(model.score(ids, model.start(rows=6))[0], loaded.score(ids, loaded.start(rows=6))[0])
    assert (loaded.bos, loaded.eos, loaded.unknown, loaded.size) == (model.bos, model.eos, model.unknown, model.size)
    assert loaded.normalised == model.normalised


@every
def test_what_does_not_belong_to_the_model_is_refused(model: ContextModel) -> None:
    with pytest.raises(StateError, match="expected 'context'"):
        model.step(np.array([[2]]), State())
    with pytest.raises(StateError, match="expected 'context'"):
        model.score(Padded.of([[2, 3]]), State(moving={"context": np.zeros((1, 1, model.reach + 1), np.int64)}))
    if model.reach:
        with pytest.raises(StateError, match="it has read symbol 99"):
            model.step(np.array([[2]]), State(moving={"context": np.full((1, 1, model.reach), 99)}))
    with pytest.raises(ConfigError, match="a language model is started without a source"):
        model.start(Batch())
    with pytest.raises(ShapeError, match=r"step: expected ids \(B, K\), received \(1,\)"):
        model.step(np.array([2]), model.start())
    with pytest.raises(DataError, match="symbols: expected ids below 9, received 9"):
        model.scores(np.array([2, V]))
    for wrong in (V, -1):
        with pytest.raises(DataError, match="ids: expected 0 to 8"):
            model.step(np.array([[wrong]]), model.start())
        with pytest.raises(DataError, match="ids: expected 0 to 8"):
            model.score(Padded.of([[2, wrong]]), model.start())
