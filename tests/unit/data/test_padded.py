"""``Padded`` and ``Batch``: what they refuse, and shapes at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from riverrun.data import padded as module
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
        (
            np.zeros((2, 3)),
            np.array([1.0, 3.0]),
            r"lengths must be whole numbers, .* int64, received float64; to convert",
        ),
        (np.zeros((2, 3)), np.array([True, False]), r"received bool"),
    ],
)
@pytest.mark.parametrize("kind", ["numpy", pytest.param("torch", marks=pytest.mark.train)])
def test_what_is_no_padded_array(kind, data, lengths, message):
    if kind == "torch":
        torch = pytest.importorskip("torch")
        data, lengths = torch.from_numpy(data), torch.from_numpy(lengths)
    with pytest.raises(ShapeError, match=message):
        Padded(data, lengths)


@pytest.mark.train
def test_lengths_are_looked_at_once(monkeypatch):
    torch = pytest.importorskip("torch")
    looked = []
    real = module.check_range
    monkeypatch.setattr(module, "check_range", lambda *given: looked.append(real(*given)))
    padded = Padded(torch.zeros(2, 3, 4), torch.tensor([3, 0]))
    assert len(looked) == 1
    padded.zeroed().reverse().with_data(torch.zeros(2, 3))
    assert len(looked) == 1  # they are the same, of rows as long
    for change in (
        lambda: padded.with_data(torch.zeros(2, 2, 4)),
        lambda: padded.map(lambda array: array[:, :2] if array.ndim > 1 else array),
        lambda: padded.map(lambda array: array + 1),
    ):
        with pytest.raises(ShapeError, match=r"from 0 to \d .*received"):
            change()
    with pytest.raises(ShapeError, match=r"received float64; to convert the data alone there is x\.with_data"):
        padded.map(lambda array: array.double())


@pytest.mark.train
def test_lengths_on_another_device_are_not_waited_for():
    torch = pytest.importorskip("torch")
    data = torch.zeros(2, 3, device="meta")  # which has no numbers at all
    assert Padded(data, torch.zeros(2, dtype=torch.int32, device="meta")).reverse().data.shape == (2, 3)
    with pytest.raises(ShapeError, match="received float32"):
        Padded(data, torch.zeros(2, device="meta"))


@pytest.mark.train
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`:UserWarning")
def test_tracing_does_not_look_at_lengths():
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def forward(self, data, lengths):
            return Padded(data, lengths).zeroed().map(lambda array: array).reverse().last()

    data, lengths = torch.randn(2, 3, 4), torch.tensor([3, 1])
    compiled = torch.compile(Net(), fullgraph=True, backend="eager")  # a number that is read would break the graph
    assert compiled(data, lengths).equal(Net()(data, lengths))
    sizes = {0: torch.export.Dim("B"), 1: torch.export.Dim("T")}
    for strict in (False, True):
        program = torch.export.export(
            Net(), (data, lengths), strict=strict, dynamic_shapes=(sizes, {0: sizes[0]})
        ).module()
        more, theirs = torch.randn(5, 7, 4), torch.tensor([0, 7, 1, 2, 7])
        assert program(more, theirs).equal(Net()(more, theirs))


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
