"""One run a folder: a file that says which process writes there, and that means nothing any more when it is gone."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from riverrun.errors import CheckpointError

LOCK = ".running"


class Writer(msgspec.Struct, frozen=True):
    """Who writes: a number of a process means something on one machine alone, and is given again some day.

    Args:
        process: its number.
        host: the machine.
        began: when it began, as the system tells it; nothing where it does not.
    """

    process: int
    host: str
    began: str

    @staticmethod
    def of(process: int) -> Writer:
        """A process of this machine."""
        return Writer(process, platform.node(), _began(process))

    @property
    def runs(self) -> bool:
        """Whether it may still be there; of another machine nobody here knows."""
        if self.host != platform.node():
            return True
        if os.name != "nt":  # there, a signal would end the process; its open file says that it runs
            try:
                os.kill(self.process, 0)
            except ProcessLookupError:
                return False
            except OSError:  # it is somebody else's
                pass
        return _began(self.process) == self.began


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Within it, no other run writes into the folder, which is made where it is not there.

    Raises:
        CheckpointError: where another one does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    refuse_running(folder)
    try:
        file = path.open("xb")
    except FileExistsError:  # another one was faster
        raise CheckpointError(f"{folder}: another run is writing here. Give another folder") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None
    try:
        with file:  # open all the time: Windows removes no file that is open
            file.write(msgspec.json.encode(Writer.of(os.getpid())))
            file.flush()
            yield
    finally:
        path.unlink(missing_ok=True)


def refuse_running(folder: Path) -> None:
    """A CheckpointError where a run is writing into a folder; what one that was killed has left goes away."""
    path = folder / LOCK
    try:
        writer = msgspec.json.decode(path.read_bytes(), type=Writer)
    except (FileNotFoundError, NotADirectoryError):
        return
    except msgspec.MsgspecError:  # it was killed, or the disk was full, before it had said who it is
        writer = None
    if writer is not None and writer.runs:
        there = "" if writer.host == platform.node() else f" on {writer.host}"
        raise CheckpointError(
            f"{folder}: another run is writing here (process {writer.process}{there}). Wait for its end, stop it, or "
            f"give another folder; if it is surely over, remove the file {path}"
        )
    with suppress(FileNotFoundError):
        path.unlink()


def _began(process: int) -> str:
    """When a process began, in the system's own count; nothing where the system has no such file."""
    try:
        said = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    state, *fields = said.rpartition(")")[2].split()  # behind its name, which may hold anything
    return "" if state == "Z" else fields[18]  # of one that is over, its parent may not have taken note yet
