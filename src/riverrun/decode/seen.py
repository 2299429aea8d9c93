"""What each text consists of so far: what constraints and penalties look at."""

from __future__ import annotations

import numpy as np

from riverrun.data.padded import Padded
from riverrun.decode.backend import to_numpy
from riverrun.decode.step import StepModel
from riverrun.decode.stream import Stream
from riverrun.errors import ShapeError


def follow(seen: Padded, more: Padded) -> Padded:
    """The rows of the one, each followed by that of the other, as numpy ids.

    >>> [row.tolist() for row in follow(Padded.of([[7, 8], []]), Padded.of([[1], [2, 3]])).rows()]
    [[7, 8, 1], [2, 3]]
    """
    first, second = seen.map(to_numpy), more.map(to_numpy)
    N, T = second.data.shape
    data = np.concatenate([first.data, np.zeros((N, T), np.int64)], axis=1)
    np.put_along_axis(data, first.lengths[:, None] + np.arange(T), second.data, axis=1)
    return Padded(data, first.lengths + second.lengths)


def read_prompt(
    model: StepModel, stream: Stream, prompt: Padded | None, before: Padded | None = None
) -> tuple[Stream, Padded]:
    """The stream behind the prompt, and all that is known of its texts: what was read before, and the prompt.

    >>> from riverrun.decode.table import Table
    >>> model = Table(np.log([[0.5, 0.5], [0.25, 0.75]]))
    >>> stream, seen = read_prompt(model, Stream.begin(model), Padded.of([[0, 1]]))
    >>> stream.last.tolist(), seen.data.tolist()
    ([1], [[0, 1]])
    """
    for name, ids in (("prompt", prompt), ("before", before)):
        if ids is not None and len(ids) != len(stream):
            raise ShapeError(f"{name}: expected a row for each of {len(stream)} texts, received {len(ids)}")
    nothing = Padded(np.zeros((len(stream), 0), np.int64), np.zeros(len(stream), np.int64))
    seen = nothing if before is None else before.map(to_numpy)
    if prompt is None:
        return stream, seen
    return stream.feed(model, prompt)[1], follow(seen, prompt)
