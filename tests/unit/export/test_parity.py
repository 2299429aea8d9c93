"""The judge of an export: its batches are ragged, its error counts what matters and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.decode.scorer import Chain, Labels
from riverrun.errors import RiverrunError
from riverrun.export.parity import Parity, compare, default_axes, ragged_batches, random_batch, require

EXAMPLE = Batch(
    {
        "words": Padded.of([[3, 5, 5], [9]]),
        "chars": Padded.of([[2], [4, 2]]),
        "chars.index": Padded.of([[0, 1, 1], [0]]),
        "weight": np.array([0.5, 2.5], np.float32),
    }
)


def test_the_axes_of_a_tagger():
    assert default_axes(EXAMPLE) == {"words": "BT", "chars": "UL", "chars.index": "BT", "weight": "B"}


def test_random_batches_are_ragged_and_made_of_the_example():
    batches = list(ragged_batches(EXAMPLE, default_axes(EXAMPLE)))
    assert len({batch["words"].data.shape for batch in batches}) == len(batches) >= 5
    words = [batch["words"] for batch in batches]
    assert {1} <= {w.data.shape[0] for w in words} and {1} <= {w.data.shape[1] for w in words}
    for w in (w for w in words if len(w) > 2):
        assert {0, 1, w.data.shape[1]} <= set(w.lengths.tolist())
    for batch in batches:
        assert batch["words"].data.dtype == np.int64 and batch["weight"].dtype == np.float32
        assert set(batch["words"].data.ravel().tolist()) <= {3, 5, 9}
        assert set(batch["weight"].tolist()) <= {0.5, 2.5}
        np.testing.assert_array_equal(batch["words"].lengths, batch["chars.index"].lengths)
        assert batch["chars.index"].data.max() < len(batch["chars"])
    padding = np.concatenate([w.data[~w.mask()] for w in words])
    assert len(set(padding.tolist())) > 1  # as random as the rest
    again = list(ragged_batches(EXAMPLE, default_axes(EXAMPLE)))
    for one, other in zip(batches, again, strict=True):
        for name, array in one.flat().items():
            np.testing.assert_array_equal(array, other.flat()[name])


def test_an_example_without_values_gives_zeros():
    empty = Batch(words=Padded.of([[], []]))
    batch = random_batch(empty, {"words": "BT"}, sizes={"B": 2, "T": 3}, rng=np.random.default_rng(0))
    assert batch["words"].data.tolist() == [[0, 0, 0], [0, 0, 0]]


class Fixed:
    """A scorer that gives what it was given."""

    def __init__(self, scores: Chain | Labels) -> None:
        self.value = scores

    def scores(self, batch: Batch) -> Chain | Labels:
        return self.value


def chain(**changes: np.ndarray) -> Chain:
    arrays = {
        "emissions": np.array([[[0.0, 4.0], [1.0, 0.0]], [[2.0, 0.0], [0.0, 0.0]]]),
        "transitions": np.zeros((2, 2)),
        "start": np.zeros(2),
        "stop": np.zeros(2),
        "lengths": np.array([2, 1]),
    }
    return Chain(**{**arrays, **changes})


def judged(one: Chain | Labels, other: Chain | Labels) -> Parity:
    return compare(Fixed(one), Fixed(other), [EXAMPLE])


def test_the_error_is_relative_to_the_largest_score_and_padding_does_not_count():
    other = chain().emissions
    other[0, 0, 0] += 0.2
    other[1, 1] = np.nan  # behind the end of its row
    assert judged(chain(), chain(emissions=other)) == Parity(pytest.approx(0.05), 1.0, 1)
    assert judged(chain(), chain(stop=np.array([0.0, 0.5]))).max_error == 0.5  # no score is above 1: as it is


def test_decisions_are_counted_by_position():
    other = chain().emissions
    other[0, 0] = [4.0, 0.0]
    assert judged(chain(), chain(emissions=other)).agreement == pytest.approx(2 / 3)
    assert judged(Labels(np.eye(3)), Labels(np.eye(3)[[0, 2, 2]])) == Parity(1.0, pytest.approx(2 / 3), 1)


def test_transitions_of_positions_count_where_there_are_positions():
    steps = np.zeros((2, 2, 2, 2))
    padding, inside = steps.copy(), steps.copy()
    padding[1, 1], inside[0, 1] = 3.0, 3.0
    assert judged(chain(transitions=steps), chain(transitions=padding)).max_error == 0.0
    assert judged(chain(transitions=steps), chain(transitions=inside)).max_error == 3.0


def test_nan_is_an_error_and_equal_infinities_are_none():
    forbidden = np.array([[0.0, -np.inf], [0.0, 0.0]])
    assert judged(chain(transitions=forbidden), chain(transitions=forbidden)).max_error == 0.0
    other = judged(chain(transitions=forbidden), chain())
    assert other.max_error == np.inf
    wrong = judged(chain(), chain(start=np.array([np.nan, 0.0])))
    for parity in (other, wrong):
        with pytest.raises(
            RiverrunError, match=r"export: the graph differs from the model by (inf|nan) on 1 batches, "
        ):
            require(parity, tolerance=1e-5, what="the graph")
    require(Parity(1e-5, 1.0, 1), tolerance=1e-5, what="the graph")


def test_other_kinds_and_shapes_are_errors():
    with pytest.raises(RiverrunError, match="the model gives Chain, the exported graph Labels"):
        judged(chain(), Labels(np.zeros((2, 2))))
    with pytest.raises(RiverrunError, match=r"expected scores \(2, 3\), the graph gives \(2, 2\)"):
        judged(Labels(np.zeros((2, 3))), Labels(np.zeros((2, 2))))
