"""An exported graph as a scorer: the batch goes in by the names of its arrays, ``Chain`` or ``Labels`` comes out."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from riverrun.data.batch import Batch
from riverrun.data.padded import Array
from riverrun.decode.scorer import Chain, Labels
from riverrun.errors import CheckpointError, ShapeError
from riverrun.runtime.graph import Graph

CHAIN = ("emissions", "transitions", "start", "stop")
LABELS = ("logits",)


class Session:
    """A graph that scores.

    The graph's inputs are names of ``batch.flat()``; arrays that it does not declare are not looked at. Its outputs
    say what it is: ``emissions, transitions, start, stop`` give a ``Chain``, ``logits`` give ``Labels``.

    Args:
        path: the ONNX file, or a folder with a ``model.onnx``.
        threads: how many threads one call may use; None leaves the choice to ONNX Runtime.
    """

    def __init__(self, path: str | os.PathLike[str], *, threads: int | None = None) -> None:
        self._graph = Graph(path, threads=threads)
        self.path, self.info = self._graph.path, self._graph.info
        self.inputs, self.outputs = self._graph.inputs, self._graph.outputs
        if not (set(CHAIN) <= set(self.outputs) or set(LABELS) <= set(self.outputs)):
            raise CheckpointError(
                f"{self.path}: expected the outputs {', '.join(CHAIN)} or {', '.join(LABELS)}, "
                f"received {', '.join(self.outputs)}; this graph does not score"
            )

    def scores(self, batch: Batch) -> Chain | Labels:
        """The scores of a batch of numpy arrays; B, T or the number of distinct forms may be 0."""
        flat = self._declared(batch.flat())
        out = self._graph.run({name: _at_least_one(array) for name, array in flat.items()})
        examples = batch[self.info.rows]
        if "logits" in out:
            return Labels(out["logits"][: len(examples)])
        rows, times = examples.data.shape[:2]
        emissions, transitions = out["emissions"][:rows, :times], out["transitions"]
        if transitions.ndim == 4:  # one matrix a position
            transitions = transitions[:rows, :times]
        return Chain(emissions, transitions, out["start"], out["stop"], examples.lengths)

    def _declared(self, flat: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays that the graph declares, in the types that it declares."""
        absent = [name for name in {**self.inputs, self.info.rows: ""} if name not in flat]
        if absent:
            raise ShapeError(
                f"{self.path}: the graph reads {', '.join(absent)}, which the batch does not have; "
                f"it has {', '.join(flat) or 'nothing'}"
            )
        return {name: self._graph.typed(name, flat[name]) for name in self.inputs}


def _at_least_one(array: Array) -> Array:
    """The array with 1 for each dimension that is 0: an LSTM node aborts the process on no rows, a Scan on no steps.

    What is put in is padding (zeros, of length 0), the same in every array of the batch, and it is cut off again.
    """
    if array.size:
        return array
    return np.zeros([max(1, size) for size in array.shape], array.dtype)
