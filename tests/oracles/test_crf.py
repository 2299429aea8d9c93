"""The CRF against the enumeration of every path; its compiled loops against log space; its gradients against both."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from riverrun.data.padded import Padded  # noqa: E402
from riverrun.decode.marginals import marginals as numpy_marginals  # noqa: E402
from riverrun.decode.scorer import Chain  # noqa: E402
from riverrun.decode.viterbi import viterbi  # noqa: E402
from riverrun.errors import ConfigError, ShapeError  # noqa: E402
from riverrun.nn.layers.crf import CRF, choose_engine, log_likelihood, log_partition, marginals  # noqa: E402

pytestmark = pytest.mark.train

ENGINES = ["numba", "torch"]
FORMS = ["shared", "per position"]


def draw(form: str, lengths: list[int], tags: int, seed: int = 0, wide: int = 1) -> tuple[Chain, Padded]:
    """Random scores that ask for gradients, NaN where nothing may be read, and a path with garbage in its padding."""
    rng = np.random.default_rng(seed)
    width = max(lengths, default=0) + wide
    emissions = rng.normal(size=(len(lengths), width, tags)) * 2
    shape = (tags, tags) if form == "shared" else (len(lengths), width, tags, tags)
    transitions = rng.normal(size=shape) * 2
    path = rng.integers(0, tags, (len(lengths), width))
    for row, length in enumerate(lengths):
        emissions[row, length:] = np.nan
        path[row, length:] = -7
        if form == "per position":
            transitions[row, length:] = np.nan
            transitions[row, :1] = np.nan
    parts = [emissions, transitions, rng.normal(size=tags), rng.normal(size=tags)]
    leaves = [torch.from_numpy(part).requires_grad_() for part in parts]
    counts = torch.tensor(lengths, dtype=torch.long)
    return Chain(*leaves, counts), Padded(torch.from_numpy(path), counts)


def path_score(chain: Chain, row: int, path: tuple[int, ...]) -> torch.Tensor:
    total = chain.start.sum() * 0  # so that the empty path has a gradient too: zero
    for t, tag in enumerate(path):
        total = total + chain.emissions[row, t, tag]
        if t == 0:
            total = total + chain.start[tag]
        elif chain.per_position:
            total = total + chain.transitions[row, t, path[t - 1], tag]
        else:
            total = total + chain.transitions[path[t - 1], tag]
    return total + chain.stop[path[-1]] if path else total


def enumerated(chain: Chain, tags: Padded) -> torch.Tensor:
    """The log likelihoods by their definition."""
    rows = []
    for row, length in enumerate(chain.lengths.tolist()):
        paths = itertools.product(range(chain.emissions.shape[2]), repeat=length)
        total = torch.stack([path_score(chain, row, path) for path in paths]).logsumexp(0)
        rows.append(path_score(chain, row, tuple(tags.data[row, :length].tolist())) - total)
    return torch.stack(rows) if rows else chain.emissions.sum((1, 2))


def gradients(values: torch.Tensor, chain: Chain) -> list[torch.Tensor]:
    """Of a sum with unequal weights, so that no row can stand for another."""
    weights = torch.arange(1.0, len(values) + 1, dtype=values.dtype)
    leaves = [chain.emissions, chain.transitions, chain.start, chain.stop]
    total = (weights * values).sum()
    return list(torch.autograd.grad(total, leaves, retain_graph=True, allow_unused=True, materialize_grads=True))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", FORMS)
@given(
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    tags=st.integers(1, 3),
    wide=st.integers(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40)
def test_likelihood_and_gradients_are_those_of_the_definition(
    engine: str, form: str, lengths: list[int], tags: int, wide: int, seed: int
) -> None:
    chain, path = draw(form, lengths, tags, seed, wide)
    found, expected = log_likelihood(chain, path, engine=engine), enumerated(chain, path)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)
    for ours, theirs in zip(gradients(found, chain), gradients(expected, chain), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_engines_agree_on_partition_marginals_and_gradients(form: str) -> None:
    chain, path = draw(form, [6, 0, 1, 9, 2], tags=5)
    for function in (log_partition, lambda chain, engine: log_likelihood(chain, path, engine=engine)):
        ours, theirs = function(chain, engine="numba"), function(chain, engine="torch")
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
        for a, b in zip(gradients(ours, chain), gradients(theirs, chain), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    shares = [marginals(chain, engine=engine).data for engine in ENGINES]
    torch.testing.assert_close(*shares, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(shares[0].sum(2), Padded(chain.emissions, chain.lengths).mask().double())
    on_numpy = Chain(*(part.detach().numpy() for part in vars(chain).values()))
    np.testing.assert_allclose(shares[0].numpy(), numpy_marginals(on_numpy).data, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_gradcheck(form: str) -> None:
    chain, path = draw(form, [3, 0, 1, 4], tags=3)
    leaves = [part.detach().nan_to_num(0.5).requires_grad_() for part in list(vars(chain).values())[:4]]
    assert torch.autograd.gradcheck(
        lambda *parts: log_likelihood(Chain(*parts, chain.lengths), path, engine="numba"), leaves
    )
    assert torch.autograd.gradcheck(lambda *parts: log_partition(Chain(*parts, chain.lengths), engine="numba"), leaves)


def forbid(chain: Chain, rng: np.random.Generator) -> Chain:
    """-inf for some starts, steps and stops, but never for tag 0 and its neighbours, so that a path is left."""
    parts = []
    for part in (chain.transitions, chain.start, chain.stop):
        free = torch.from_numpy(rng.random(part.shape) < 0.5)
        free[..., 0] = True
        parts.append(torch.where(free, part, torch.full_like(part, -torch.inf)))
    return Chain(chain.emissions, *parts, chain.lengths)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
@pytest.mark.parametrize("form", FORMS)
@given(seed=st.integers(0, 2**32 - 1), ruled=st.booleans(), tags=st.integers(1, 5))
@settings(max_examples=25)
def test_stable_with_large_scores_and_forbidden_steps(
    form: str, scale: float, seed: int, ruled: bool, tags: int
) -> None:
    chain, path = draw(form, [7, 0, 1, 12, 3], tags, seed)
    with torch.no_grad():
        for part in (chain.emissions, chain.transitions):
            part.mul_(scale)
    used = forbid(chain, np.random.default_rng(seed)) if ruled else chain
    ours, theirs = (log_partition(used, engine=engine) for engine in ENGINES)
    assert ours.isfinite().all()
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
    for a, b in zip(gradients(ours, chain), gradients(theirs, chain), strict=True):
        assert a.isfinite().all()
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)
    with torch.no_grad():
        assert not log_likelihood(used, path, engine="numba").isnan().any()


def test_a_tag_that_vanished_and_is_needed_again() -> None:
    """The likely tag of the first position may be followed by nothing likely: the sum hangs on what seemed lost."""
    emissions = torch.tensor([[[2000.0, -2000.0], [0.0, 0.0]]], dtype=torch.float64)
    transitions = torch.tensor([[-torch.inf, -4500.0], [1.0, -torch.inf]], dtype=torch.float64)
    zeros = torch.zeros(2, dtype=torch.float64)
    chain = Chain(emissions, transitions, zeros, zeros, torch.tensor([2]))
    assert log_partition(chain, engine="numba").tolist() == [-1999.0]
    rare = np.exp(-501.0)  # of the other path, whose score is -2500
    np.testing.assert_allclose(marginals(chain).data.numpy(), [[[rare, 1.0], [1.0, rare]]], rtol=1e-9)


def test_no_path_at_all_is_minus_infinity_without_nan() -> None:
    chain, _ = draw("shared", [3, 2], tags=2)
    with torch.no_grad():
        chain.start.fill_(-torch.inf)
    for engine in ENGINES:
        found = log_partition(chain, engine=engine)
        assert found.tolist() == [-np.inf, -np.inf]
    assert all(part.isfinite().all() for part in gradients(log_partition(chain, engine="numba"), chain))


@pytest.mark.parametrize("engine", ENGINES)
def test_float32_is_near_float64(engine: str) -> None:
    chain, path = draw("shared", [40, 3, 0, 1], tags=7)
    single = Chain(*(part.detach().float().requires_grad_() for part in list(vars(chain).values())[:4]), chain.lengths)
    found, expected = log_likelihood(single, path, engine=engine), log_likelihood(chain, path, engine="torch")
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)
    for a, b in zip(gradients(found, single), gradients(expected, chain), strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4)


def hidden(lengths: list[int], features: int, dtype: torch.dtype = torch.float64) -> Padded:
    data = torch.randn(len(lengths), max(lengths) + 1, features, dtype=dtype)
    for row, length in enumerate(lengths):
        data[row, length:] = torch.nan
    return Padded(data.requires_grad_(), torch.tensor(lengths))


def randomised(layer: CRF) -> CRF:
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer.double()


def test_additive_potentials_are_a_case_of_pairwise_ones() -> None:
    additive, pairwise = randomised(CRF(4, 3)), CRF(4, 3, potentials="pairwise").double()
    with torch.no_grad():
        pairwise.emission.weight.copy_(additive.emission.weight)
        pairwise.emission.bias.copy_(additive.emission.bias + additive.start)
        pairwise.stop.copy_(additive.stop)
        pairwise.pair.weight.copy_(additive.emission.weight.repeat(3, 1))
        pairwise.pair.bias.copy_((additive.emission.bias + additive.transitions).reshape(-1))
    x = hidden([4, 0, 1, 5], 4)
    tags = Padded(torch.randint(0, 3, (4, 6)), x.lengths)
    one, other = additive(x), pairwise(x)
    torch.testing.assert_close(log_likelihood(one, tags), log_likelihood(other, tags), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(marginals(one).data, marginals(other).data, rtol=1e-10, atol=1e-12)
    assert viterbi(one).tags.data.tolist() == viterbi(other).tags.data.tolist()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("potentials", ["additive", "pairwise"])
def test_a_batch_is_its_rows_and_every_parameter_learns(potentials: str, engine: str) -> None:
    layer = randomised(CRF(4, 3, potentials=potentials))
    lengths = [4, 0, 1, 5]
    x = hidden(lengths, 4)
    tags = Padded(torch.randint(0, 3, (4, 6)), x.lengths)
    whole = log_likelihood(layer(x), tags, engine=engine)
    whole.sum().backward()
    together = {name: parameter.grad.clone() for name, parameter in layer.named_parameters()}
    assert all(grad.isfinite().all() and grad.abs().sum() > 0 for grad in together.values())
    assert x.data.grad.isfinite().all()
    layer.zero_grad()
    for row, length in enumerate(lengths):
        part = Padded(x.data[row : row + 1, :length].detach(), x.lengths[row : row + 1])
        alone = log_likelihood(layer(part), Padded(tags.data[row : row + 1, :length], part.lengths), engine=engine)
        torch.testing.assert_close(alone, whole[row : row + 1], rtol=1e-12, atol=1e-12)
        alone.sum().backward()
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad, together[name], rtol=1e-10, atol=1e-12)


def test_autocast_leaves_the_scores_in_full_precision() -> None:
    layer = randomised(CRF(4, 3)).float()
    x = hidden([4, 2], 4, torch.float32)
    tags = Padded(torch.randint(0, 3, (2, 5)), x.lengths)
    expected = log_likelihood(layer(x), tags)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for engine in ENGINES:
            found = log_likelihood(layer(x), tags, engine=engine)
            assert found.dtype == torch.float32
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    half = Padded(x.data.detach().bfloat16(), x.lengths)
    assert layer(half).emissions.dtype == torch.float32


def test_mistakes_are_said() -> None:
    layer = CRF(4, 3)
    chain = layer(Padded(torch.randn(2, 3, 4), torch.tensor([3, 1])))
    with pytest.raises(ShapeError, match=r"CRF\(features=4\): expected hidden .* received \(2, 3, 5\)"):
        layer(Padded(torch.randn(2, 3, 5), torch.tensor([3, 1])))
    with pytest.raises(ConfigError, match="'additive' or 'pairwise', received 'pairwize'; did you mean 'pairwise'"):
        CRF(4, 3, potentials="pairwize")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"expected tags \(B, T\) = \(2, 3\), received \(2, 4\)"):
        log_likelihood(chain, Padded(torch.zeros(2, 4, dtype=torch.long), chain.lengths))
    with pytest.raises(ShapeError, match="tags must be from 0 to 2"):
        log_likelihood(chain, Padded(torch.full((2, 3), 3), chain.lengths))
    with pytest.raises(ConfigError, match="received 'nunba'; did you mean 'numba'"):
        choose_engine(chain, "nunba")  # type: ignore[arg-type]
    second = Chain(torch.zeros(1, 2, 2), torch.zeros(2, 2, 2), torch.zeros(3, 2), torch.zeros(3, 2), torch.tensor([2]))
    assert choose_engine(second) == "torch"
    with pytest.raises(ConfigError, match="first-order chains on the CPU, received order 2 on cpu"):
        choose_engine(second, "numba")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([2, 4], r"lengths must be from 0 to 3 .*received 2 to 4"),
        ([-1, 3], r"lengths must be from 0 to 3 .*received -1 to 3"),
        ([2.0, 3.0], r"lengths must be whole numbers, .*received float32"),
    ],
)
def test_lengths_are_checked_before_anything_is_read(lengths: list[float], message: str, engine: str) -> None:
    """The compiled loops would read and write behind their arrays."""
    zeros = torch.zeros
    chain = Chain(zeros(2, 3, 2), zeros(2, 2), zeros(2), zeros(2), torch.tensor(lengths))
    tags = Padded(zeros(2, 3, dtype=torch.long), torch.tensor([3, 3]))
    for run in (log_partition, marginals, lambda chain, engine: log_likelihood(chain, tags, engine=engine)):
        with pytest.raises(ShapeError, match=message):
            run(chain, engine=engine)


def test_only_the_torch_engine_has_second_derivatives() -> None:
    chain, path = draw("shared", [3, 2], tags=2)
    chain = Chain(
        *(part.detach().nan_to_num(0.5).requires_grad_() for part in list(vars(chain).values())[:4]), chain.lengths
    )
    for function in (log_partition, lambda chain, engine: log_likelihood(chain, path, engine=engine)):
        value = function(chain, engine="numba").sum()  # of which the incoming gradient needs none itself
        with pytest.raises(ConfigError, match=r"first derivatives only, .*create_graph=True.*use engine='torch'"):
            torch.autograd.grad(value, chain.emissions, create_graph=True)
        assert torch.autograd.grad(value, chain.emissions)[0].isfinite().all()
        (first,) = torch.autograd.grad(function(chain, engine="torch").sum(), chain.emissions, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), chain.emissions)
        assert second.abs().sum() > 0


def test_a_second_order_chain_has_a_likelihood_too() -> None:
    torch.manual_seed(1)
    parts = [torch.randn(1, 3, 2), torch.randn(2, 2, 2), torch.randn(3, 2), torch.randn(3, 2)]
    chain = Chain(*(part.double() for part in parts), torch.tensor([3]))
    paths = [Padded(torch.tensor([path]), chain.lengths) for path in itertools.product(range(2), repeat=3)]
    torch.testing.assert_close(sum(log_likelihood(chain, path).exp() for path in paths), torch.ones(1).double())
