"""A batch: a mapping from field name to ``Padded`` or array. Flattened, its names are the inputs of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from riverrun.data.padded import Array, Padded


class Batch(Mapping[str, "Padded | Array"]):
    """Named arrays of several examples; ``Fields.encode`` makes one of numpy arrays.

    >>> batch = Batch(words=Padded.of([[4, 5], [6]]))
    >>> sorted(batch.flat())
    ['words', 'words.lengths']
    """

    def __init__(self, values: Mapping[str, Padded | Array] | None = None, /, **more: Padded | Array) -> None:
        self._values: dict[str, Padded | Array] = {**(values or {}), **more}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Batch({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def map(self, move: Callable[[Array], Array]) -> Batch:
        """Every array through a function, for example ``torch.from_numpy``."""
        return Batch({k: v.map(move) if isinstance(v, Padded) else move(v) for k, v in self._values.items()})

    def flat(self) -> dict[str, Array]:
        """name -> array; the lengths of a ``Padded`` called x are called ``x.lengths``."""
        out: dict[str, Array] = {}
        for name, value in self._values.items():
            if isinstance(value, Padded):
                out[name], out[f"{name}.lengths"] = value.data, value.lengths
            else:
                out[name] = value
        return out

    @staticmethod
    def unflatten(flat: Mapping[str, Array]) -> Batch:
        """The inverse of ``flat``."""
        return Batch(
            {
                name: Padded(value, flat[f"{name}.lengths"]) if f"{name}.lengths" in flat else value
                for name, value in flat.items()
                if not name.endswith(".lengths")
            }
        )
