"""Laws of every layer: a batch is its rows, padding has no influence, gradients are derivatives, no memory."""

from __future__ import annotations

import copy
import importlib
import inspect
import itertools
import pickle
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import riverrun.nn.layers  # noqa: E402
from riverrun.data.padded import Padded  # noqa: E402
from riverrun.decode.scorer import Chain  # noqa: E402
from riverrun.nn.layers.adaptive_softmax import AdaptiveSoftmax  # noqa: E402
from riverrun.nn.layers.affixes import Affixes  # noqa: E402
from riverrun.nn.layers.blackout import BlackOut  # noqa: E402
from riverrun.nn.layers.chars import CharCNN, CharRNN  # noqa: E402
from riverrun.nn.layers.crf import CRF  # noqa: E402
from riverrun.nn.layers.dropout import Dropout  # noqa: E402
from riverrun.nn.layers.embed import Embedding  # noqa: E402
from riverrun.nn.layers.full_softmax import FullSoftmax  # noqa: E402
from riverrun.nn.layers.ngrams import HashedNgrams  # noqa: E402
from riverrun.nn.layers.recurrent import Recurrent  # noqa: E402
from riverrun.nn.layers.sampled_softmax import SampledSoftmax  # noqa: E402
from riverrun.nn.layers.softmax import Softmax  # noqa: E402
from riverrun.nn.layers.stack import Stack  # noqa: E402
from riverrun.nn.layers.symbol_dropout import SymbolDropout  # noqa: E402
from riverrun.nn.layers.wiring import Add, Highway, Take  # noqa: E402

pytestmark = pytest.mark.train

SIZE, TAGS, IDS = 4, 3, 7
LENGTHS = [3, 0, 1, 5, 2]
Out = Padded | Tensor  # a tensor is (B, ...)


@dataclass
class Case:
    """A layer, whether it reads ids, and what it makes of a batch and of the states or tags that go with it."""

    make: Callable[[], nn.Module]
    run: Callable[[nn.Module, Padded, Padded], list[Out]]
    ids: bool = False


def sequence(layer: nn.Module, x: Padded, tags: Padded) -> list[Out]:
    y = layer(x)
    return [y]


def stateful(layer: nn.Module, x: Padded, tags: Padded) -> list[Out]:
    """From a state that is not zero, and is each row's own."""
    given = leaves(layer.initial_state(len(x)))
    values = [0.1 * (k + 1) + 0 * state + shade(x)[:, None] for k, state in enumerate(given)]
    y, after = layer(x, fill(layer.initial_state(len(x)), iter(values)))
    return [y, *leaves(after)]


def shade(x: Padded) -> Tensor:
    """(B,), a number that every row has of its own, whatever batch it is in."""
    return x.lengths.double() / 10


def leaves(state: object) -> list[Tensor]:
    return [state] if isinstance(state, Tensor) else [leaf for part in state for leaf in leaves(part)]


def fill(state: object, values: object) -> object:
    if isinstance(state, Tensor):
        return next(values)
    parts = [fill(part, values) for part in state]
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


def joined(layer: nn.Module, x: Padded, tags: Padded) -> list[Out]:
    return [layer(x, x.with_data(x.data * 2 - 1).zeroed())]


def head(layer: nn.Module, x: Padded, tags: Padded) -> list[Out]:
    chain = layer(x)
    steps = [Padded(chain.transitions[:, 1:], (chain.lengths - 1).clamp(min=0))] if chain.per_position else []
    return [Padded(chain.emissions, chain.lengths), *steps, layer.log_likelihood(x, tags)]


def words(layer: nn.Module, x: Padded, tags: Padded) -> list[Out]:
    return [layer(x)]


def looked_up(layer: nn.Module, x: Padded, tags: Padded) -> list[Out]:
    return [x.with_data(layer(x.zeroed().data))]


def over_symbols(layer: nn.Module, x: Padded, tags: Padded) -> list[Out]:
    """The log probabilities at every position, and those of the tags by the way that training takes."""
    vectors = x.zeroed()
    flat = vectors.data.flatten(0, 1)
    wanted = tags.zeroed().data.flatten()
    found = layer.log_probs(flat).view(*vectors.data.shape[:2], layer.size)
    likelihood = layer.nll(flat, wanted).view(vectors.data.shape[:2])
    return [x.with_data(found), x.with_data(likelihood)]


