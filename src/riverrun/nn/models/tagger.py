"""The tagger's net: word and character features -> recurrent encoder -> a score for each tag and pair of tags."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.decode.scorer import Chain
from riverrun.errors import ConfigError
from riverrun.nn.layers.affixes import Affixes
from riverrun.nn.layers.chars import CharCNN, CharRNN
from riverrun.nn.layers.crf import CRF
from riverrun.nn.layers.dropout import Dropout
from riverrun.nn.layers.embed import Embedding
from riverrun.nn.layers.softmax import Softmax
from riverrun.nn.layers.stack import Stack
from riverrun.nn.models.loss import Loss


class Tagger(nn.Module):
    """Ma and Hovy's BLSTM-CNN-CRF and what is left of it when a part is taken away.

    .. math::
        e_t = [\\mathrm{word}(w_t); \\mathrm{chars}(w_t); \\mathrm{affixes}(w_t)] \\qquad
        h = \\mathrm{encoder}(e) \\qquad \\mathrm{score}(y) = \\mathrm{head}(h, y)

    The characters of a form that stands several times in a batch are encoded once.

    Args:
        words: embedding of word ids, or None.
        chars: encoder of the characters of a form, or None.
        affixes: encoder of the beginnings and endings of a form, or None.
        encoder: the recurrent layers over the sentence.
        head: ``CRF`` or ``Softmax``.
        input_dropout: on the word features.
        output_dropout: on what the head reads.
    """

    def __init__(
        self,
        words: Embedding | None,
        chars: CharCNN | CharRNN | None,
        affixes: Affixes | None,
        encoder: Stack,
        head: CRF | Softmax,
        *,
        input_dropout: Dropout,
        output_dropout: Dropout,
    ) -> None:
        super().__init__()
        if words is None and chars is None and affixes is None:
            raise ConfigError("a tagger needs words, characters or affixes; received none of them")
        self.words, self.chars, self.affixes, self.encoder, self.head = words, chars, affixes, encoder, head
        self.input_dropout, self.output_dropout = input_dropout, output_dropout

    def hidden(self, batch: Batch) -> Padded:
        """(B, T, H), what the head reads."""
        features = []
        if self.words is not None:
            words: Padded = batch["words"]
            features.append(self.words(words.data))  # (B, T, D)
            lengths = words.lengths
        spelling = [part for part in (self.chars, self.affixes) if part is not None]
        if spelling:
            index: Padded = batch["chars.index"]
            forms: Tensor = torch.cat([part(batch["chars"]) for part in spelling], -1)  # (U, F)
            features.append(nn.functional.embedding(index.data, forms))  # (B, T, F)
            lengths = index.lengths
        x = Padded(torch.cat(features, -1), lengths)
        y, _ = self.encoder(self.input_dropout(x))
        out: Padded = self.output_dropout(y)
        return out

    def scores(self, batch: Batch) -> Chain:
        """The chain of every sentence of the batch."""
        chain: Chain = self.head(self.hidden(batch))
        return chain

    def loss(self, batch: Batch) -> Loss:
        """The negative log likelihood of the tags."""
        tags: Padded = batch["tags"]
        likelihood = self.head.log_likelihood(self.hidden(batch), tags)  # (B,)
        return Loss(sum=-likelihood.sum(), tokens=int(tags.lengths.sum()), sequences=len(tags), parts={})
