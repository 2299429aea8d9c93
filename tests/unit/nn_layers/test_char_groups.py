"""Words are read in groups of similar length: less padding, the same vectors and gradients."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from riverrun.data.padded import Padded  # noqa: E402
from riverrun.nn.layers import chars as module  # noqa: E402
from riverrun.nn.layers.chars import CharRNN  # noqa: E402

pytestmark = pytest.mark.train


@pytest.mark.parametrize("lengths", [[3, 9, 0, 1, 9, 3, 2], [5, 5, 5], [0, 0], [1]])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_groups_change_nothing(lengths, cell, monkeypatch):
    layer = CharRNN(7, 4, 5, cell=cell).double()
    ids = Padded(torch.randint(0, 7, (len(lengths), 9)), torch.tensor(lengths, dtype=torch.int64))
    found = {}
    for worth in (1, 1 << 40):
        monkeypatch.setattr(module, "_WORTH_A_CUT", worth)
        y = layer(ids)
        weight = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
        found[worth] = [y, *torch.autograd.grad((y * weight).sum(), list(layer.parameters()))]
    for cut, whole in zip(found[1], found[1 << 40], strict=True):
        torch.testing.assert_close(cut, whole)


def test_groups_are_as_many_as_pay(monkeypatch):
    monkeypatch.setattr(module, "_WORTH_A_CUT", 10)
    runs = []
    layer = CharRNN(7, 4, 5)
    layer.forwards.register_forward_pre_hook(lambda _, given: runs.append(tuple(given[0].data.shape[:2])))
    layer(Padded(torch.zeros(13, 20, dtype=torch.int64), torch.tensor([20] + 12 * [3])))
    assert runs == [(12, 3), (1, 20)]
