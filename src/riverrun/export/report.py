"""What an export did, for people and for ``--json``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ExportReport:
    """One exported graph.

    Args:
        path: the file.
        bytes: its size.
        max_error: the largest difference from the model's scores on random ragged batches.
        agreement: the share of equal decisions; on the batches that were given, else on the random ones.
        operators: for each recurrence what it became: ``lstm -> LSTM``, ``mogrifier -> Scan``.
        stayed_float: for an int8 export the large weights that are still float, with their sizes.
        opset: the ONNX opset of the graph.
        cost: for an int8 language model that was tried on texts, how many nats more each of their symbols costs.
    """

    path: Path
    bytes: int
    max_error: float
    agreement: float
    operators: tuple[str, ...]
    stayed_float: tuple[str, ...]
    opset: int
    cost: float | None = None

    def __str__(self) -> str:
        became = ", ".join(self.operators) or "no recurrence"
        lines = [
            f"{self.path}: {self.bytes / 1e6:.2f} MB, ONNX opset {self.opset}, {became}",
            f"largest difference from the model {self.max_error:.1e}, equal decisions {self.agreement:.2%}",
            *([] if self.cost is None else [f"a symbol of the texts costs {self.cost:+.4f} nats"]),
            *(f"stayed float: {line}" for line in self.stayed_float),
        ]
        return "\n".join(lines)
