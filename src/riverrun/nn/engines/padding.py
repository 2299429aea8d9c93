"""Padding set to zero by selection, so that a NaN there leaves no trace, nor in a gradient; and rows turned around.

The selection is made bit by bit: ``torch.where`` with a mask that it must spread takes eight times as long on a CPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Size of a number in bytes -> whole numbers of that size."""


def zeroed(sequence: Tensor, live: Tensor) -> Tensor:
    """The sequence where ``live`` (booleans that broadcast to it) is true, 0 elsewhere.

    >>> zeroed(torch.tensor([1.0, float("nan")]), torch.tensor([True, False]))
    tensor([1., 0.])
    """
    return _apply(_Zeroed, sequence, live)


def marked(sequence: Tensor, live: Tensor) -> Tensor:
    """(B, T, D) and (B, T, 1) -> (B, T, D + 1): zeroed, and behind it a column that is 1 where ``live`` is false."""
    return _apply(_Marked, sequence, live)


def zero_(sequence: Tensor, live: Tensor) -> Tensor:
    """``zeroed`` in place, for a tensor that nobody else has and that needs no gradient."""
    whole = _WHOLE[sequence.element_size()]
    sequence.view(whole).bitwise_and_(_bits(live, whole))
    return sequence


def backwards(sequence: Tensor, lengths: Tensor | None) -> Tensor:
    """(B, T, H), each row from its end, by its length; undone by itself.

    >>> backwards(torch.tensor([[[1], [2], [0]]]), torch.tensor([2])).flatten()
    tensor([2, 1, 0])
    """
    if lengths is None:
        return sequence.flip(1)
    rows, steps = sequence.shape[:2]
    times = torch.arange(steps, device=sequence.device)
    mirrored = lengths.unsqueeze(1) - 1 - times
    index = torch.where(mirrored < 0, times, mirrored)
    index += steps * torch.arange(rows, device=sequence.device).unsqueeze(1)
    return _apply(_Backwards, sequence, index.flatten())


def _apply(function: type[_Function], sequence: Tensor, how: Tensor) -> Tensor:
    if not (sequence.requires_grad and torch.is_grad_enabled()):
        return function.compute(sequence, how)  # as in most backward passes: to enter a Function costs more than this
    result: Tensor = function.apply(sequence, how)  # type: ignore[no-untyped-call]
    return result


def _bits(live: Tensor, whole: torch.dtype) -> Tensor:
    return live.to(whole).neg_()  # all bits where live


class _Function(torch.autograd.Function):
    """A function of a sequence and of something without gradient, which alone the derivative needs."""

    @staticmethod
    def compute(sequence: Tensor, how: Tensor) -> Tensor:
        raise NotImplementedError

    @classmethod
    def forward(cls, ctx: Any, sequence: Tensor, how: Tensor) -> Tensor:
        ctx.save_for_backward(how)
        return cls.compute(sequence, how)


class _Zeroed(_Function):
    @staticmethod
    def compute(sequence: Tensor, live: Tensor) -> Tensor:
        whole = _WHOLE[sequence.element_size()]
        return sequence.view(whole).bitwise_and(_bits(live, whole)).view(sequence.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return zeroed(gradient, *ctx.saved_tensors), None


class _Marked(_Function):
    @staticmethod
    def compute(sequence: Tensor, live: Tensor) -> Tensor:
        whole = _WHOLE[sequence.element_size()]
        wide = sequence.new_empty((*sequence.shape[:-1], sequence.shape[-1] + 1))
        wide[..., :-1] = sequence
        wide.view(whole).bitwise_and_(_bits(live, whole))
        torch.logical_not(live, out=wide[..., -1:])
        return wide

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return zeroed(gradient[..., :-1], *ctx.saved_tensors), None


class _Backwards(_Function):
    """A permutation that is its own inverse, so that the gradient is gathered, too, and not added up."""

    @staticmethod
    def compute(sequence: Tensor, index: Tensor) -> Tensor:
        return sequence.flatten(0, 1).index_select(0, index).view(sequence.shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _apply(_Backwards, gradient, *ctx.saved_tensors), None
