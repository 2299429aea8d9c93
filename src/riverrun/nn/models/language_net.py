"""What every net that models a text can do, so that it is trained, stepped, cached and adapted by the same code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from riverrun.data.padded import Padded
from riverrun.decode.state import State
from riverrun.nn.layers.output import Output
from riverrun.nn.layers.windows import Windows


@dataclass(frozen=True, eq=False)
class Reading:
    """What a net makes of symbols, before it says what comes next.

    Args:
        vectors: (B, T, H), what the output reads after each symbol; 0 in the padding.
        windows: a table and (B * T, K) places in it, where n-grams have weights of their own.
    """

    vectors: Padded
    windows: Windows | None = None

    def select(self, places: Tensor | None) -> tuple[Tensor, Windows | None]:
        """The vectors (N, H) and the windows at these places of the flattened (B * T); all where None."""
        vectors: Tensor = self.vectors.data.flatten(0, 1)
        if places is None:
            return vectors, self.windows
        return vectors.index_select(0, places), self.windows and self.windows.at(places)


class LanguageNet(Protocol):
    """A net that reads symbols and gives the distribution of the next one; a value of ``State`` is all it remembers.

    Attributes:
        output: from its vectors to the symbols.
    """

    output: Output

    def start(self, rows: int) -> State:
        """The state that has read nothing, with one hypothesis a row."""
        ...

    def read(self, ids: Padded, state: State) -> tuple[Reading, State]:
        """Symbols (B, T) after a state -> what it makes of them, and the state after the last symbol of each row."""
        ...


def places_of(ids: Padded) -> Tensor | None:
    """(N,), which places of the flattened (B * T) are no padding; None where there is none.

    >>> places_of(Padded(torch.zeros(2, 3), torch.tensor([1, 2]))).tolist()
    [0, 3, 4]
    """
    if bool((ids.lengths == ids.data.shape[1]).all()):
        return None
    return torch.nonzero(ids.mask().flatten())[:, 0]


def log_likelihoods(net: LanguageNet, reading: Reading, targets: Padded) -> Tensor:
    """(B, T), the log probability of each target after what was read, 0 in the padding; (B, T, V) is never held."""
    places = places_of(targets)
    vectors, windows = reading.select(places)
    wanted = targets.data.flatten().long()
    wanted = wanted if places is None else wanted[places]
    found = -net.output.nll(vectors, wanted, windows)
    if places is not None:
        found = found.new_zeros(targets.data.numel()).index_copy(0, places, found)
    return found.view(targets.data.shape)
