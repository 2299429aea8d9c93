"""From config and units to the net of a language model: the only place where they meet."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from riverrun.config import lm
from riverrun.config.lm import LmRecipe

if TYPE_CHECKING:
    from torch import nn

    from riverrun.nn.cells import Cell
    from riverrun.nn.layers.output import Output
    from riverrun.nn.models.recurrent_lm import RecurrentLM
    from riverrun.nn.models.window_lm import WindowLM


def build_net(
    recipe: LmRecipe,
    size: int,
    *,
    bos: int,
    cell: Cell | None = None,
    counts: npt.NDArray[Any] | None = None,
) -> RecurrentLM | WindowLM:
    """The net that a recipe describes, with its first weights.

    Args:
        recipe: of kind ``recurrent`` or ``window``.
        size: how many symbols there are.
        bos: the symbol that is read first.
        cell: in place of the one that the config names: a user's own, or what a model folder keeps of it.
        counts: (size,), how often each symbol occurs in the training text, for what draws samples.
    """
    from riverrun.nn.cells import TracedCell
    from riverrun.nn.layers.dropout import Dropout
    from riverrun.nn.layers.embed import Embedding
    from riverrun.nn.layers.init import initialise
    from riverrun.nn.layers.ngrams import HashedNgrams
    from riverrun.nn.layers.stack import Stack
    from riverrun.nn.models.recurrent_lm import RecurrentLM
    from riverrun.nn.models.window_lm import WindowLM

    model = recipe.model
    assert isinstance(model, lm.Window | lm.Recurrent)  # a model that counts has no net
    # Where a step sees a sample of the symbols and plain SGD changes their rows alone, it does not touch the others.
    sampled = isinstance(model.output, lm.SampledSoftmax | lm.BlackOut)
    sparse = sampled and recipe.train.optimizer == "sgd" and not recipe.train.momentum + recipe.train.weight_decay
    embedding = Embedding(size, model.size, sparse=sparse)
    output = partial(build_output, model.output, size=size, tied=embedding.weight, counts=counts, sparse=sparse)
    net: RecurrentLM | WindowLM
    if isinstance(model, lm.Window):
        read = model.hidden + (model.context * model.size if model.direct else 0)
        net = WindowLM(
            embedding,
            model.context,
            model.hidden,
            output(read),
            bos=bos,
            direct=model.direct,
            dropout=model.dropout,
        )
        initialise(net, model.init)
        return net
    encoder = model.encoder
    spec: Any = cell if cell is not None else {"kind": encoder.kind, **encoder.options}
    stack = Stack(
        spec,
        model.size,
        encoder.hidden,
        layers=encoder.layers,
        last=encoder.last,
        wiring=encoder.wiring,
        dropout=encoder.dropout,
        variational=encoder.variational,
        # The graph that a folder keeps of a user's own cell is for running it, not for training it.
        recurrent_dropout=0.0 if isinstance(cell, TracedCell) else encoder.recurrent_dropout,
        weight_drop=encoder.weight_drop,
        engine=encoder.engine,
    )
    into, out = (encoder.dropout if rate is None else rate for rate in (encoder.input_dropout, encoder.output_dropout))
    net = RecurrentLM(
        embedding,
        stack,
        output(stack.output_size),
        ngrams=HashedNgrams(size, order=model.maxent.order, buckets=model.maxent.buckets) if model.maxent else None,
        symbol_dropout=model.embedding_dropout,
        input_dropout=Dropout(into, variational=encoder.variational),
        output_dropout=Dropout(out, variational=encoder.variational),
        ar=recipe.train.ar,
        tar=recipe.train.tar,
    )
    initialise(net, model.init)
    return net


def build_output(
    output: lm.AnyOutput,
    features: int,
    *,
    size: int,
    tied: nn.Parameter,
    counts: npt.NDArray[Any] | None,
    sparse: bool,
) -> Output:
    """The distribution over the symbols.

    Args:
        features: numbers that it reads.
        size: how many symbols there are.
        tied: the vectors of the input, used where the config says so.
        counts: of the symbols in the training text.
        sparse: give the rows of the sample alone a gradient.
    """
    from riverrun.nn.layers.adaptive_softmax import AdaptiveSoftmax
    from riverrun.nn.layers.blackout import BlackOut
    from riverrun.nn.layers.full_softmax import FullSoftmax
    from riverrun.nn.layers.sampled_softmax import SampledSoftmax

    given = tied if output.tied else None
    match output:
        case lm.AdaptiveSoftmax(cutoffs=cutoffs, factor=factor):
            fitting = [cut for cut in cutoffs if cut < size]  # a small vocabulary has fewer clusters
            return AdaptiveSoftmax(features, size, cutoffs=fitting or [max(1, size // 2)], factor=factor)
        case lm.SampledSoftmax(samples=samples):
            return SampledSoftmax(features, size, samples=samples, frequencies=counts, tied=given, sparse=sparse)
        case lm.BlackOut(samples=samples, power=power):
            return BlackOut(features, size, samples=samples, power=power, frequencies=counts, tied=given, sparse=sparse)
        case lm.FullSoftmax(chunk=chunk):
            return FullSoftmax(features, size, chunk=chunk, tied=given)
