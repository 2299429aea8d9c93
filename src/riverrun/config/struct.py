"""What every table of a recipe is made of: a frozen struct that knows its own fields, ranges and contradictions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]
Size = Annotated[int, msgspec.Meta(ge=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]  # of what is dropped or held out: something must be left


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of a recipe. The text under a field is its help, its description for editors and its documentation.

    A tagged table (``kind = "cnn"``) is a subclass with ``tag_field`` and ``tag``; ``tag_of`` reads it back.
    """

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """(field, what is wrong) for settings that are each well formed and contradict each other."""
        yield from ()


def tag_of(struct: msgspec.Struct | type[msgspec.Struct]) -> str:
    """The name by which a tagged table is chosen, for example the ``kind`` of a character encoder.

    >>> class Cnn(Config, frozen=True, tag_field="kind", tag="cnn"): ...
    >>> tag_of(Cnn())
    'cnn'
    """
    return str(struct.__struct_config__.tag)