def ngrams(layer: nn.Module, x: Padded, tags: Padded) -> list[Out]:
    """What the last three symbols add to the scores."""
    ids = nn.functional.pad(x.zeroed().data, (3, 0), value=-1)
    context = ids.unfold(1, 3, 1)[:, 1:]
    added = layer.windows(layer.starts(context).flatten(0, 1)).take(torch.arange(layer.size))
    return [x.with_data(added.view(*x.data.shape, layer.size))]


def dropped(layer: nn.Module, x: Padded, tags: Padded) -> list[Out]:
    vectors = torch.stack([x.zeroed().data.double()] * 2, -1)
    return [x.with_data(layer(x.zeroed().data, vectors))]


CASES: dict[str, Case] = {
    "recurrent": Case(lambda: Recurrent("gru", SIZE, 3), stateful),
    "recurrent reverse": Case(lambda: Recurrent("lstm", SIZE, 3, reverse=True), stateful),
    **{
        f"stack {wiring} {'both' if both else 'one'}": Case(
            lambda wiring=wiring, both=both: Stack(
                "lstm", SIZE, SIZE // 2 if both else SIZE, layers=3, bidirectional=both, wiring=wiring, dropout=0.5
            ),
            stateful,
        )
        for wiring, both in itertools.product(("plain", "residual", "highway", "dense"), (False, True))
    },
    "stack of another width": Case(lambda: Stack("gru", SIZE, 3, layers=2, wiring="residual"), stateful),
    "stack with recurrent dropout": Case(
        lambda: Stack("gru", SIZE, 3, recurrent_dropout=0.3, weight_drop=0.2), stateful
    ),
    "char cnn": Case(lambda: CharCNN(IDS, 4, 5, 3), words, ids=True),
    "char cnn of even width": Case(lambda: CharCNN(IDS, 4, 5, 4), words, ids=True),
    "char cnn, more characters than positions": Case(lambda: CharCNN(100, 4, 5, 3), words, ids=True),
    "char rnn": Case(lambda: CharRNN(IDS, 4, 3, cell="gru"), words, ids=True),
    "affixes": Case(lambda: Affixes(2, prefixes=2, suffixes=3, buckets=50), words, ids=True),
    "embedding": Case(lambda: Embedding(IDS, 3), looked_up, ids=True),
    "dropout": Case(lambda: Dropout(0.5), sequence),
    "dropout variational": Case(lambda: Dropout(0.5, variational=True), sequence),
    "softmax": Case(lambda: Softmax(SIZE, TAGS), head),
    "crf additive": Case(lambda: CRF(SIZE, TAGS), head),
    "crf pairwise": Case(lambda: CRF(SIZE, TAGS, potentials="pairwise"), head),
    "full softmax": Case(lambda: FullSoftmax(SIZE, TAGS), over_symbols),
    "full softmax in chunks": Case(lambda: FullSoftmax(SIZE, TAGS, chunk=1), over_symbols),
    "adaptive softmax": Case(lambda: AdaptiveSoftmax(SIZE, 9, cutoffs=[2, 5], factor=2.0), over_symbols),
    "sampled softmax": Case(lambda: SampledSoftmax(SIZE, TAGS, samples=2), over_symbols),
    "blackout": Case(lambda: BlackOut(SIZE, TAGS, samples=2), over_symbols),
    "ngrams": Case(lambda: HashedNgrams(IDS, order=4, buckets=30), ngrams, ids=True),
    "dropout of symbols": Case(lambda: SymbolDropout(0.5), dropped, ids=True),
    "take": Case(Take, joined),
    "add": Case(Add, joined),
    "highway": Case(lambda: Highway(SIZE), joined),
}
COVERED = {
    *(Recurrent, Stack, CharCNN, CharRNN, Affixes, Embedding, Dropout, Softmax, CRF, Take, Add, Highway),
    *(FullSoftmax, AdaptiveSoftmax, SampledSoftmax, BlackOut, HashedNgrams, SymbolDropout),
}


