"""Words from characters: the convolution against its definition, the recurrence against its layers, both exported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from riverrun.data.batch import Batch  # noqa: E402
from riverrun.data.padded import Padded  # noqa: E402
from riverrun.decode.scorer import Labels  # noqa: E402
from riverrun.errors import ConfigError  # noqa: E402
from riverrun.nn.layers.chars import CharCNN, CharRNN  # noqa: E402

pytestmark = pytest.mark.train

WORDS = [[3, 1, 4, 1, 5], [], [2], [6, 5], [3, 5, 8, 8, 8, 3]]


def spelled(width: int = 7) -> Padded:
    data = torch.full((len(WORDS), width), -1)
    for row, word in enumerate(WORDS):
        data[row, : len(word)] = torch.tensor(word, dtype=torch.long)
    return Padded(data, torch.tensor([len(word) for word in WORDS]))


def by_definition(layer: CharCNN, word: list[int]) -> np.ndarray[Any, Any]:
    vectors, weight = layer.embed.weight.detach().numpy(), layer.conv.weight.detach().numpy()
    bias, width = layer.conv.bias.detach().numpy(), weight.shape[2]
    values = []
    for t in range(len(word)):
        value = bias.copy()
        for k in range(width):
            place = t + k - (width - 1) // 2
            if 0 <= place < len(word):
                value += weight[:, :, k] @ vectors[word[place]]
        values.append(value)
    return np.max(values, axis=0) if values else np.zeros_like(bias)


@pytest.mark.parametrize("count", [9, 200], ids=["from tables", "from vectors"])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 9])
def test_cnn_is_its_definition(width: int, count: int) -> None:
    layer = CharCNN(count, 4, 6, width).double()
    found = layer(spelled()).detach().numpy()
    np.testing.assert_allclose(found, [by_definition(layer, word) for word in WORDS], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_both_ways_to_compute_it_agree_with_their_gradients(width: int) -> None:
    layer = CharCNN(9, 4, 6, width).double()
    chars = spelled().zeroed()
    mask = chars.mask()
    ways = [layer.from_vectors(chars).transpose(1, 2), layer.from_tables(chars.data, mask)]
    torch.testing.assert_close(ways[0][mask], ways[1][mask], rtol=1e-12, atol=1e-13)
    weights = torch.randn(int(mask.sum()), 6, dtype=torch.float64)
    grads = [torch.autograd.grad((way[mask] * weights).sum(), list(layer.parameters())) for way in ways]
    torch.testing.assert_close(*grads, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", ["cnn", "rnn"])
def test_dropout_is_on_the_vectors_of_characters_and_in_training_alone(kind: str) -> None:
    layer = CharCNN(9, 4, 6, 3, dropout=0.5) if kind == "cnn" else CharRNN(9, 4, 6, dropout=0.5)
    chars = spelled()
    assert not torch.equal(layer(chars), layer(chars))
    layer.eval()
    assert torch.equal(layer(chars), layer(chars))


@pytest.mark.parametrize("kind", ["cnn", "rnn"])
def test_every_parameter_learns(kind: str) -> None:
    layer = CharCNN(9, 4, 6, 3) if kind == "cnn" else CharRNN(9, 4, 6)
    layer(spelled()).square().sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in layer.parameters())


@pytest.mark.parametrize("cell", ["lstm", "gru", {"kind": "elman", "nonlinearity": "relu"}])
def test_rnn_is_the_last_states_of_both_directions(cell: Any) -> None:
    layer = CharRNN(9, 4, 5, cell=cell).double()
    found = layer(spelled())
    assert found.shape == (5, layer.output_size) == (5, 10)
    assert not found[1].any()
    for word, value in zip(WORDS, found, strict=True):
        if word:
            vectors = layer.embed(torch.tensor([word]))
            there, back = layer.forwards(vectors)[0][0, -1], layer.backwards(vectors)[0][0, 0]
            torch.testing.assert_close(value, torch.cat([there, back]), rtol=1e-12, atol=1e-13)


def test_a_width_is_at_least_1() -> None:
    with pytest.raises(ConfigError, match="width must be at least 1, received 0"):
        CharCNN(9, 4, 6, 0)


class Spelling(nn.Module):
    """Both kinds of word vectors as scores."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([CharCNN(9, 4, 6, 3, dropout=0.5), CharRNN(9, 4, 5, cell="gru", dropout=0.5)])

    def scores(self, batch: Batch) -> Labels:
        return Labels(torch.cat([part(batch["chars"]) for part in self.parts], 1))


def test_exported_they_are_the_same(tmp_path: Any, rng: np.random.Generator) -> None:
    """On ragged batches, among them words without characters; the tables of the convolution become constants."""
    onnx_ir = pytest.importorskip("onnx_ir")
    from riverrun.export.graph import export_graph

    chars = Padded(rng.integers(0, 9, (4, 5)), np.array([5, 1, 3, 2]))
    axes = {"chars": "BL"}
    report = export_graph(Spelling(), Batch(chars=chars), tmp_path / "model.onnx", axes=axes)
    assert report.max_error < 1e-5
    operators = {node.op_type for node in onnx_ir.load(tmp_path / "model.onnx").graph}
    assert "GRU" in operators
    assert not operators & {"MatMul", "Gemm", "Conv"}
