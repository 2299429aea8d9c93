"""The vector of a word from its characters: by a convolution, or by recurrent layers in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from riverrun.data.padded import Padded
from riverrun.errors import ConfigError
from riverrun.nn.cells import Cell
from riverrun.nn.layers.dropout import Dropout
from riverrun.nn.layers.embed import Embedding
from riverrun.nn.layers.recurrent import Recurrent

_WORTH_A_CUT = 1000  # positions of padding that another run of the layers may cost


class CharCNN(nn.Module):
    r"""A convolution over the characters, and the maximum over the word (Ma and Hovy 2016).

    .. math:: y_f = \max_t \; b_f + \sum_k w_{f,k}^\top E_{c_{t+k}}

    k runs over ``width`` characters around t, of which there is one more behind than before t where the width is even.
    Outside of the word everything is 0. A word without characters has the vector 0.

    Args:
        count: how many characters there are.
        size: D, numbers in the vector of a character.
        filters: F, numbers in the vector of a word.
        width: characters that a filter sees.
        dropout: on the vectors of the characters.
    """

    def __init__(self, count: int, size: int, filters: int, width: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        if width < 1:
            raise ConfigError(f"CharCNN: width must be at least 1, received {width}")
        self.embed = Embedding(count, size)
        self.dropout = Dropout(dropout)
        self.conv = nn.Conv1d(size, filters, width)
        self.output_size = filters
        self.before = (width - 1) // 2
        self.behind = width - 1 - self.before

    def forward(self, chars: Padded) -> Tensor:
        """Character ids (U, L) of U words -> (U, F)."""
        chars = chars.zeroed()
        if chars.data.shape[1] == 0:  # one position of padding, so that there is something to take the maximum of
            chars = chars.with_data(chars.data.new_zeros(len(chars), 1))
        mask = chars.mask()
        dropped = self.training and self.dropout.rate > 0
        if torch.compiler.is_exporting() or (not dropped and self.embed.count <= chars.data.numel()):
            values, axis = self.from_tables(chars.data, mask), 1
        else:
            values, axis = self.from_vectors(chars), 2
        values = values.masked_fill(~mask.unsqueeze(3 - axis), float("-inf"))
        best = values.max(axis).values
        return torch.where((chars.lengths > 0)[:, None], best, torch.zeros_like(best))

    def from_vectors(self, chars: Padded) -> Tensor:
        """(U, F, L), the convolution of the characters' vectors."""
        vectors = self.dropout(chars.with_data(self.embed(chars.data))).zeroed()
        around = nn.functional.pad(vectors.data.transpose(1, 2), (self.before, self.behind))
        found: Tensor = self.conv(around)
        return found

    def from_tables(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(U, L, F), the same from what each character adds at each place in the filter, computed once a batch.

        There are fewer characters than positions in a batch: half the time in training, and a sum of three table rows
        in an exported graph. Dropout, which is drawn anew for each position, has no part in it.
        """
        weight, outside = self.conv.weight, self.embed.count
        vectors = nn.functional.pad(self.embed.weight, (0, 0, 0, 1))
        tables = torch.matmul(vectors, weight.permute(2, 1, 0))  # (width, count + 1, F)
        around = nn.functional.pad(torch.where(mask, ids, outside), (self.before, self.behind), value=outside)
        length = ids.shape[1]
        parts = [nn.functional.embedding(around[:, k : k + length], table) for k, table in enumerate(tables.unbind())]
        total: Tensor = sum(parts[1:], parts[0])
        return total if self.conv.bias is None else total + self.conv.bias


class CharRNN(nn.Module):
    r"""The last states of two recurrences over the characters, one in each direction (Lample et al. 2016).

    .. math:: y = [\overrightarrow{h}_L; \overleftarrow{h}_1]

    A word without characters has the vector 0 (the cell's initial state).

    Args:
        count: how many characters there are.
        size: D, numbers in the vector of a character.
        hidden: units in each direction; the vector of a word has twice as many.
        cell: as for ``Recurrent``.
        dropout: on the vectors of the characters.
        engine: as for ``Recurrent``.
    """

    def __init__(
        self,
        count: int,
        size: int,
        hidden: int,
        *,
        cell: Cell | str | Mapping[str, Any] = "lstm",
        dropout: float = 0.0,
        engine: str = "auto",
    ) -> None:
        super().__init__()
        self.embed = Embedding(count, size)
        self.dropout = Dropout(dropout)
        self.forwards = Recurrent(cell, size, hidden, engine=engine)
        self.backwards = Recurrent(cell, size, hidden, engine=engine, reverse=True)
        self.output_size = self.forwards.output_size + self.backwards.output_size

    def forward(self, chars: Padded) -> Tensor:
        """Character ids (U, L) of U words -> (U, 2 * hidden)."""
        if torch.compiler.is_exporting() or chars.lengths.device.type != "cpu":
            return self._read(chars)
        lengths, order = torch.sort(chars.lengths, stable=True)
        ends = _groups(lengths.numpy())
        if len(ends) < 2:
            return self._read(chars)
        parts = []
        for begin, end in pairwise([0, *ends]):
            ids = chars.data[order[begin:end], : int(lengths[end - 1])]
            parts.append(self._read(Padded(ids, lengths[begin:end])))
        return torch.cat(parts).index_select(0, torch.argsort(order))

    def _read(self, chars: Padded) -> Tensor:
        ids = chars.zeroed()
        vectors = self.dropout(ids.with_data(self.embed(ids.data)))
        return torch.cat([layer(vectors)[1][0] for layer in (self.forwards, self.backwards)], 1)


def _groups(lengths: npt.NDArray[np.int64]) -> list[int]:
    """Where to cut words that are sorted by their length, so that each group has little padding: the groups' ends.

    Most words are short and a few are long: read together, two thirds of the positions are padding.

    >>> _groups(np.array([1000, 1000, 5000])), _groups(np.array([1, 2, 9]))
    ([2, 3], [3])
    """
    saved = np.arange(1, len(lengths)) * (lengths[-1:] - lengths[:-1])
    if saved.max(initial=0) < _WORTH_A_CUT:
        return [len(lengths)]
    cut = int(saved.argmax()) + 1
    return [*_groups(lengths[:cut]), *(cut + end for end in _groups(lengths[cut:]))]
