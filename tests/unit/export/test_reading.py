"""The judge of an exported language model: it reads after states of many kinds, in pieces, and finds differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx_ir")
pytestmark = pytest.mark.train

from riverrun.data.padded import Padded  # noqa: E402
from riverrun.decode.state import State  # noqa: E402
from riverrun.export.parity import Parity  # noqa: E402
from riverrun.export.reading import compare_reading, trials  # noqa: E402

SIZE = 11


@dataclass
class Sums:
    """A reader whose state is the sum of what it has read, fading.

    Args:
        off: (B, T, V) and h -> the same with a mistake.
    """

    off: Callable[[Any, Any], tuple[Any, Any]] = lambda scores, h: (scores, h)
    forgets: bool = False
    past_the_end: bool = False

    def start(self, *, rows: int) -> State:
        return State(moving={"h": np.zeros((rows, 1, 1))})

    def read(self, ids: Padded, state: State) -> tuple[Any, State]:
        h = np.zeros((len(ids), 1)) if self.forgets else state.moving["h"][:, 0]
        scores = np.full((*ids.data.shape, SIZE), np.nan)
        for t in range(ids.data.shape[1]):
            going = np.full((len(ids), 1), True) if self.past_the_end else (t < ids.lengths)[:, None]
            h = np.where(going, 0.5 * h + np.sin(1 + ids.data[:, t : t + 1]), h)
            found = np.cos(h * np.arange(SIZE)) - 1
            scores[:, t] = np.where(going, found, np.nan)
        found, h = self.off(scores, h)
        return found, State(moving={"h": h[:, None]})


def judged(other: Sums) -> Parity:
    return compare_reading(Sums(), other, trials(Sums(), SIZE))


def test_the_same_is_the_same():
    assert judged(Sums()) == Parity(0.0, 1.0, 6)


def test_the_trials_are_ragged_and_begin_in_many_states():
    found = list(trials(Sums(), SIZE))
    assert {0, 1} <= {int(length) for ids, _ in found for length in ids.lengths}
    assert {ids.data.shape for ids, _ in found} >= {(1, 1)} and len({ids.data.shape for ids, _ in found}) == 6
    assert {0, SIZE - 1} <= {int(id) for ids, _ in found for id in ids.data.ravel()}
    begun = [state.moving["h"].any() for _, state in found]
    assert True in begun and False in begun
    again = list(trials(Sums(), SIZE))
    for (ids, state), (same, other) in zip(found, again, strict=True):
        np.testing.assert_array_equal(ids.data, same.data)
        np.testing.assert_array_equal(state.moving["h"], other.moving["h"])


@pytest.mark.parametrize(
    "other",
    [
        Sums(lambda scores, h: (scores + 0.001 * np.arange(SIZE), h)),
        Sums(lambda scores, h: (scores, h + 0.001)),
        Sums(lambda scores, h: (scores, h[::-1])),  # the states of other rows
        Sums(lambda scores, h: (scores[::-1], h)),
        Sums(forgets=True),
        Sums(past_the_end=True),
        Sums(lambda scores, h: (np.where(np.arange(SIZE) == 3, np.nan, scores), h)),
        Sums(lambda scores, h: (scores + (scores.shape[1] == 18), h)),  # what is left of 19 behind the first one
        Sums(lambda scores, h: (scores + (scores.shape[1] == 17), h)),  # and behind the first two
    ],
    ids=["scores", "state", "rows", "scores of rows", "forgets", "padding", "nan", "the rest", "after steps"],
)
def test_every_mistake_is_found(other):
    assert not judged(other).max_error < 5e-4  # a NaN is not either


def test_equal_choices_are_counted():
    turned = judged(Sums(lambda scores, h: (np.where(np.arange(SIZE) == 5, 9.0, scores), h)))
    assert turned.agreement == 0.0


def test_padding_does_not_count():
    assert judged(Sums(lambda scores, h: (np.nan_to_num(scores, nan=5.0), h))) == Parity(0.0, 1.0, 6)
