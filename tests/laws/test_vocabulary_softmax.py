"""Laws of the outputs over a vocabulary: distributions, exact gradients, bounded memory, unbiased estimates."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

from riverrun.errors import ConfigError, ShapeError  # noqa: E402
from riverrun.nn.layers import adaptive_softmax, likelihood, product, windows  # noqa: E402
from riverrun.nn.layers.adaptive_softmax import AdaptiveSoftmax  # noqa: E402
from riverrun.nn.layers.blackout import BlackOut  # noqa: E402
from riverrun.nn.layers.full_softmax import FullSoftmax  # noqa: E402
from riverrun.nn.layers.ngrams import HashedNgrams  # noqa: E402
from riverrun.nn.layers.output import Output  # noqa: E402
from riverrun.nn.layers.proposal import proposal  # noqa: E402
from riverrun.nn.layers.sampled_softmax import SampledSoftmax  # noqa: E402
from riverrun.nn.layers.windows import Windows  # noqa: E402

pytestmark = pytest.mark.train

H, V, N = 5, 600, 7  # at least three blocks of the smallest size
COUNTS = np.random.default_rng(5).integers(0, 50, V)

OUTPUTS: dict[str, Callable[[], nn.Module]] = {
    "full": lambda: FullSoftmax(H, V),
    "full, chunk 1": lambda: FullSoftmax(H, V, chunk=1),
    "full, chunk 3": lambda: FullSoftmax(H, V, chunk=3),
    "full, chunk above": lambda: FullSoftmax(H, V, chunk=1000),
    "tied": lambda: FullSoftmax(H, V, tied=nn.Parameter(torch.zeros(V, H))),
    "adaptive": lambda: AdaptiveSoftmax(H, V, cutoffs=[20, 300], factor=2.0),
    "adaptive, one of each": lambda: AdaptiveSoftmax(H, V, cutoffs=[1, 2, V - 1], factor=1.5),
    "sampled": lambda: SampledSoftmax(H, V, samples=9, frequencies=COUNTS),
    "blackout": lambda: BlackOut(H, V, samples=9, frequencies=COUNTS),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small vocabulary has several blocks."""
    monkeypatch.setattr(likelihood, "_BLOCK", 1)


