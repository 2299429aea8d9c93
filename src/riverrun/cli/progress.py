"""Who listens to a training: a bar on a terminal, a line now and then elsewhere, ``metrics.jsonl`` always."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

import msgspec

from riverrun.cli.screen import aligned, duration
from riverrun.tasks.training import Listener
from riverrun.train.events import (
    Evaluated,
    Event,
    Finished,
    Interrupted,
    Prepared,
    RolledBack,
    Saved,
    SaveFailed,
    Skipped,
    Started,
    Step,
)

INTERVAL = 10.0  # seconds between two lines about steps
LONGEST_FACT = 240  # characters
LOG_INTERVAL = 1.0  # seconds between two steps in metrics.jsonl


@contextmanager
def listeners(out: Path, *, as_json: bool = False, stream: TextIO | None = None) -> Iterator[Sequence[Listener]]:
    """The listeners of a run in the folder ``out``; closed when the run is over, however it ends.

    Args:
        as_json: for machines: every event as a line of JSON.
        stream: where to speak; stderr.
    """
    stream = stream or sys.stderr or io.StringIO()  # which a program may be started without
    with ExitStack() as stack:
        log = stack.enter_context(Log(out / "metrics.jsonl"))
        if as_json:
            speak: Listener = Objects(stream)
        elif stream.isatty():
            speak = stack.enter_context(Bar(stream))
        else:
            speak = Lines(stream)
        yield (log, until_it_fails(speak))


def until_it_fails(listener: Listener) -> Listener:
    """A listener that is not called again once its stream is gone: a training outlives the terminal it began in.

    >>> def gone(event):
    ...     print("once")
    ...     raise BrokenPipeError
    >>> hears = until_it_fails(gone)
    >>> hears(None), hears(None)
    once
    (None, None)
    """
    hears = True

    def hear(event: Event) -> None:
        nonlocal hears
        if hears:
            try:
                listener(event)
            except OSError:
                hears = False

    return hear


class Log:
    """Events as lines of JSON at the end of a file: all of them but the steps, of which there is one a second.

    The file is opened at the first event, when the run has found that it may write to the folder. An event that the
    disk has no room for is left out: a log does not end a training.
    """

    def __init__(self, path: Path, *, interval: float = LOG_INTERVAL) -> None:
        self.path = path
        self._file: io.FileIO | None = None
        self._due = Due(interval)

    def __call__(self, event: Event) -> None:
        """Write it, if it is its turn."""
        if isinstance(event, Step) and not self._due():
            return
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab", buffering=0)
        line = msgspec.json.encode(event) + b"\n"
        end = self._file.seek(0, os.SEEK_END)
        try:
            written = self._file.write(line)
        except OSError:
            written = 0
        if written != len(line):
            self._file.truncate(end)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._file is not None:
            self._file.close()


class Objects:
    """Every event as a line of JSON: for machines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: Event) -> None:
        """Print it."""
        print(msgspec.json.encode(event).decode(), file=self._stream, flush=True)


class Lines:
    """A line for each event, and one for the steps of each interval: for logs and pipes."""

    def __init__(self, stream: TextIO, *, interval: float = INTERVAL) -> None:
        self._stream = stream
        self._due = Due(interval)

    def __call__(self, event: Event) -> None:
        """Print its line, if it is its turn."""
        if isinstance(event, Step):
            if not self._due():
                return
            line = f"step {event.step}/{event.total}  {_pace(event)}  {duration(event.remaining)} left"
        else:
            line = sentence(event)
        if line:
            print(line, file=self._stream, flush=True)


class Bar:
    """A progress bar, and a line above it for each event that is no step: for terminals."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.fields[epoch]}"),
            BarColumn(),
            TextColumn("{task.fields[steps]}"),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=Console(file=stream), transient=True)
        self._bar = self._progress.add_task("", total=None, epoch="reading", steps="")

    def __call__(self, event: Event) -> None:
        """Move the bar."""
        pace = _pace(event) if isinstance(event, Step) else None  # None leaves what is there
        if event.total:  # before the training begins, there is nothing to count
            over = event.step >= event.total or isinstance(event, Finished)
            self._progress.update(
                self._bar,
                completed=event.step,
                total=event.total,
                epoch=f"epoch {max(1, event.epoch) if over else event.epoch + 1}",
                steps=f"{event.step}/{event.total}",
                description=pace,
            )
        if line := sentence(event):
            self._progress.console.print(line, markup=False, highlight=False)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *failure: object) -> None:
        with suppress(OSError):  # the terminal may be gone
            self._progress.stop()


class Due:
    """True when an interval has passed since it last was; the first time at once."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next = -float("inf")

    def __call__(self) -> bool:
        """Whether it is time."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._interval
        return True


def sentence(event: Event) -> str:
    """What an event means, for people; nothing for those that only a log wants."""
    match event:
        case Prepared():
            return aligned((name, _cut(fact)) for name, fact in event.facts.items())
        case Started(resumed=True):
            return f"continuing at step {event.step} of {event.total} on {event.device}"
        case Started():
            return f"training {event.parameters:,} parameters for {event.total} steps on {event.device}"
        case Evaluated():
            scores = "  ".join(f"{name} {_shown(value)}" for name, value in event.metrics.items())
            mark = "  (best)" if event.improved else ""
            return f"epoch {event.epoch}  loss {_shown(event.loss)}  {scores}  {duration(event.elapsed)}{mark}"
        case Skipped():
            return f"step {event.step}: loss {event.loss}, gradient norm {event.norm}: not finite, left out"
        case RolledBack():
            return f"step {event.failed}: loss {event.loss}, gradient norm {event.norm}: back to step {event.step}"
        case SaveFailed():
            return f"{event.message}. The training goes on and tries again"
        case Interrupted():
            return f"interrupted at step {event.step}, saved in {event.path}"
        case Finished():
            why = "the dev metric no longer improved" if event.reason == "patience" else "done"
            best = "" if event.best is None else f"; best {event.best:.4f} at step {event.best_step}"
            return f"{why} after {event.step} steps, {duration(event.elapsed)}{best}"
        case Saved() | _:
            return ""


def _shown(value: float | None) -> str:
    """A number that may not have been one."""
    return "none" if value is None else f"{value:.4f}" if abs(value) < 1e6 else f"{value:.3g}"


def _cut(fact: str) -> str:
    """A fact that takes a line or two: a sentence may be as long as a book."""
    return fact if len(fact) <= LONGEST_FACT else fact[:LONGEST_FACT].rsplit(" ", 1)[0] + " ..."


def _pace(event: Step) -> str:
    return f"loss {_shown(event.loss)}  {event.speed:,.0f} tokens/s"
