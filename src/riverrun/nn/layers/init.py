"""The first weights of a net, as different authors draw them."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from riverrun.errors import ConfigError, nearest
from riverrun.nn.layers.adaptive_softmax import AdaptiveSoftmax
from riverrun.nn.layers.crf import CRF
from riverrun.nn.layers.embed import Embedding
from riverrun.nn.layers.full_softmax import FullSoftmax
from riverrun.nn.layers.recurrent import Recurrent
from riverrun.nn.layers.wiring import Highway

How = Literal["ma-hovy", "lecture", "awd", "torch"]
HOWS = ("ma-hovy", "lecture", "awd", "torch")

_AWD = 0.1


@torch.no_grad()
def initialise(module: nn.Module, how: How) -> None:
    r"""Draw the weights of a module and of all modules in it anew; vectors that were given to an ``Embedding`` stay.

    ``ma-hovy`` (Ma and Hovy 2016, section 3.2): matrices uniform up to :math:`\pm\sqrt{6 / (r + c)}` for r rows and
    c columns, vectors of words and characters up to :math:`\pm\sqrt{3 / d}`, biases 0, but 1 for forget gates.
    ``lecture``: matrices and vectors up to :math:`\pm\sqrt{1 / d}` for d columns, biases 0. ``torch``: as torch draws
    them: recurrent layers with H units up to :math:`\pm\sqrt{1 / H}`, vectors normal, the tables of a CRF 0. ``awd``
    (Merity et al. 2018): recurrent and other layers as torch, vectors and the rows of a softmax over symbols up to
    ±0.1, its biases 0.

    A matrix is what multiplies a vector once: each gate's has bounds of its own, a convolution has a column for each
    number that it sees. Learned vectors of a cell begin as the cell says.

    Args:
        module: a net, or a layer of ``riverrun.nn`` or ``torch.nn``.
        how: one of the four.
    """
    if how not in HOWS:
        raise ConfigError(f"init must be one of {', '.join(HOWS)}, received {how!r}{nearest(how, HOWS)}")
    for part in module.modules():  # a module comes before what is in it
        match part:
            case Recurrent():
                _recurrent(part, how)
            case Embedding():
                _embedding(part, how)
            case nn.Linear() | nn.Conv1d():
                _affine(part, how)
            case FullSoftmax() | AdaptiveSoftmax():
                _symbols(part, how)
    for part in module.modules():
        match part:
            case Highway():
                part.lean()
            case CRF():
                _crf(part, how)


def _bound(matrix: Tensor, how: How) -> float:
    rows, columns = matrix.flatten(1).shape
    return float((6 / (rows + columns) if how == "ma-hovy" else 1 / columns) ** 0.5)


def _draw(matrix: Tensor, how: How) -> None:
    bound = _bound(matrix, how)
    matrix.uniform_(-bound, bound)


def _affine(layer: nn.Linear | nn.Conv1d, how: How) -> None:
    if how in ("torch", "awd"):
        layer.reset_parameters()
        return
    _draw(layer.weight, how)
    if layer.bias is not None:
        layer.bias.zero_()


def _embedding(layer: Embedding, how: How) -> None:
    if how == "torch":
        layer.draw()
    elif how == "awd":
        layer.draw(_AWD)
    else:
        layer.draw(((3 if how == "ma-hovy" else 1) / layer.output_size) ** 0.5)


def _symbols(layer: FullSoftmax | AdaptiveSoftmax, how: How) -> None:
    if how == "awd":
        layer.draw(_AWD)
    elif isinstance(layer, AdaptiveSoftmax):
        layer.draw()  # it has several matrices and no biases
    elif how == "ma-hovy":
        layer.draw(_bound(layer.weight, how))
    else:
        bound = layer.features**-0.5
        layer.draw(bound, bias=bound if how == "torch" else 0.0)


def _crf(layer: CRF, how: How) -> None:
    layer.stop.zero_()
    if layer.potentials == "additive":
        layer.start.zero_()
        if how in ("torch", "awd"):
            layer.transitions.zero_()
        else:
            _draw(layer.transitions, how)


def _recurrent(layer: Recurrent, how: How) -> None:
    layer.reset_parameters()
    if how in ("torch", "awd"):
        return
    plan, parameters = layer.layout, dict(layer.named_parameters(recurse=False))
    rows = [layer.sizes[width] for width in plan.rows.values()]
    blocks = [(block.name, [layer.sizes[block.out]] * len(block.gates)) for block in plan.blocks]
    for name, sizes in [("W", rows), *blocks] if rows else blocks:
        for matrix in torch.split(parameters[name], sizes):
            _draw(matrix, how)
    biases = dict(zip(plan.rows, torch.split(parameters["b"], rows), strict=True)) if rows else {}
    for bias in biases.values():
        bias.zero_()
    if how == "ma-hovy":
        biases |= {f"p.{name}": parameters[f"p_{name}"] for name in plan.params}
        for name in layer.cell.forget:
            if name not in biases:  # a cell without a graph was not asked before
                raise ConfigError(f"init: {layer.cell!r} has no forget bias '{name}'; it has {', '.join(biases)}")
            biases[name].fill_(1.0)
