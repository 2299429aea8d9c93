"""An exported language model as a step model: it generates, and scores texts, by the code of all step models."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from riverrun.data.batch import Batch
from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import to_numpy
from riverrun.decode.state import State
from riverrun.decode.step import Step
from riverrun.errors import CheckpointError, ShapeError, StateError
from riverrun.runtime.graph import Graph

IDS, LENGTHS, LOG_PROBS = "ids", "lengths", "log_probs"
AFTER = ".after"
"""How the name of a state's array ends where it comes out of the graph: one name cannot stand for two values there."""

HELD = 1 << 23
"""Log probabilities that are held when texts are scored: 32 MB; with half as many it is a tenth slower."""
POSITIONS = 4096
"""And positions that are read at a time, which the vectors of the layers need memory for."""


class GraphStepper:
    """``decode.StepModel`` for a graph that was exported: it steps, and reads texts, without torch.

    The graph reads ``ids`` (B, T), ``lengths`` (B,) and the arrays of a state (B, 1, ...). It gives ``log_probs``
    (B, T, V) and the state behind the last symbol of each row, each array under its name and ``AFTER``. The states are
    those of the net, as numpy arrays: a stream that one of the two has read goes on in the other.

    Args:
        path: the ONNX file, or a folder with a ``model.onnx``.
        bos: the symbol that is read first.
        eos: the symbol that ends a text, or None where texts do not end.
        threads: how many threads one call may use; None leaves the choice to ONNX Runtime.

    Attributes:
        info: what the file says of itself.
        size: V, how many symbols there are.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, bos: int, eos: int | None = None, threads: int | None = None
    ) -> None:
        self._graph = Graph(path, threads=threads)
        self.path, self.info = self._graph.path, self._graph.info
        self.bos, self.eos = bos, eos
        self._first = self._numbers()
        self.size, self._inner = self._declared()

    def start(self, source: Batch | None = None, *, rows: int = 1) -> State:
        """The state that has read nothing; a language model has no source."""
        if source is not None:
            raise ShapeError("GraphStepper.start: a language model has no source, received one; give rows instead")
        return State(
            moving={
                name: np.full((rows, 1, *inner), self._first[name], self._graph.dtype(name))
                for name, inner in self._inner.items()
            }
        )

    def step(self, ids: Array, state: State) -> Step:
        """Read one symbol of each hypothesis, (B, K)."""
        ids = self._checked("step", to_numpy(ids))
        shape = ids.shape
        arrays = {
            name: value.reshape(-1, 1, *value.shape[2:]) for name, value in self._arrays("step", state, shape).items()
        }
        log_probs, after = self._run(ids.reshape(-1, 1), np.ones(ids.size, np.int64), arrays)
        moving = {name: value.reshape(*shape, *value.shape[2:]) for name, value in after.items()}
        return Step(log_probs.reshape(*shape, self.size), State(moving=moving))

    def read(self, ids: Padded, state: State) -> tuple[npt.NDArray[np.float32], State]:
        """Read whole rows, (B, T); all of (B, T, V) is held.

        Args:
            ids: (B, T), any lengths.
            state: before them; K is 1.

        Returns:
            (B, T, V), the log probabilities of what comes next after each symbol, without meaning in the padding; and
            the state behind the last symbol of each row, unchanged where a row has none.
        """
        data, lengths = self._rows("read", ids)
        log_probs, after = self._run(data, lengths, self._arrays("read", state, (len(data), 1)))
        return log_probs, State(moving=after)

    def score(self, ids: Padded, state: State) -> tuple[npt.NDArray[np.float32], State]:
        """The log probability of each symbol of ``ids`` (B, 1 + T) but the first one of each row."""
        data, lengths = self._rows("score", ids)
        arrays = {name: value.copy() for name, value in self._arrays("score", state, (len(data), 1)).items()}
        scores = np.zeros((len(data), max(0, data.shape[1] - 1)), np.float32)
        held = max(1, min(HELD // self.size, POSITIONS))
        for first in range(0, len(data), held):
            rows = np.arange(first, min(first + held, len(data)))
            begin = 0
            while len(rows := rows[lengths[rows] - 1 > begin]):  # a row that has ended is not read on
                left = lengths[rows] - 1 - begin
                count = np.minimum(left, max(1, held // len(rows)))
                size = int(count.max())
                before = {name: value[rows] for name, value in arrays.items()}
                log_probs, after = self._run(data[rows, begin : begin + size], count, before)
                targets = data[rows, begin + 1 : begin + 1 + size]
                found = np.take_along_axis(log_probs, targets[..., None], axis=2)[..., 0]
                scores[rows, begin : begin + size] = Padded(found, count).zeroed().data
                for name, value in after.items():
                    arrays[name][rows] = value
                begin += size
        return scores, State(moving=arrays)

    def _run(
        self, ids: Array, lengths: Array, arrays: Mapping[str, Array]
    ) -> tuple[npt.NDArray[np.float32], dict[str, Array]]:
        """One call, unless there is nothing to read: on no rows ONNX Runtime aborts the process."""
        if not ids.size:
            return np.zeros((*ids.shape, self.size), np.float32), dict(arrays)
        out = self._graph.run({IDS: np.ascontiguousarray(ids), LENGTHS: lengths, **arrays})
        return out[LOG_PROBS], {name: out[f"{name}{AFTER}"] for name in arrays}

    def _rows(self, where: str, ids: Padded) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows as the graph reads them, with symbols in the padding too."""
        lengths = to_numpy(ids.lengths).astype(np.int64, copy=False)
        return self._checked(where, Padded(to_numpy(ids.data), lengths).zeroed().data), lengths

    def _checked(self, where: str, ids: Array) -> npt.NDArray[np.int64]:
        """Symbols (B, T) in the type of the graph."""
        if ids.ndim != 2 or ids.dtype.kind not in "iu":
            raise ShapeError(
                f"GraphStepper.{where}: expected ids (B, {'K' if where == 'step' else 'T'}) of whole numbers, received "
                f"{ids.dtype.name} {ids.shape}"
            )
        found: npt.NDArray[np.int64] = ids.astype(np.int64, copy=False)
        if found.size and int(found.view(np.uint64).max()) >= self.size:  # a negative number is a large one there
            wrong = found[(found < 0) | (found >= self.size)][0]
            raise ShapeError(f"GraphStepper.{where}: expected ids from 0 to {self.size - 1}, received {wrong}")
        return found

    def _arrays(self, where: str, state: State, shape: tuple[int, ...]) -> dict[str, Array]:
        """The arrays of a state (B, K, ...), after a look at whether they are this model's."""
        if state.fixed or state.moving.keys() != self._inner.keys():
            raise StateError(
                f"GraphStepper.{where}: expected a state of {', '.join(self._inner) or 'no arrays'}, received "
                f"{', '.join(state.flat()) or 'nothing'}; a state belongs to one model"
            )
        found: dict[str, Array] = {}
        for name, inner in self._inner.items():
            value = to_numpy(state.moving[name])
            dtype = self._graph.dtype(name)
            if value.shape != (*shape, *inner) or not np.can_cast(value.dtype, dtype, "same_kind"):
                raise StateError(
                    f"GraphStepper.{where}: expected {name} of the state as {dtype.name} {(*shape, *inner)}, received "
                    f"{value.dtype.name} {value.shape}; a state belongs to one model, and has a row for each row of ids"
                )
            found[name] = self._graph.typed(name, value)
        return found

    def _numbers(self) -> dict[str, float]:
        """What each array of the first state is filled with."""
        start = {} if self.info.start is UNSET else self.info.start
        try:
            return {name: float(number) for name, number in start.items()}
        except ValueError as error:
            raise CheckpointError(
                f"{self.path}: expected numbers as the first values of the state: {error}; export it again"
            ) from error

    def _declared(self) -> tuple[int, dict[str, tuple[int, ...]]]:
        """V, and the name of each array of a state -> its dimensions behind (B, K)."""
        graph = self._graph
        names = [name for name in graph.inputs if name not in (IDS, LENGTHS)]
        needed = {LOG_PROBS, *(f"{name}{AFTER}" for name in names)}
        if not ({IDS, LENGTHS} <= {*graph.inputs} and needed <= {*graph.outputs}):
            raise CheckpointError(
                f"{self.path}: expected a language model, which reads {IDS}, {LENGTHS} and a state and gives "
                f"{LOG_PROBS} and that state, received a graph that reads {', '.join(graph.inputs)} and gives "
                f"{', '.join(graph.outputs)}"
            )
        sizes = {name: [n for n in graph.shapes[name][2:] if isinstance(n, int)] for name in (LOG_PROBS, *names)}
        unknown = [name for name, found in sizes.items() if len(found) != max(1, len(graph.shapes[name]) - 2)]
        unknown += [name for name in names if name not in self._first]
        if unknown:
            raise CheckpointError(
                f"{self.path}: expected the sizes and the first values of {', '.join(unknown)} in the file, received "
                "none; export it again"
            )
        return sizes[LOG_PROBS][0], {name: tuple(sizes[name]) for name in names}
