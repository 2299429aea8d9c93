"""Large products without derivatives, by the faster of the two libraries that torch has on a CPU.

torch multiplies float32 matrices by MKL, which on processors of AMD leaves half of the machine unused: 700 x 650 times
650 x 33,278 took 2.1 times as long as by oneDNN (EPYC of the fifth generation, torch 2.13), which torch has for its
LSTM. Both compute in float32 throughout.
"""

from __future__ import annotations

import torch
from torch import Tensor

_SMALL = 1 << 22
"""Multiplications below which the call costs more than the product; oneDNN prepares itself for each shape anew."""


@torch.no_grad()
def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(N, H), (V, H) and (V,) -> (N, V), as ``torch.nn.functional.linear``, for callers that know the derivatives.

    >>> product(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    tensor([[11., 17.]])
    """
    if x.shape[0] * weight.numel() >= _SMALL and _by_onednn(x):
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return found
    with torch.autocast(x.device.type, enabled=False):
        return torch.nn.functional.linear(x, weight, bias)


def _by_onednn(x: Tensor) -> bool:
    on = torch.backends.mkldnn
    if x.device.type != "cpu" or x.dtype != torch.float32 or torch.compiler.is_compiling():  # or exporting
        return False
    return bool(on.is_available() and on.enabled)  # type: ignore[no-untyped-call]
