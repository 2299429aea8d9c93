"""Which engine ran: told to whoever watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Ran(NamedTuple):
    """One run: the cell's kind and the engine's name."""

    cell: str
    engine: str


_WATCHERS: ContextVar[tuple[list[Ran], ...]] = ContextVar("watchers", default=())


@contextmanager
def watch() -> Iterator[list[Ran]]:
    """A list that fills with what runs within the block.

    >>> import torch
    >>> from riverrun.nn.layers.recurrent import Recurrent
    >>> with watch() as ran:
    ...     _ = Recurrent("lstm", 3, 4)(torch.zeros(1, 2, 3))
    >>> ran
    [Ran(cell='lstm', engine='vendor')]
    """
    ran: list[Ran] = []
    token = _WATCHERS.set((*_WATCHERS.get(), ran))
    try:
        yield ran
    finally:
        _WATCHERS.reset(token)


def tell(cell: str, engine: str) -> None:
    """Note a run in every list that is being filled."""
    for ran in _WATCHERS.get():
        ran.append(Ran(cell, engine))
