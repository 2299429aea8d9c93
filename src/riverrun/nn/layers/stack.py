"""Recurrent layers on top of each other, in one direction or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from riverrun.data.padded import Padded
from riverrun.errors import ConfigError, StateError, nearest
from riverrun.nn.cells import Cell, RecurrentDropout, make_cell
from riverrun.nn.layers.dropout import Dropout
from riverrun.nn.layers.recurrent import Recurrent
from riverrun.nn.layers.wiring import WIRINGS, Wiring, joint


class Stack(nn.Module):
    r"""Depth, direction and wiring. Layer l computes f from its input x and hands y on:

    .. math::
        \text{plain, dense:} \quad y = f(x) \qquad \text{residual:} \quad y = f(x) + x \qquad
        \text{highway:} \quad y = t \odot f(x) + (1 - t) \odot x, \quad t = \sigma(W x + b)

    The input of a layer is the y below it; in ``dense``, the input of the stack and every y below it, side by side.
    What is read by ``residual`` and ``highway`` must be as wide as what is written: a first layer whose input is of
    another width is plain. In both directions f is two recurrences side by side, each with weights of its own.

    The state is a tuple with the state of each layer, in both directions a pair (forwards, backwards) of them.

    Args:
        cell: a cell, its name, or a table with its name and options.
        input_size: D.
        hidden_size: H, units of a layer in each direction.
        layers: how many.
        last: units of the last layer in each direction, where it has another number; what comes out is so wide.
        bidirectional: read from both ends.
        wiring: ``plain``, ``residual``, ``highway`` or ``dense``.
        dropout: on f(x) of every layer but the last.
        variational: draw ``dropout`` once a row instead of once a position.
        recurrent_dropout: on what the recurrent matrices multiply, drawn once a row.
        weight_drop: on the recurrent matrices, drawn once a batch.
        engine: as for ``Recurrent``.
        allow_import: as for ``Recurrent``.

    >>> stack = Stack("gru", 3, 4, layers=2, bidirectional=True, wiring="residual")
    >>> y, state = stack(Padded(torch.randn(2, 5, 3), torch.tensor([5, 0])))
    >>> y.data.shape, len(state), state[0][1].h.shape
    (torch.Size([2, 5, 8]), 2, torch.Size([2, 4]))
    """

    def __init__(
        self,
        cell: Cell | str | Mapping[str, Any],
        input_size: int,
        hidden_size: int,
        *,
        layers: int = 1,
        last: int | None = None,
        bidirectional: bool = False,
        wiring: Wiring = "plain",
        dropout: float = 0.0,
        variational: bool = False,
        recurrent_dropout: float = 0.0,
        weight_drop: float = 0.0,
        engine: str = "auto",
        allow_import: bool = False,
    ) -> None:
        super().__init__()
        if wiring not in WIRINGS:
            raise ConfigError(
                f"wiring must be one of {', '.join(WIRINGS)}, received {wiring!r}{nearest(wiring, WIRINGS)}"
            )
        if layers < 1:
            raise ConfigError(f"layers must be at least 1, received {layers}")
        cell = make_cell(cell, allow_import=allow_import)
        if recurrent_dropout:
            cell = RecurrentDropout(cell, rate=recurrent_dropout)
        self.wiring, self.input_size, self.depth = wiring, input_size, layers
        levels: list[_Layer] = []
        read = input_size  # the width of what the next layer reads
        for level in range(layers):
            size = hidden_size if last is None or level < layers - 1 else last
            make = partial(Recurrent, cell, read, size, engine=engine, weight_drop=weight_drop)
            layer = _Layer(make(), make(reverse=True) if bidirectional else None, wiring)
            levels.append(layer)
            read = read + layer.output_size if wiring == "dense" else layer.output_size
        self.layers = nn.ModuleList(levels)
        self.output_size = levels[-1].output_size
        if layers == 1 and wiring in ("residual", "highway") and input_size != self.output_size:
            raise ConfigError(
                f"wiring '{wiring}' does nothing in one layer that reads {input_size} and writes {self.output_size} "
                "numbers; give it more layers, as many units as inputs, or wiring 'plain'"
            )
        self.dropout = Dropout(dropout, variational=variational)

    def forward(self, x: Padded, state: Sequence[Any] | None = None) -> tuple[Padded, tuple[Any, ...]]:
        """(B, T, D) and the state before it -> (B, T, output_size), 0 in the padding, and the state behind it."""
        if state is not None and len(state) != self.depth:
            raise StateError(f"Stack: expected the states of {self.depth} layers, received {len(state)}")
        states: list[Any] = []
        y = x
        for k, layer in enumerate(self._levels()):
            found, new = layer.run(x, None if state is None else state[k])
            states.append(new)
            last = k == self.depth - 1
            y = layer.joint(x, found if last else self.dropout(found))
            x = x.with_data(torch.cat([x.data, y.data], -1)) if self.wiring == "dense" and not last else y
        return y, tuple(states)

    def initial_state(self, rows: int) -> tuple[Any, ...]:
        """The state before the first position."""
        return tuple(layer.initial_state(rows) for layer in self._levels())

    def describe(self) -> str:
        """A line for each recurrence: which engine runs it and why."""
        return "\n".join(
            f"layer {number}: {part.describe()}"
            for number, layer in enumerate(self._levels(), 1)
            for part in layer.parts
        )

    def _levels(self) -> list[_Layer]:
        return list(self.layers)  # type: ignore[arg-type]

    def extra_repr(self) -> str:
        """What is not said by the submodules."""
        return f"wiring={self.wiring}"


class _Layer(nn.Module):
    """One level: a recurrence, or two side by side, and the joint with the input."""

    def __init__(self, forwards: Recurrent, backwards: Recurrent | None, wiring: Wiring) -> None:
        super().__init__()
        self.forwards, self.backwards = forwards, backwards
        self.output_size = sum(part.output_size for part in self.parts)
        self.joint = joint(wiring, forwards.input_size, self.output_size)

    @property
    def parts(self) -> tuple[Recurrent, ...]:
        return (self.forwards,) if self.backwards is None else (self.forwards, self.backwards)

    def run(self, x: Padded, state: Any) -> tuple[Padded, Any]:
        """The result (B, T, output_size), before it is joined, and the state."""
        if self.backwards is None:
            return self.forwards(x, state)  # type: ignore[no-any-return]
        if state is not None and (not isinstance(state, tuple) or len(state) != 2 or isinstance(state[0], Tensor)):
            raise StateError("Stack: expected a pair of states (forwards, backwards) for each layer, received one")
        there, back = (part(x, None if state is None else state[k]) for k, part in enumerate(self.parts))
        return x.with_data(torch.cat([there[0].data, back[0].data], -1)), (there[1], back[1])

    def initial_state(self, rows: int) -> Any:
        states = tuple(part.initial_state(rows) for part in self.parts)
        return states[0] if self.backwards is None else states
