"""Running text for language models: one long row of ids on the disk, and the batches that are read from it."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

import msgspec
import numpy as np

from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.data.shuffle import shuffled
from riverrun.errors import DataError
from riverrun.text.durable import write_durably

_INDEX, _IDS, _ENDS = "stream.json", "ids", "ends"
_CHUNK = 1 << 18  # numbers that are held before they are written, or looked at together
_LENGTHS = 1 << 12  # window lengths that are drawn together


class _Sizes(msgspec.Struct):
    """What ``stream.json`` holds."""

    symbols: int
    texts: int


@dataclass(eq=False)
class TokenStream:
    """The ids of texts, one behind the other, mapped from the disk.

    Attributes:
        folder: where its files are.
        ids: (N,) of int32.
        ends: (K,) of int64, rising: text k ends before the symbol with this number.

    >>> import tempfile
    >>> stream = TokenStream.build([[4, 5], [1, 6, 1]], tempfile.mkdtemp(), ends=1)
    >>> stream.ids.tolist(), stream.ends.tolist(), len(stream)
    ([4, 5, 1, 6, 1], [3, 5], 5)
    """

    folder: Path
    ids: np.ndarray = field(repr=False)
    ends: np.ndarray = field(repr=False)

    @staticmethod
    def build(
        chunks: Iterable[np.ndarray | Sequence[int]], folder: Path | str, *, ends: int | Literal["chunks"] | None = None
    ) -> TokenStream:
        """Write the files from ids that come in chunks, a chunk in memory at a time; the last one written is the index.

        A stream that was here before stays until this one is complete.

        Args:
            chunks: of ids.
            folder: made where it is not there.
            ends: what ends a text: the symbol with this id, the end of each chunk (``chunks``), or the end of all.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # Under other names first: what was here may be mapped by another run, and to shorten a mapped file kills it.
        drafts = [folder / f".{name}.{os.getpid()}" for name in (_IDS, _ENDS)]
        try:
            with drafts[0].open("wb") as ids, drafts[1].open("wb") as offsets:
                sizes = _write(chunks, ids, offsets, ends)
                for file in (ids, offsets):
                    file.flush()
                    os.fsync(file.fileno())
            (folder / _INDEX).unlink(missing_ok=True)
            for draft, name in zip(drafts, (_IDS, _ENDS), strict=True):
                draft.replace(folder / name)
        except BaseException:
            for draft in drafts:
                draft.unlink(missing_ok=True)
            raise
        write_durably(folder / _INDEX, msgspec.json.encode(sizes))
        return TokenStream.open(folder)

    @staticmethod
    def open(folder: Path | str) -> TokenStream:
        """A stream that was built before."""
        folder = Path(folder)
        try:
            sizes = msgspec.json.decode((folder / _INDEX).read_bytes(), type=_Sizes)
        except FileNotFoundError:
            raise DataError(
                f"{folder}: no {_INDEX}; here is no stream, or one that is not complete. Build it"
            ) from None
        except msgspec.MsgspecError as error:
            raise DataError(f"{folder / _INDEX}: {error}. Remove the folder, and build the stream anew") from None
        ids = _map(folder / _IDS, np.dtype(np.int32), sizes.symbols)
        return TokenStream(folder, ids, _map(folder / _ENDS, np.dtype(np.int64), sizes.texts))

    def __len__(self) -> int:
        return len(self.ids)

    def text(self, k: int) -> np.ndarray:
        """The ids of text k."""
        return np.asarray(self.ids[self.ends[k - 1] if k else 0 : self.ends[k]])

    def counts(self, size: int) -> np.ndarray:
        """(size,), how often each symbol occurs, a part of the file at a time.

        Args:
            size: how many symbols there are.
        """
        total = np.zeros(size, np.int64)
        for start in range(0, len(self), _CHUNK):
            total += np.bincount(self.ids[start : start + _CHUNK], minlength=size)
        return total


