"""Long pieces of one table added to rows of scores, and gradients added back to where they came from."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from riverrun.errors import missing


@dataclass(frozen=True, eq=False)
class Windows:
    """What is added to scores (N, V): for row n and each k, the piece of the table that begins at ``starts[n, k]``.

    Args:
        table: (buckets,), the weights.
        starts: (N, K), no piece of V weights that begins at one of them goes beyond the table.

    >>> windows = Windows(torch.arange(5.0), torch.tensor([[0, 2]]))
    >>> windows.take(torch.tensor([0, 2]))
    tensor([[2., 6.]])
    """

    table: Tensor
    starts: Tensor

    def take(self, symbols: Tensor) -> Tensor:
        """Symbols (S,), or (N, S) for each row its own -> (N, S), the sum of their weights in the row's pieces."""
        wanted = self.starts.unsqueeze(-1) + (symbols if symbols.ndim == 1 else symbols.unsqueeze(1))
        if not (torch.is_grad_enabled() and self.table.requires_grad):
            return self.table[wanted].sum(1)
        return _Take.apply(self.table, wanted).sum(1)  # type: ignore[no-any-return,no-untyped-call]

    def at(self, rows: Tensor) -> Windows:
        """Those of these rows."""
        return Windows(self.table, self.starts[rows])


class _Take(torch.autograd.Function):
    """Indexing whose gradient is added up in one pass, which torch's own does a hundred times slower on a CPU."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, wanted: Tensor) -> Tensor:
        ctx.save_for_backward(wanted)
        ctx.buckets = len(table)
        return table[wanted]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (wanted,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.buckets).index_add_(0, wanted.flatten(), gradient.flatten()), None


def add_(scores: Tensor, table: Tensor, starts: Tensor) -> None:
    """Add to each row n of ``scores`` (N, v) the pieces of v weights that begin at ``starts`` (N, K), in place."""
    if _compiled(scores):
        _kernels().add(scores.numpy(), table.detach().numpy(), starts.numpy())
        return
    pieces = table.unfold(0, scores.shape[1], 1)
    for column in starts.T:
        scores += pieces.index_select(0, column)


def add_back_(gradient: Tensor, rows: Tensor, starts: Tensor) -> None:
    """Add each row n of ``rows`` (N, v) to the pieces of ``gradient`` (buckets,) that begin at ``starts`` (N, K)."""
    if _compiled(rows):
        _kernels().add_back(gradient.numpy(), rows.numpy(), starts.numpy())
        return
    along = torch.arange(rows.shape[1], device=rows.device)
    for column in starts.T:
        gradient.index_add_(0, (column[:, None] + along).flatten(), rows.flatten())


def _compiled(values: Tensor) -> bool:
    return values.device.type == "cpu"


def _kernels() -> ModuleType:
    """The compiled loops; numba takes a third of a second to import, so only those who have n-grams pay for it."""
    try:
        return importlib.import_module("riverrun.nn.layers.windows_kernels")
    except ModuleNotFoundError as error:
        raise missing("numba", "train", "Hashed n-grams on the CPU") from error
