"""A text that is being read or written: a state and the last symbol, a value that can be kept, copied and saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace
from safetensors import SafetensorError
from safetensors.numpy import load, save

from riverrun.data.batch import Batch
from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import like, to_numpy
from riverrun.decode.state import State
from riverrun.decode.step import StepModel
from riverrun.errors import CheckpointError, ConfigError, ShapeError, StateError

FORMAT = 1
HEADER = "stream"  # one key of metadata only: safetensors does not fix the order of several


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    """What a file says beside the arrays of the state."""

    format: int
    model: str
    last: list[int]
    fixed: list[str]


@dataclass(frozen=True, eq=False)
class Stream:
    """B texts, each somewhere on its way. To fork a text is to keep its stream: nothing changes one.

    Args:
        state: it has read everything but the last symbol; one hypothesis (K = 1) for each text.
        last: (B,), the last symbol of each, as numpy int64.

    >>> from riverrun.decode.table import Table
    >>> model = Table(np.log([[0.5, 0.5], [0.25, 0.75]]))
    >>> scores, stream = Stream.begin(model).feed(model, Padded.of([[1, 1]]))
    >>> np.exp(scores).tolist(), stream.last.tolist()
    ([[0.5, 0.75]], [1])
    """

    state: State
    last: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        for name, value in self.state.flat().items():
            expected = (len(self.last), 1) if name in self.state.moving else (len(self.last),)
            if tuple(value.shape[: len(expected)]) != expected:
                raise ShapeError(
                    f"Stream: expected the array '{name}' of the state to begin with {expected} for "
                    f"{len(self.last)} last symbols, received {tuple(value.shape)}"
                )

    def __len__(self) -> int:
        return len(self.last)

    @staticmethod
    def begin(model: StepModel, source: Batch | None = None, *, rows: int = 1) -> Stream:
        """Texts that have not begun: one for each row of the source, or ``rows`` of them."""
        state = model.start(source, rows=rows)
        return Stream(state, np.full(rows if state.sources is None else state.sources, model.bos, np.int64))

    def feed(self, model: StepModel, ids: Padded) -> tuple[npt.NDArray[np.float64], Stream]:
        """Go on with these symbols.

        Args:
            ids: (B, T), what each text goes on with; rows may be empty.

        Returns:
            (B, T), the log probability of each symbol after all before it, 0 in the padding; and the stream behind.
        """
        data, lengths = to_numpy(ids.data), to_numpy(ids.lengths)
        if len(ids) != len(self):
            raise ShapeError(f"Stream.feed: expected ids for {len(self)} texts, received {len(ids)} rows")
        given = Padded(data, lengths).zeroed().data
        wrong = given[(given < 0) | (given >= model.size)]
        if len(wrong):
            raise ConfigError(f"Stream.feed: expected ids from 0 to {model.size - 1}, received {wrong[0]}")
        if given.shape[1] == 0:
            return np.zeros(given.shape), self
        whole = np.concatenate([self.last[:, None], given], axis=1)
        scores, state = model.score(Padded(whole, lengths + 1).map(self.state.like), self.state)
        last = whole[np.arange(len(self)), lengths]
        return np.asarray(to_numpy(scores), np.float64), Stream(state, last)

    def keep(self, rows: npt.ArrayLike) -> Stream:
        """The texts with these numbers, in this order; one may be named several times."""
        index = np.asarray(rows, np.int64)
        return Stream(self.state.keep(index), self.last[index])

    def repeat(self, n: int) -> Stream:
        """Each text n times, copies beside each other."""
        return self if n == 1 else self.keep(np.repeat(np.arange(len(self)), n))

    def map(self, move: Callable[[Array], Array]) -> Stream:
        """The arrays of the state through a function, for example one that moves them to a device."""
        return Stream(self.state.map(move), self.last)

    def to_bytes(self, model: str) -> bytes:
        """A safetensors file: the arrays of the state by their names, the model's hash in its metadata.

        Args:
            model: a hash of the model; ``from_bytes`` asks for the same one.
        """
        header = _Header(FORMAT, model, self.last.tolist(), sorted(self.state.fixed))
        arrays = {name: np.ascontiguousarray(to_numpy(value)) for name, value in self.state.flat().items()}
        return bytes(save(arrays, metadata={HEADER: msgspec.json.encode(header).decode()}))

    @staticmethod
    def from_bytes(data: bytes, model: str, *, example: State | None = None) -> Stream:
        """The inverse of ``to_bytes``.

        Args:
            model: the hash of the model that is to go on.
            example: a state of that model, whose kinds, devices and dtypes the arrays are given; numpy without it.

        Raises:
            StateError: when the stream is of another model.
            CheckpointError: when the bytes are no complete file.
        """
        try:
            arrays = load(data)
            metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
            header = msgspec.json.decode(metadata[HEADER], type=_Header)
        except (SafetensorError, msgspec.MsgspecError, ValueError, KeyError) as error:
            raise CheckpointError(
                f"a saved stream: expected a complete safetensors file that a stream was saved to, received "
                f"{len(data)} bytes: {error}"
            ) from error
        if header.format != FORMAT:
            raise CheckpointError(
                f"a saved stream: expected format {FORMAT}, received {header.format}. "
                "It was written by another release of riverrun."
            )
        if header.model != model:
            raise StateError(
                f"a saved stream: expected one of the model {model[:12]}, received one of the model "
                f"{header.model[:12]}. Go on with the model that wrote it."
            )
        state = State(
            {name: value for name, value in arrays.items() if name in header.fixed},
            {name: value for name, value in arrays.items() if name not in header.fixed},
        )
        return Stream(state if example is None else _shaped(state, example), np.array(header.last, np.int64))


def _shaped(state: State, example: State) -> State:
    """The state with arrays of the kind, device and dtype of the example's."""
    found, expected = state.flat(), example.flat()
    if found.keys() != expected.keys():
        raise StateError(
            f"a saved stream: expected the arrays {', '.join(sorted(expected)) or 'of no state'}, received "
            f"{', '.join(sorted(found)) or 'none'}. Go on with the model that wrote it."
        )

    def shaped(name: str, value: Array) -> Array:
        wanted = expected[name]
        if value.shape[1:] != tuple(wanted.shape[1:]) and name in example.moving:
            raise StateError(
                f"a saved stream: expected '{name}' of the shape (B, {', '.join(map(str, wanted.shape[1:]))}), "
                f"received {value.shape}"
            )
        return array_namespace(wanted).astype(like(value, wanted), wanted.dtype)

    return State(
        {name: shaped(name, value) for name, value in state.fixed.items()},
        {name: shaped(name, value) for name, value in state.moving.items()},
    )
