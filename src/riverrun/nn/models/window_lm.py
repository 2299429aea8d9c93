"""A language model that reads the last symbols, always as many."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.decode.state import State
from riverrun.errors import ConfigError, ShapeError, StateError
from riverrun.nn.layers.dropout import drop
from riverrun.nn.layers.embed import Embedding
from riverrun.nn.layers.output import Output
from riverrun.nn.models.language_net import Reading
from riverrun.nn.models.loss import Loss


class WindowLM(nn.Module):
    r"""The neural probabilistic language model (Bengio et al. 2003).

    .. math::
        x = [E_{w_{t-n+1}}; \dots; E_{w_t}] \qquad h = \tanh(H x + d) \qquad
        p(w_{t+1}) = \mathrm{softmax}(U h + W x + b)

    W is there with ``direct`` alone; the output reads h and x side by side then. A state is a ``decode.State`` with the
    last n symbols, ``context`` (B, 1, n).

    Args:
        embedding: the vectors of the symbols, E.
        context: n, how many symbols it reads.
        hidden: units of the hidden layer.
        output: from h, or from h and x, to the symbols.
        bos: the symbol that stands before the text.
        direct: connect the vectors to the output directly too.
        dropout: on h.

    >>> from riverrun.nn.layers.full_softmax import FullSoftmax
    >>> net = WindowLM(Embedding(9, 4), 3, 5, FullSoftmax(5, 9), bos=0)
    >>> net.loss(Batch(context=torch.tensor([[0, 0, 1], [0, 1, 2]]), targets=torch.tensor([2, 3]))).tokens
    2
    """

    output: Output

    def __init__(
        self,
        embedding: Embedding,
        context: int,
        hidden: int,
        output: Output,
        *,
        bos: int,
        direct: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ConfigError(f"dropout must be a probability from 0 to below 1, received {dropout!r}")
        read = context * embedding.output_size
        given = hidden + (read if direct else 0)
        if output.features != given or output.size != embedding.count:
            raise ShapeError(
                f"WindowLM: expected an output of {embedding.count} symbols that reads {given} numbers, received one "
                f"of {output.size} that reads {output.features}"
            )
        self.embedding, self.output = embedding, output
        self.hidden = nn.Linear(read, hidden)
        self.context, self.bos, self.direct, self.dropout = context, bos, direct, dropout

    def start(self, rows: int) -> State:
        """The state that has read nothing, one hypothesis a row."""
        device = self.hidden.weight.device
        return State(moving={"context": torch.full((rows, 1, self.context), self.bos, device=device)})

    def read(self, ids: Padded, state: State) -> tuple[Reading, State]:
        """Symbols (B, T) -> what the output reads after each, and the state after the last of each row."""
        ids = ids.zeroed()
        before = state.moving.get("context")
        expected = ids.data.shape[0], 1, self.context
        if before is None or tuple(before.shape) != expected:
            received = "none" if before is None else tuple(before.shape)
            raise StateError(
                f"WindowLM: expected a state with the context {expected}, received {received}; a state belongs to one "
                "model"
            )
        symbols = torch.cat([before[:, 0], ids.data], 1)
        windows = symbols.unfold(1, self.context, 1)[:, 1:]  # (B, T, n)
        vectors = ids.with_data(self._vectors(windows)).zeroed()
        ends = ids.lengths[:, None] + torch.arange(self.context, device=symbols.device)
        return Reading(vectors), State(moving={"context": symbols.gather(1, ends)[:, None]})

    def loss(self, batch: Batch) -> Loss:
        """The loss of ``context`` (B, n) and ``targets`` (B,), the symbols that come next."""
        targets: Tensor = batch["targets"]
        total = self.output.loss(self._vectors(batch["context"]), targets).sum()
        return Loss(sum=total, tokens=len(targets), sequences=len(targets), parts={self.output.term: total})

    def _vectors(self, context: Tensor) -> Tensor:
        """(..., n) -> (..., H), what the output reads."""
        x = self.embedding(context).flatten(-2)
        h = torch.tanh(self.hidden(x))
        if self.training and self.dropout:
            h = drop(h, self.dropout)
        return torch.cat([h, x], -1) if self.direct else h
