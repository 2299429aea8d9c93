"""Rows in which a text ends and another begins, taken apart so that each piece is a row of its own, and put back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from riverrun.data.padded import Padded


@dataclass(frozen=True, eq=False)
class Documents:
    """Where the S pieces of B rows lie; a row has one at least, which may be empty.

    Args:
        rows: (S,), which row a piece is of; pieces are in the order of rows and, within a row, of time.
        begins: (S,), the place in the row where it begins.
        lengths: (S,).
        anew: (S,), whether it begins a text, and does not go on with the one before.
        last: (B,), the last piece of each row.
        places: (B, T), which piece each place belongs to.

    >>> resets = torch.tensor([[False, False, True], [True, False, False]])
    >>> found = Documents.of(Padded(resets, torch.tensor([3, 2])))
    >>> found.lengths.tolist(), found.anew.tolist(), found.last.tolist()
    ([2, 1, 2], [False, True, True], [1, 2])
    """

    rows: Tensor
    begins: Tensor
    lengths: Tensor
    anew: Tensor
    last: Tensor
    places: Tensor

    @staticmethod
    def of(resets: Padded) -> Documents:
        """From (B, T) of booleans: true where a text begins."""
        real = resets.data & resets.mask()
        marks = real.clone()
        marks[:, 0] = True
        rows, begins = marks.nonzero(as_tuple=True)
        count = marks.sum(1)
        last = count.cumsum(0) - 1
        ends = torch.cat([begins[1:], begins[:1]])
        ends[last] = resets.lengths.to(ends.dtype)
        places = marks.flatten().cumsum(0).view(marks.shape) - 1
        return Documents(rows, begins, ends - begins, real[rows, begins], last, places)

    def take_apart(self, ids: Padded) -> Padded:
        """(B, T) -> (S, longest piece)."""
        longest = int(self.lengths.max())
        times = self.begins[:, None] + torch.arange(longest, device=self.begins.device)
        return Padded(ids.data[self.rows[:, None], times.clamp(max=ids.data.shape[1] - 1)], self.lengths)

    def put_back(self, pieces: Padded, ids: Padded) -> Padded:
        """(S, longest piece, ...) -> (B, T, ...), 0 in the padding of the rows ``ids``."""
        longest = max(1, pieces.data.shape[1])
        times = torch.arange(self.places.shape[1], device=self.places.device) - self.begins[self.places]
        index = torch.where(ids.mask(), self.places * longest + times, 0)
        found = pieces.data.flatten(0, 1).index_select(0, index.flatten())
        return ids.with_data(found.view(*ids.data.shape, *pieces.data.shape[2:])).zeroed()
