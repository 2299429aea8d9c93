"""Vectors of words: learned, or read from a file and then learned further."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from riverrun.errors import ConfigError, ShapeError


class Embedding(nn.Module):
    r"""A vector for each id; in training some words are read as the unknown word, so that it is learned too.

    .. math:: y_t = E_{w_t} \qquad w_t \to \text{unknown with probability } \rho_{w_t}

    The gradient is dense unless ``sparse`` is set: every step of an optimizer goes over all ``count`` rows, as those
    of Adam do anyway. With vectors for millions of words this, not the recurrence, takes the time of a step on a CPU:
    freeze them, keep only the words that occur, or train by plain SGD with ``sparse``.

    Args:
        count: how many ids there are.
        size: D, numbers in a vector.
        vectors: (count, size), the vectors to begin with. A row of NaN has none and begins at random.
        frozen: leave the vectors as they are.
        unknown: the id of the unknown word.
        unknown_rates: (count,), for each id the probability to be read as ``unknown`` in training.
        sparse: the gradient is one of the rows that were read alone; only where the optimiser can use it.

    >>> embed = Embedding(3, 2, vectors=np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]]))
    >>> embed(torch.tensor([[2, 1]])).tolist()
    [[[3.0, 4.0], [1.0, 2.0]]]
    """

    unknown_rates: Tensor | None

    def __init__(
        self,
        count: int,
        size: int,
        *,
        vectors: npt.NDArray[Any] | None = None,
        frozen: bool = False,
        unknown: int = 0,
        unknown_rates: npt.NDArray[Any] | None = None,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        if vectors is not None and vectors.shape != (count, size):
            raise ShapeError(f"Embedding: expected vectors (count, size) = {(count, size)}, received {vectors.shape}")
        if not 0 <= unknown < count:
            raise ConfigError(f"Embedding: unknown must be an id from 0 to {count - 1}, received {unknown}")
        self.count, self.output_size, self.unknown, self.sparse = count, size, unknown, sparse
        self.weight = nn.Parameter(torch.zeros(count, size), requires_grad=not frozen)
        self.given: npt.NDArray[np.bool_] = np.zeros(count, bool)
        if vectors is not None:
            self.given = ~np.isnan(vectors).all(axis=1)
            with torch.no_grad():
                self.weight.copy_(torch.from_numpy(np.where(self.given[:, None], vectors, 0.0)))
        self.draw((3 / size) ** 0.5)
        # It says how to train and is no part of what was learned: not saved.
        self.register_buffer("unknown_rates", _rates(unknown_rates, count), persistent=False)

    @torch.no_grad()
    def draw(self, bound: float | None = None) -> None:
        """New values, uniform up to ±bound or, without one, standard normal; a vector that was given stays."""
        drawn = torch.randn_like(self.weight)
        if bound is not None:
            drawn.uniform_(-bound, bound)
        if self.given.any():
            rows = torch.from_numpy(np.flatnonzero(self.given)).to(drawn.device)
            drawn[rows] = self.weight[rows]
        self.weight.copy_(drawn)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids (B, T) -> (B, T, size); those in the padding must be ids too."""
        if self.training and self.unknown_rates is not None:
            drop = torch.rand(ids.shape, device=ids.device) < nn.functional.embedding(ids, self.unknown_rates)[..., 0]
            ids = torch.where(drop, self.unknown, ids)
        return nn.functional.embedding(ids, self.weight, sparse=self.sparse)

    def extra_repr(self) -> str:
        """The sizes, and what is not learned from nothing."""
        given = f", {int(self.given.sum())} given" if self.given.any() else ""
        return f"{self.count}, {self.output_size}{given}{'' if self.weight.requires_grad else ', frozen'}"


def _rates(rates: npt.NDArray[Any] | None, count: int) -> Tensor | None:
    """(count, 1), or None where nothing is ever dropped."""
    if rates is None or (rates.shape == (count,) and not rates.any()):
        return None
    if rates.shape != (count,):
        raise ShapeError(f"Embedding: expected unknown_rates (count,) = {(count,)}, received {rates.shape}")
    if not ((rates >= 0) & (rates <= 1)).all():
        raise ConfigError("Embedding: unknown_rates must be probabilities from 0 to 1; one of the given is not")
    return torch.from_numpy(rates.astype(np.float32))[:, None]
