"""Linear-chain conditional random field: the layer that makes a chain of scores, and the likelihood it learns by."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from riverrun.data.padded import Padded, check_range, check_type
from riverrun.decode import marginals as reference
from riverrun.decode.path import path_scores
from riverrun.decode.scorer import Chain
from riverrun.errors import ConfigError, ShapeError, missing, nearest
from riverrun.nn.layers.clean import clean

Potentials = Literal["additive", "pairwise"]
Engine = Literal["auto", "numba", "torch"]


class CRF(nn.Module):
    r"""From hidden vectors to the scores of a chain of tags.

    .. math::
        \text{additive:} \quad s(y) = \textstyle\sum_t w_{y_t}^\top h_t + b_{y_t} + A_{y_{t-1}, y_t} \\
        \text{pairwise:} \quad s(y) = \textstyle\sum_t w_{y_{t-1}, y_t}^\top h_t + b_{y_{t-1}, y_t}

    Additive is one weight vector a tag and a table of transitions. Pairwise is one weight vector for each pair of
    neighbouring tags, and so contains the additive one; there, what precedes the first position is one more tag.
    Both learn a score for stopping after each tag. The tables begin at 0: as independent decisions.

    Args:
        features: size of the hidden vectors.
        tags: number of tags C.
        potentials: ``additive`` gives transitions (C, C), ``pairwise`` (B, T, C, C).

    >>> crf = CRF(5, 3)
    >>> chain = crf(Padded(torch.randn(2, 4, 5), torch.tensor([4, 0])))
    >>> tags = Padded(torch.tensor([[0, 2, 1, 1], [0, 0, 0, 0]]), torch.tensor([4, 0]))
    >>> log_likelihood(chain, tags).shape, log_likelihood(chain, tags)[1].item()
    (torch.Size([2]), 0.0)
    """

    def __init__(self, features: int, tags: int, *, potentials: Potentials = "additive") -> None:
        super().__init__()
        if potentials not in ("additive", "pairwise"):
            raise ConfigError(
                f"CRF: potentials must be 'additive' or 'pairwise', received {potentials!r}"
                + nearest(potentials, ("additive", "pairwise"))
            )
        self.features, self.tags, self.potentials = features, tags, potentials
        self.emission = nn.Linear(features, tags)  # pairwise: of the first position alone
        self.stop = nn.Parameter(torch.zeros(tags))
        if potentials == "additive":
            self.transitions = nn.Parameter(torch.zeros(tags, tags))
            self.start = nn.Parameter(torch.zeros(tags))
        else:
            self.pair = nn.Linear(features, tags * tags)

    def extra_repr(self) -> str:
        """What is not said by the submodules."""
        return f"potentials={self.potentials}"

    def forward(self, x: Padded) -> Chain:
        """The chain of the hidden vectors (B, T, features), in float32 at least also under autocast."""
        if x.data.ndim != 3 or x.data.shape[2] != self.features:
            raise ShapeError(
                f"CRF(features={self.features}): expected hidden vectors (B, T, {self.features}), "
                f"received {tuple(x.data.shape)}"
            )
        with torch.autocast(x.data.device.type, enabled=False):
            hidden = clean(x).to(self.stop.dtype)
            emissions = self.emission(hidden)
            if self.potentials == "additive":
                return Chain(emissions, self.transitions, self.start, self.stop, x.lengths)
            B, T, C = emissions.shape
            first = torch.arange(T, device=emissions.device)[None, :, None] == 0
            emissions = torch.where(first, emissions, torch.zeros_like(emissions))
            transitions = self.pair(hidden).reshape(B, T, C, C)
            return Chain(emissions, transitions, torch.zeros_like(self.stop), self.stop, x.lengths)

    def log_likelihood(self, x: Padded, tags: Padded) -> Tensor:
        """(B,), the log probability of each row's tags (B, T), given the hidden vectors (B, T, features)."""
        return log_likelihood(self(x), tags)


def log_likelihood(chain: Chain, tags: Padded, *, engine: Engine = "auto") -> Tensor:
    """(B,), the logarithm of the probability of the given tags (B, T): the score of their path minus log Z.

    A row of length 0 has log probability 0.

    Args:
        chain: scores as tensors.
        tags: integers from 0 to C - 1; their padding is not read, their lengths are the chain's.
        engine: ``numba`` is compiled for the CPU and first order, ``torch`` is for any device and order and can be
            differentiated twice; ``auto`` takes ``numba`` where it can.
    """
    chain = _full_precision(chain)
    if tags.data.shape != chain.emissions.shape[:2]:
        raise ShapeError(
            f"log_likelihood: expected tags (B, T) = {tuple(chain.emissions.shape[:2])}, "
            f"received {tuple(tags.data.shape)}"
        )
    if choose_engine(chain, engine) == "torch":
        return path_scores(chain, tags.data) - reference.log_partition(chain)  # type: ignore[no-any-return]
    return _compiled(chain, tags.data)


def log_partition(chain: Chain, *, engine: Engine = "auto") -> Tensor:
    """(B,), log Z of each row; its gradient for the emissions is the marginals. Arguments as for ``log_likelihood``."""
    chain = _full_precision(chain)
    if choose_engine(chain, engine) == "torch":
        return reference.log_partition(chain)  # type: ignore[no-any-return]
    return _compiled(chain, None)


