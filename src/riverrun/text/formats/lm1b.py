"""The layout of the One Billion Word benchmark (Chelba et al. 2014): a tokenised sentence a line, in many shards.

Its folders ``training-monolingual.tokenized.shuffled`` and ``heldout-monolingual.tokenized.shuffled`` hold files like
``news.en-00001-of-00100`` and ``news.en.heldout-00000-of-00050``. The first shard of the training set, number 0, is the
held-out set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from glob import glob
from pathlib import Path

from riverrun.errors import DataError
from riverrun.text.sources import Source, existing, open_text

_SHARD = re.compile(r"(?P<set>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})(\.gz|\.zst)?")


def read_lm1b(path: Source, *, encoding: str | None = None, notes: list[str] | None = None) -> Iterator[str]:
    """The sentences of all shards, in the order of their numbers.

    Args:
        path: a folder of shards, a pattern of their names (``news.en-0000*``), one shard, or an open stream.
        encoding: where it is not UTF-8.
        notes: what a user should be told is appended here, as that shards are missing.

    >>> import io
    >>> list(read_lm1b(io.StringIO("It rains .\\nIt pours .\\n")))
    ['It rains .', 'It pours .']
    """
    shards = lm1b_shards(path, notes=notes) if isinstance(path, str | Path) and str(path) != "-" else [path]
    for shard in shards:
        with open_text(shard, encoding=encoding, notes=notes) as source:
            yield from source.lines()


def lm1b_shards(path: str | Path, *, notes: list[str] | None = None) -> list[Path]:
    """The files that a path stands for, in the order of their numbers.

    Args:
        path: a folder, a pattern, or one file of any name.
        notes: that shards of a folder are missing is appended here.
    """
    path = Path(path)
    if path.is_file():
        return [path]
    files = path.iterdir() if path.is_dir() else map(Path, glob(str(path)))
    found = sorted((file for file in files if is_shard(file)), key=lambda file: file.name)
    if not found:
        if not path.is_dir():
            existing(path)  # says which name is most like it
        folders = sorted(folder.name for folder in path.iterdir() if any(map(is_shard, folder.glob("*"))))
        instead = f"give one of its folders: {', '.join(folders)}" if folders else "name another format (data.format)"
        raise DataError(f"{path}: no files with names like news.en-00001-of-00100; {instead}")
    shards = [match for file in found if (match := _SHARD.fullmatch(file.name))]
    sets = sorted({(shard["set"], int(shard["total"])) for shard in shards})
    if len(sets) > 1:
        received = " and ".join(f"{name} of {total}" for name, total in sets)
        raise DataError(f"{path}: expected shards of one set, received {received}; give a pattern of the names of one")
    numbers = {int(shard["number"]) for shard in shards}
    if len(numbers) < len(found):
        raise DataError(f"{path}: some shards are there twice, compressed and not; remove one of each")
    name, total = sets[0]
    first = 0 if "heldout" in name else 1
    missing = [number for number in range(first, total) if number not in numbers]
    if missing and path.is_dir() and notes is not None:
        notes.append(f"{path}: {len(missing)} of {total - first} shards are missing, the first one {missing[0]:05}")
    return found


def is_shard(path: str | Path) -> bool:
    """Whether a file, by its name, is a shard.

    >>> is_shard("news.en.heldout-00000-of-00050"), is_shard("news.en.gz")
    (True, False)
    """
    return _SHARD.fullmatch(Path(path).name) is not None
