"""Ctrl-C that asks before it breaks: the first one lets the step finish and be saved, the second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether somebody asked to stop; ``fit`` looks after each step.

    >>> stop = Stop()
    >>> stop()
    False
    >>> stop.request()
    >>> stop()
    True
    """

    def __init__(self) -> None:
        self._requested = False

    def request(self) -> None:
        """Ask to stop."""
        self._requested = True

    def __call__(self) -> bool:
        """Whether it was asked."""
        return self._requested


@contextmanager
def interruptible() -> Iterator[Stop]:
    """Within it, the first Ctrl-C sets the flag and the second raises KeyboardInterrupt; SIGTERM does the same, with
    which a machine's manager asks a process to end.

    Signals belong to the main thread: elsewhere only ``request`` sets the flag. So it is for a signal that is ignored
    (Ctrl-C in a script's background job), or handled by something that is not Python.

    >>> with interruptible() as stop:
    ...     signal.raise_signal(signal.SIGINT)
    ...     stop()
    True
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop():
            raise KeyboardInterrupt
        stop.request()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    try:
        for number in ours:
            signal.signal(number, on_signal)
        yield stop
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
