"""The vector of a word from its beginnings and its endings, each looked up as a whole."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from riverrun.data.padded import Padded
from riverrun.errors import ConfigError

# Of the multiplicative hash; any odd numbers would do, other ones make another model.
_BASE, _MIX = 1_000_003, 2_654_435_761


class Affixes(nn.Module):
    r"""The first 1, 2, ... and the last 1, 2, ... characters of a word, each with a vector of its own, side by side.

    .. math:: y = [A_{h(c_1)}; A_{h(c_1 c_2)}; \dots; A_{h(c_L)}; A_{h(c_{L-1} c_L)}; \dots]

    An ending says more of a rare word's part of speech than any other single thing, and a table learns it from few
    examples, where a convolution needs many. The table is hashed: it needs no vocabulary, and an affix that training
    never met has most likely the vector 0, with which all begin.

    Args:
        size: D, numbers in the vector of an affix.
        prefixes: the longest beginning.
        suffixes: the longest ending.
        buckets: rows of the table.
        dropout: the share of affixes that are not read in training.
    """

    def __init__(self, size: int, *, prefixes: int, suffixes: int, buckets: int, dropout: float = 0.0) -> None:
        super().__init__()
        if prefixes + suffixes < 1:
            raise ConfigError("Affixes: at least one of prefixes and suffixes must be above 0")
        self.prefixes, self.suffixes, self.buckets, self.dropout = prefixes, suffixes, buckets, dropout
        self.output_size = (prefixes + suffixes) * size
        self.table = nn.Parameter(torch.zeros(buckets, size))

    def forward(self, chars: Padded) -> Tensor:
        """Character ids (U, L) of U words, each between two marks -> (U, (prefixes + suffixes) * D)."""
        chars = chars.zeroed()
        ids = nn.functional.pad(chars.data, (0, self.prefixes + 1))  # so that there are characters to look at
        inner = chars.lengths.to(ids.dtype) - 1  # where the end mark stands
        rows = [*self._rows(ids, inner, first=True), *self._rows(ids, inner, first=False)]
        index = torch.stack(rows, 1) if rows else ids
        vectors = nn.functional.embedding(index, self.table)  # (U, prefixes + suffixes, D)
        if self.training and self.dropout:
            kept = torch.rand(index.shape, device=index.device) >= self.dropout
            vectors = vectors * (kept / (1 - self.dropout))[..., None].to(vectors.dtype)
        return vectors.flatten(1)

    def _rows(self, ids: Tensor, inner: Tensor, *, first: bool) -> list[Tensor]:
        """For each length an affix may have, the rows (U,) of the table; of a shorter word, it is the whole word."""
        found = []
        total = torch.zeros_like(inner)
        for k in range(1, (self.prefixes if first else self.suffixes) + 1):
            at = torch.full_like(inner, k) if first else inner - k
            inside = (at > 0) & (at < inner)
            here = torch.gather(ids, 1, at.clamp(0, ids.shape[1] - 1)[:, None])[:, 0]
            total = torch.where(inside, total * _BASE + here + 1, total) % _MIX
            found.append((total * _MIX + (2 * k + first)) % 2_147_483_647 % self.buckets)
        return found
