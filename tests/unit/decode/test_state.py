"""States are values: selected, kept, joined and chosen between, on numpy and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from riverrun.decode.state import State
from riverrun.errors import StateError

try:
    import torch
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]

KINDS = ["numpy", pytest.param("torch", marks=pytest.mark.skipif(torch is None, reason="needs torch"))]


def draw(kind: str, seed: int = 0, sources: int = 3) -> State:
    rng = np.random.default_rng(seed)
    fixed = {"memory": rng.normal(size=(sources, 4))}
    moving = {"0.h": rng.normal(size=(sources, 2, 5)), "ids": rng.integers(0, 9, (sources, 2))}
    state = State(fixed, moving)
    return state if kind == "numpy" else state.map(torch.from_numpy)


def arrays(state: State) -> dict[str, Any]:
    return {name: np.asarray(value) for name, value in state.flat().items()}


@pytest.mark.parametrize("kind", KINDS)
def test_select_gathers_hypotheses_and_leaves_the_source(kind: str) -> None:
    state = draw(kind)
    beams = np.array([[1, 1, 0], [0, 0, 0], [1, 0, 1]])
    found, before = arrays(state.select(beams)), arrays(state)
    np.testing.assert_array_equal(found["memory"], before["memory"])
    for name in ("0.h", "ids"):
        for b in range(3):
            np.testing.assert_array_equal(found[name][b], before[name][b][beams[b]])


@pytest.mark.parametrize("kind", KINDS)
def test_keep_and_join_are_of_both(kind: str) -> None:
    state, other = draw(kind), draw(kind, seed=1, sources=2)
    joined = arrays(State.join([state, other, state]))
    kept = arrays(State.join([state, other]).keep(np.array([0, 1, 2, 3, 4, 0, 1, 2])))
    for name in ("memory", "0.h", "ids"):
        assert len(joined[name]) == 8
        np.testing.assert_array_equal(joined[name], kept[name])
    assert State.join([state, other]).fixed.keys() == {"memory"}
    assert state.sources == 3
    assert State().sources is None
    assert State(fixed={"memory": np.zeros((4, 2))}).sources == 4
    assert State.join([State(), State()]).flat() == {}


@pytest.mark.parametrize("kind", KINDS)
def test_where_chooses_each_hypothesis(kind: str) -> None:
    one, other = draw(kind), draw(kind, seed=1)
    rows = np.array([[True, False], [False, False], [True, True]])
    found = arrays(one.where(rows, other))
    for name in ("0.h", "ids"):
        mixed = np.where(rows.reshape(3, 2, *[1] * (found[name].ndim - 2)), arrays(other)[name], arrays(one)[name])
        np.testing.assert_array_equal(found[name], mixed)


@pytest.mark.parametrize("kind", KINDS)
def test_like_gives_arrays_of_its_kind(kind: str) -> None:
    state = draw(kind)
    assert type(state.like(np.arange(3))) is type(state.fixed["memory"])
    assert state.like(np.arange(3)).tolist() == [0, 1, 2]
    assert type(State().like(np.arange(3))) is np.ndarray


def test_states_of_two_models_are_not_joined() -> None:
    with pytest.raises(StateError, match=r"expected states of one model, received the names \['h'\] and \['c', 'h'\]"):
        State.join([State(moving={"h": np.zeros((1, 1))}), State(moving=dict.fromkeys("hc", np.zeros((1, 1))))])
