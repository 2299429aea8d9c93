"""Dropout: what is zero, what stays, and how often a mask is drawn."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from riverrun.data.padded import Padded  # noqa: E402
from riverrun.errors import ConfigError  # noqa: E402
from riverrun.nn.layers.dropout import Dropout  # noqa: E402

pytestmark = pytest.mark.train


@pytest.mark.parametrize("variational", [False, True])
def test_the_mean_stays_and_the_rate_is_the_rate(variational: bool) -> None:
    x = Padded(torch.ones(100, 4, 50), torch.full((100,), 4))
    y = Dropout(0.25, variational=variational)(x).data
    assert y.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert abs(float((y == 0).float().mean()) - 0.25) < 0.025  # 4 deviations of 5000 draws


def test_a_variational_mask_is_drawn_once_a_row() -> None:
    x = Padded(torch.ones(5, 6, 40), torch.full((5,), 6))
    y = Dropout(0.5, variational=True)(x).data
    assert torch.equal(y, y[:, :1].expand(-1, 6, -1))
    assert not torch.equal(y[0], y[1])
    free = Dropout(0.5)(x).data
    assert not torch.equal(free[:, 0], free[:, 1])


def test_outside_training_and_at_rate_0_it_is_the_same_object() -> None:
    x = Padded(torch.ones(1, 2, 3), torch.tensor([2]))
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("variational", [False, True])
def test_a_nan_in_the_padding_stays_there_and_out_of_the_gradient(variational: bool) -> None:
    data = torch.ones(1, 3, 2).index_fill_(1, torch.tensor([2]), torch.nan).requires_grad_()
    y = Dropout(0.5, variational=variational)(Padded(data, torch.tensor([2]))).zeroed().data
    y.sum().backward()
    assert y.isfinite().all()
    assert data.grad.isfinite().all()


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_a_rate_is_a_probability_below_1(rate: float) -> None:
    with pytest.raises(ConfigError, match=f"from 0 to below 1, received {rate}"):
        Dropout(rate)
