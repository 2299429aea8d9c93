"""Dynamic evaluation: a net that goes on learning from the text that it scores."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from riverrun.data.padded import Padded
from riverrun.decode.state import State
from riverrun.errors import ConfigError
from riverrun.nn.models.language_net import LanguageNet, log_likelihoods

EPSILON = 0.002
"""What is added to the root of the mean square of a gradient before it is divided by."""


class Learner(LanguageNet, Protocol):
    """A language net that has parameters and can be put into evaluation mode: an ``nn.Module``."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Name and value of each."""
        ...

    def eval(self) -> Learner:
        """Without dropout from now on."""
        ...


def dynamic_score(
    net: Learner,
    ids: Padded,
    state: State | None = None,
    *,
    bptt: int,
    rate: float,
    decay: float = 0.0,
    squares: Mapping[str, Tensor] | None = None,
    epsilon: float = EPSILON,
) -> tuple[Tensor, State]:
    r"""Score rows of symbols, segment by segment; after each segment a copy of the net learns it (Krause et al. 2018).

    .. math::
        \theta \leftarrow \theta - \eta\, \frac{\nabla L}{\sqrt{MS} + \epsilon} + \lambda\, r \odot (\theta_g - \theta)
        \qquad r = \min\Big( \frac{\sqrt{MS}}{\overline{\sqrt{MS}}}, \frac{1}{\lambda} \Big)

    L is the mean negative log likelihood of a segment, over all rows; :math:`\theta_g` are the weights of the net.
    Without ``squares`` there is neither the division nor r: SGD with a pull back to the trained weights. With a rate of
    0 the net is scored as it is.

    Args:
        net: of which a copy learns, without dropout; it stays as it is.
        ids: (B, 1 + T), first the last symbol before the text. Rows share the copy; one is the usual number.
        state: it has read nothing of ``ids``; that of the beginning where it is not given.
        bptt: symbols in a segment.
        rate: eta.
        decay: lambda.
        squares: MS, parameter by parameter, as ``gradient_squares`` gives it.
        epsilon: of the equation.

    Returns:
        (B, T) log probabilities, 0 in the padding; and the state that has read each row but its last symbol.

    >>> from riverrun.nn.layers.embed import Embedding
    >>> from riverrun.nn.layers.full_softmax import FullSoftmax
    >>> from riverrun.nn.models.window_lm import WindowLM
    >>> net = WindowLM(Embedding(5, 3), 2, 4, FullSoftmax(4, 5), bos=0)
    >>> again = Padded(torch.tensor([[0, 3, 3, 3, 3]]), torch.tensor([5]))
    >>> plain, _ = dynamic_score(net, again, bptt=1, rate=0.0)
    >>> learned, _ = dynamic_score(net, again, bptt=1, rate=1.0)
    >>> bool(learned[0, 0] == plain[0, 0]), bool(learned[0, -1] > plain[0, -1])
    (True, True)
    """
    if bptt < 1 or rate < 0 or not 0 <= decay <= 1 or epsilon <= 0:
        raise ConfigError(
            "dynamic evaluation: expected bptt from 1 on, a rate from 0 on, a decay from 0 to 1 and an epsilon above "
            f"0, received {bptt}, {rate}, {decay} and {epsilon}"
        )
    learner = copy.deepcopy(net).eval()
    weights = dict(learner.named_parameters())
    trained = {name: weight.detach().clone() for name, weight in weights.items()} if decay else {}
    steps, pulls = _factors(weights, rate, decay, squares, epsilon)
    scores = []
    state = learner.start(len(ids)) if state is None else state
    for found, count, after in _segments(learner, ids, state, bptt):
        state = after
        scores.append(found.detach())
        if not rate or not count:
            continue
        gradients = _gradients(found, count, weights)
        with torch.no_grad():
            for name, weight in weights.items():
                if decay:
                    weight.lerp_(trained[name], pulls[name])
                if name in gradients:
                    weight.sub_(gradients[name] * steps[name])
    return torch.cat(scores, 1) if scores else next(iter(weights.values())).new_zeros((len(ids), 0)), state


def gradient_squares(net: Learner, ids: Padded, *, bptt: int) -> dict[str, Tensor]:
    """The mean over segments of the squared gradient of each parameter, MS, for ``dynamic_score``.

    Args:
        net: it stays as it is; no dropout plays along.
        ids: (B, 1 + T), of the training text.
        bptt: symbols in a segment.
    """
    learner = copy.deepcopy(net).eval()
    weights = dict(learner.named_parameters())
    totals = {name: torch.zeros_like(weight, requires_grad=False) for name, weight in weights.items()}
    segments = 0
    for found, count, _ in _segments(learner, ids, learner.start(len(ids)), bptt):
        if count:
            segments += 1
            for name, gradient in _gradients(found, count, weights).items():
                totals[name] += gradient**2
    return {name: total / max(1, segments) for name, total in totals.items()}


def _segments(net: Learner, ids: Padded, state: State, bptt: int) -> Iterator[tuple[Tensor, int, State]]:
    """Log probabilities (B, t) with their gradients, how many they are, and the state after them, without gradients."""
    device = next(net.named_parameters())[1].device
    data, lengths = (torch.as_tensor(part, device=device).long() for part in (ids.data, ids.lengths))
    for begin in range(0, data.shape[1] - 1, bptt):
        end = min(begin + bptt, data.shape[1] - 1)
        count = (lengths - 1 - begin).clamp(0, end - begin)
        with torch.enable_grad():
            reading, after = net.read(Padded(data[:, begin:end], count), state)
            found = log_likelihoods(net, reading, Padded(data[:, begin + 1 : end + 1], count))
        state = after.map(torch.detach)
        yield found, int(count.sum()), state


def _gradients(scores: Tensor, count: int, weights: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """Of the mean negative log likelihood, for each parameter that it depends on."""
    found = torch.autograd.grad(-scores.sum() / count, list(weights.values()), allow_unused=True)
    dense = (None if g is None else g.to_dense() if g.is_sparse else g for g in found)
    return {name: g for name, g in zip(weights, dense, strict=True) if g is not None}


def _factors(
    weights: Mapping[str, Tensor], rate: float, decay: float, squares: Mapping[str, Tensor] | None, epsilon: float
) -> tuple[dict[str, Tensor | float], dict[str, Tensor | float]]:
    """Name -> what its gradient is multiplied by, and how strongly it is pulled back."""
    if squares is None:
        return dict.fromkeys(weights, rate), dict.fromkeys(weights, decay)
    if {name: value.shape for name, value in squares.items()} != {k: v.shape for k, v in weights.items()}:
        raise ConfigError("dynamic evaluation: expected squares of the parameters of this net, received others")
    roots = {name: value.sqrt() for name, value in squares.items()}
    mean = sum(float(root.double().sum()) for root in roots.values()) / sum(root.numel() for root in roots.values())
    steps: dict[str, Tensor | float] = {name: rate / (root + epsilon) for name, root in roots.items()}
    pulls: dict[str, Tensor | float] = {
        name: (decay * root / mean).clamp(max=1.0) if mean else decay for name, root in roots.items()
    }
    return steps, pulls
