"""A language net as a step model: it generates, and scores texts, by the code of all step models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from riverrun.data.batch import Batch
from riverrun.data.padded import Array, Padded
from riverrun.decode.state import State
from riverrun.decode.step import Step
from riverrun.errors import ShapeError
from riverrun.nn.models.language_net import LanguageNet, Reading, log_likelihoods
from riverrun.nn.models.scorer import to_tensor

POSITIONS = 4096
"""How many positions are read at a time when texts are scored."""


class NetStepper:
    """``decode.StepModel`` for a net. Tensors stay tensors on the device of the net; no gradients are kept.

    Args:
        net: it is used as it is, in whatever mode it is in: call ``net.eval()`` first, or dropout plays along.
        bos: the symbol that is read first.
        eos: the symbol that ends a text, or None where texts do not end.

    >>> from riverrun.nn.layers.embed import Embedding
    >>> from riverrun.nn.layers.full_softmax import FullSoftmax
    >>> from riverrun.nn.models.window_lm import WindowLM
    >>> model = NetStepper(WindowLM(Embedding(9, 4), 3, 5, FullSoftmax(5, 9), bos=0).eval(), bos=0)
    >>> step = model.step(torch.tensor([[0]]), model.start())
    >>> step.log_probs.shape, step.state.moving["context"].tolist()
    (torch.Size([1, 1, 9]), [[[0, 0, 0]]])
    """

    def __init__(self, net: LanguageNet, *, bos: int, eos: int | None = None) -> None:
        self.net, self.bos, self.eos = net, bos, eos
        self.size = net.output.size

    @property
    def device(self) -> torch.device:
        """Where the net is."""
        device: torch.device = next(self.net.parameters()).device  # type: ignore[attr-defined]
        return device

    def start(self, source: Batch | None = None, *, rows: int = 1) -> State:
        """The state that has read nothing; a language model has no source."""
        if source is not None:
            raise ShapeError("NetStepper.start: a language model has no source, received one; give rows instead")
        return self.net.start(rows)

    @torch.no_grad()
    def step(self, ids: Array, state: State) -> Step:
        """Read one symbol of each hypothesis, (B, K); ``extras["hidden"]`` is what the output reads, (B, K, H)."""
        ids = self._tensor(ids)
        shape = tuple(ids.shape)
        row = Padded(ids.reshape(-1, 1), torch.ones(ids.numel(), dtype=torch.int64, device=ids.device))
        flat = state.map(lambda value: value.flatten(0, 1).unsqueeze(1))
        reading, after = self.net.read(row, flat)
        vectors, windows = reading.select(None)
        log_probs = self.net.output.log_probs(vectors, windows)
        after = after.map(lambda value: value.reshape(*shape, *value.shape[2:]))
        return Step(log_probs.view(*shape, -1), after, {"hidden": vectors.view(*shape, -1)})

    def score(self, ids: Padded, state: State) -> tuple[Tensor, State]:
        """The log probability of each symbol of ``ids`` (B, 1 + T) but the first one of each row."""
        scores = []
        for reading, targets, after in self.pieces(ids, state):
            scores.append(self.likelihoods(reading, targets))
            state = after
        return self.joined(scores, len(ids)), state

    @torch.no_grad()
    def likelihoods(self, reading: Reading, targets: Padded) -> Tensor:
        """(B, t), the log probability of each target, 0 in the padding."""
        return log_likelihoods(self.net, reading, targets)

    def pieces(self, ids: Padded, state: State, positions: int = POSITIONS) -> Iterator[tuple[Reading, Padded, State]]:
        """What the net makes of ``ids`` (B, 1 + T), piece by piece: (reading, the symbols after it, state after it).

        Args:
            ids: as for ``score``.
            state: it has read nothing of ``ids``.
            positions: a piece has at most so many, but one of each row.
        """
        data, lengths = self._tensor(ids.data), self._tensor(ids.lengths)
        size = max(1, positions // max(1, len(data)))
        for begin in range(0, data.shape[1] - 1, size):
            end = min(begin + size, data.shape[1] - 1)
            count = (lengths - 1 - begin).clamp(0, end - begin)
            with torch.no_grad():
                reading, state = self.net.read(Padded(data[:, begin:end], count), state)
            yield reading, Padded(data[:, begin + 1 : end + 1], count), state

    def joined(self, scores: Sequence[Tensor], rows: int) -> Tensor:
        """(B, T), the scores of pieces side by side; (B, 0) of none."""
        weight: Tensor = next(self.net.parameters())  # type: ignore[attr-defined]
        return torch.cat([*scores], 1) if scores else weight.new_zeros((rows, 0))

    def _tensor(self, values: Array) -> Tensor:
        return (values.to(self.device) if isinstance(values, Tensor) else to_tensor(values, self.device)).long()
