"""Padding set to zero before a head reads it, in a graph to be exported too."""

from __future__ import annotations

import torch
from torch import Tensor

from riverrun.data.padded import Padded
from riverrun.nn.engines.padding import zeroed


def clean(x: Padded) -> Tensor:
    """(B, T, D), 0 in the padding, by selection: a NaN there leaves no trace, nor in a gradient.

    >>> clean(Padded(torch.tensor([[[1.0], [float("nan")]]]), torch.tensor([1]))).flatten()
    tensor([1., 0.])
    """
    if torch.compiler.is_exporting():
        selected: Tensor = x.zeroed().data
        return selected
    return zeroed(x.data, x.mask().unsqueeze(-1))