def made(case: Case) -> nn.Module:
    """In float64, with weights that are all different, not in training."""
    layer = case.make().double().eval()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.7)
    return layer


def inputs(case: Case, lengths: list[int], garbage: float = float("nan")) -> tuple[Padded, Padded]:
    """A batch and tags; where nothing may be read stands garbage."""
    generator = torch.Generator().manual_seed(3)
    counts, width = torch.tensor(lengths, dtype=torch.long), max(lengths, default=0) + 1
    tags = torch.randint(0, TAGS, (len(lengths), width), generator=generator)
    if case.ids:
        data = torch.randint(0, IDS, (len(lengths), width), generator=generator)
    else:
        data = torch.randn(len(lengths), width, SIZE, generator=generator, dtype=torch.float64)
    for row, length in enumerate(lengths):
        data[row, length:] = (999 if garbage == garbage else -5) if case.ids else garbage
        tags[row, length:] = -9
    return Padded(data if case.ids else data.requires_grad_(), counts), Padded(tags, counts)


def rows(outputs: list[Out]) -> list[list[Tensor]]:
    """For each row of the batch what came out for it, without padding."""
    parts = [out.rows() if isinstance(out, Padded) else list(out) for out in outputs]
    return [list(row) for row in zip(*parts, strict=True)]


def weighted(values: list[list[Tensor]]) -> Tensor:
    """One number in which every value has a weight of its own."""
    total = torch.zeros((), dtype=torch.float64)
    for row in values:
        for value in row:
            total = total + (value * torch.linspace(0.5, 1.5, value.numel()).double().view(value.shape)).sum()
    return total


def gradients(layer: nn.Module, total: Tensor, x: Padded) -> dict[str, Tensor]:
    wanted = dict(layer.named_parameters())
    if x.data.requires_grad:
        wanted["x"] = x.data
    if not wanted:
        return {}
    found = torch.autograd.grad(total, list(wanted.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(wanted, found, strict=True))


def a_batch_is_its_rows(case: Case) -> None:
    layer = made(case)
    x, tags = inputs(case, LENGTHS)
    together = rows(case.run(layer, x, tags))
    whole = gradients(layer, weighted(together), x)
    summed = {name: torch.zeros_like(value) for name, value in whole.items()}
    for k, length in enumerate(LENGTHS):
        data = x.data[k : k + 1, :length].detach().requires_grad_(not case.ids)
        one = Padded(data, x.lengths[k : k + 1])
        alone = rows(case.run(layer, one, Padded(tags.data[k : k + 1, :length], one.lengths)))
        torch.testing.assert_close(alone[0], together[k], rtol=1e-10, atol=1e-12)
        total = weighted(alone)
        if not total.requires_grad:  # an empty row through a layer without parameters
            continue
        for name, value in gradients(layer, total, one).items():
            if name == "x":
                summed["x"][k, :length] = value[0]
            else:
                summed[name] += value
    for name, value in whole.items():
        torch.testing.assert_close(summed[name], value, rtol=1e-9, atol=1e-11, msg=lambda text, n=name: f"{n}: {text}")


def padding_has_no_influence(case: Case) -> None:
    layer = made(case)
    found = []
    for garbage in (float("nan"), 1e3):
        x, tags = inputs(case, LENGTHS, garbage)
        values = rows(case.run(layer, x, tags))
        found.append((values, gradients(layer, weighted(values), x)))
    (values, grads), (others, other_grads) = found
    assert all(value.isfinite().all() for row in values for value in row)
    torch.testing.assert_close(values, others, rtol=0, atol=0)
    for name, grad in grads.items():
        assert grad.isfinite().all(), f"a NaN in the padding reached the gradient of {name}"
        torch.testing.assert_close(grad, other_grads[name], rtol=0, atol=0)
    if "x" in grads:
        assert not grads["x"][~x.mask()].any()


def gradients_are_derivatives(case: Case) -> None:
    """Along a random direction of each parameter and of the input, against the difference quotient."""
    layer = made(case)
    x, tags = inputs(case, LENGTHS, garbage=0.0)
    grads = gradients(layer, weighted(rows(case.run(layer, x, tags))), x)
    targets = dict(layer.named_parameters()) | ({} if case.ids else {"x": x.data})
    step = 1e-5
    for name, grad in grads.items():
        direction = torch.randn_like(grad)
        sides = []
        for sign in (1, -1):
            with torch.no_grad():
                targets[name].add_(sign * step * direction)
                sides.append(weighted(rows(case.run(layer, x, tags))))
                targets[name].sub_(sign * step * direction)
        quotient = (sides[0] - sides[1]) / (2 * step)
        # The quotient errs by step squared times the third derivative.
        torch.testing.assert_close((grad * direction).sum(), quotient, rtol=1e-6, atol=1e-8)


def likelihoods_sum_to_one(case: Case) -> None:
    """Over every sequence of tags of a row."""
    layer = made(case)
    for length in range(4):
        x, _ = inputs(case, [length])
        paths = list(itertools.product(range(TAGS), repeat=length))
        data = torch.tensor(paths, dtype=torch.long).reshape(len(paths), length)
        many = Padded(x.data[:, :length].expand(len(paths), -1, -1), x.lengths.expand(len(paths)))
        total = layer.log_likelihood(many, Padded(data, many.lengths)).exp().sum()
        torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-10, atol=0)


