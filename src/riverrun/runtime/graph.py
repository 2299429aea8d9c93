"""An ONNX file that riverrun wrote, opened: what it says of itself, and arrays through it by their names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

import msgspec
import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from riverrun.data.padded import Array
from riverrun.errors import CheckpointError, ShapeError
from riverrun.runtime.info import FORMAT, KEY, GraphInfo

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


class Graph:
    """A graph written by ``riverrun.export``, run by ONNX Runtime on the CPU.

    Args:
        path: the ONNX file, or a folder with a ``model.onnx``.
        threads: how many threads one call may use; None leaves the choice to ONNX Runtime.

    Attributes:
        info: what the file says of itself.
        inputs: name -> type.
        outputs: the names.
        shapes: name -> the dimensions of an input or output; a text or None where any size is taken.
    """

    def __init__(self, path: str | os.PathLike[str], *, threads: int | None = None) -> None:
        self.path = Path(path) / "model.onnx" if Path(path).is_dir() else Path(path)
        if not self.path.is_file():
            raise CheckpointError(f"{self.path}: no such file; expected an exported graph (riverrun export MODEL DIR)")
        self._session = _open(self.path, threads)
        self.info = _info(self.path, self._session)
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        self.inputs: dict[str, str] = {value.name: value.type for value in inputs}
        strange = [f"{name} {kind}" for name, kind in self.inputs.items() if kind not in _DTYPES]
        if strange:
            raise CheckpointError(
                f"{self.path}: expected inputs of the types {', '.join(_DTYPES)}, received {', '.join(strange)}; "
                "the file may be altered, export it again"
            )
        self.outputs: tuple[str, ...] = tuple(value.name for value in outputs)
        self.shapes: dict[str, tuple[int | str | None, ...]] = {
            value.name: tuple(value.shape) for value in (*inputs, *outputs)
        }

    def dtype(self, name: str) -> np.dtype:
        """The type of an input."""
        return np.dtype(_DTYPES[self.inputs[name]])

    def typed(self, name: str, array: Array) -> Array:
        """An array in the type that an input declares, laid out as ONNX Runtime reads it."""
        array, dtype = np.asarray(array), _DTYPES[self.inputs[name]]
        if not np.can_cast(array.dtype, dtype, "same_kind"):
            raise ShapeError(
                f"{self.path}: {name} must be {np.dtype(dtype).name}, received {array.dtype.name} {array.shape}"
            )
        return np.ascontiguousarray(array, dtype)

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Every output by its name; no array may be empty: an LSTM node aborts the process on no rows."""
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
    source: str | bytes = str(path)
    try:
        str(path).encode()
    except UnicodeEncodeError:  # in some locales a name that is not English, which ONNX Runtime would not take
        source = path.read_bytes()
    try:
        with redirect_stdout(None):  # it prints some errors there and tries the same once more
            return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
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
