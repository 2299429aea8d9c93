"""What every engine is given: one sequence of inputs, the states before it, and the weights of a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import torch
from torch import Tensor

from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.graph import Graph
from riverrun.nn.cells.layout import Block
from riverrun.nn.engines.padding import zeroed


@dataclass(frozen=True, eq=False)
class Weights:
    """The tensors of a layer under the names that an equation uses.

    Args:
        W: (rows, D), the rows of all gates that read the input, or None.
        b: (rows,), or None.
        rows: gate -> its number of rows of W, in their order.
        blocks: what R is made of, each with its matrix (gates * out, into).
        p: parameter -> (width,).
    """

    W: Tensor | None
    b: Tensor | None
    rows: Mapping[str, int]
    blocks: Sequence[tuple[Block, Tensor]]
    p: Mapping[str, Tensor]

    def streams(self, x: Tensor) -> dict[str, Tensor]:
        """(..., D) -> gate -> (..., width), by one product."""
        if self.W is None:
            return {}
        whole = torch.nn.functional.linear(x, self.W, self.b)
        return dict(zip(self.rows, torch.split(whole, list(self.rows.values()), -1), strict=True))

    def product(self, gate: str) -> Tensor:
        """(out, into), the recurrent matrix of one product."""
        for block, matrix in self.blocks:
            if gate in block.gates:
                out = len(matrix) // len(block.gates)
                start = block.gates.index(gate) * out
                return matrix[start : start + out]
        raise KeyError(gate)

    def stack(self, gates: Sequence[str]) -> Tensor:
        """The matrices of several products of one operand, one under the other; without a copy where they lie so."""
        for block, matrix in self.blocks:
            if gates[0] in block.gates:
                first = block.gates.index(gates[0])
                if block.gates[first : first + len(gates)] == tuple(gates):
                    out = len(matrix) // len(block.gates)
                    return matrix[first * out : (first + len(gates)) * out]
        return torch.cat([self.product(gate) for gate in gates])


@dataclass(frozen=True, eq=False)
class Request:
    """One run of a recurrence, in the order of time in which it runs.

    Args:
        cell: whose equation it is.
        graph: what the equation computes now: without its noise outside training; None where it has no graph.
        x: (B, T, D); anything may stand in the padding.
        lengths: (B,), or None where every row is T long.
        state: the states before the first step, in the order of the cell's states, each (B, width).
        weights: the layer's.
        noise: stream -> (T, B, width), or (1, B, width) where it is drawn once a sequence.
    """

    cell: Cell
    graph: Graph | None
    x: Tensor
    lengths: Tensor | None
    state: tuple[Tensor, ...]
    weights: Weights
    noise: Mapping[str, Tensor]

    def inputs(self) -> Tensor:
        """(T, B, D), 0 in the padding."""
        x = self.x.transpose(0, 1)
        return x if self.live is None else zeroed(x, self.live)

    @property
    def dtype(self) -> torch.dtype:
        """The type of the states; the widest, where autocast left them different. That of the input may be another."""
        return reduce(torch.promote_types, {value.dtype for value in self.state})

    @cached_property
    def shortest(self) -> int:
        """How many steps every row has at least; 0 where that is not known, since a GPU is not asked and waited for."""
        if self.lengths is None:
            return self.x.shape[1]
        return int(self.lengths.min()) if self.lengths.device.type == "cpu" else 0

    @cached_property
    def live(self) -> Tensor | None:
        """(T, B, 1), whether a time is within its row; None where all are."""
        if self.lengths is None:
            return None
        times = torch.arange(self.x.shape[1], device=self.x.device)
        return (times[:, None] < self.lengths).unsqueeze(-1)


Result = tuple[Tensor, tuple[Tensor, ...]]
"""Outputs (B, T, width of the first state), 0 in the padding, and the states after the last step of each row."""


def last_of(sequence: Tensor, request: Request, first: Tensor) -> Tensor:
    """(T, B, H) -> (B, H): the value at the last time of each row; that before the first time where there is none."""
    if request.lengths is None:
        return sequence[-1]
    rows = torch.arange(sequence.shape[1], device=sequence.device)
    at = request.lengths - 1 if request.shortest else (request.lengths - 1).clamp_(min=0)
    last = sequence.flatten(0, 1).index_select(0, at * len(rows) + rows)
    if request.shortest:
        return last
    return torch.where((request.lengths > 0).unsqueeze(-1), last, first)
