"""A language model that remembers what it has read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.decode.state import State
from riverrun.errors import ConfigError, ShapeError, StateError
from riverrun.nn.layers.dropout import Dropout
from riverrun.nn.layers.embed import Embedding
from riverrun.nn.layers.ngrams import NOTHING, HashedNgrams
from riverrun.nn.layers.output import Output
from riverrun.nn.layers.recurrent import Recurrent
from riverrun.nn.layers.stack import Stack
from riverrun.nn.layers.symbol_dropout import SymbolDropout
from riverrun.nn.layers.windows import Windows
from riverrun.nn.models.documents import Documents
from riverrun.nn.models.language_net import Reading, places_of
from riverrun.nn.models.loss import Loss

NGRAMS = "ngrams"
"""The name, in a state, of the last symbols."""


class RecurrentLM(nn.Module):
    r"""Mikolov's recurrent language model, and what became of it up to the AWD-LSTM (Merity et al. 2018).

    .. math::
        h_t = \mathrm{encoder}(E_{w_t}, h_{t-1}) \qquad p(w_{t+1}) = \mathrm{output}(h_t) \\
        \mathrm{loss} = \sum_t -\log p(w_{t+1})
            + \alpha\, \mathrm{tokens}\, \overline{(m \odot h_t)^2}
            + \beta\, \mathrm{tokens}\, \overline{(h_t - h_{t-1})^2}

    The bars are means over positions and units (m is the output dropout), so that a loss divided by its tokens is that
    of the paper.

    A state is a ``decode.State`` with (B, 1, H) arrays, ``0.h``, ``0.c``, ``1.h``...: the states of the recurrences
    from the lowest layer on; with n-grams also ``ngrams`` (B, 1, order - 1), the last symbols.

    Args:
        embedding: the vectors of the symbols.
        encoder: the recurrent layers, in one direction.
        output: from what the encoder gives to the symbols.
        ngrams: weights of n-grams beside the net, or None.
        symbol_dropout: the share of symbols whose vectors are 0 throughout a batch.
        input_dropout: on the vectors of the symbols.
        output_dropout: on what the output reads.
        ar: alpha, the weight of the activation regularisation.
        tar: beta, the weight of the temporal activation regularisation.

    >>> from riverrun.nn.layers.full_softmax import FullSoftmax
    >>> net = RecurrentLM(Embedding(9, 4), Stack("gru", 4, 4, layers=2), FullSoftmax(4, 9))
    >>> ids, lengths = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([2, 1])
    >>> loss, state = net.loss(Batch(ids=Padded(ids[:, :-1], lengths), targets=Padded(ids[:, 1:], lengths)))
    >>> loss.tokens, {name: tuple(value.shape) for name, value in state.moving.items()}
    (3, {'0.h': (2, 1, 4), '1.h': (2, 1, 4)})
    """

    carries = True
    output: Output

    def __init__(
        self,
        embedding: Embedding,
        encoder: Stack,
        output: Output,
        *,
        ngrams: HashedNgrams | None = None,
        symbol_dropout: float = 0.0,
        input_dropout: Dropout | None = None,
        output_dropout: Dropout | None = None,
        ar: float = 0.0,
        tar: float = 0.0,
    ) -> None:
        super().__init__()
        if any(isinstance(part, Recurrent) and part.reverse for part in encoder.modules()):
            raise ConfigError("a language model whose encoder reads from both ends sees the answer; read forwards only")
        if encoder.input_size != embedding.output_size or encoder.output_size != output.features:
            raise ShapeError(
                f"RecurrentLM: the embedding gives {embedding.output_size} numbers and the output reads "
                f"{output.features}, expected an encoder from the one to the other, received one from "
                f"{encoder.input_size} to {encoder.output_size}"
            )
        if embedding.count != output.size or (ngrams is not None and ngrams.size != output.size):
            raise ShapeError(
                f"RecurrentLM: expected as many symbols everywhere, received {embedding.count} in the embedding, "
                f"{output.size} in the output" + (f", {ngrams.size} in the n-grams" if ngrams else "")
            )
        self.embedding, self.encoder, self.output, self.ngrams = embedding, encoder, output, ngrams
        self.symbol_dropout = SymbolDropout(symbol_dropout)
        self.input_dropout = input_dropout or Dropout(0.0)
        self.output_dropout = output_dropout or Dropout(0.0)
        self.ar, self.tar = ar, tar
        start = encoder.initial_state(1)
        self._names = [[f"{number}.{name}" for name in layer._fields] for number, layer in enumerate(start)]

    def start(self, rows: int) -> State:
        """The state that has read nothing, one hypothesis a row."""
        moving = dict(_named(self.encoder.initial_state(rows)))
        if self.ngrams is not None:
            device = self.ngrams.table.device
            moving[NGRAMS] = torch.full((rows, 1, self.ngrams.order - 1), NOTHING, device=device)
        return State(moving=moving)

    def read(self, ids: Padded, state: State, resets: Tensor | None = None) -> tuple[Reading, State]:
        """All steps.

        Args:
            ids: (B, T).
            state: K is 1.
            resets: (B, T), true where a text begins: the state before that symbol is that of ``start``.

        Returns:
            what the output reads, and the state after the last symbol of each row.
        """
        ids = ids.zeroed()
        self._check(state, ids.data.shape[0])
        if resets is None or ids.data.shape[1] == 0 or not bool(resets.any()):
            return self._read(ids, state)
        pieces = Documents.of(ids.with_data(resets))
        before = state.keep(pieces.rows).where(pieces.anew[:, None], self.start(len(pieces.rows)))
        found, after = self._read(pieces.take_apart(ids), before)
        vectors, windows = found.vectors, found.windows
        if windows is not None:
            starts = vectors.with_data(windows.starts.view(*vectors.data.shape[:2], -1))
            windows = Windows(windows.table, pieces.put_back(starts, ids).data.flatten(0, 1))
        return Reading(pieces.put_back(vectors, ids), windows), after.keep(pieces.last)

    def loss(self, batch: Batch, state: State | None = None) -> tuple[Loss, State]:
        """The loss of a batch, and the state after it.

        Args:
            batch: ``ids`` (B, T), ``targets`` (B, T) of the same lengths, the symbols that come next; perhaps ``fresh``
                (B,), true where a row's state begins anew, and ``resets`` (B, T) as for ``read``.
            state: after the batch before; gradients do not flow into it unless it carries them. None begins anew.
        """
        ids, targets = batch["ids"], batch["targets"]
        resets: Any = batch.get("resets")
        before = self.start(len(ids))
        if state is not None:
            self._check(state, len(ids))
            before = state.where(batch["fresh"][:, None], before) if "fresh" in batch else state
        reading, after = self.read(ids, before, resets)
        hidden = reading.vectors
        dropped = self.output_dropout(hidden)
        places = places_of(ids)
        vectors, windows = Reading(dropped, reading.windows).select(places)
        wanted = targets.data.flatten().long()
        wanted = wanted if places is None else wanted[places]
        total = self.output.loss(vectors, wanted, windows).sum()
        parts = {self.output.term: total}
        tokens = len(wanted)
        if self.ar:
            parts["ar"] = self.ar * _squares(dropped.data) / self.output.features
        if self.tar:
            pairs = ids.mask()[:, 1:] if resets is None else ids.mask()[:, 1:] & ~resets[:, 1:]
            change = (hidden.data[:, 1:] - hidden.data[:, :-1]) * pairs[..., None]
            count = max(1, int(pairs.sum()) * self.output.features)
            parts["tar"] = self.tar * tokens * _squares(change) / count
        return Loss(sum=sum(parts.values(), total.new_zeros(())), tokens=tokens, sequences=len(ids), parts=parts), after

    def _read(self, ids: Padded, state: State) -> tuple[Reading, State]:
        """As ``read``, where no text begins within a row."""
        x = self.symbol_dropout(ids.data, self.embedding(ids.data))
        before = [[state.moving[name][:, 0] for name in names] for names in self._names]
        y, after = self.encoder(self.input_dropout(ids.with_data(x)), before)
        # Under autocast they come out shorter than they went in.
        moving = {name: value.to(state.moving[name].dtype) for name, value in _named(after)}
        if self.ngrams is None:
            return Reading(y), State(moving=moving)
        known = self.ngrams.order - 1
        symbols = torch.cat([state.moving[NGRAMS][:, 0], ids.data], 1)
        starts = self.ngrams.starts(symbols.unfold(1, known, 1)[:, 1:])
        ends = ids.lengths[:, None] + torch.arange(known, device=symbols.device)
        moving[NGRAMS] = symbols.gather(1, ends)[:, None]
        return Reading(y, self.ngrams.windows(starts.flatten(0, 1))), State(moving=moving)

    def _check(self, state: State, rows: int) -> None:
        expected = [name for names in self._names for name in names] + [NGRAMS] * (self.ngrams is not None)
        if sorted(state.moving) != sorted(expected):
            raise StateError(
                f"RecurrentLM: expected a state of {', '.join(expected)}, received "
                f"{', '.join(state.moving) or 'nothing'}; a state belongs to one model"
            )
        for name, value in state.moving.items():
            if value.ndim != 3 or tuple(value.shape[:2]) != (rows, 1):
                raise StateError(
                    f"RecurrentLM: expected a state of {rows} rows with one hypothesis each, received {name} of shape "
                    f"{tuple(value.shape)}"
                )


def _named(states: Sequence[Any]) -> Iterator[tuple[str, Tensor]]:
    """The name and the values (B, 1, H) of each state of each layer."""
    for number, layer in enumerate(states):
        for name, value in layer._asdict().items():
            yield f"{number}.{name}", value.unsqueeze(1)


def _squares(values: Tensor) -> Tensor:
    return values.float().pow(2).sum() if values.dtype == torch.bfloat16 else values.pow(2).sum()
