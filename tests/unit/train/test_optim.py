"""The optimisers against their equations, written out here in numpy."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from riverrun.config.train import Train  # noqa: E402
from riverrun.train.optim import optimizer, scale_gradients, set_rate  # noqa: E402

pytestmark = pytest.mark.train

RATES = [0.1, 0.2, 0.05, 0.1]
DECAY = 0.3


def by_hand(kind, weight, gradients, decay):
    """The weight after the updates, each with its own rate."""
    momentum, beta1, beta2 = 0.9, 0.8, 0.95
    velocity = mean = square = np.zeros_like(weight)
    for n, (gradient, rate) in enumerate(zip(gradients, RATES, strict=True), 1):
        if kind == "adamw":
            weight = weight - rate * decay * weight
        else:
            gradient = gradient + decay * weight
        if kind in ("sgd", "asgd"):
            velocity = momentum * velocity + gradient if kind == "sgd" else gradient
            weight = weight - rate * velocity
        else:
            mean = beta1 * mean + (1 - beta1) * gradient
            square = beta2 * square + (1 - beta2) * gradient**2
            weight = weight - rate * (mean / (1 - beta1**n)) / (np.sqrt(square / (1 - beta2**n)) + 1e-8)
    return weight


@pytest.mark.parametrize("kind", ["sgd", "asgd", "adam", "adamw"])
@pytest.mark.parametrize("shape", [(2, 3), (4,)])
def test_an_optimiser_is_its_equation(rng, kind, shape):
    more = {"momentum": 0.9} if kind == "sgd" else {"betas": (0.8, 0.95)} if kind.startswith("adam") else {}
    start, gradients = rng.normal(size=shape), rng.normal(size=(4, *shape))
    parameter = nn.Parameter(torch.from_numpy(start.copy()))
    ours = optimizer([parameter], Train(optimizer=kind, weight_decay=DECAY, **more))
    for gradient, rate in zip(gradients, RATES, strict=True):
        set_rate(ours, rate)
        parameter.grad = torch.from_numpy(gradient)
        ours.step()
    # Weight decay is for matrices.
    expected = by_hand(kind, start, gradients, DECAY if len(shape) == 2 else 0.0)
    np.testing.assert_allclose(parameter.detach(), expected, rtol=1e-10)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_gradient_that_is_not_finite_is_left_as_it_is(bad):
    gradients = [torch.tensor([3.0, 4.0]), torch.tensor([bad])]
    assert not np.isfinite(scale_gradients(gradients, divisor=2, limit=1.0))
    assert gradients[0].tolist() == [3, 4]


def test_no_gradients_have_no_norm():
    assert scale_gradients([], divisor=2, limit=1.0) == 0
