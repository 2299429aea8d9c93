"""The few array functions that the standard lacks, on numpy and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from riverrun.decode.backend import (
    contiguous,
    double,
    largest,
    like,
    log_softmax,
    logsumexp,
    nearby,
    put_along_axis,
    ranked,
    to_numpy,
    topk,
)

try:
    import torch
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]

KINDS = ["numpy", pytest.param("torch", marks=pytest.mark.skipif(torch is None, reason="needs torch"))]


def to(kind: str, values: Any) -> Any:
    array = np.asarray(values, np.float64)
    return array if kind == "numpy" else torch.from_numpy(array)


@pytest.mark.parametrize("kind", KINDS)
def test_logsumexp_is_exact_far_from_zero_and_where_nothing_is_possible(kind: str) -> None:
    values = to(kind, [[1000.0, 1000.0], [-1000.0, -np.inf], [-np.inf, -np.inf]])
    found = np.asarray(logsumexp(values, 1))
    np.testing.assert_allclose(found, [1000 + np.log(2), -1000, -np.inf], rtol=1e-15)


@pytest.mark.skipif(torch is None, reason="needs torch")
def test_logsumexp_has_the_gradient_of_a_softmax_and_none_where_nothing_is_possible() -> None:
    values = torch.tensor([[0.0, np.log(3.0)], [-np.inf, -np.inf], [2.0, -np.inf]], requires_grad=True)
    logsumexp(values, 1)[[0, 2]].sum().backward()
    np.testing.assert_allclose(values.grad.numpy(), [[0.25, 0.75], [0, 0], [1, 0]], rtol=1e-6)
    values.grad = None
    torch.where(torch.tensor([True, False, True]), logsumexp(values, 1), 0.0).sum().backward()
    assert values.grad.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_log_softmax_sums_to_one(kind: str, rng: np.random.Generator) -> None:
    found = np.asarray(log_softmax(to(kind, rng.normal(size=(3, 4)) * 50)))
    np.testing.assert_allclose(np.exp(found).sum(-1), 1, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_topk_is_a_sorted_prefix(kind: str, axis: int, rng: np.random.Generator) -> None:
    array = rng.permutation(60).astype(float).reshape(3, 4, 5)
    expected = -np.sort(-array, axis=axis)
    for k in range(1, array.shape[axis] + 1):
        values, indices = (np.asarray(part) for part in topk(to(kind, array), k, axis))
        np.testing.assert_array_equal(values, np.take(expected, range(k), axis))
        np.testing.assert_array_equal(np.take_along_axis(array, indices, axis), values)


@pytest.mark.parametrize("kind", KINDS)
def test_like_and_contiguous_keep_the_kind(kind: str) -> None:
    other = to(kind, [[1.0, 2.0], [3.0, 4.0]])
    assert type(like(np.arange(3), other)) is type(other)
    turned = contiguous(other.T)
    assert type(turned) is type(other)
    assert np.asarray(turned).tolist() == [[1.0, 3.0], [2.0, 4.0]]


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_are_those_of_a_stable_sort(kind: str, rng: np.random.Generator) -> None:
    """Many equal values, and some that are -inf: the first ones are taken, on both kinds."""
    array = rng.integers(0, 4, (3, 2, 12)).astype(float)
    array[0, 0, :9] = -np.inf
    order = np.argsort(-array, axis=-1, kind="stable")
    for k in range(1, 13):
        values, indices = (np.asarray(part) for part in ranked(to(kind, array), k))
        np.testing.assert_array_equal(indices, order[..., :k])
        np.testing.assert_array_equal(values, np.take_along_axis(array, order, -1)[..., :k])
        chosen = np.asarray(largest(to(kind, array), to(kind, values[..., -1:]), k))
        assert (chosen.sum(-1) == k).all()
        np.testing.assert_array_equal(np.take_along_axis(chosen, order, -1)[..., :k], True)
    counts = rng.integers(1, 13, (3, 2, 1))
    least = np.take_along_axis(np.take_along_axis(array, order, -1), counts - 1, -1)
    number = counts if kind == "numpy" else torch.from_numpy(counts)
    chosen = np.asarray(largest(to(kind, array), to(kind, least), number))
    np.testing.assert_array_equal(chosen.sum(-1, keepdims=True), counts)
    assert ranked(to(kind, np.zeros((0, 5))), 2)[1].shape == (0, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_put_into_a_copy(kind: str, rng: np.random.Generator) -> None:
    array, new = rng.normal(size=(3, 5)), rng.normal(size=(3, 2))
    index = np.array([[4, 0], [1, 2], [3, 4]])
    before = array.copy()
    where = index if kind == "numpy" else torch.from_numpy(index)
    found = np.asarray(put_along_axis(to(kind, array), where, to(kind, new)))
    np.testing.assert_array_equal(array, before)
    np.testing.assert_array_equal(np.take_along_axis(found, index, 1), new)
    assert (found != before).sum() == 6


@pytest.mark.parametrize("kind", KINDS)
def test_double_and_to_numpy(kind: str) -> None:
    single = np.array([1.0, 2.0], np.float32)
    values = single if kind == "numpy" else torch.from_numpy(single).requires_grad_()
    assert double(values).dtype == (np.float64 if kind == "numpy" else torch.float64)
    assert type(to_numpy(values)) is np.ndarray
    assert to_numpy(values).tolist() == [1, 2]


@pytest.mark.skipif(torch is None, reason="needs torch")
def test_only_what_is_in_main_memory_is_nearby() -> None:
    tensor = torch.zeros(3, requires_grad=True)
    shared = nearby(tensor)
    with torch.no_grad():
        tensor[1] = 5
    assert shared.tolist() == [0, 5, 0]
    elsewhere = torch.zeros(3, device="meta")
    assert nearby(elsewhere) is elsewhere


@pytest.mark.skipif(torch is None, reason="needs torch")
def test_bfloat16_comes_to_numpy_as_float32() -> None:
    found = to_numpy(torch.tensor([1.5, -2.0]).bfloat16())
    assert (found.dtype, found.tolist()) == (np.float32, [1.5, -2.0])
