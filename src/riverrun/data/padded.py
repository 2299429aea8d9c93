"""The only carrier of padding: right-padded rows and their lengths, as numpy or torch arrays.

Users never see a packed sequence, a mask polarity or a padding id. Lengths may be 0 to T in any order. What stands in
the padding has no meaning, and nothing that riverrun computes depends on it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array

from riverrun.errors import ShapeError

Array = Any  # numpy.ndarray or torch.Tensor: the code below is the same for both


@dataclass(frozen=True, eq=False)
class Padded:
    """Rows of different lengths in one array, padded on the right.

    Args:
        data: (B, T, ...), what stands at or behind a row's length is padding.
        lengths: (B,) of integers from 0 to T.

    >>> p = Padded.of([[7, 8, 9], [], [5]])
    >>> p.data.tolist(), p.lengths.tolist()
    ([[7, 8, 9], [0, 0, 0], [5, 0, 0]], [3, 0, 1])
    >>> p.reverse().data.tolist()
    [[9, 8, 7], [0, 0, 0], [5, 0, 0]]
    """

    data: Array
    lengths: Array

    def __post_init__(self) -> None:
        data, lengths = self.data, self.lengths
        if data.ndim < 2 or lengths.ndim != 1 or data.shape[0] != lengths.shape[0]:
            raise ShapeError(
                f"Padded: expected data (B, T, ...) and lengths (B,), received {tuple(data.shape)} and "
                f"{tuple(lengths.shape)}"
            )
        check_type("Padded", lengths)
        if _readable(lengths):
            check_range("Padded", lengths, data.shape[1])

    @staticmethod
    def of(rows: Sequence[Any], dtype: Any = np.int64) -> Padded:
        """Pad rows (lists of numbers, or arrays (t, ...)) with zeros into one numpy array."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        width = int(lengths.max()) if len(rows) else 0
        filled = next((row for row in rows if len(row)), None)
        inner = np.shape(filled)[1:] if filled is not None else ()
        data = np.zeros((len(rows), width, *inner), dtype)
        for k, row in enumerate(rows):
            if len(row):
                data[k, : len(row)] = row
        return Padded(data, lengths)

    def __len__(self) -> int:
        return int(self.data.shape[0])

    def __repr__(self) -> str:
        return f"Padded(data {tuple(self.data.shape)} {self.data.dtype}, lengths {self.lengths.tolist()})"

    def mask(self) -> Array:
        """(B, T), true where a row has a value."""
        xp = array_namespace(self.data, self.lengths)
        times = xp.arange(self.data.shape[1], device=device(self.lengths))
        return times[None, :] < self.lengths[:, None]

    def zeroed(self) -> Padded:
        """The same with zeros in the padding, by selection: a NaN there leaves no trace, nor in a gradient."""
        xp = array_namespace(self.data)
        mask = self.mask()[(...,) + (None,) * (self.data.ndim - 2)]
        return self.with_data(xp.where(mask, self.data, xp.zeros_like(self.data)))

    def reverse(self) -> Padded:
        """Each row backwards, by its length, so that the padding stays on the right; undone by itself."""
        xp = array_namespace(self.data, self.lengths)
        times = xp.arange(self.data.shape[1], device=device(self.lengths))[None, :]
        index = xp.where(times < self.lengths[:, None], self.lengths[:, None] - 1 - times, times)
        rows = xp.arange(self.data.shape[0], device=device(self.lengths))[:, None]
        return self.with_data(self.data[rows, index])

    def select(self, rows: Array) -> Padded:
        """The rows with these indices, in this order."""
        return Padded(self.data[rows], self.lengths[rows])

    def last(self) -> Array:
        """(B, ...), the last value of each row, zeros for an empty one."""
        xp = array_namespace(self.data, self.lengths)
        rows = xp.arange(self.data.shape[0], device=device(self.lengths))
        if self.data.shape[1] == 0:
            return self.data.sum(1)  # of nothing: zeros of the right shape
        index = xp.where(self.lengths > 0, self.lengths - 1, xp.zeros_like(self.lengths))
        some = (self.lengths > 0)[(...,) + (None,) * (self.data.ndim - 2)]
        value = self.data[rows, index]
        return xp.where(some, value, xp.zeros_like(value))

    def with_data(self, data: Array) -> Padded:
        """Other values for the same rows."""
        if _readable(self.lengths) and data.shape[:2] == self.data.shape[:2]:
            return _unchecked(data, self.lengths)
        return Padded(data, self.lengths)

    def map(self, move: Callable[[Array], Array]) -> Padded:
        """Both arrays through a function that moves or converts them."""
        data, lengths = move(self.data), move(self.lengths)
        if not is_numpy_array(lengths) or lengths.shape != data.shape[:1] or data.ndim < 2:
            return Padded(data, lengths)
        check_range("Padded", lengths, data.shape[1])  # but not their type: ``map(np.float32)`` is for files
        return _unchecked(data, lengths)

    def rows(self) -> list[Array]:
        """The rows without their padding."""
        return [self.data[k, : int(n)] for k, n in enumerate(self.lengths.tolist())]


def check_type(what: str, lengths: Array) -> None:
    """A ShapeError unless the lengths are of a type of whole numbers; ``what`` begins the message."""
    kind, name = getattr(lengths.dtype, "kind", ""), str(lengths.dtype).removeprefix("torch.")  # numpy's have a kind
    if not (kind in ("i", "u") if kind else "int" in name):
        raise ShapeError(
            f"{what}: lengths must be whole numbers, expected a type as int64, received {name}; to convert the data "
            "alone there is x.with_data(...)"
        )


def check_range(what: str, lengths: Array, width: int) -> None:
    """A ShapeError unless the lengths are from 0 to ``width``; reads them."""
    if not len(lengths):
        return
    low, high = int(lengths.min()), int(lengths.max())
    if not 0 <= low <= high <= width:
        raise ShapeError(
            f"{what}: lengths must be from 0 to {width} (the second dimension of the data), received {low} to {high}"
        )


def _readable(lengths: Array) -> bool:
    """Whether numbers can be looked at: on another device that waits for it, and while torch traces there are none."""
    if is_numpy_array(lengths):
        return True
    torch = sys.modules.get("torch")  # who has a tensor has it; this room does not import it
    return torch is not None and type(lengths) is torch.Tensor and lengths.is_cpu and not torch.compiler.is_compiling()


def _unchecked(data: Array, lengths: Array) -> Padded:
    """A ``Padded`` of lengths that were looked at before: layers make many of them in a forward pass."""
    padded = object.__new__(Padded)
    object.__setattr__(padded, "data", data)
    object.__setattr__(padded, "lengths", lengths)
    return padded
