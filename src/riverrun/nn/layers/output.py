"""What stands between a net and the symbols of a vocabulary: the one interface of all softmaxes."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from riverrun.nn.layers.windows import Windows


class Output(Protocol):
    """From vectors to a distribution over V symbols.

    Attributes:
        features: H, numbers of the vectors that it reads.
        size: V, how many symbols there are.
        term: what ``loss`` is in training: ``nll`` where it is the negative log likelihood itself.
    """

    features: int
    size: int
    term: str

    def loss(self, hidden: Tensor, targets: Tensor, windows: Windows | None = None) -> Tensor:
        """What training makes small: (N, H) and symbols (N,) -> (N,). It may be an estimate; it draws what it needs."""
        ...

    def nll(self, hidden: Tensor, targets: Tensor, windows: Windows | None = None) -> Tensor:
        """(N,), the exact negative log likelihood of the symbols; without gradients, (N, V) is never held."""
        ...

    def log_probs(self, hidden: Tensor, windows: Windows | None = None) -> Tensor:
        """(N, V), exact, of every symbol."""
        ...
