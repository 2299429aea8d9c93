"""Stack: depth, direction and wiring against a composition by hand; states; where dropout is."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from riverrun.data.padded import Padded  # noqa: E402
from riverrun.errors import ConfigError, StateError  # noqa: E402
from riverrun.nn.layers.stack import Stack  # noqa: E402

pytestmark = pytest.mark.train

LENGTHS = torch.tensor([5, 0, 1, 3])


def ragged(size: int, dtype: torch.dtype = torch.float64) -> Padded:
    return Padded(torch.randn(4, 5, size, dtype=dtype), LENGTHS).zeroed()


def by_hand(stack: Stack, x: Padded, wiring: str) -> torch.Tensor:
    """One row at a time: full sequences, no padding anywhere."""
    out = torch.zeros(4, 5, stack.output_size, dtype=torch.float64)
    for row, length in enumerate(LENGTHS.tolist()):
        value = x.data[row : row + 1, :length]
        for level in stack.layers:
            found = level.forwards(value)[0]
            if level.backwards is not None:
                found = torch.cat([found, level.backwards(value)[0]], -1)
            if wiring == "residual" and found.shape == value.shape:
                found = found + value
            if wiring == "highway" and found.shape == value.shape:
                share = torch.sigmoid(value @ level.joint.gate.weight.T + level.joint.gate.bias)
                found = share * found + (1 - share) * value
            value = torch.cat([value, found], -1) if wiring == "dense" else found
        out[row, :length] = found
    return out


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("size", [6, 4], ids=["as wide", "another width"])
@pytest.mark.parametrize("wiring", ["plain", "residual", "highway", "dense"])
def test_wiring_is_its_equation(wiring: str, size: int, bidirectional: bool) -> None:
    hidden = 3 if bidirectional else 6
    stack = Stack("gru", size, hidden, layers=3, wiring=wiring, bidirectional=bidirectional).double()
    x = ragged(size)
    y, states = stack(x)
    torch.testing.assert_close(y.data, by_hand(stack, x, wiring), rtol=1e-12, atol=1e-13)
    assert len(states) == 3
    assert stack.output_size == 6


@pytest.mark.parametrize("wiring", ["plain", "residual", "highway", "dense"])
def test_the_padding_of_what_comes_out_is_0(wiring: str) -> None:
    x = ragged(6)
    dirty = x.with_data(x.data.masked_fill(~x.mask()[..., None], torch.nan))
    for layers in (1, 2):
        y, _ = Stack("gru", 6, 6, layers=layers, wiring=wiring).double()(dirty)
        assert not y.data[~x.mask()].any()


def test_the_backward_direction_reads_backwards() -> None:
    """With the weights of the forward one, it says of a sequence what that one says of the reversed sequence."""
    stack = Stack("lstm", 4, 3, bidirectional=True).double()
    level = stack.layers[0]
    level.backwards.load_state_dict(level.forwards.state_dict())
    x = ragged(4)
    y = stack(x)[0].data
    turned = stack(x.reverse())[0].reverse().data
    torch.testing.assert_close(y[..., 3:], turned[..., :3], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("wiring", ["plain", "residual", "highway", "dense"])
@pytest.mark.parametrize("cell", ["lstm", "gru", "mingru"])
def test_pieces_with_the_state_between_them_are_the_whole(cell: str, wiring: str) -> None:
    stack = Stack(cell, 4, 4, layers=2, wiring=wiring).double()
    data = torch.randn(3, 7, 4, dtype=torch.float64)
    full = torch.full((3,), 7)
    whole, end = stack(Padded(data, full))
    state: Any = stack.initial_state(3)
    pieces = []
    for start, stop in ((0, 1), (1, 5), (5, 5), (5, 7)):
        y, state = stack(Padded(data[:, start:stop], full * 0 + stop - start), state)
        pieces.append(y.data)
    torch.testing.assert_close(torch.cat(pieces, 1), whole.data, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(state, end, rtol=1e-12, atol=1e-13)


def test_both_directions_take_and_give_a_pair_of_states() -> None:
    stack = Stack("gru", 4, 3, bidirectional=True, layers=2).double()
    x = ragged(4)
    _, state = stack(x)
    assert [[part.h.shape for part in pair] for pair in state] == [[(4, 3), (4, 3)]] * 2
    given = [[type(part)(torch.randn_like(part.h)) for part in pair] for pair in state]
    again, after = stack(x, [tuple(pair) for pair in given])
    first = stack.layers[0]
    parts = [layer(x, before) for layer, before in zip(first.parts, given[0], strict=True)]
    torch.testing.assert_close(after[0], tuple(end for _, end in parts), rtol=0, atol=0)
    middle = x.with_data(torch.cat([y.data for y, _ in parts], -1))
    parts = [layer(middle, before) for layer, before in zip(stack.layers[1].parts, given[1], strict=True)]
    torch.testing.assert_close(again.data, torch.cat([y.data for y, _ in parts], -1), rtol=0, atol=0)
    zero, _ = stack(x, stack.initial_state(4))
    torch.testing.assert_close(zero.data, stack(x)[0].data, rtol=0, atol=0)


def test_dropout_is_between_layers_alone() -> None:
    x = ragged(4, torch.float32)
    one = Stack("gru", 4, 4, dropout=0.9)
    assert torch.equal(one(x)[0].data, one(x)[0].data)
    two = Stack("gru", 4, 4, layers=2, dropout=0.9)
    assert not torch.equal(two(x)[0].data, two(x)[0].data)
    seen = []
    two.layers[1].forwards.register_forward_pre_hook(lambda _, given: seen.append(given[0].data))
    y, _ = two(x)
    assert float((seen[0][0] == 0).float().mean()) > 0.5
    assert y.data[0].all()  # nothing is dropped behind the last layer
    two.eval()
    assert torch.equal(two(x)[0].data, two(x)[0].data)


def test_variational_dropout_is_drawn_once_a_row() -> None:
    stack = Stack("gru", 4, 30, layers=2, dropout=0.5, variational=True)
    seen = []
    stack.layers[1].forwards.register_forward_pre_hook(lambda _, given: seen.append(given[0].data))
    stack(Padded(torch.randn(2, 6, 4), torch.tensor([6, 6])))
    zero = seen[0] == 0
    assert torch.equal(zero, zero[:, :1].expand(-1, 6, -1))
    assert not torch.equal(zero[0], zero[1])


@pytest.mark.parametrize("option", ["recurrent_dropout", "weight_drop"])
def test_noise_in_the_recurrence_is_for_training(option: str) -> None:
    stack = Stack("lstm", 4, 8, **{option: 0.5})
    x = ragged(4, torch.float32)
    assert not torch.equal(stack(x)[0].data, stack(x)[0].data)
    # The first step reads a state of zeros, so that there is nothing to drop.
    torch.testing.assert_close(stack(x)[0].data[:, 0], stack(x)[0].data[:, 0], rtol=0, atol=0)
    stack.eval()
    plain = Stack("lstm", 4, 8)
    plain.load_state_dict(stack.state_dict())
    torch.testing.assert_close(stack(x)[0].data, plain(x)[0].data)


def test_every_layer_says_what_runs_it() -> None:
    lines = Stack("gru", 4, 3, layers=2, bidirectional=True).describe().splitlines()
    assert [line.split(":")[0] for line in lines] == ["layer 1", "layer 1", "layer 2", "layer 2"]


def test_mistakes_are_said() -> None:
    with pytest.raises(ConfigError, match=r"wiring must be one of .* received 'residul'; did you mean 'residual'"):
        Stack("gru", 4, 3, wiring="residul")
    with pytest.raises(ConfigError, match="layers must be at least 1, received 0"):
        Stack("gru", 4, 3, layers=0)
    with pytest.raises(ConfigError, match="'highway' does nothing in one layer that reads 4 and writes 3 numbers"):
        Stack("gru", 4, 3, wiring="highway")
    with pytest.raises(ConfigError, match="has no recurrent products"):
        Stack("sru", 4, 4, recurrent_dropout=0.5)
    with pytest.raises(ConfigError, match="dropout must be a probability"):
        Stack("gru", 4, 4, dropout=1.0)
    stack = Stack("gru", 4, 3, layers=2)
    with pytest.raises(StateError, match="expected the states of 2 layers, received 1"):
        stack(ragged(4, torch.float32), stack.initial_state(4)[:1])
    both = Stack("gru", 4, 3, layers=2, bidirectional=True)
    with pytest.raises(StateError, match=r"a pair of states \(forwards, backwards\)"):
        both(ragged(4, torch.float32), stack.initial_state(4))


@pytest.mark.parametrize("wiring", ["plain", "residual", "highway", "dense"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_last_layer_may_have_another_width(wiring: str, bidirectional: bool) -> None:
    directions = 2 if bidirectional else 1
    stack = Stack("gru", 4, 6, layers=3, last=5, wiring=wiring, bidirectional=bidirectional)
    assert [level.forwards.hidden_size for level in stack.layers] == [6, 6, 5]
    y, states = stack(ragged(4, torch.float32))
    assert y.data.shape[-1] == stack.output_size == 5 * directions
    assert [leaf.shape[-1] for leaf in (states[0], states[2]) for leaf in (leaf[0] if bidirectional else leaf)] == [
        6,
        5,
    ]
    assert Stack("gru", 4, 6, last=5).output_size == 5
    same, usual = Stack("gru", 4, 6, layers=2, last=6), Stack("gru", 4, 6, layers=2)
    same.load_state_dict(usual.state_dict())
    x = ragged(4, torch.float32)
    assert torch.equal(same(x)[0].data, usual(x)[0].data)
