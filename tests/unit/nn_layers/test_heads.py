"""Softmax and CRF as the net sees them: hidden vectors and tags in, likelihoods and chains out."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from riverrun.data.padded import Padded  # noqa: E402
from riverrun.errors import ShapeError  # noqa: E402
from riverrun.nn.layers.crf import CRF, log_likelihood  # noqa: E402
from riverrun.nn.layers.softmax import Softmax  # noqa: E402

pytestmark = pytest.mark.train

LENGTHS = torch.tensor([4, 0, 2])


def example() -> tuple[Padded, Padded]:
    return Padded(torch.randn(3, 4, 5), LENGTHS), Padded(torch.randint(0, 3, (3, 4)), LENGTHS)


def test_softmax_is_a_crf_without_neighbours() -> None:
    softmax, crf = Softmax(5, 3), CRF(5, 3)
    crf.emission.load_state_dict(softmax.emission.state_dict())
    x, tags = example()
    torch.testing.assert_close(softmax.log_likelihood(x, tags), crf.log_likelihood(x, tags))
    torch.testing.assert_close(log_likelihood(softmax(x), tags), softmax.log_likelihood(x, tags))
    assert softmax.log_likelihood(x, tags)[1] == 0


@pytest.mark.parametrize("potentials", ["additive", "pairwise"])
def test_crf_likelihood_is_that_of_its_chain(potentials: str) -> None:
    crf = CRF(5, 3, potentials=potentials)
    x, tags = example()
    torch.testing.assert_close(crf.log_likelihood(x, tags), log_likelihood(crf(x), tags), rtol=0, atol=0)
    assert crf.log_likelihood(x, tags)[1] == 0


def test_tags_may_be_small_integers() -> None:
    x, tags = example()
    for head in (Softmax(5, 3), CRF(5, 3)):
        small = tags.with_data(tags.data.to(torch.int32))
        torch.testing.assert_close(head.log_likelihood(x, small), head.log_likelihood(x, tags), rtol=0, atol=0)


@pytest.mark.parametrize("head", [Softmax(5, 3), CRF(5, 3)], ids=["softmax", "crf"])
def test_half_precision_ends_before_the_likelihood(head: nn.Module) -> None:
    x, tags = example()
    exact = head.log_likelihood(x, tags)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = head.log_likelihood(x, tags)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact, rtol=0.03, atol=0.03)  # bfloat16 has 8 bits


@pytest.mark.parametrize("head", [Softmax(5, 3), CRF(5, 3)], ids=["Softmax", "CRF"])
def test_mistakes_are_said(head: nn.Module) -> None:
    x, _ = example()
    name = type(head).__name__
    with pytest.raises(ShapeError, match=rf"{name}\(features=5\): expected .* received \(3, 4, 6\)"):
        head(Padded(torch.randn(3, 4, 6), LENGTHS))
    with pytest.raises(ShapeError, match=r"expected tags \(B, T\) = \(3, 4\), received \(3, 5\)"):
        head.log_likelihood(x, Padded(torch.zeros(3, 5, dtype=torch.long), LENGTHS))
