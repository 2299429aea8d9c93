"""How fast a training is and how long it will take."""

from __future__ import annotations

import time


class Pace:
    """Time and tokens since this process began to train.

    Args:
        before: seconds of training in earlier processes.
    """

    def __init__(self, before: float) -> None:
        self._before = before
        self._start = time.perf_counter()
        self._busy = 0.0
        self._tokens = 0
        self._updates = 0

    def elapsed(self) -> float:
        """Seconds of training, those of earlier processes included."""
        return self._before + time.perf_counter() - self._start

    def count(self, tokens: int, seconds: float) -> None:
        """Add an update."""
        self._tokens += tokens
        self._busy += seconds
        self._updates += 1

    def speed(self) -> float:
        """Tokens a second within updates."""
        return self._tokens / max(self._busy, 1e-9)

    def remaining(self, updates: int) -> float:
        """Seconds for so many more updates, with the evaluations and checkpoints between them."""
        return updates * (time.perf_counter() - self._start) / max(1, self._updates)
