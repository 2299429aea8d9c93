"""What a graph says about itself: a JSON that travels in the metadata of the ONNX file."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

KEY = "riverrun"  # the name of the entry in the file's metadata
FORMAT = 1


class GraphInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that the inputs and outputs of a graph do not tell.

    Args:
        rows: the field of the batch whose rows are the examples; its lengths are those of a ``Chain``.
        format: the version of this description.
        int8: whether some of the weights are 8-bit integers.
        model: the hash of the weights that were exported, hexadecimal; another model's state does not fit.
        start: of a graph that steps: the name of each array of its state -> the number that it is filled with before
            anything was read, as text, because JSON has no infinity. Left out of the file of others.

    >>> GraphInfo.read(GraphInfo(rows="words").write()).rows
    'words'
    """

    rows: str
    format: int = FORMAT
    int8: bool = False
    model: str = ""
    start: dict[str, str] | UnsetType = UNSET

    def write(self) -> str:
        """The JSON of this description."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def read(text: str) -> GraphInfo:
        """The inverse of ``write``; a field that is not known is left out, so that a newer file can be described."""
        return msgspec.json.decode(text, type=GraphInfo)
