"""The language model of ``language_model.py`` as a good loop in plain PyTorch: what riverrun has to be as fast as.

``nn.Embedding``, ``nn.LSTM`` with both layers in one call, ``nn.Linear``, ``cross_entropy``, the clipping of all
gradients at once, fused SGD, gradients that are set to None; the state is carried on and detached. Of torch's two
biases of an LSTM one is trained, as in riverrun: two of them learn twice as fast.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn


class Plain(nn.Module):
    """The peer: net, state and optimiser."""

    def __init__(
        self, words: int, size: int, layers: int, *, dropout: float, rate: float, clip: float, bf16: bool
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.lstm = nn.LSTM(size, size, layers, dropout=dropout, batch_first=True)
        self.output = nn.Linear(size, words)
        self.dropout = nn.Dropout(dropout)
        self.clip, self.bf16 = clip, bf16
        self.state: tuple[Tensor, ...] | None = None
        for name, value in self.lstm.named_parameters():
            value.requires_grad_("bias_hh" not in name)
        self.optimizer = torch.optim.SGD(filter(lambda value: value.requires_grad, self.parameters()), rate, fused=True)

    def loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        """The mean negative log likelihood of a window."""
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            hidden, state = self.lstm(self.dropout(self.embedding(ids)), self.state)
            self.state = tuple(value.detach() for value in state)
            scores = self.output(self.dropout(hidden))
            return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())

    def train_on(self, windows: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
        """An update on each window; the mean loss, and the seconds it took."""
        begin, total = time.perf_counter(), 0.0
        for ids, targets in windows:
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.loss(torch.from_numpy(ids), torch.from_numpy(targets))
            loss.backward()
            nn.utils.clip_grad_norm_(self.parameters(), self.clip, foreach=True)
            self.optimizer.step()
            total += loss.item()
        return total / len(windows), time.perf_counter() - begin
