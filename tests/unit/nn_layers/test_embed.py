"""Embedding: which vectors it begins with, which stay, and which words are read as unknown."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from riverrun.errors import ConfigError, ShapeError  # noqa: E402
from riverrun.nn.layers.embed import Embedding  # noqa: E402

pytestmark = pytest.mark.train


def test_random_vectors_are_of_unit_variance_together() -> None:
    weight = Embedding(1000, 12).weight
    assert weight.abs().max() <= (3 / 12) ** 0.5
    assert abs(float(weight.detach().square().sum(1).mean()) - 1) < 0.05  # variance 1 / size each


def test_given_vectors_are_kept_and_rows_of_nan_are_drawn() -> None:
    vectors = np.array([[np.nan, np.nan], [1.0, 2.0], [0.0, 0.0]])
    embed = Embedding(3, 2, vectors=vectors)
    assert embed.given.tolist() == [False, True, True]
    assert embed.weight[1:].tolist() == [[1.0, 2.0], [0.0, 0.0]]
    assert embed.weight[0].isfinite().all()
    assert embed.weight[0].any()
    before = embed.weight[0].clone()
    embed.draw(0.1)
    assert embed.weight[1:].tolist() == [[1.0, 2.0], [0.0, 0.0]]
    assert not torch.equal(embed.weight[0], before)
    assert "2 given" in repr(embed)


def test_frozen_vectors_have_no_gradient() -> None:
    frozen = Embedding(2, 2, vectors=np.eye(2), frozen=True)
    assert not frozen.weight.requires_grad
    assert "frozen" in repr(frozen)


def test_words_are_read_as_unknown_at_their_rate_and_only_in_training() -> None:
    embed = Embedding(3, 1, vectors=np.array([[0.0], [1.0], [2.0]]), unknown_rates=np.array([0.0, 0.25, 0.0]))
    ids = torch.tensor([[1, 2] * 4000])
    read = embed(ids)[0, :, 0]
    assert set(read[1::2].tolist()) == {2.0}
    assert set(read[::2].tolist()) == {0.0, 1.0}
    assert abs(float((read[::2] == 0).float().mean()) - 0.25) < 0.03  # 4 deviations of 4000 draws
    torch.manual_seed(5)
    one = embed(ids)
    torch.manual_seed(5)
    assert torch.equal(embed(ids), one)
    assert embed.eval()(ids)[0, :, 0].tolist() == [1.0, 2.0] * 4000
    assert list(embed.state_dict()) == ["weight"]


def test_the_unknown_word_learns_what_is_read_as_it() -> None:
    embed = Embedding(3, 2, unknown=2, unknown_rates=np.ones(3))
    embed(torch.tensor([[0, 1]])).sum().backward()
    assert embed.weight.grad.tolist() == [[0.0, 0.0], [0.0, 0.0], [2.0, 2.0]]


def test_mistakes_are_said() -> None:
    with pytest.raises(ShapeError, match=r"expected vectors \(count, size\) = \(3, 2\), received \(2, 3\)"):
        Embedding(3, 2, vectors=np.zeros((2, 3)))
    with pytest.raises(ShapeError, match=r"expected unknown_rates \(count,\) = \(3,\), received \(2,\)"):
        Embedding(3, 2, unknown_rates=np.zeros(2))
    with pytest.raises(ConfigError, match="probabilities from 0 to 1"):
        Embedding(3, 2, unknown_rates=np.array([0.0, 1.5, 0.0]))
    with pytest.raises(ConfigError, match="unknown must be an id from 0 to 2, received 3"):
        Embedding(3, 2, unknown=3)