def marginals(chain: Chain, *, engine: Engine = "auto") -> Padded:
    """(B, T, C), the probability of each tag at each position, 0 in the padding; carries no gradient.

    Arguments as for ``log_likelihood``.
    """
    chain = _full_precision(chain)
    with torch.no_grad():
        if choose_engine(chain, engine) == "torch":
            return reference.marginals(chain)
    with torch.enable_grad():
        emissions = chain.emissions.detach().requires_grad_()
        total = log_partition(replace(chain, emissions=emissions), engine=engine).sum()
    return Padded(torch.autograd.grad(total, emissions)[0], chain.lengths)


def choose_engine(chain: Chain, engine: Engine = "auto") -> Literal["numba", "torch"]:
    """The engine that runs this chain: the one that is asked for, or for ``auto`` the faster one that can.

    >>> zeros = torch.zeros
    >>> choose_engine(Chain(zeros(1, 2, 3), zeros(3, 3), zeros(3), zeros(3), torch.tensor([2])))
    'numba'
    """
    if engine not in ("auto", "numba", "torch"):
        raise ConfigError(
            f"engine must be 'auto', 'numba' or 'torch', received {engine!r}" + nearest(engine, ("numba", "torch"))
        )
    compiled = chain.emissions.device.type == "cpu" and chain.order == 1
    if engine == "numba" and not compiled:
        raise ConfigError(
            f"engine='numba' runs first-order chains on the CPU, received order {chain.order} on "
            f"{chain.emissions.device.type}; use engine='torch'"
        )
    return "numba" if compiled and engine != "torch" else "torch"


def _full_precision(chain: Chain) -> Chain:
    dtype = torch.promote_types(chain.emissions.dtype, torch.float32)
    parts = (part.to(dtype) for part in (chain.emissions, chain.transitions, chain.start, chain.stop))
    emissions, transitions, start, stop = parts
    return Chain(emissions, transitions, start, stop, chain.lengths)


def _compiled(chain: Chain, tags: Tensor | None) -> Tensor:
    parts = chain.emissions, chain.transitions, chain.start, chain.stop, chain.lengths
    return _Compiled.apply(*parts, tags)  # type: ignore[no-any-return,no-untyped-call]


def _kernels() -> ModuleType:
    """The compiled loops; numba takes a third of a second to import, so only those who train pay for it."""
    try:
        from riverrun.nn.layers import crf_kernels
    except ModuleNotFoundError as error:
        raise missing("numba", "train", "The likelihood of a CRF on the CPU") from error
    return crf_kernels


class _Compiled(torch.autograd.Function):
    """log Z, or the log likelihood of tags, with its gradient by one sweep backwards instead of a graph."""

    @staticmethod
    def forward(
        ctx: Any,
        emissions: Tensor,
        transitions: Tensor,
        start: Tensor,
        stop: Tensor,
        lengths: Tensor,
        tags: Tensor | None,
    ) -> Tensor:
        kernels = _kernels()
        per_position = transitions.ndim == 4
        size = emissions.shape[2]
        scores = [_array(part) for part in (emissions, transitions.reshape(-1, size, size), start, stop)]
        check_type("CRF", lengths)
        counts = _array(lengths.long())
        check_range("CRF", counts, emissions.shape[1])  # the compiled loops read and write wherever they say
        forwards, totals = np.empty(emissions.shape), np.empty(len(counts))
        kernels.forward(*scores[:2], per_position, *scores[2:], counts, forwards, totals)
        result = totals
        path = None
        if tags is not None:
            path, result = _array(tags.long()), np.zeros_like(totals)
            if not kernels.path(*scores[:2], per_position, *scores[2:], path, counts, result):
                raise ShapeError(f"log_likelihood: tags must be from 0 to {size - 1}; one of the given is not")
            result -= totals
        ctx.save_for_backward(emissions, transitions, stop)
        ctx.rest = (per_position, counts, path, forwards, totals)
        return torch.from_numpy(result).to(emissions.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # what comes out has no graph of its own: a second derivative would miss a part
            raise ConfigError(
                "engine='numba' has first derivatives only, and this backward pass is to be differentiated again "
                "(create_graph=True); use engine='torch'"
            )
        kernels = _kernels()
        per_position, counts, path, forwards, totals = ctx.rest
        emissions, transitions, stop = ctx.saved_tensors
        size = emissions.shape[2]
        weight = _array(gradient)
        scores = [_array(part) for part in (emissions, transitions.reshape(-1, size, size))]
        d_emissions, d_steps = (np.zeros_like(part) for part in scores)
        d_start, d_stop = np.zeros(size), np.zeros(size)
        targets = d_emissions, d_steps, d_start, d_stop
        if path is not None:
            kernels.path_backward(per_position, path, counts, weight, *targets)
            weight = -weight
        kernels.backward(*scores, per_position, _array(stop), counts, forwards, totals, weight, *targets)
        found = [torch.from_numpy(part) for part in targets]
        return (found[0], found[1].reshape(transitions.shape), *(part.to(stop.dtype) for part in found[2:]), None, None)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()
