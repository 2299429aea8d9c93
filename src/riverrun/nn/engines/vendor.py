"""The engine for the cells that torch has itself: oneDNN on a CPU, cuDNN on a GPU, on padded batches, never packed.

One more input tells the cell where padding is: it is 1 there, and its weights shut the input gate and open the forget
gate so far that they are exactly 0 and 1, which freezes the memory of a row at its end, and its gradient with it.

On a CPU the promises cost 0.5 ms a forward pass and 1 ms with gradients over torch's module on plain padding (measured
by ``benchmarks/recurrent.py``: a seventh and a tenth of an LSTM at B=32, T=25, H=256, more of smaller ones).

On a GPU, cuDNN rounds what it multiplies in float32 to TF32, about three digits, unless
``torch.backends.cudnn.rnn.fp32_precision = "ieee"``; that is torch's default for its own modules, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import _VF, Tensor

from riverrun.nn.cells.elman import Elman
from riverrun.nn.cells.graph import Graph
from riverrun.nn.cells.gru import GRUResetAfter
from riverrun.nn.cells.lstm import LSTM
from riverrun.nn.engines.padding import marked, zero_, zeroed
from riverrun.nn.engines.request import Request, Result, last_of

_SHUT = 1e4
"""A gate's input at padding: no sum of weights gets near it, and half precision still has it."""


@dataclass(frozen=True)
class _Vendor:
    """One of torch's recurrences.

    Args:
        name: of the class in torch.nn.
        function: of ``torch._VF``.
        at_padding: gate -> what it is driven to in the padding.
        second: gate -> parameter that is its second bias.
        exact: whether its first state at the end is the one that was frozen.
    """

    name: str
    function: str
    at_padding: Mapping[str, float] = field(default_factory=dict)
    second: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False


_KNOWN = (
    (LSTM(), _Vendor("LSTM", "lstm", {"i": -_SHUT, "f": _SHUT})),
    (GRUResetAfter(), _Vendor("GRU", "gru", {"z": _SHUT}, {"n": "b"}, exact=True)),
    (Elman(), _Vendor("RNN", "rnn_tanh")),
    # What runs on in the padding must not grow: 0 times infinity is no gradient.
    (Elman(nonlinearity="relu"), _Vendor("RNN", "rnn_relu", {"h": -_SHUT})),
)


@lru_cache(maxsize=512)
def _vendor(graph: Graph) -> _Vendor | None:
    signature = graph.signature()
    return next((vendor for cell, vendor in _KNOWN if cell.graph and cell.graph.signature() == signature), None)


def refusal(graph: Graph | None, device: torch.device, dtype: torch.dtype) -> str | None:
    """Why the engine cannot run this, or None."""
    if graph is None or _vendor(graph) is None:
        return "torch has no such cell; it has lstm, gru-reset-after and elman with tanh or relu, without noise"
    return None


def reason(graph: Graph) -> str:
    """What runs."""
    vendor = _vendor(graph)
    return f"the cell is exactly torch.nn.{vendor.name}" if vendor else ""


def note(device: torch.device, dtype: torch.dtype) -> str:
    """What a user must know of the numbers there, or nothing."""
    precision = torch.backends.cudnn.rnn.fp32_precision  # type: ignore[attr-defined]
    if device.type != "cuda" or dtype != torch.float32 or precision != "tf32":
        return ""
    return (
        "cuDNN multiplies in TF32, about three digits, as torch does by default; for all digits of float32 set "
        'torch.backends.cudnn.rnn.fp32_precision = "ieee"'
    )


def slower(request: Request) -> bool:
    """Whether the eager engine is faster: oneDNN orders the weights of an LSTM anew at each call, about 1 ns for each,
    which a few steps of few rows do not repay (measured: H=256 repays it from 10 steps of 1 row, or 2 of 32).
    """
    vendor = _vendor(request.graph) if request.graph else None
    if vendor is None or vendor.function != "lstm" or request.x.device.type != "cpu":
        return False
    rows, steps, size = request.x.shape
    hidden = request.state[0].shape[-1]
    return 4 * hidden * (hidden + size) > 6000 * steps * (rows + 8)


def run(request: Request) -> Result:
    """All steps of one request."""
    vendor = _vendor(request.graph) if request.graph else None
    if vendor is None:
        raise TypeError(f"{request.cell!r} is none of torch's cells")
    weights, live = request.weights, request.live
    W, b, gates = weights.W, weights.b, tuple(weights.rows)
    if W is None or b is None:
        raise TypeError(f"{request.cell!r} reads no input")
    hidden = request.state[0].shape[-1]
    x = request.x
    if live is not None:
        live = live.transpose(0, 1)
        if vendor.at_padding:
            drive = tuple(vendor.at_padding.get(gate, 0.0) for gate in gates)
            W, x = torch.cat([W, _column(drive, hidden, W.dtype, W.device)], 1), marked(x, live)
        else:
            x = zeroed(x, live)
    second = _column((0.0,) * len(gates), hidden, b.dtype, b.device).squeeze(1)
    if vendor.second:
        zero = second[:hidden]
        second = torch.cat([weights.p[vendor.second[gate]] if gate in vendor.second else zero for gate in gates])
    state = tuple(value.unsqueeze(0).contiguous() for value in request.state)
    y, *final = getattr(_VF, vendor.function)(
        x,
        state if len(state) > 1 else state[0],
        _arranged([W, weights.stack(gates), b, second], x.device),
        True,  # there are biases
        1,  # layer
        0.0,  # dropout
        torch.is_grad_enabled(),
        False,  # bidirectional
        True,  # batch first
    )
    last = [value.squeeze(0) for value in final]
    if live is None:
        return y, tuple(last)
    if not vendor.exact:
        last[0] = last_of(y.transpose(0, 1), request, request.state[0])
    return zeroed(y, live) if y.requires_grad else zero_(y, live), tuple(last)


def _arranged(parts: Sequence[Tensor], device: torch.device) -> Sequence[Tensor]:
    """As the library wants its weights: cuDNN copies, with a warning, what does not lie as in one buffer of its own."""
    return _packed(parts) if device.type == "cuda" else parts


def _packed(parts: Sequence[Tensor]) -> Sequence[Tensor]:
    """The same tensors one behind the other in one piece of memory."""
    flat = torch.cat([part.reshape(-1) for part in parts])
    pieces = torch.split(flat, [part.numel() for part in parts])
    return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]


@lru_cache(maxsize=64)
def _column(values: tuple[float, ...], hidden: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(gates * H, 1), one value a gate; the same tensor each time, nobody writes to it."""
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device).repeat_interleave(hidden).unsqueeze(1)
