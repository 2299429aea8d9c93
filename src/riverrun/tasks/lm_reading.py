"""A language model reads text: the log probability of every symbol, line by line or as one running text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from riverrun.data.padded import Padded
from riverrun.data.sampler import Buckets
from riverrun.decode.step import StepModel
from riverrun.decode.stream import Stream
from riverrun.text.units import AnyUnits

WINDOW = 2048  # lines that are sorted by length before they are cut into batches
POSITIONS = 8192  # of a batch of lines, padding included
CHUNK = 1024  # symbols of running text that are read at once

Scored = tuple[np.ndarray, np.ndarray]
"""Ids (n,) and the natural logarithms of their probabilities (n,)."""


def line_end(units: AnyUnits) -> int:
    """The symbol at the end of a line."""
    return units.bos if units.eos is None else units.eos


def read_lines(model: StepModel, units: AnyUnits, lines: Iterable[str]) -> Iterator[Scored]:
    """Each line with its end, read from the beginning, in the order of the lines and in bounded memory."""
    end = line_end(units)
    waiting = iter(lines)
    while window := list(islice(waiting, WINDOW)):
        rows = [[*units.ids(line), end] for line in window]
        answers: list[Scored] = [(np.zeros(0), np.zeros(0))] * len(rows)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        for batch in Buckets(lengths, batch=WINDOW, tokens=POSITIONS, shuffle=False, pool=WINDOW).order(0):
            ids = Padded.of([rows[k] for k in batch])
            scores, _ = Stream.begin(model, rows=len(batch)).feed(model, ids)
            for k, row, found in zip(batch.tolist(), ids.rows(), Padded(scores, ids.lengths).rows(), strict=True):
                answers[k] = row, found
        yield from answers


def read_running(model: StepModel, chunks: Iterable[np.ndarray], stream: Stream | None = None) -> Iterator[Scored]:
    """One text whose ids come in chunks of any size; the state goes on through all of it."""
    stream = Stream.begin(model) if stream is None else stream
    for chunk in chunks:
        for start in range(0, len(chunk), CHUNK):
            ids = np.asarray(chunk[start : start + CHUNK], np.int64)
            scores, stream = stream.feed(model, Padded(ids[None], np.array([len(ids)])))
            yield ids, scores[0]


def read_places(model: StepModel, ids: np.ndarray, places: int) -> Iterator[Scored]:
    """A long text at several places at once, for speed: each begins behind its symbol before, knowing nothing else.

    Args:
        ids: (N,), all of it.
        places: how many.
    """
    places = max(1, min(places, len(ids) // CHUNK))
    bounds = np.linspace(0, len(ids), places + 1).astype(np.int64)
    begins, sizes = bounds[:-1], np.diff(bounds)
    stream = Stream.begin(model, rows=places)
    stream = Stream(stream.state, np.where(begins > 0, ids[np.maximum(begins - 1, 0)], stream.last).astype(np.int64))
    width = max(1, CHUNK // 4)
    for start in range(0, int(sizes.max(initial=0)), width):
        lengths = np.clip(sizes - start, 0, width)
        index = begins[:, None] + start + np.arange(int(lengths.max()))
        part = Padded(np.asarray(ids[np.minimum(index, len(ids) - 1)], np.int64), lengths)
        scores, stream = stream.feed(model, part)
        mask = part.mask()
        yield part.data[mask], scores[mask]
