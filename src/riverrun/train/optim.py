"""Optimisers by name, and the scale of the gradient: what the summed loss is divided by, and where the norm is cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from riverrun.config.train import Train

Groups = list[dict[str, Any]]

# The fused kernels do one pass over the memory: on a CPU and an embedding of 8 million numbers, Adam takes a third of
# the time of the other implementations, AdamW too, SGD two thirds. `asgd` is SGD whose weights `average` averages.
OPTIMIZERS: Mapping[str, Callable[[Groups, Train], torch.optim.Optimizer]] = {
    "sgd": lambda groups, settings: torch.optim.SGD(groups, settings.rate, momentum=settings.momentum, fused=True),
    "asgd": lambda groups, settings: torch.optim.SGD(groups, settings.rate, fused=True),
    "adam": lambda groups, settings: torch.optim.Adam(groups, settings.rate, betas=settings.betas, fused=True),
    "adamw": lambda groups, settings: torch.optim.AdamW(groups, settings.rate, betas=settings.betas, fused=True),
}


def optimizer(parameters: Iterable[nn.Parameter], settings: Train) -> torch.optim.Optimizer:
    """The optimiser of the settings. Weight decay is for matrices: biases and gains are left where they are.

    >>> net = nn.Linear(2, 1)
    >>> [group["weight_decay"] for group in optimizer(net.parameters(), Train(weight_decay=0.1)).param_groups]
    [0.1, 0.0]
    """
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for parameter in parameters:
        (matrices if parameter.ndim > 1 else others).append(parameter)
    groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return OPTIMIZERS[settings.optimizer](groups, settings)


def step(optimizer: torch.optim.Optimizer, *, rate: float) -> None:
    """Change the weights by their gradients.

    A gradient of some rows alone (``is_sparse``, coalesced) changes what the whole one, with zeros elsewhere, would
    change. Plain SGD then touches those rows only; every other rule changes all, and is given the whole gradient.

    >>> weight = nn.Parameter(torch.zeros(3, 1))
    >>> weight.grad = torch.sparse_coo_tensor([[1]], [[2.0]], (3, 1), check_invariants=True).coalesce()
    >>> step(optimizer([weight], Train(optimizer="sgd")), rate=0.5)
    >>> weight.flatten().tolist()
    [0.0, -1.0, 0.0]
    """
    set_rate(optimizer, rate)
    for group in optimizer.param_groups:
        plain = isinstance(optimizer, torch.optim.SGD) and not group["momentum"] and not group["weight_decay"]
        for weight in group["params"]:
            gradient = weight.grad
            if gradient is None or not gradient.is_sparse:
                continue
            if plain:
                weight.detach().index_add_(0, gradient.indices()[0], gradient.values(), alpha=-rate)
            weight.grad = None if plain else gradient.to_dense()
    optimizer.step()


def numbers(gradient: Tensor) -> Tensor:
    """The numbers of a gradient, to be read or changed in place: of a sparse one, which is coalesced, of its rows."""
    return gradient.values() if gradient.is_sparse else gradient


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every parameter this learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def scale_gradients(gradients: Sequence[Tensor], *, divisor: float = 1.0, limit: float | None = None) -> float:
    """Divide gradients, then shorten them to the limit if their common norm is above it, in one pass over the memory.

    .. math:: g \\leftarrow \\frac{g}{d} \\min(1, \\frac{limit}{\\lVert g / d \\rVert})

    Args:
        gradients: of all parameters, changed in place; left as they are when one of them is not finite.
        divisor: d.
        limit: the largest norm; None does not shorten.

    Returns:
        The norm after the division and before it was cut.

    >>> gradient = torch.tensor([30.0, 40.0])
    >>> scale_gradients([gradient], divisor=10, limit=2.5), gradient.tolist()
    (5.0, [1.5, 2.0])
    """
    norm = float(torch.nn.utils.get_total_norm(gradients)) / divisor
    scale = 1 / divisor
    if limit is not None and norm > limit:
        scale *= limit / norm
    if scale != 1 and math.isfinite(norm) and gradients:
        torch._foreach_mul_(list(gradients), scale)
    return norm