class StreamLoader:
    """Windows of a stream, in order, at several places side by side, for truncated backpropagation through time.

    The pairs of a symbol and the next one are cut into ``batch`` places of equal length (some are one longer); a batch
    has the next ``bptt`` pairs of each place. So the state that has read row b of a batch goes on with row b of the
    next one. Every symbol of the stream is a target once in an epoch, but the first where ``bos`` is not given. The
    last window is shorter, and its rows may be unequal; where there are fewer pairs than places, rows are empty.

    A batch has ``ids`` and ``targets``, both `Padded` (B, T) with the same lengths; ``fresh`` (B,), true where the
    state begins anew before this batch: in the first one of an epoch; and where texts are kept apart ``resets``
    (B, T), true where the state begins anew before this symbol is read.

    What a position (epoch, index) stands for depends on nothing else.

    Args:
        stream: of ids.
        batch: places, B.
        bptt: symbols of each place in a batch, T.
        jitter: draw T anew for each window, as Merity et al. (2018) do: around ``bptt``, or half of it in one of 20
            cases, with a standard deviation of 5; at least 5, at most ``bptt + 10``.
        seed: of the lengths.
        bos: the symbol that is read before the first one of the stream.
        apart: begin anew at each text. The last symbol of a text is then read as the one that the next begins behind,
            so all texts must end with the same one.

    >>> import tempfile
    >>> stream = TokenStream.build([[0, 1, 2, 3, 4, 5, 6, 7]], tempfile.mkdtemp())
    >>> for batch in StreamLoader(stream, batch=2, bptt=3).batches(0):
    ...     batch["ids"].rows(), batch["fresh"].tolist()
    ([array([0, 1, 2]), array([4, 5, 6])], [True, True])
    ([array([3]), array([], dtype=int64)], [False, False])
    """

    def __init__(
        self,
        stream: TokenStream,
        *,
        batch: int,
        bptt: int,
        jitter: bool = False,
        seed: int = 0,
        bos: int | None = None,
        apart: bool = False,
    ) -> None:
        self.stream, self.bptt, self.jitter, self.seed, self.bos, self.apart = stream, bptt, jitter, seed, bos, apart
        self._first = 1 if bos is None else 0  # the number of the first target
        pairs = len(stream) - self._first
        if pairs < 1:
            raise DataError(
                f"{stream.folder}: a text of {len(stream)} symbols has nothing to predict; "
                f"expected at least {1 + self._first}"
            )
        if apart:
            _check_ends(stream, bos)
        places = np.arange(batch)
        self._sizes = pairs // batch + (places < pairs % batch)
        self._places = self._first + np.cumsum(self._sizes) - self._sizes  # the first target of each
        self._windows: tuple[int, np.ndarray] | None = None

    def count(self, epoch: int) -> int:
        """How many batches the epoch has."""
        return len(self._cuts(epoch)) - 1

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch in their order, from number ``start`` on."""
        cuts = self._cuts(epoch)
        for index in range(start, len(cuts) - 1):
            yield self._batch(int(cuts[index]), int(cuts[index + 1]), fresh=index == 0)

    def _batch(self, begin: int, end: int, *, fresh: bool) -> Batch:
        """The pairs ``begin`` to ``end`` of each place."""
        lengths = np.clip(self._sizes, begin, end) - begin
        columns = np.arange(end - begin)
        mask = columns < lengths[:, None]
        targets = np.where(mask, self._places[:, None] + begin + columns, 0)
        before = np.maximum(targets - 1, 0)
        read = self.stream.ids[before].astype(np.int64)
        if self.bos is not None:
            read[targets == 0] = self.bos
        values: dict[str, Padded | np.ndarray] = {
            "ids": Padded(np.where(mask, read, 0), lengths),
            "targets": Padded(np.where(mask, self.stream.ids[targets].astype(np.int64), 0), lengths),
            "fresh": np.full(len(lengths), fresh),
        }
        if self.apart:
            ends = self.stream.ends
            starts = np.searchsorted(ends, targets)  # the first text that does not end before the target
            values["resets"] = mask & (ends[np.minimum(starts, len(ends) - 1)] == targets)
        return Batch(values)

    def _cuts(self, epoch: int) -> np.ndarray:
        """Where the windows of an epoch begin in each place, and where the last one ends."""
        longest = int(self._sizes[0])
        if not self.jitter:
            return np.append(np.arange(0, longest, self.bptt), longest)
        if self._windows is None or self._windows[0] != epoch:
            self._windows = epoch, _drawn(longest, self.bptt, np.random.default_rng([self.seed, epoch]))
        return self._windows[1]


class WindowLoader:
    """Each symbol of a stream with those before it, shuffled, for models that read a fixed number of them.

    A batch has ``context`` (B, n), the symbols before each target, ``bos`` where there are none, and ``targets`` (B,).
    Every symbol of the stream is a target once in an epoch. What a position (epoch, index) stands for depends on
    nothing else, and no order of the whole stream is held in memory.

    Args:
        stream: of ids.
        context: symbols that are read, n.
        batch: targets in a batch; the last one may have fewer.
        bos: the symbol before the beginning.
        seed: of the order.
        shuffle: False gives the symbols in their order.
        apart: a context does not reach back into the text before.

    >>> import tempfile
    >>> stream = TokenStream.build([[5, 6, 7]], tempfile.mkdtemp())
    >>> for batch in WindowLoader(stream, context=2, batch=2, bos=1, shuffle=False).batches(0):
    ...     batch["context"].tolist(), batch["targets"].tolist()
    ([[1, 1], [1, 5]], [5, 6])
    ([[5, 6]], [7])
    """

    def __init__(
        self,
        stream: TokenStream,
        *,
        context: int,
        batch: int,
        bos: int,
        seed: int = 0,
        shuffle: bool = True,
        apart: bool = False,
    ) -> None:
        self.stream, self.context, self.batch, self.bos = stream, context, batch, bos
        self.seed, self.shuffle, self.apart = seed, shuffle, apart
        if not len(stream):
            raise DataError(f"{stream.folder}: a text of 0 symbols has nothing to predict; expected at least 1")

    def count(self, epoch: int) -> int:
        """How many batches the epoch has."""
        return -(-len(self.stream) // self.batch)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch in their order, from number ``start`` on."""
        size = len(self.stream)
        for begin in range(start * self.batch, size, self.batch):
            targets = np.arange(begin, min(begin + self.batch, size))
            if self.shuffle:
                targets = shuffled(targets, size, seed=self.seed, epoch=epoch)
            yield self._batch(targets)

    def _batch(self, targets: np.ndarray) -> Batch:
        places = targets[:, None] + np.arange(-self.context, 0)
        begin = np.zeros_like(targets)
        if self.apart:
            ends = self.stream.ends
            text = np.searchsorted(ends, targets, side="right")
            begin = np.where(text > 0, ends[np.maximum(text - 1, 0)], 0)
        there = places >= begin[:, None]
        context = np.where(there, self.stream.ids[np.where(there, places, 0)], self.bos)
        return Batch(context=context.astype(np.int64), targets=self.stream.ids[targets].astype(np.int64))


