"""Models that count as one file of arrays, in the format of safetensors; nothing in it is ever run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from riverrun.classic.arrays import Ids, Integers
from riverrun.classic.context import ContextModel
from riverrun.classic.ngram import NGram
from riverrun.classic.snm import SparseNonNegative
from riverrun.classic.trie import Trie
from riverrun.errors import CheckpointError

FORMAT = 1
HEADER = "counts"  # one key of metadata only: safetensors does not fix the order of several

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


class _NGram(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="ngram", tag_field="kind"):
    format: int
    bos: int
    eos: int | None
    unknown: int | None
    smoothing: str
    flat: bool
    absent: float
    notes: tuple[str, ...]


class _Snm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="snm", tag_field="kind"):
    format: int
    bos: int
    eos: int | None
    unknown: int | None
    symbols: int
    patterns: tuple[tuple[int, ...], ...]
    anything: float


def to_bytes(model: ContextModel) -> bytes:
    """The content of ``classic/arrays.safetensors``; equal models give equal bytes.

    >>> trie = Trie(np.array([0, 2]), np.array([0, 1], np.int32), np.array([2]))
    >>> data = to_bytes(NGram(trie, np.log([0.25, 0.75]), np.zeros(0), bos=0, eos=None))
    >>> np.exp(from_bytes(data).scores(np.array([1]))).tolist()
    [0.75]
    """
    if isinstance(model, NGram):
        trie = model.trie
        arrays = {"base": trie.base, "word": trie.word, "first": trie.first}
        arrays |= {"log_prob": model.log_prob, "log_backoff": model.log_backoff}
        header: _NGram | _Snm = _NGram(
            FORMAT, model.bos, model.eos, model.unknown, model.smoothing, model.flat, model.absent, model.notes
        )
    elif isinstance(model, SparseNonNegative):
        arrays = {"base": model.base, "feature": model.feature, "first": model.first}
        arrays |= {"word": model.word, "weight": model.weight}
        header = _Snm(FORMAT, model.bos, model.eos, model.unknown, model.symbols, model.patterns, model.anything)
    else:
        raise TypeError(f"expected an NGram or a SparseNonNegative, received {type(model).__name__}")
    metadata = {HEADER: msgspec.json.encode(header).decode()}
    return bytes(save({name: np.ascontiguousarray(value) for name, value in arrays.items()}, metadata=metadata))


def from_bytes(data: bytes, name: str = "classic/arrays.safetensors") -> NGram | SparseNonNegative:
    """The inverse of ``to_bytes``; a file that is damaged, or that other software made, is a CheckpointError.

    Args:
        data: the content of the file.
        name: what messages call it.
    """
    try:
        arrays = load(data)
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
        header = msgspec.json.decode(metadata[HEADER], type=_NGram | _Snm)
    except (SafetensorError, msgspec.MsgspecError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"{name}: expected a complete safetensors file with the arrays of a model that counts, received "
            f"{len(data)} bytes: {error}. Copy the model again"
        ) from None
    if header.format != FORMAT:
        raise CheckpointError(
            f"{name}: expected format {FORMAT}, received {header.format}; it was written by another release of riverrun"
        )
    problem = _problem(header, arrays)
    if problem:
        raise CheckpointError(f"{name}: the arrays do not belong together: {problem}. Copy the model again")
    if isinstance(header, _NGram):
        return NGram(
            Trie(arrays["base"], arrays["word"], arrays["first"]), arrays["log_prob"], arrays["log_backoff"],
            header.bos, header.eos, header.unknown, header.smoothing, header.flat, header.absent, header.notes,
        )  # fmt: skip
    return SparseNonNegative(
        header.symbols, header.patterns, arrays["base"], arrays["feature"], arrays["first"], arrays["word"],
        arrays["weight"], header.anything, header.bos, header.eos, header.unknown,
    )  # fmt: skip


_KINDS = {
    _NGram: {"base": "i8", "word": "i4", "first": "i8", "log_prob": "f4 f8", "log_backoff": "f4 f8"},
    _Snm: {"base": "i8", "feature": "u8", "first": "i8", "word": "i4", "weight": "f4"},
}


def _problem(header: _NGram | _Snm, arrays: Arrays) -> str | None:
    """What a loop over these arrays would trip over: it does not look where it reads."""
    kinds = _KINDS[type(header)]
    if arrays.keys() != kinds.keys():
        return f"expected {', '.join(kinds)}, received {', '.join(sorted(arrays))}"
    for name, kind in kinds.items():
        if arrays[name].ndim != 1 or arrays[name].dtype.str[1:] not in kind.split():
            return f"{name} has {arrays[name].ndim} dimensions of {arrays[name].dtype}"
    base, first, word = arrays["base"], arrays["first"], arrays["word"]
    if len(base) < 2 or base[0] != 0 or (np.diff(base) < 0).any():
        return "base does not rise from 0"
    sizes = {name: len(value) for name, value in arrays.items()}
    if isinstance(header, _NGram):
        size, rows = int(base[1]), int(base[-2])
        right = {"word": int(base[-1]), "first": rows + 1, "log_prob": int(base[-1]), "log_backoff": rows}
    else:
        size, rows = header.symbols, int(base[-1])
        right = {"feature": rows, "first": rows + 1, "weight": sizes["word"]}
    wrong = [name for name, expected in right.items() if sizes[name] != expected]
    if wrong:
        return f"{wrong[0]} has {sizes[wrong[0]]} numbers, expected {right[wrong[0]]}"
    marks = [mark for mark in (header.bos, header.eos, header.unknown) if mark is not None]
    if not all(0 <= mark < size for mark in marks):
        return f"bos, eos or unknown is not among {size} symbols"
    if isinstance(header, _NGram):
        if not np.array_equal(word[:size], np.arange(size)) or not np.array_equal(first[base[:-1]], base[1:]):
            return "the n-grams of an order do not begin where they should"
        return _unsorted(first, word, size, int(base[1]), least=0)
    if len(base) != len(header.patterns) + 1 or not all(map(_looks_back, header.patterns)):
        return "the patterns are not those of the contexts"
    return _unsorted(first, word, size, 0, least=1)


def _unsorted(first: Integers, word: Ids, size: int, start: int, *, least: int) -> str | None:
    """Whether rows do not follow one another from ``start`` on, or their words do not rise."""
    if first[0] != start or first[-1] != len(word) or (np.diff(first) < least).any():
        return "first does not rise to the number of words"
    if len(word) and not 0 <= word.min() <= word.max() < size:
        return f"there are words beyond {size}"
    rises = np.diff(word[start:]) > 0
    inside = first[(first > start) & (first < len(word))]
    rises[inside - start - 1] = True
    return None if rises.all() else "the words of a row do not rise"


def _looks_back(pattern: tuple[int, ...]) -> bool:
    return all(far > near for far, near in pairwise((*pattern, 0)))
