"""``riverrun``: parse the command line, run the verb, and turn what went wrong into a line and an exit code.

Exit codes: 0 done, 1 the user's input or data is wrong, 2 the command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import NoReturn

from riverrun.cli.screen import as_flags, say, say_object, silence
from riverrun.errors import RiverrunError
from riverrun.version import __version__

DONE, WRONG_INPUT, INTERRUPTED = 0, 1, 130  # a wrong command line is 2, which tyro gives


def main() -> NoReturn:
    """The console script."""
    # Threads that wait for each other do not spin: where anything else wants the cores, spinning made training with two
    # threads twenty times slower than with one. It is read when torch is loaded, and what the user has set is kept.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    asked = _Asked()
    try:
        code = run(sys.argv[1:])
    except (
        BaseException
    ):  # one more Ctrl-C while the one before was answered, or one that a library made an ImportError
        if not asked:
            raise
        say("Interrupted.")
        code = INTERRUPTED
    if code == INTERRUPTED:
        # An interrupt that passed through an `exec`, as in many imports, makes Python end by the signal, not the code.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with suppress(OSError):
            print(end="", flush=True)
        os._exit(code)
    sys.exit(code)


class _Asked:
    """Whether somebody has asked for the end, by Ctrl-C or as a machine's manager does, by SIGTERM.

    Both are a KeyboardInterrupt: what was begun is taken away, or saved. What Python would print of one that came
    where none can be caught is kept back.
    """

    def __init__(self) -> None:
        self._asked = False
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) == usual:  # where it is ignored, as by nohup, that stays
                signal.signal(number, self._ask)
        sys.excepthook, sys.unraisablehook = self._uncaught, self._unraisable

    def __bool__(self) -> bool:
        return self._asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        raise KeyboardInterrupt

    def _uncaught(self, kind: type[BaseException], wrong: BaseException, trace: TracebackType | None) -> None:
        if not self._asked:
            sys.__excepthook__(kind, wrong, trace)

    def _unraisable(self, found: sys.UnraisableHookArgs) -> None:
        if not self._asked:
            sys.__unraisablehook__(found)


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments say; the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Results are UTF-8, whatever the terminal's language; the name of a file may be any bytes.
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    verb = next(iter(arguments), "")
    fail = _Failure(as_json=verb == "train" and "--json" in arguments)
    try:
        _do(arguments)
        print(end="", flush=True)
    except RiverrunError as wrong:
        fail(type(wrong).__name__, str(wrong) if verb == "train" else as_flags(str(wrong)))
    except KeyboardInterrupt:
        fail("", "Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        silence(1)  # the reader has seen enough (`| head`)
        return DONE
    except MemoryError:
        fail("", "Out of memory. A smaller model or smaller batches need less, for example --set train.batch=8")
    except OSError as wrong:
        fail("", _explained(wrong))
    return WRONG_INPUT if fail.failed else DONE


class _Failure:
    """How it is said that something went wrong."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json, self.failed = as_json, False

    def __call__(self, kind: str, message: str) -> None:
        """Say it, and remember that there was something to say."""
        self.failed = True
        if self.as_json:
            say_object({"event": "failed", "error": kind, "message": message})
        else:
            say(f"{kind}: {message}" if kind else message)


def _do(arguments: Sequence[str]) -> None:
    if list(arguments) == ["--version"]:
        print(f"riverrun {__version__}")
        return
    # Only now: these imports are most of the time of a short command, and a Ctrl-C in them is one like any other.
    from riverrun.cli.commands import parse

    parse(arguments).run()


# What to do where the system refuses a file.
_ADVICE = {
    errno.ENOSPC: "Free some space, or write to another disk",
    errno.EDQUOT: "Free some space, or write to another disk",
    errno.EACCES: "Change its rights, or name another place",
    errno.EPERM: "Change its rights, or name another place",
    errno.EROFS: "Name a place that can be written to",
    errno.ENOTDIR: "A part of this path is a file; expected a folder",
    errno.EISDIR: "Expected a file",
    errno.ENAMETOOLONG: "Give a shorter name",
    errno.EMFILE: "Allow more open files (ulimit -n)",
    errno.ENOENT: "Was it removed meanwhile? Look at the path",
}


def _explained(wrong: OSError) -> str:
    """What the system said about a file, and what to do where we know it."""
    where = f"{wrong.filename}: " if wrong.filename else ""
    advice = _ADVICE.get(wrong.errno or 0)
    return f"{where}{wrong.strerror or wrong}" + (f". {advice}" if advice else "")