def _write(
    chunks: Iterable[np.ndarray | Sequence[int]], ids: IO[bytes], offsets: IO[bytes], ends: int | str | None
) -> _Sizes:
    """Write the ids and where the texts end, and say how many there are of both."""
    sizes = _Sizes(0, 0)
    held = array("q")
    last = 0

    def flush() -> None:
        sizes.texts += len(held)
        offsets.write(held.tobytes())
        del held[:]

    for chunk in chunks:
        values = np.ascontiguousarray(chunk, np.int32)
        if values.ndim != 1 or values.min(initial=0) < 0:
            raise DataError(
                f"expected chunks (n,) of ids from 0 on, received {values.shape}, least {values.min(initial=0)}"
            )
        ids.write(values.tobytes())
        before, sizes.symbols = sizes.symbols, sizes.symbols + len(values)
        if ends == "chunks":
            held.append(sizes.symbols)
        elif ends is not None:
            held.frombytes((before + 1 + np.flatnonzero(values == ends)).astype(np.int64).tobytes())
        last = held[-1] if held else last
        if len(held) >= _CHUNK:
            flush()
    if last < sizes.symbols:
        held.append(sizes.symbols)
    flush()
    return sizes


def _map(path: Path, dtype: np.dtype[np.generic], size: int) -> np.ndarray:
    """A file as an array; an empty file cannot be mapped."""
    found = path.stat().st_size if path.is_file() else 0
    if found != size * dtype.itemsize:
        raise DataError(
            f"{path}: expected {size * dtype.itemsize} bytes, received {found}; the file is truncated or was changed. "
            "Remove the folder, and build the stream anew"
        )
    return np.memmap(path, dtype, "r") if size else np.zeros(0, dtype)


def _check_ends(stream: TokenStream, bos: int | None) -> None:
    """Texts can be kept apart where each but the last one ends with the symbol that the next one begins behind."""
    found = set() if bos is None else {bos}
    for start in range(0, len(stream.ends) - 1, _CHUNK):
        last = stream.ends[start : min(start + _CHUNK, len(stream.ends) - 1)] - 1
        found.update(np.unique(stream.ids[last[last >= 0]]).tolist())
        if len(found) > 1:
            raise DataError(
                f"{stream.folder}: texts that are kept apart must all end with the symbol that the next one begins "
                f"behind, a line end; received texts that end with {sorted(found)[:5]}"
            )


def _drawn(longest: int, bptt: int, random: np.random.Generator) -> np.ndarray:
    """Random cuts from 0 to ``longest``."""
    parts = [np.zeros(1, np.int64)]
    while parts[-1][-1] < longest:
        usual = np.where(random.random(_LENGTHS) < 0.95, bptt, bptt / 2)
        lengths = np.clip(random.normal(usual, 5.0).astype(np.int64), 5, bptt + 10)
        parts.append(parts[-1][-1] + np.cumsum(lengths))
    cuts = np.concatenate(parts)
    return np.append(cuts[cuts < longest], longest)