def made(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    """With weights that are all different, not in training."""
    layer = OUTPUTS[name]().to(dtype).eval()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer


def inputs(count: int = N, *, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(count)
    hidden = (scale * torch.randn(count, H, generator=generator, dtype=torch.float64)).to(dtype).requires_grad_()
    return hidden, torch.randint(0, V, (count,), generator=generator)


def ngrams(count: int = N) -> Windows:
    """Two pieces a row, which overlap."""
    table = torch.randn(V + 40, dtype=torch.float64, requires_grad=True)
    return Windows(table, torch.randint(0, 41, (count, 2)))


def reference(layer: nn.Module, hidden: Tensor, added: Windows | None) -> Tensor:
    """(N, V) log probabilities, each softmax as torch writes it."""

    def scores(x: Tensor, weight: Tensor, begin: int, end: int) -> Tensor:
        found = x @ weight.T
        if added is None:
            return found
        more = torch.stack([sum(added.table[s + begin : s + end] for s in row) for row in added.starts.tolist()])
        return found + F.pad(more, (0, found.shape[1] - more.shape[1]))

    if isinstance(layer, FullSoftmax):
        return (scores(hidden, layer.weight, 0, V) + layer.bias).log_softmax(1)
    head = scores(hidden, layer.head, 0, layer.cutoffs[0]).log_softmax(1)
    parts = [head[:, : layer.cutoffs[0]]]
    for k, (begin, end) in enumerate(pairwise([*layer.cutoffs, V])):
        inner = scores(hidden @ layer.down[k].T, layer.clusters[k], begin, end).log_softmax(1)
        parts.append(head[:, layer.cutoffs[0] + k, None] + inner)
    return torch.cat(parts, 1)


def derivatives(terms: Tensor, layer: nn.Module, hidden: Tensor, added: Windows | None) -> dict[str, Tensor]:
    """Of the terms, each with a weight of its own, one of them none."""
    wanted = {**dict(layer.named_parameters()), "hidden": hidden} | ({"table": added.table} if added else {})
    weights = torch.linspace(-1, 2, len(terms), dtype=terms.dtype)
    weights[len(terms) // 2] = 0
    total = (terms * weights).sum()
    found = torch.autograd.grad(total, list(wanted.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(wanted, found, strict=True))


def the_gradients_are_those_of_the_whole(name: str, *, with_ngrams: bool, scale: float = 1.0) -> None:
    layer = made(name)
    hidden, targets = inputs(scale=scale)
    added = ngrams() if with_ngrams else None
    expected = -reference(layer, hidden, added)[torch.arange(N), targets]
    found = layer.nll(hidden, targets, added)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)
    whole = derivatives(expected, layer, hidden, added)
    for part, value in derivatives(found, layer, hidden, added).items():
        torch.testing.assert_close(value, whole[part], rtol=1e-10, atol=1e-11, msg=lambda text, p=part: f"{p}: {text}")


@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["", "large scores"])
@pytest.mark.parametrize("with_ngrams", [False, True], ids=["", "ngrams"])
@pytest.mark.parametrize("name", OUTPUTS)
def test_the_gradients_are_those_of_the_whole(name: str, with_ngrams: bool, scale: float) -> None:
    the_gradients_are_those_of_the_whole(name, with_ngrams=with_ngrams, scale=scale)


@pytest.mark.parametrize("with_ngrams", [False, True], ids=["", "ngrams"])
@pytest.mark.parametrize("name", OUTPUTS)
def test_all_probabilities_sum_to_one_and_are_those_of_the_likelihood(name: str, with_ngrams: bool) -> None:
    layer = made(name)
    hidden, targets = inputs()
    added = ngrams() if with_ngrams else None
    found = layer.log_probs(hidden, added)
    torch.testing.assert_close(found.exp().sum(1), torch.ones(N, dtype=torch.float64), rtol=1e-12, atol=0)
    torch.testing.assert_close(found, reference(layer, hidden, added), rtol=1e-11, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(layer.log_probs(hidden, added), found, rtol=1e-12, atol=1e-13)
        alone = layer.nll(hidden, targets, added)
        outside = layer.loss(hidden, targets, added)
    torch.testing.assert_close(-alone, found[torch.arange(N), targets], rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(outside, alone, rtol=0, atol=0)  # outside of training nothing is estimated


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_batch_is_its_rows(name: str) -> None:
    layer = made(name)
    hidden, targets = inputs()
    added = ngrams()
    together = layer.nll(hidden, targets, added)
    for n in range(N):
        row = torch.tensor([n])
        alone = layer.nll(hidden[row], targets[row], added.at(row))
        torch.testing.assert_close(alone, together[row], rtol=1e-12, atol=1e-13)
        one = layer.log_probs(hidden[row], added.at(row))
        torch.testing.assert_close(one, layer.log_probs(hidden, added)[row], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", OUTPUTS)
def test_nothing_goes_in_and_nothing_goes_wrong(name: str, training: bool) -> None:
    layer = made(name).train(training)
    hidden, targets = inputs(0)
    found = layer.loss(hidden, targets, ngrams(0))
    assert found.shape == (0,) and layer.log_probs(hidden).shape == (0, V)
    found.sum().backward()
    assert all(value.grad is None or not value.grad.any() for value in layer.parameters())


@pytest.mark.parametrize("name", ["full", "full, chunk 3", "adaptive"])
def test_gradcheck(name: str) -> None:
    layer = made(name)
    hidden, targets = inputs(3)
    rows, added = [0, 20, V - 1], ngrams(3)  # of the first, a middle and the last block
    targets[:] = torch.tensor(rows)

    def some(x: Tensor, table: Tensor) -> Tensor:
        return layer.nll(x, targets, Windows(table, added.starts))

    assert torch.autograd.gradcheck(some, (hidden, added.table), fast_mode=True)


def test_a_gradient_may_be_asked_for_twice() -> None:
    layer = made("full")
    hidden, targets = inputs()
    total = layer.nll(hidden, targets, ngrams()).sum()
    first = torch.autograd.grad(total, [hidden, layer.weight], retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(total, [hidden, layer.weight]), first, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["full", "full, chunk 3", "adaptive", "sampled", "blackout"])
def test_bfloat16_is_for_the_products_alone(name: str) -> None:
    layer = made(name, torch.float32).train()
    hidden, targets = inputs(dtype=torch.float32)
    seed = torch.get_rng_state()
    exact = layer.loss(hidden, targets)
    whole = derivatives(exact, layer, hidden, None)
    torch.set_rng_state(seed)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer.loss(hidden, targets)
    assert found.dtype == torch.float32
    # Eight bits of the factors: scores of up to 10 err by 0.04.
    torch.testing.assert_close(found, exact, rtol=0.02, atol=0.1)
    for part, value in derivatives(found, layer, hidden, None).items():
        assert value.dtype == torch.float32
        assert float((value - whole[part]).norm()) < 0.03 * float(whole[part].norm()) + 1e-6, part


# -- memory


def peak(run: Callable[[], object]) -> int:
    """The largest number of bytes that tensors had at a time, beyond those before."""
    run()  # what is compiled or made once does not count
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        run()
    now = highest = 0
    for event in sorted(watched.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            now += event.nbytes()
            highest = max(highest, now)
    return highest


def forward_and_backward(layer: nn.Module, hidden: Tensor, targets: Tensor) -> Callable[[], None]:
    def run() -> None:
        layer.zero_grad(set_to_none=True)
        layer.loss(hidden, targets).sum().backward()

    return run


def memory_of_chunks() -> tuple[int, int, int]:
    """Peak bytes in training with all scores held, with chunks of 4 positions, and what the gradients take."""
    size, count = 3000, 200
    hidden, targets = torch.randn(count, H, requires_grad=True), torch.randint(0, size, (count,))
    layers = FullSoftmax(H, size), FullSoftmax(H, size, chunk=4)
    whole, chunked = (peak(forward_and_backward(layer, hidden, targets)) for layer in layers)
    return whole, chunked, 4 * size * (H + 1)


def test_chunks_bound_what_is_held() -> None:
    whole, chunked, gradients = memory_of_chunks()
    scores = 4 * 200 * 3000
    assert whole > scores
    # The gradients, two or three blocks of 4 * V scores at once, and vectors of the positions.
    assert chunked < gradients + scores / 8


def test_a_batch_of_rare_symbols_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    size, count = 20_000, 100
    layer = AdaptiveSoftmax(H, size, cutoffs=[10])
    run = forward_and_backward(layer, torch.randn(count, H, requires_grad=True), torch.randint(10, size, (count,)))
    whole = peak(run)
    monkeypatch.setattr(adaptive_softmax, "_HELD", 1 << 16)
    assert whole > 4 * count * size > 4 * peak(run)


def test_without_gradients_nothing_but_a_block_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    size, count = 3000, 200
    hidden, targets = torch.randn(count, H), torch.randint(0, size, (count,))
    for layer in (FullSoftmax(H, size), AdaptiveSoftmax(H, size, cutoffs=[100]), SampledSoftmax(H, size, samples=5)):
        with torch.no_grad():
            found = peak(partial(layer.nll, hidden, targets))
        assert found < 3 * 4 * 256 * count < 4 * count * size / 3


def test_a_sample_needs_no_memory_for_all_symbols() -> None:
    size, count = 20_000, 30
    for kind in (SampledSoftmax, BlackOut):
        layer = kind(H, size, samples=50, sparse=True)
        hidden, targets = torch.randn(count, H, requires_grad=True), torch.randint(0, size, (count,))
        # The keys or weights of the symbols, in float64, their order, and the gradient of the biases.
        assert peak(forward_and_backward(layer, hidden, targets)) < 40 * size < 4 * count * size


# -- each softmax by itself


@pytest.mark.parametrize("factor", [4.0, 2.0])
def test_adaptive_is_that_of_torch(factor: float) -> None:
    size, width, cutoffs = 50, 64, [7, 20, 30]
    theirs = nn.AdaptiveLogSoftmaxWithLoss(width, size, cutoffs, div_value=factor).double()
    ours = AdaptiveSoftmax(width, size, cutoffs=cutoffs, factor=factor).double()
    values = [theirs.head.weight, *(part.weight for k in (0, 1) for part in [tail[k] for tail in theirs.tail])]
    with torch.no_grad():
        for mine, value in zip(ours.parameters(), values, strict=True):
            mine.copy_(value)
    hidden = torch.randn(40, width, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, size, (40,))
    expected = -theirs(hidden, targets).output
    torch.testing.assert_close(ours.nll(hidden, targets), expected, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(ours.log_probs(hidden), theirs.log_prob(hidden), rtol=1e-12, atol=1e-13)
    mine = torch.autograd.grad(ours.nll(hidden, targets).sum(), [hidden, *ours.parameters()])
    torch.testing.assert_close(mine, torch.autograd.grad(expected.sum(), [hidden, *values]), rtol=1e-10, atol=1e-12)


def test_a_sample_of_all_symbols_is_the_whole() -> None:
    layer = SampledSoftmax(H, V, samples=V, frequencies=COUNTS).double().train()
    hidden, targets = inputs()
    added = ngrams()
    found, exact = layer.loss(hidden, targets, added), layer.nll(hidden, targets, added)
    torch.testing.assert_close(found, exact, rtol=1e-11, atol=1e-12)
    mine, whole = (derivatives(terms, layer, hidden, added) for terms in (found, exact))
    torch.testing.assert_close(mine, whole, rtol=1e-9, atol=1e-11)


def the_sampled_sum_is_unbiased() -> None:
    layer = SampledSoftmax(H, 30, samples=6, frequencies=COUNTS[:30])
    values = torch.rand(30, dtype=torch.float64)
    found = []
    for _ in range(4000):
        symbols, chance = layer.sample()
        assert len(symbols.unique()) == 6
        found.append(float((values[symbols] / chance.exp()).sum()))
    error = np.std(found) / len(found) ** 0.5
    assert abs(np.mean(found) - float(values.sum())) < 5 * error


def test_the_sampled_sum_is_unbiased() -> None:
    the_sampled_sum_is_unbiased()


def fixed(layer: SampledSoftmax | BlackOut, monkeypatch: pytest.MonkeyPatch) -> object:
    """The layer draws the same sample for ever; among it is the first target."""
    drawn = layer.sample()
    monkeypatch.setattr(layer, "sample", lambda: drawn)
    return drawn


def test_the_sampled_loss_is_its_equation(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = made("sampled").train()
    symbols, chance = fixed(layer, monkeypatch)
    hidden, targets = inputs()
    targets[0] = symbols[3]
    found = layer.loss(hidden, targets).detach().numpy()
    scores = (hidden @ layer.weight.T + layer.bias).detach().numpy()
    for n, y in enumerate(targets.tolist()):
        others = [
            np.exp(scores[n, v]) / p for v, p in zip(symbols.tolist(), chance.exp().tolist(), strict=True) if v != y
        ]
        np.testing.assert_allclose(found[n], np.log(np.exp(scores[n, y]) + sum(others)) - scores[n, y], rtol=1e-11)


def blackout_is_its_equation(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = made("blackout").train()
    symbols = torch.tensor([4, 4, 9, 77, 599])  # drawn with replacement
    monkeypatch.setattr(layer, "sample", lambda: symbols)
    hidden, targets = inputs()
    targets[0] = 4
    found = layer.loss(hidden, targets).detach().numpy()
    scores = (hidden @ layer.weight.T + layer.bias).detach().numpy()
    q = np.maximum(COUNTS, COUNTS[COUNTS > 0].min()) ** 0.4
    weighted = np.exp(scores) / (q / q.sum())
    for n, y in enumerate(targets.tolist()):
        others = [v for v in symbols.tolist() if v != y]
        total = weighted[n, y] + sum(weighted[n, v] for v in others)
        expected = np.log(weighted[n, y] / total) + sum(np.log(1 - weighted[n, v] / total) for v in others)
        np.testing.assert_allclose(found[n], -expected, rtol=1e-9)


def test_blackout_is_its_equation(monkeypatch: pytest.MonkeyPatch) -> None:
    blackout_is_its_equation(monkeypatch)


def test_blackout_draws_by_the_power_of_the_counts() -> None:
    layer = BlackOut(H, 4, samples=40_000, power=0.5, frequencies=np.array([16, 4, 4, 1]))
    shares = np.bincount(layer.sample().numpy(), minlength=4) / 40_000
    np.testing.assert_allclose(shares, np.array([4, 2, 2, 1]) / 9, atol=0.02)


@pytest.mark.parametrize("kind", [SampledSoftmax, BlackOut])
def test_a_sparse_gradient_is_the_dense_one(kind: type[SampledSoftmax], monkeypatch: pytest.MonkeyPatch) -> None:
    layer = kind(H, V, samples=9, frequencies=COUNTS, sparse=True).double().train()
    fixed(layer, monkeypatch)
    hidden, targets = inputs()
    found = torch.autograd.grad(layer.loss(hidden, targets).sum(), layer.weight)[0]
    assert found.is_sparse and found.coalesce().indices().shape[1] <= N + 9
    layer.sparse = False
    whole = torch.autograd.grad(layer.loss(hidden, targets).sum(), layer.weight)[0]
    torch.testing.assert_close(found.to_dense(), whole, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["sampled", "blackout"])
def test_the_same_seed_draws_the_same_sample(name: str) -> None:
    layer = made(name).train()
    hidden, targets = inputs()
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(layer.loss(hidden, targets))
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_no_share_of_a_sample_is_infinite() -> None:
    """A wrong symbol that takes all the probability has a loss and a gradient."""
    layer = BlackOut(1, 4, samples=3)
    layer.sample = lambda: torch.tensor([1, 2, 3])
    hidden = torch.tensor([[1.0]], requires_grad=True)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[-200.0], [200.0], [0.0], [0.0]]))
    found = layer.loss(hidden, torch.tensor([0]))
    (gradient,) = torch.autograd.grad(found.sum(), hidden)
    assert found.isfinite().all() and gradient.isfinite().all() and gradient.abs().sum() > 100


def test_tied_weights_are_one() -> None:
    table = nn.Parameter(torch.randn(V, H))
    layer = FullSoftmax(H, V, tied=table)
    assert layer.weight is table
    layer.draw(1e-9)
    assert table.abs().max() > 1e-3  # the embedding draws them
    again = copy.deepcopy(nn.ModuleList([nn.Embedding(V, H, _weight=table), layer]))
    assert again[1].weight is not table


# -- what they are made of


def test_large_products_are_those_of_torch() -> None:
    x, weight, bias = torch.randn(300, 130)[:, :129], torch.randn(400, 129), torch.randn(400)
    assert product._SMALL < 300 * 400 * 129
    exact = F.linear(x.double(), weight.double(), bias.double())
    ours, theirs = product.product(x, weight, bias), F.linear(x, weight, bias)
    assert float((ours - exact).abs().max()) < 2 * float((theirs - exact).abs().max()) + 1e-6
    other = torch.randn(400, 600)
    torch.testing.assert_close(product.product(weight.T, other.T), weight.T @ other, rtol=1e-4, atol=1e-4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert product.product(x[:2], weight).dtype == product.product(x, weight).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_windows_are_the_same_compiled_or_not(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    table, starts = torch.randn(40, dtype=dtype), torch.randint(0, 30, (6, 3))
    rows = torch.randn(6, 11, dtype=dtype)[:, :10]  # as a part of a block lies in memory
    found = []
    for compiled in (True, False):
        monkeypatch.setattr(windows, "_compiled", lambda _, compiled=compiled: compiled)
        scores, gradient = rows.clone(), torch.zeros(40, dtype=dtype)
        windows.add_(scores, table, starts)
        windows.add_back_(gradient, rows, starts)
        found.append((scores, gradient))
    torch.testing.assert_close(found[0], found[1])
    taken = Windows(table, starts).take(torch.arange(10))
    torch.testing.assert_close(found[0][0], rows + taken)
    torch.testing.assert_close(Windows(table, starts).take(torch.arange(10).expand(6, -1)), taken, rtol=0, atol=0)


def test_the_gradient_of_windows_is_a_derivative() -> None:
    starts = torch.randint(0, 9, (4, 3))
    table = torch.randn(20, dtype=torch.float64, requires_grad=True)
    symbols = torch.tensor([0, 3, 3, 10])
    assert torch.autograd.gradcheck(lambda t: Windows(t, starts).take(symbols), (table,))


def test_ngrams_depend_on_their_symbols_alone() -> None:
    layer = HashedNgrams(50, order=4, buckets=10_000)
    context = torch.randint(0, 50, (300, 3))
    starts = layer.starts(context)
    assert starts.shape == (300, 3) and int(starts.min()) >= 0 and int(starts.max()) <= 10_000 - 50
    for n in (1, 2, 3):  # the piece of n + 1 symbols
        other = context.clone()
        other[:, : 3 - n] = torch.randint(0, 50, (300, 3 - n))
        assert torch.equal(layer.starts(other)[:, :n], starts[:, :n])
        other = context.clone()
        other[:, 3 - n] = (other[:, 3 - n] + 1) % 50
        assert float((layer.starts(other)[:, n - 1 :] == starts[:, n - 1 :]).double().mean()) < 0.01
    assert torch.equal(layer.starts(context[:1, None])[0], starts[:1])
    assert len(starts.flatten().unique()) > 500  # spread
    assert not HashedNgrams(5, order=2, buckets=5).starts(torch.arange(5)[:, None]).any()  # there is one place alone


def test_a_proposal_has_a_chance_for_everyone() -> None:
    found = proposal(4, np.array([8, 0, 2, 0])).tolist()
    assert found == [8 / 14, 2 / 14, 2 / 14, 2 / 14]
    assert proposal(3, None).tolist() == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert proposal(3, np.array([9, 4, 1]), power=0).tolist() == pytest.approx([1 / 3] * 3)


def test_mistakes_are_said() -> None:
    with pytest.raises(ShapeError, match="targets must be from 0 to 599, received 3 to 600"):
        made("full").nll(inputs(2)[0], torch.tensor([3, 600]))
    with pytest.raises(ConfigError, match="chunk must be at least 1, received 0"):
        FullSoftmax(H, V, chunk=0)
    with pytest.raises(ShapeError, match=r"the vectors of 600 symbols with 5 numbers, received \(600, 4\)"):
        FullSoftmax(H, V, tied=nn.Parameter(torch.zeros(V, 4)))
    for cutoffs in ([], [5, 5], [9, 3], [0, 3], [3, 10]):
        with pytest.raises(ConfigError, match="cutoffs must rise from above 0 to below the number of symbols, 10"):
            AdaptiveSoftmax(H, 10, cutoffs=cutoffs)
    for kind in (SampledSoftmax, BlackOut):
        with pytest.raises(ConfigError, match=f"{kind.__name__}: samples must be at least 1, received 0"):
            kind(H, V, samples=0)
    with pytest.raises(ShapeError, match=r"the frequencies of 600 symbols, received \(2,\)"):
        SampledSoftmax(H, V, samples=3, frequencies=np.ones(2))
    for wrong in ([-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0]):
        with pytest.raises(ConfigError, match="expected frequencies from 0 on, and one above it"):
            proposal(2, np.array(wrong))
    with pytest.raises(ConfigError, match="order must be at least 2, received 1"):
        HashedNgrams(5, order=1, buckets=100)
    with pytest.raises(ConfigError, match="as many as there are symbols, 5, received 4"):
        HashedNgrams(5, order=3, buckets=4)


def test_every_output_keeps_the_interface() -> None:
    for name in OUTPUTS:
        layer = made(name)
        assert layer.features == H and layer.size == V and isinstance(layer.term, str)
        for method in ("loss", "nll", "log_probs"):
            ours, theirs = (inspect.signature(getattr(kind, method)) for kind in (type(layer), Output))
            assert list(ours.parameters) == list(theirs.parameters)