LAWS = [a_batch_is_its_rows, padding_has_no_influence, gradients_are_derivatives]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", CASES)
def test_law(name: str, law: Callable[[Case], None]) -> None:
    law(CASES[name])


@pytest.mark.parametrize("name", ["softmax", "crf additive", "crf pairwise"])
def test_the_probabilities_of_all_paths_sum_to_one(name: str) -> None:
    likelihoods_sum_to_one(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_called_twice_copied_and_pickled_it_is_the_same(name: str) -> None:
    case = CASES[name]
    layer = made(case)
    x, tags = inputs(case, LENGTHS)
    first = rows(case.run(layer, x, tags))
    other = case.make().double().eval()
    other.load_state_dict(layer.state_dict())
    for same in (layer, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), other):
        torch.testing.assert_close(rows(case.run(same, x, tags)), first, rtol=0, atol=0)


@pytest.mark.parametrize("lengths", [[], [0, 0]], ids=["no rows", "no positions"])
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_goes_in_and_nothing_goes_wrong(name: str, training: bool, lengths: list[int]) -> None:
    case = CASES[name]
    layer = made(case).train(training)
    x, tags = inputs(case, lengths)
    for part in (x, x.with_data(x.data[:, :0])):
        outputs = case.run(layer, part, tags.with_data(tags.data[:, : part.data.shape[1]]))
        for out in outputs:
            assert out.data.shape[0] == len(lengths)
            assert (out.zeroed().data if isinstance(out, Padded) else out).isfinite().all()
        grads = gradients(layer, weighted([[out] for out in map(as_tensor, outputs)]) + 0 * anchor(layer, part), part)
        assert all(grad.isfinite().all() for grad in grads.values())


def as_tensor(out: Out) -> Tensor:
    return out.zeroed().data if isinstance(out, Padded) else out


def anchor(layer: nn.Module, x: Padded) -> Tensor:
    """A number that hangs on everything, so that there is something to differentiate."""
    total = sum((value.sum() for value in layer.parameters()), torch.zeros((), dtype=torch.float64))
    return total if not x.data.requires_grad else total + x.zeroed().data.sum()


def test_every_public_layer_is_in_the_list() -> None:
    found = set()
    for module in pkgutil.iter_modules(riverrun.nn.layers.__path__, "riverrun.nn.layers."):
        for name, value in vars(importlib.import_module(module.name)).items():
            own = inspect.isclass(value) and value.__module__ == module.name and not name.startswith("_")
            if own and issubclass(value, nn.Module):
                found.add(value)
    assert found == COVERED, "a public layer needs a line in CASES and COVERED"
    assert {type(case.make()) for case in CASES.values()} == COVERED


def test_the_chain_of_a_softmax_knows_no_neighbours() -> None:
    chain = Softmax(SIZE, TAGS)(Padded(torch.randn(2, 3, SIZE), torch.tensor([3, 1])))
    assert isinstance(chain, Chain)
    assert not any(part.any() for part in (chain.transitions, chain.start, chain.stop))
