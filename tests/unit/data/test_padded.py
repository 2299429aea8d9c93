"""``Padded`` and ``Batch``: what they refuse, and shapes at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.errors import ShapeError


@pytest.mark.parametrize(
    ("data", "lengths", "message"),
    [
        (
            np.zeros(3),
            np.zeros(3, int),
            r"expected data \(B, T, \.\.\.\) and lengths \(B,\), received \(3,\) and \(3,\)",
        ),
        (np.zeros((2, 3)), np.zeros(3, int), r"received \(2, 3\) and \(3,\)"),
        (np.zeros((2, 3)), np.zeros((2, 1), int), r"received \(2, 3\) and \(2, 1\)"),
        (np.zeros((2, 3)), np.array([0, 4]), r"lengths must be from 0 to 3 .*received 0 to 4"),
        (np.zeros((2, 3)), np.array([-1, 3]), r"received -1 to 3"),
    ],
)
def test_what_is_no_padded_array(data, lengths, message):
    with pytest.raises(ShapeError, match=message):
        Padded(data, lengths)


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (3, 0), (0, 0, 5), (3, 0, 5)])
def test_nothing_is_padded_too(shape):
    padded = Padded(np.zeros(shape), np.zeros(shape[0], np.int64))
    assert padded.mask().shape == shape[:2]
    assert padded.reverse().data.shape == padded.zeroed().data.shape == shape
    assert padded.last().shape == (shape[0], *shape[2:])
    assert len(padded) == shape[0] and [len(row) for row in padded.rows()] == [0] * shape[0]


def test_rows_of_vectors_keep_their_width_where_the_first_row_is_empty():
    assert Padded.of([[], [[1.0, 2.0]]], float).data.tolist() == [[[0, 0]], [[1, 2]]]
    assert Padded.of([]).data.shape == (0, 0)


def test_values_are_replaced_and_lengths_stay():
    padded = Padded.of([[1, 2], [3]])
    other = padded.with_data(padded.data * 2)
    assert [row.tolist() for row in other.rows()] == [[2, 4], [6]]
    assert repr(padded) == "Padded(data (2, 2) int64, lengths [2, 1])"
    with pytest.raises(ShapeError):
        padded.with_data(np.zeros((2, 1)))


def test_a_batch_is_a_mapping():
    batch = Batch(words=Padded.of([[1]]), plain=np.zeros(1))
    assert len(batch) == 2 and list(batch) == ["words", "plain"] and "words" in batch
    assert repr(batch).startswith("Batch(words=Padded(data (1, 1)")
    with pytest.raises(KeyError):
        batch["chars"]
