"""The likelihood of symbols of a large vocabulary: exact, by blocks of columns, each of which stays in the cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from riverrun.errors import ShapeError
from riverrun.nn.layers.product import product
from riverrun.nn.layers.windows import Windows, add_, add_back_

_BLOCK = 3 << 19
"""Scores of a block on a CPU: 6 MB of float32 (measured: a half or double is a few percent slower, all at once 20)."""


def nll(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    chunk: int | None = None,
    windows: Windows | None = None,
    offset: int = 0,
    scored: int | None = None,
) -> Tensor:
    r"""The negative log likelihood of each target, with gradients that are exact.

    .. math:: -\log \mathrm{softmax}(W h_n + b + \textstyle\sum_k \mathrm{table}_{\mathrm{starts}_{nk}\ldots})_{y_n}

    The scores are computed for one block of symbols after the other. Without gradients only the sums of a block stay;
    for the gradient its exponentials stay too, (N, V) numbers in all, or with ``chunk`` they are computed again: a
    fourth large product beside the three that any softmax has.

    Args:
        hidden: (N, H).
        weight: (V, H), W.
        bias: (V,), b, or None.
        targets: (N,), y.
        chunk: hold at most ``chunk * V`` scores at a time.
        windows: weights that are added to the scores.
        offset: where in the windows the first symbol has its weight.
        scored: how many of the V symbols, the first ones, have weights in the windows; all where it is not given.

    Returns:
        (N,), in float32 at least.

    >>> nll(torch.tensor([[0.0]]), torch.ones(4, 1), None, torch.tensor([2])).exp()
    tensor([4.])
    """
    size, targets = weight.shape[0], targets.long()
    if targets.device.type == "cpu" and len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < size:
        raise ShapeError(
            f"nll: targets must be from 0 to {size - 1}, received {int(targets.min())} to {int(targets.max())}"
        )
    device = hidden.device.type
    work = torch.promote_types(hidden.dtype, weight.dtype)
    if torch.is_autocast_enabled(device):
        work = torch.get_autocast_dtype(device)
    table, starts = (None, None) if windows is None else (windows.table, windows.starts + offset)
    given = hidden, weight, bias, table
    learns = torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in given)
    keep = learns and chunk is None
    scores = _Scores(work, _block(len(hidden), size, chunk, device, keep=keep), size if scored is None else scored)
    return _Likelihood.apply(hidden, weight, bias, targets, table, starts, scores, keep)  # type: ignore[no-any-return,no-untyped-call]


def log_probs(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    windows: Windows | None = None,
    *,
    offset: int = 0,
    scored: int | None = None,
) -> Tensor:
    """(N, V), the logarithm of the probability of every symbol; for few rows, since all of it is held.

    The arguments are those of ``nll``.
    """
    if torch.is_grad_enabled():
        scores = torch.nn.functional.linear(hidden, weight, bias)
    else:
        scores = product(hidden, weight, bias)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if windows is not None:
        width = len(weight) if scored is None else scored
        added = windows.take(torch.arange(offset, offset + width, device=scores.device))
        scores = scores + torch.nn.functional.pad(added, (0, len(weight) - width))
    return torch.log_softmax(scores, 1)


def _block(rows: int, size: int, chunk: int | None, device: str, *, keep: bool) -> int:
    """How many symbols are scored at a time."""
    if keep and device != "cpu":
        return size  # all are held anyway, and few large products are best
    block = max(256, (_BLOCK if device == "cpu" else 64 * _BLOCK) // max(1, rows))
    return min(size, block if chunk is None else max(1, min(block, chunk * size // max(1, rows))))


class _Scores:
    """How the scores of a block are computed.

    Args:
        work: the type of the numbers in the large products.
        block: how many symbols are scored at a time.
        scored: how many symbols have weights in the windows.
    """

    def __init__(self, work: torch.dtype, block: int, scored: int) -> None:
        self.work, self.block, self.scored = work, block, scored

    def of(
        self, begin: int, hidden: Tensor, weight: Tensor, bias: Tensor | None, table: Tensor | None, starts: Any
    ) -> Tensor:
        """(N, v), in float32 at least, for the symbols from ``begin`` on."""
        part = slice(begin, begin + self.block)
        some = None if bias is None else bias[part].to(self.work)
        scores = product(hidden, weight[part].to(self.work), some)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        width = self._windowed(begin, scores)
        if table is not None and width:
            add_(scores[:, :width], table, starts + begin)
        return scores

    def back(self, begin: int, gradient: Tensor, rows: Tensor, starts: Tensor) -> None:
        """Add the gradient (N, v) of such scores to that of the table."""
        width = self._windowed(begin, rows)
        if width:
            add_back_(gradient, rows[:, :width], starts + begin)

    def _windowed(self, begin: int, scores: Tensor) -> int:
        return max(0, min(scores.shape[1], self.scored - begin))


class _Likelihood(torch.autograd.Function):
    """Blocks of exponentials, each under its own peak, and their sums; what they are divided by is known at the end."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        table: Tensor | None,
        starts: Tensor | None,
        scores: _Scores,
        keep: bool,
    ) -> Tensor:
        given = hidden.to(scores.work)
        right = torch.zeros(len(hidden), dtype=torch.promote_types(weight.dtype, torch.float32), device=hidden.device)
        peaks, sums, kept = [], [], []
        for begin in range(0, len(weight), scores.block):
            found = scores.of(begin, given, weight, bias, table, starts)
            place, inside = _within(targets, begin, found)
            right = torch.where(inside, found.gather(1, place)[:, 0], right)
            peak = found.amax(1)
            found.sub_(peak[:, None]).exp_()
            peaks.append(peak)
            sums.append(found.sum(1))
            if keep:
                kept.append(found.to(scores.work))
        total = torch.logsumexp(torch.stack(peaks) + torch.stack(sums).log_(), 0)
        ctx.save_for_backward(hidden, weight, bias, targets, table, starts, total)
        ctx.rest = scores, kept, peaks
        return total - right

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets, table, starts, total = ctx.saved_tensors
        scores, kept, peaks = ctx.rest
        given = hidden.to(scores.work)
        # The gradient of the bias is one more column of that of the weights.
        wide = given if bias is None else torch.cat([given, given.new_ones(len(given), 1)], 1)
        d_hidden = torch.zeros_like(hidden, dtype=total.dtype)
        d_weight = torch.empty_like(weight)
        d_bias = None if bias is None else torch.empty_like(bias)
        d_table = None if table is None else torch.zeros_like(table)
        for k, begin in enumerate(range(0, len(weight), scores.block)):
            part = slice(begin, begin + scores.block)
            if kept:
                # Each block goes from its own peak to the common total by a factor a row.
                found = kept[k].to(total.dtype) * (gradient * (peaks[k] - total).exp())[:, None]
            else:
                found = scores.of(begin, given, weight, bias, table, starts)
                found.sub_(total[:, None]).exp_().mul_(gradient[:, None])
            place, inside = _within(targets, begin, found)
            found.scatter_add_(1, place, torch.where(inside, -gradient, 0)[:, None])
            if d_table is not None:
                scores.back(begin, d_table, found, starts)
            found = found.to(scores.work)
            by_symbol = product(found.T, wide.T)
            d_weight[part] = by_symbol[:, : hidden.shape[1]]
            if d_bias is not None:
                d_bias[part] = by_symbol[:, -1]
            d_hidden += product(found, weight[part].to(scores.work).T)
        return d_hidden.to(hidden.dtype), d_weight, d_bias, None, d_table, None, None, None


def _within(targets: Tensor, begin: int, block: Tensor) -> tuple[Tensor, Tensor]:
    """Where in a block each row's target is, (N, 1), and whether it is there at all, (N,)."""
    inside = (targets >= begin) & (targets < begin + block.shape[1])
    return torch.where(inside, targets - begin, 0)[:, None], inside
