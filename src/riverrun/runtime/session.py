"""An exported graph as a scorer: the batch goes in by the names of its arrays, ``Chain`` or ``Labels`` comes out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

import msgspec
import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from riverrun.data.batch import Batch
from riverrun.data.padded import Array
from riverrun.decode.scorer import Chain, Labels
from riverrun.errors import CheckpointError, ShapeError
from riverrun.runtime.info import FORMAT, KEY, GraphInfo

CHAIN = ("emissions", "transitions", "start", "stop")
LABELS = ("logits",)

# What ONNX Runtime raises; its errors have no common base class. The last ones come from its binding to Python: of a
# damaged file a name may be no UTF-8, a size beyond all memory.
_REFUSED = (
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NoModel,
    ort_errors.NoSuchFile,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
    RuntimeError,
    ValueError,
    MemoryError,
)
_DTYPES = {
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(bool)": np.bool_,
}
_FATAL = 4  # ONNX Runtime's number for this severity; its errors are raised, they need not be logged too


class Session:
    """A graph written by ``riverrun.export``, run by ONNX Runtime on the CPU.

    The graph's inputs are names of ``batch.flat()``; arrays that it does not declare are not looked at. Its outputs
    say what it is: ``emissions, transitions, start, stop`` give a ``Chain``, ``logits`` give ``Labels``.

    Args:
        path: the ONNX file, or a folder with a ``model.onnx``.
        threads: how many threads one call may use; None leaves the choice to ONNX Runtime.
    """

    def __init__(self, path: str | os.PathLike[str], *, threads: int | None = None) -> None:
        self.path = Path(path) / "model.onnx" if Path(path).is_dir() else Path(path)
        if not self.path.is_file():
            raise CheckpointError(f"{self.path}: no such file; expected an exported graph (riverrun export MODEL DIR)")
        self._session = _open(self.path, threads)
        self.info = _info(self.path, self._session)
        self.inputs: dict[str, str] = {value.name: value.type for value in self._session.get_inputs()}
        self.outputs: tuple[str, ...] = tuple(value.name for value in self._session.get_outputs())
        if not (set(CHAIN) <= set(self.outputs) or set(LABELS) <= set(self.outputs)):
            raise CheckpointError(
                f"{self.path}: expected the outputs {', '.join(CHAIN)} or {', '.join(LABELS)}, "
                f"received {', '.join(self.outputs)}; this graph does not score"
            )

    def scores(self, batch: Batch) -> Chain | Labels:
        """The scores of a batch of numpy arrays; B, T or the number of distinct forms may be 0."""
        flat = self._declared(batch.flat())
        out = self._run({name: _at_least_one(array) for name, array in flat.items()})
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
        out: dict[str, Array] = {}
        for name, declared in self.inputs.items():
            array, dtype = np.asarray(flat[name]), _DTYPES[declared]
            if not np.can_cast(array.dtype, dtype, "same_kind"):
                raise ShapeError(
                    f"{self.path}: {name} must be {np.dtype(dtype).name}, received {array.dtype.name} {array.shape}"
                )
            out[name] = np.ascontiguousarray(array, dtype)
        return out

    def _run(self, feed: dict[str, Array]) -> dict[str, Array]:
        try:
            values = self._session.run(None, feed)
        except _REFUSED as error:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in feed.items())
            raise ShapeError(f"{self.path}: the graph cannot run on {shapes}: {_line(error)}") from error
        return dict(zip(self.outputs, values, strict=True))


def _open(path: Path, threads: int | None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = _FATAL
    options.inter_op_num_threads = 1
    # Threads that wait do not spin: on a busy machine they halve the speed, on an idle one they gain a tenth.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        with redirect_stdout(None):  # it prints some errors there and tries the same once more
            return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except _REFUSED as error:
        raise CheckpointError(
            f"{path}: expected an ONNX graph, received {path.stat().st_size} bytes that ONNX Runtime "
            f"{ort.__version__} does not accept: {_line(error)}. The file may be truncated or altered; export it again"
        ) from error


def _line(error: Exception) -> str:
    """What ONNX Runtime says over several lines."""
    return " ".join(str(error).split())


def _info(path: Path, session: ort.InferenceSession) -> GraphInfo:
    try:
        text = session.get_modelmeta().custom_metadata_map.get(KEY)
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: the metadata of the graph cannot be read: {error}; export it again") from error
    if text is None:
        raise CheckpointError(
            f"{path}: an ONNX graph without the '{KEY}' metadata: it was not written by riverrun export"
        )
    try:
        info = GraphInfo.read(text)
    except msgspec.MsgspecError as error:
        raise CheckpointError(
            f"{path}: the '{KEY}' metadata of the graph cannot be read: {error}; export it again"
        ) from error
    if info.format > FORMAT:
        raise CheckpointError(
            f"{path}: the graph has format {info.format}, this riverrun reads up to {FORMAT}; upgrade riverrun"
        )
    return info


def _at_least_one(array: Array) -> Array:
    """The array with 1 for each dimension that is 0: an LSTM node aborts the process on no rows, a Scan on no steps.

    What is put in is padding (zeros, of length 0), the same in every array of the batch, and it is cut off again.
    """
    if array.size:
        return array
    return np.zeros([max(1, size) for size in array.shape], array.dtype)
