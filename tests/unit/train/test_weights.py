"""Weights as bytes: equal weights are equal bytes, ties are kept, and a file is whole or not there."""

from __future__ import annotations

import errno
import os

import pytest

torch = pytest.importorskip("torch")
from safetensors.torch import save  # noqa: E402
from torch import nn  # noqa: E402

from riverrun.errors import CheckpointError  # noqa: E402
from riverrun.train.weights import from_bytes, load_weights, save_weights, to_bytes  # noqa: E402

pytestmark = pytest.mark.train


def tensors():
    whole = torch.arange(12.0).reshape(3, 4)
    return {
        "whole": whole,
        "tied": whole,
        "row": whole[1],  # a part of its memory
        "transposed": whole.T,  # the same memory in another order
        "bf16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "int": torch.tensor(7),
        "bool": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
        "also empty": torch.zeros(0, 3),
    }


def test_every_tensor_comes_back(tmp_path):
    path = tmp_path / "model.safetensors"
    save_weights(path, tensors())
    found = load_weights(path)
    assert found.keys() == tensors().keys()
    for name, tensor in tensors().items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0)
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_equal_weights_are_equal_bytes_whatever_their_order():
    assert to_bytes(tensors()) == to_bytes(dict(reversed(tensors().items())))
    assert to_bytes({"w": torch.zeros(2)}) != to_bytes({"w": torch.ones(2)})


def test_what_is_tied_is_stored_once_and_is_tied_when_it_is_read():
    weight = torch.zeros(1000)
    data = to_bytes({"a": weight, "b": weight})
    assert len(data) < 4400
    found = from_bytes(data, "here")
    assert found["a"] is found["b"]


def test_a_module_comes_back(tmp_path):
    net, other = nn.LSTM(3, 4), nn.LSTM(3, 4)
    save_weights(tmp_path / "w", net.state_dict())
    other.load_state_dict(load_weights(tmp_path / "w"))
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("keep", [0, 5, 60, -1])
def test_a_file_that_was_cut_is_an_error(tmp_path, keep):
    path = tmp_path / "w"
    path.write_bytes(to_bytes(tensors())[:keep])
    with pytest.raises(CheckpointError, match=r"w: expected a complete safetensors file, received \d+ bytes"):
        load_weights(path)


@pytest.mark.parametrize("tied", ['{"a": ["x"]}', '{"a": {}}', "[]", "[1]", "3", "null", '{"a": "b"}', "{"])
def test_ties_that_are_none_are_an_error(tied):
    data = save({"w": torch.zeros(1)}, metadata={"tied": tied})
    with pytest.raises(CheckpointError, match="here: expected a complete safetensors file"):
        from_bytes(data, "here")


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match="w: could not be read: No such file"):
        load_weights(tmp_path / "w")


def test_a_full_disk_leaves_the_file_that_was_there(tmp_path, monkeypatch):
    path = tmp_path / "w"
    save_weights(path, {"w": torch.zeros(2)})

    def fsync(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(CheckpointError, match="w: could not be written: No space left on device"):
        save_weights(path, {"w": torch.ones(2)})
    assert load_weights(path)["w"].tolist() == [0, 0] and os.listdir(tmp_path) == ["w"]
