"""How a layer's input joins its result, and what of both is handed on."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from riverrun.data.padded import Padded

Wiring = Literal["plain", "residual", "highway", "dense"]
WIRINGS = ("plain", "residual", "highway", "dense")


def joint(wiring: Wiring, read: int, written: int) -> nn.Module:
    """The joint of a layer that reads and writes so many numbers; only what is equally wide can be joined."""
    if read != written or wiring in ("plain", "dense"):
        return Take()
    return Add() if wiring == "residual" else Highway(written)


class Take(nn.Module):
    """Hands on the result; ``dense`` wiring puts it beside the input, which is up to the stack."""

    def forward(self, x: Padded, found: Padded) -> Padded:
        """The result."""
        return found


class Add(nn.Module):
    """Hands on the sum of input and result: a residual connection."""

    def forward(self, x: Padded, found: Padded) -> Padded:
        """The sum (B, T, D), 0 in the padding where the result is."""
        return found.with_data(found.data + x.zeroed().data)


class Highway(nn.Module):
    r"""Hands on a learned mixture of input and result (Srivastava et al. 2015).

    .. math:: y = t \odot f(x) + (1 - t) \odot x \qquad t = \sigma(W x + b)

    At the start b is -1: the gate leans towards the input, so that a deep stack is trained from its lower layers up.

    Args:
        size: D of both.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gate = nn.Linear(size, size)
        self.lean()

    def lean(self) -> None:
        """Set the bias to its start."""
        nn.init.constant_(self.gate.bias, -1.0)

    def forward(self, x: Padded, found: Padded) -> Padded:
        """The mixture (B, T, D), 0 in the padding where the result is."""
        value = x.zeroed().data
        share: Tensor = torch.sigmoid(self.gate(value))
        return found.with_data(value + share * (found.data - value))
