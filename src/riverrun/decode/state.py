"""The state of a step model: named arrays, a value like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from array_api_compat import array_namespace, device

from riverrun.data.padded import Array
from riverrun.decode.backend import like
from riverrun.errors import StateError


@dataclass(frozen=True, eq=False)
class State:
    """What a model remembers of B sources, for K hypotheses of each; nothing else remembers anything.

    The names are those of an exported graph's inputs, and of the arrays in a saved file.

    Args:
        fixed: name -> (B, ...), the same for all hypotheses of a source: an encoder's memory.
        moving: name -> (B, K, ...), of each hypothesis: the states of the recurrences, as ``0.h``.

    >>> import numpy as np
    >>> state = State(moving={"0.h": np.array([[[1.0], [2.0]]])})
    >>> state.select(np.array([[1, 1, 0]])).moving["0.h"].tolist()
    [[[2.0], [2.0], [1.0]]]
    """

    fixed: Mapping[str, Array] = field(default_factory=dict)
    moving: Mapping[str, Array] = field(default_factory=dict)

    @staticmethod
    def join(states: Sequence[State]) -> State:
        """The sources of several states of one model, one after the other.

        >>> import numpy as np
        >>> one, two = State(moving={"h": np.zeros((1, 1))}), State(moving={"h": np.ones((2, 1))})
        >>> State.join([one, two]).moving["h"].tolist()
        [[0.0], [1.0], [1.0]]
        """
        first = states[0]
        for other in states[1:]:
            if other.fixed.keys() != first.fixed.keys() or other.moving.keys() != first.moving.keys():
                raise StateError(
                    f"State.join: expected states of one model, received the names {sorted(first.flat())} "
                    f"and {sorted(other.flat())}"
                )
        joined = {}
        for name, value in first.flat().items():
            joined[name] = array_namespace(value).concat([state.flat()[name] for state in states], axis=0)
        return State({name: joined[name] for name in first.fixed}, {name: joined[name] for name in first.moving})

    @property
    def sources(self) -> int | None:
        """B; None where there is no array that could tell."""
        return next((int(value.shape[0]) for value in self.flat().values()), None)

    def flat(self) -> dict[str, Array]:
        """Every array by its name, fixed ones first."""
        return {**self.fixed, **self.moving}

    def like(self, values: Array) -> Array:
        """A numpy array as one of the kind of the state's, on its device; as it is where the state has none."""
        arrays = self.flat()
        return like(values, next(iter(arrays.values()))) if arrays else values

    def select(self, beams: Array) -> State:
        """For each source the hypotheses with these numbers (B, K'), in this order; one may be named several times."""
        beams = self.like(beams)
        rows = _column(beams.shape[0], beams)
        return State(self.fixed, {name: value[rows, beams] for name, value in self.moving.items()})

    def keep(self, sources: Array) -> State:
        """The sources with these numbers (B',), in this order; one may be named several times."""
        sources = self.like(sources)
        return self.map(lambda value: value[sources])

    def map(self, move: Callable[[Array], Array]) -> State:
        """Every array through a function, for example one that detaches it or moves it to a device."""
        return State({k: move(v) for k, v in self.fixed.items()}, {k: move(v) for k, v in self.moving.items()})

    def where(self, rows: Array, other: State) -> State:
        """Another state's values for the hypotheses where ``rows`` (B, K) is true, this one's elsewhere."""
        return State(self.fixed, dict(self._chosen(rows, other)))

    def _chosen(self, rows: Array, other: State) -> Iterator[tuple[str, Array]]:
        rows = self.like(rows)
        for name, value in self.moving.items():
            xp = array_namespace(value)
            condition = xp.reshape(rows, (*rows.shape, *[1] * (value.ndim - 2)))
            yield name, xp.where(condition, other.moving[name], value)


def _column(size: int, like: Array) -> Array:
    """0 to size - 1 as (size, 1), of the other's kind and on its device."""
    return array_namespace(like).arange(size, device=device(like))[:, None]
