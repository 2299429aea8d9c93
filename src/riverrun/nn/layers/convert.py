"""Weights from and to torch.nn's LSTM, GRU and RNN: the only place where the two layouts meet.

Torch has two biases for each gate, we have their sum in ``b``. The outputs are the same; two biases train twice as fast
as one under plain gradient descent. Where the recurrent product has a bias of its own (the n of the GRU), both stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from riverrun.errors import CheckpointError, ConfigError
from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.elman import Elman
from riverrun.nn.cells.gru import GRUResetAfter
from riverrun.nn.cells.lstm import LSTM, ProjectedLSTM
from riverrun.nn.layers.recurrent import Recurrent
from riverrun.nn.layers.stack import Stack

_SAME: tuple[Cell, ...] = (
    LSTM(),
    ProjectedLSTM(limit=float("inf")),
    GRUResetAfter(),
    Elman(),
    Elman(nonlinearity="relu"),
)


def from_torch(module: Recurrent | Stack, state: Mapping[str, Tensor]) -> None:
    """Load the ``state_dict`` of torch's module of as many layers, directions and units into a layer or a plain stack.

    >>> theirs = torch.nn.LSTM(3, 4, batch_first=True)
    >>> ours = Recurrent("lstm", 3, 4)
    >>> from_torch(ours, theirs.state_dict())
    >>> x = torch.randn(2, 5, 3)
    >>> torch.allclose(ours(x)[0], theirs(x)[0], atol=1e-6)
    True
    """
    left = set(state)
    loaded = []
    for suffix, layer in _places(module):
        found: dict[str, Tensor] = {}
        for name, shape in _shapes(layer).items():
            value = state.get(name + suffix)
            left.discard(name + suffix)
            if value is None and name.startswith("bias"):
                value = torch.zeros(shape)
            if value is None or tuple(value.shape) != shape:
                received = "nothing" if value is None else tuple(value.shape)
                raise CheckpointError(f"from_torch: expected {name + suffix} of shape {shape}, received {received}")
            found[name] = value
        loaded.append((layer, _ours(layer, found)))
    if left:
        raise CheckpointError(f"from_torch: there is no place for {', '.join(sorted(left))}: more layers or directions")
    for layer, weights in loaded:
        layer.load_state_dict(weights)


def to_torch(module: Recurrent | Stack) -> dict[str, Tensor]:
    """The ``state_dict`` of torch's module that computes the same; its second biases are 0 where we have one."""
    return {name + suffix: value for suffix, layer in _places(module) for name, value in _theirs(layer).items()}


def _places(module: Recurrent | Stack) -> Iterator[tuple[str, Recurrent]]:
    """What torch writes behind the names of a layer's weights, and the layer."""
    if isinstance(module, Recurrent):
        yield "_l0", _checked(module)
        return
    if module.wiring != "plain":
        raise ConfigError(f"torch.nn has no stack with wiring '{module.wiring}', only 'plain'")
    depth = -1
    for layer in module.modules():  # from the bottom up, in each level forwards first
        if isinstance(layer, Recurrent):
            depth += not layer.reverse
            yield f"_l{depth}{'_reverse' if layer.reverse else ''}", _checked(layer)


def _checked(layer: Recurrent) -> Recurrent:
    graph = layer.cell.graph
    known = {cell.graph.signature() for cell in _SAME if cell.graph}
    if graph is None or graph.signature() not in known:
        raise ConfigError(
            f"torch.nn has no {layer.cell!r}; it has {', '.join(map(repr, _SAME))}. Its GRU applies the reset gate "
            "after the product and its update gate keeps the old state: that is gru-reset-after, not gru"
        )
    return layer


def _shapes(layer: Recurrent) -> dict[str, tuple[int, ...]]:
    rows = len(layer.layout.rows) * layer.hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        "weight_ih": (rows, layer.input_size),
        "weight_hh": (rows, layer.output_size),
        "bias_ih": (rows,),
        "bias_hh": (rows,),
    }
    return shapes | ({"weight_hr": (layer.output_size, layer.hidden_size)} if len(layer.layout.blocks) > 1 else {})


def _ours(layer: Recurrent, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    first, *rest = (block.name for block in layer.layout.blocks)
    second = theirs["bias_hh"].clone()
    weights = {"W": theirs["weight_ih"], first: theirs["weight_hh"]}
    weights |= {name: theirs[f"weight_h{part}"] for name, part in zip(rest, "r", strict=False)}
    for name in layer.layout.params:  # the bias of n, the last gate, stays by itself
        weights[f"p_{name}"] = second[-layer.hidden_size :].clone()
        second[-layer.hidden_size :] = 0
    return weights | {"b": theirs["bias_ih"] + second}


def _theirs(layer: Recurrent) -> dict[str, Tensor]:
    ours = layer.state_dict()
    first, *rest = (block.name for block in layer.layout.blocks)
    second = torch.zeros_like(ours["b"])
    for name in layer.layout.params:
        second[-layer.hidden_size :] = ours[f"p_{name}"]
    weights = {"weight_ih": ours["W"], "weight_hh": ours[first], "bias_ih": ours["b"], "bias_hh": second}
    if rest:
        weights["weight_hr"] = ours[rest[0]]
    return weights
