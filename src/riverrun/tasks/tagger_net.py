"""From config and fields to the tagger's net: the only place where they meet. torch is imported when a net is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from riverrun.config.tagger import CharCNN as CharCNNConfig
from riverrun.config.tagger import CharGRU, CharLSTM, TaggerModel
from riverrun.data.sentences import SentenceFields
from riverrun.tasks.tagger_fields import Lexicon

if TYPE_CHECKING:
    from riverrun.nn.cells import Cell
    from riverrun.nn.models.tagger import Tagger


def build_net(
    model: TaggerModel,
    fields: SentenceFields,
    *,
    cell: Cell | None = None,
    lexicon: Lexicon | None = None,
) -> Tagger:
    """The net that a recipe's ``[model]`` describes, with its first weights.

    Args:
        cell: in place of the one that the config names: a user's own, or what a model folder keeps of it.
        lexicon: what the word vectors begin with in training; without it, weights are about to be loaded.
    """
    from riverrun.nn.cells import TracedCell
    from riverrun.nn.layers.affixes import Affixes
    from riverrun.nn.layers.chars import CharCNN, CharRNN
    from riverrun.nn.layers.crf import CRF
    from riverrun.nn.layers.dropout import Dropout
    from riverrun.nn.layers.embed import Embedding
    from riverrun.nn.layers.init import initialise
    from riverrun.nn.layers.softmax import Softmax
    from riverrun.nn.layers.stack import Stack
    from riverrun.nn.models.tagger import Tagger

    words: Embedding | None = None
    chars: CharCNN | CharRNN | None = None
    size = 0
    if model.words is not None and fields.words is not None:
        vectors = lexicon.vectors if lexicon else None
        words = Embedding(
            len(fields.words.vocab),
            model.words.size,
            vectors=vectors.matrix if vectors else None,
            frozen=model.words.frozen and lexicon is not None,
            unknown_rates=lexicon.unknown_rates if lexicon else None,
        )
        size += words.output_size
    if model.chars is not None and fields.chars is not None:
        count, config = len(fields.chars.vocab), model.chars
        if isinstance(config, CharCNNConfig):
            chars = CharCNN(count, config.size, config.filters, config.width, dropout=config.dropout)
        else:
            assert isinstance(config, CharLSTM | CharGRU)
            chars = CharRNN(count, config.size, config.hidden, cell=config.kind, dropout=config.dropout)
        size += chars.output_size
    affixes: Affixes | None = None
    if model.affixes is not None:
        table = model.affixes
        affixes = Affixes(
            table.size,
            prefixes=table.prefixes,
            suffixes=table.suffixes,
            buckets=table.buckets,
            dropout=table.dropout,
        )
        size += affixes.output_size
    encoder = model.encoder
    spec: Any = cell if cell is not None else {"kind": encoder.kind, **encoder.options}
    stack = Stack(
        spec,
        size,
        encoder.hidden,
        layers=encoder.layers,
        bidirectional=encoder.bidirectional,
        wiring=encoder.wiring,
        dropout=encoder.dropout,
        variational=encoder.variational,
        # The graph that a folder keeps of a user's own cell is for running it, not for training it.
        recurrent_dropout=0.0 if isinstance(cell, TracedCell) else encoder.recurrent_dropout,
        weight_drop=encoder.weight_drop,
        engine=encoder.engine,
    )
    tags = len(fields.tags.vocab)
    head: CRF | Softmax
    if model.head.kind == "crf":
        head = CRF(stack.output_size, tags, potentials=model.head.potentials)
    else:
        head = Softmax(stack.output_size, tags)
    into = encoder.dropout if encoder.input_dropout is None else encoder.input_dropout
    net = Tagger(
        words,
        chars,
        affixes,
        stack,
        head,
        input_dropout=Dropout(into, variational=encoder.variational),
        output_dropout=Dropout(encoder.dropout, variational=encoder.variational),
    )
    initialise(net, model.init)
    return net
