"""What generates one symbol after the other: the contract between models and decoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from riverrun.data.batch import Batch
from riverrun.data.padded import Array, Padded
from riverrun.decode.state import State


@dataclass(frozen=True, eq=False)
class Step:
    """What a model says after it has read one symbol of each hypothesis.

    Args:
        log_probs: (B, K, V), of the next symbol.
        state: with the symbol that was read.
        extras: name -> (B, K, ...), alignments and the like.
    """

    log_probs: Array
    state: State
    extras: Mapping[str, Array] = field(default_factory=dict)


class StepModel(Protocol):
    """A language model, a translator's decoder, a table of counts, an exported graph: they all decode alike.

    A state has read everything but the last symbol, which its owner hands to the next ``step`` or ``score``. So a
    text begins with ``start()``, which has read nothing, and the last symbol ``bos``. A model changes nothing that
    it is handed: from a state that was kept one may go on as often as one likes.
    """

    @property
    def size(self) -> int:
        """V, how many symbols there are."""
        ...

    @property
    def bos(self) -> int:
        """The symbol that is read first."""
        ...

    @property
    def eos(self) -> int | None:
        """The symbol that ends a text, or None where texts do not end."""
        ...

    def start(self, source: Batch | None = None, *, rows: int = 1) -> State:
        """The state that has read nothing, one hypothesis (K = 1) for each row of the source, or ``rows`` of them."""
        ...

    def step(self, ids: Array, state: State) -> Step:
        """Read one symbol of each hypothesis, ids (B, K)."""
        ...

    def score(self, ids: Padded, state: State) -> tuple[Array, State]:
        """Read whole rows, in chunks, without ever holding (B, T, V).

        Args:
            ids: (B, 1 + T), first the last symbol before the text; K is 1. A row of length 0 or 1 scores nothing.
            state: it has read nothing of ``ids``.

        Returns:
            (B, T) natural logarithms, entry t that of ``ids[:, t + 1]`` after all before it, 0 in the padding; and the
            state that has read each row but its last symbol.
        """
        ...
