"""A running average of the weights: smoother than the last ones, and what is evaluated and kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

# Merity et al. 2018: averaging begins when an evaluation is worse than the best one, the five just before it left out.
NONMONOTONE = 5


class Average:
    """The average a of the weights w after each update, exponential or plain.

    .. math:: a \\leftarrow a + \\max(1 - decay, 1 / n) (w - a)

    With n the number of updates so far: the first ones are averaged evenly and the initial weights do not count.
    A decay of 1 is the plain mean of all updates (Polyak and Juditsky 1992).

    Args:
        parameters: name -> weight.
        decay: the share of the average that is kept at each update, from 0 to 1.

    >>> w = nn.Parameter(torch.tensor([1.0]))
    >>> average = Average({"w": w}, decay=1.0)
    >>> average.update()
    >>> with torch.no_grad():
    ...     _ = w.fill_(2.0)
    >>> average.update()
    >>> with average.applied():
    ...     print(w.item())
    1.5
    >>> w.item()
    2.0
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, decay: float) -> None:
        self._weights: list[Tensor] = list(parameters.values())
        self._decay = decay
        self.values: dict[str, Tensor] = {name: weight.detach().clone() for name, weight in parameters.items()}
        self.count = 0

    @torch.no_grad()
    def update(self) -> None:
        """Take the present weights into the average."""
        self.count += 1
        torch._foreach_lerp_(list(self.values.values()), self._weights, max(1 - self._decay, 1 / self.count))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within it, the model has the averaged weights."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for name, weight in zip(self.values, self._weights, strict=True):
            weight.data, self.values[name] = self.values[name], weight.data


def averaging_begins(scores: Sequence[float]) -> bool:
    """Whether the last score (higher is better) is worse than the best of those before the five that it follows.

    >>> averaging_begins([1, 2, 3, 3, 3, 3, 3, 2]), averaging_begins([1, 2, 3, 3, 3, 3, 3, 3, 2])
    (False, True)
    """
    before = scores[: -NONMONOTONE - 1]
    return len(before) > 0 and scores[-1] < max(before)
