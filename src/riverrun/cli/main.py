"""``riverrun``: parse the command line, run the verb, and turn what went wrong into a line and an exit code.

Exit codes: 0 done, 1 the user's input or data is wrong, 2 the command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from riverrun.cli.screen import say, silence
from riverrun.errors import RiverrunError
from riverrun.version import __version__

DONE, WRONG_INPUT, INTERRUPTED = 0, 1, 130  # a wrong command line is 2, which tyro gives

DESCRIPTION = """Train, measure and ship recurrent neural networks for text.

First steps: riverrun demo, then riverrun train tagger/upos YOUR.conllu"""


def main() -> NoReturn:
    """The console script."""
    # Threads that wait for each other do not spin: where anything else wants the cores, spinning made training with two
    # threads twenty times slower than with one. It is read when torch is loaded, and what the user has set is kept.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    code = run(sys.argv[1:])
    if code == INTERRUPTED:
        # An interrupt that passed through an `exec`, as in many imports, makes Python end by the signal, not the code.
        with suppress(OSError):
            print(end="", flush=True)
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments say; the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Results are UTF-8, whatever the terminal's language; the name of a file may be any bytes.
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        _do(arguments)
        print(end="", flush=True)
    except RiverrunError as wrong:
        say(f"{type(wrong).__name__}: {wrong}")
        return WRONG_INPUT
    except KeyboardInterrupt:
        say("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        silence(1)  # the reader has seen enough (`| head`)
        return DONE
    except MemoryError:
        say("Out of memory. Smaller batches need less: --set train.batch=8, or --set train.tokens=512")
        return WRONG_INPUT
    except OSError as wrong:
        say(_explained(wrong))
        return WRONG_INPUT
    return DONE


def _do(arguments: Sequence[str]) -> None:
    if list(arguments) == ["--version"]:
        print(f"riverrun {__version__}")
        return
    # Only now: these imports are most of the time of a short command, and a Ctrl-C in them is one like any other.
    import tyro
    from tyro.conf import FlagCreatePairsOff, OmitSubcommandPrefixes

    from riverrun.cli.commands import Command, Verb

    verb: Verb = tyro.cli(
        Command,
        prog="riverrun",
        description=DESCRIPTION,
        args=list(arguments),
        config=(OmitSubcommandPrefixes, FlagCreatePairsOff),
    )
    verb.run()


def _explained(wrong: OSError) -> str:
    """What the system said about a file, and what to do where we know it."""
    where = f"{wrong.filename}: " if wrong.filename else ""
    what = f"{where}{wrong.strerror or wrong}"
    if wrong.errno == errno.ENOSPC:
        return f"{what}. Free some space, or write to another disk with --out; a run continues with --resume"
    return what
