"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_durably(path: Path, data: bytes) -> None:
    """Write a file under another name, wait until it is on the disk, and give it its name; the folder must exist.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a"
    >>> write_durably(path, b"1")
    >>> path.read_bytes(), len(list(path.parent.iterdir()))
    (b'1', 1)

    Raises:
        OSError: when the disk is full or refuses; what was there under this name is then untouched.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException as wrong:  # also Ctrl-C leaves no draft behind
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(wrong, OSError):
            raise OSError(wrong.errno, wrong.strerror, str(path)) from wrong  # the draft's name says nothing to anybody
        raise


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name == "nt":  # a folder cannot be opened there; renaming is durable by itself
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
