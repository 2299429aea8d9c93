"""Laws of the nets that model a text: a state is all they remember, padding is nothing, steps are scores are losses."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from riverrun.data.batch import Batch  # noqa: E402
from riverrun.data.padded import Padded  # noqa: E402
from riverrun.decode.state import State  # noqa: E402
from riverrun.decode.stepwise import score_by_steps  # noqa: E402
from riverrun.errors import ConfigError, ShapeError, StateError  # noqa: E402
from riverrun.nn import CELLS  # noqa: E402
from riverrun.nn.layers.adaptive_softmax import AdaptiveSoftmax  # noqa: E402
from riverrun.nn.layers.blackout import BlackOut  # noqa: E402
from riverrun.nn.layers.dropout import Dropout  # noqa: E402
from riverrun.nn.layers.embed import Embedding  # noqa: E402
from riverrun.nn.layers.full_softmax import FullSoftmax  # noqa: E402
from riverrun.nn.layers.ngrams import HashedNgrams  # noqa: E402
from riverrun.nn.layers.sampled_softmax import SampledSoftmax  # noqa: E402
from riverrun.nn.layers.stack import Stack  # noqa: E402
from riverrun.nn.layers.symbol_dropout import SymbolDropout  # noqa: E402
from riverrun.nn.models import stepper as stepper_module  # noqa: E402
from riverrun.nn.models.cache import BEGUN, CachedStepper  # noqa: E402
from riverrun.nn.models.dynamic import dynamic_score, gradient_squares  # noqa: E402
from riverrun.nn.models.recurrent_lm import RecurrentLM  # noqa: E402
from riverrun.nn.models.stepper import NetStepper  # noqa: E402
from riverrun.nn.models.window_lm import WindowLM  # noqa: E402

pytestmark = pytest.mark.train

V, D, BOS = 11, 4, 1
LENGTHS = [6, 0, 1, 4, 6]
Net = RecurrentLM | WindowLM


def recurrent(
    cell: Any = "lstm", output: Callable[[], nn.Module] = lambda: FullSoftmax(D, V), **more: Any
) -> RecurrentLM:
    encoder = Stack(cell, D, D, layers=2)
    return RecurrentLM(Embedding(V, D), encoder, output(), **more)


def noisy(**more: Any) -> RecurrentLM:
    """With every kind of dropout."""
    encoder = Stack("lstm", D, 5, layers=2, last=D, dropout=0.3, variational=True, weight_drop=0.3)
    embedding = Embedding(V, D)
    output = FullSoftmax(D, V, tied=embedding.weight)
    drop = {"input_dropout": Dropout(0.3, variational=True), "output_dropout": Dropout(0.3, variational=True)}
    return RecurrentLM(embedding, encoder, output, symbol_dropout=0.3, ar=2.0, tar=1.0, **drop, **more)


NETS: dict[str, Callable[[], Net]] = {
    **{cell: lambda cell=cell: recurrent(cell) for cell in CELLS},
    "zoneout": lambda: recurrent({"kind": "gru", "zoneout": 0.2}),
    "awd": noisy,
    "ngrams": lambda: recurrent("gru", ngrams=HashedNgrams(V, order=4, buckets=50)),
    "bigrams": lambda: recurrent("elman", ngrams=HashedNgrams(V, order=2, buckets=50)),
    "adaptive": lambda: recurrent(output=lambda: AdaptiveSoftmax(D, V, cutoffs=[3, 6], factor=2)),
    "adaptive, ngrams": lambda: recurrent(
        output=lambda: AdaptiveSoftmax(D, V, cutoffs=[3, 6], factor=2), ngrams=HashedNgrams(V, order=3, buckets=50)
    ),
    "sampled": lambda: recurrent(output=lambda: SampledSoftmax(D, V, samples=4)),
    "sampled, ngrams": lambda: recurrent(
        output=lambda: SampledSoftmax(D, V, samples=4), ngrams=HashedNgrams(V, order=3, buckets=50)
    ),
    "blackout": lambda: recurrent(output=lambda: BlackOut(D, V, samples=4)),
    "residual": lambda: RecurrentLM(
        Embedding(V, D), Stack("gru", D, D, layers=3, wiring="residual"), FullSoftmax(D, V)
    ),
    "window": lambda: WindowLM(Embedding(V, 3), 3, D, FullSoftmax(D, V), bos=BOS),
    "window of one": lambda: WindowLM(Embedding(V, 3), 1, D, FullSoftmax(D, V), bos=BOS),
    "window, direct": lambda: WindowLM(Embedding(V, 3), 2, D, FullSoftmax(D + 6, V), bos=BOS, direct=True, dropout=0.5),
}
RECURRENT = [name for name in NETS if not name.startswith("window")]


def made(name: str) -> Any:
    """In float64, with weights that are all different, not in training."""
    net = NETS[name]().double().eval()
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.6)
    return net


def text(lengths: Sequence[int] = LENGTHS, *, seed: int = 3, garbage: int = 0) -> Padded:
    """(B, 1 + T): the last symbol before the text, and the text; in the padding stands garbage."""
    generator = torch.Generator().manual_seed(seed)
    counts = torch.tensor(lengths)
    data = torch.randint(0, V, (len(lengths), max(lengths) + 1), generator=generator)
    ids = Padded(data, counts + 1)
    return ids.with_data(torch.where(ids.mask(), data, garbage))


def batch(ids: Padded, **more: Tensor) -> Batch:
    """What a loader makes of it."""
    lengths = ids.lengths - 1
    return Batch(ids=Padded(ids.data[:, :-1], lengths), targets=Padded(ids.data[:, 1:], lengths), **more)


def some_state(net: Net, rows: int = len(LENGTHS)) -> State:
    """One that is not that of the beginning, each row's own."""
    state = net.start(rows)
    for ids in (text([3] * rows, seed=8), text([2] * rows, seed=9)):
        with torch.no_grad():
            _, state = net.read(Padded(ids.data[:, :-1], ids.lengths - 1), state)
    return state


def close(a: Any, b: Any) -> None:
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def same_state(a: State, b: State) -> None:
    assert list(a.moving) == list(b.moving)
    for name, value in a.moving.items():
        close(value, b.moving[name])


def gradients(total: Tensor, net: nn.Module) -> dict[str, Tensor]:
    weights = dict(net.named_parameters())
    found = torch.autograd.grad(total, list(weights.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(weights, found, strict=True))


def by_hand(net: Net, ids: Padded, state: State) -> Tensor:
    """(B, T) log probabilities: one row at a time, one symbol at a time, from the whole distribution."""
    found = torch.zeros(ids.data.shape[0], ids.data.shape[1] - 1, dtype=torch.float64)
    for row, length in enumerate(ids.lengths.tolist()):
        now = state.keep(torch.tensor([row]))
        for t in range(length - 1):
            reading, now = net.read(Padded(ids.data[row : row + 1, t : t + 1], torch.tensor([1])), now)
            log_probs = net.output.log_probs(*reading.select(None))
            found[row, t] = log_probs[0, ids.data[row, t + 1]]
    return found


# -- reading


def steps_are_scores_are_losses(name: str) -> None:
    net = made(name)
    ids, state = text(garbage=-7), some_state(net)
    expected = by_hand(net, ids, state)
    model = NetStepper(net, bos=BOS)
    scores, after = model.score(ids, state)
    close(scores, expected.detach())
    stepped, end = score_by_steps(model, text(), state)
    close(stepped, scores)
    same_state(after, end)
    if isinstance(net, RecurrentLM):
        net.ar = net.tar = 0.0
        loss, carried = net.loss(batch(ids), state)
        close(loss.sum, -expected.sum())
        close(loss.parts[net.output.term], loss.sum)
        assert (loss.tokens, loss.sequences) == (sum(LENGTHS), len(LENGTHS))
        same_state(carried, end)
        mine, whole = gradients(loss.sum, net), gradients(-expected.sum(), net)
        for part, value in mine.items():
            torch.testing.assert_close(value, whole[part], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", NETS)
def test_steps_are_scores_are_losses(name: str) -> None:
    steps_are_scores_are_losses(name)


@pytest.mark.parametrize("name", NETS)
def test_padding_is_nothing(name: str) -> None:
    """Neither what stands there, nor how much of it there is, nor a state that begins anew."""
    net = made(name)
    found = []
    for garbage, more in ((0, 0), (-7, 0), (10**6, 4)):
        ids = text(garbage=garbage)
        ids = Padded(nn.functional.pad(ids.data, (0, more), value=garbage), ids.lengths)
        if isinstance(net, RecurrentLM):
            resets = torch.zeros(ids.data[:, 1:].shape, dtype=torch.bool)
            if garbage:
                resets = ~Padded(resets, ids.lengths - 1).mask()
            loss, state = net.loss(batch(ids, resets=resets), some_state(net))
            total = loss.sum
        else:
            reading, state = net.read(batch(ids)["ids"], some_state(net))
            total = reading.vectors.data.sum()
        found.append((total, gradients(total, net), dict(state.moving)))
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", NETS)
def test_a_batch_is_its_rows(name: str) -> None:
    net = made(name)
    ids, state = text(), some_state(net)
    together, after = NetStepper(net, bos=BOS).score(ids, state)
    for row, length in enumerate(LENGTHS):
        one = torch.tensor([row])
        alone, end = NetStepper(net, bos=BOS).score(
            Padded(ids.data[one, : length + 1], ids.lengths[one]), state.keep(one)
        )
        close(alone, together[one, :length])
        same_state(end, after.keep(one))


def a_carried_state_is_one_long_run(name: str) -> None:
    net = made(name)
    ids = text([9, 0, 4, 12])
    whole, end = net.loss(batch(ids))
    total, state = torch.zeros((), dtype=torch.float64), None
    for begin, stop in ((0, 1), (1, 5), (5, 5), (5, 12)):
        lengths = (ids.lengths - begin).clamp(0, stop - begin + 1)
        lengths = torch.where(lengths > 0, lengths, 1)  # (B, 1 + T): the last symbol is always there
        part, state = net.loss(batch(Padded(ids.data[:, begin : stop + 1], lengths)), state)
        total = total + part.parts[net.output.term]
    close(total, whole.parts[net.output.term])
    same_state(state, end)
    # Without a break in the graph, so are the gradients.
    mine, expected = gradients(total, net), gradients(whole.parts[net.output.term], net)
    for part, value in mine.items():
        torch.testing.assert_close(value, expected[part], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", RECURRENT)
def test_a_carried_state_is_one_long_run(name: str) -> None:
    a_carried_state_is_one_long_run(name)


def test_truncated_gradients_stop_at_the_window() -> None:
    """Those of a second window are those of its loss with the state before it as a number."""
    net = made("lstm")
    ids = text([8, 8])
    first, second = (Padded(ids.data[:, a : a + 5], torch.tensor([5, 5])) for a in (0, 4))
    _, state = net.loss(batch(first))
    detached = state.map(torch.detach)
    loss, _ = net.loss(batch(second), detached)
    mine = gradients(loss.sum, net)
    close(mine, gradients(-by_hand(net, second, detached).sum(), net))
    through, _ = net.loss(batch(second), state)
    assert not torch.allclose(gradients(through.sum, net)["embedding.weight"], mine["embedding.weight"])


@pytest.mark.parametrize("name", RECURRENT)
def test_fresh_rows_begin_anew(name: str) -> None:
    net = made(name)
    ids, state = text(), some_state(net)
    fresh = torch.tensor([True, True, False, False, True])
    poisoned = state.map(lambda value: value.clone())
    for value in poisoned.moving.values():
        if value.is_floating_point():
            value[fresh] = torch.nan
    loss, after = net.loss(batch(ids, fresh=fresh), poisoned)
    expected, end = net.loss(batch(ids), net.start(5).where(~fresh[:, None], state))
    close(loss.sum, expected.sum)
    same_state(after, end)
    all_fresh, _ = net.loss(batch(ids, fresh=torch.ones(5, dtype=torch.bool)), poisoned)
    close(all_fresh.sum, net.loss(batch(ids))[0].sum)


def texts_begin_anew_where_they_begin(name: str) -> None:
    """A row with several texts is the texts, each by itself; also in the gradients and the state."""
    net = made(name)
    ids, state = text(), some_state(net)
    resets = torch.zeros(5, 6, dtype=torch.bool)
    resets[0, [0, 2, 3]] = resets[1, 4] = resets[2, 0] = resets[3, [3, 5]] = True
    loss, after = net.loss(batch(ids, resets=resets), state)
    total, ends = torch.zeros((), dtype=torch.float64), []
    for row, length in enumerate(LENGTHS):
        cuts = [t for t in resets[row].nonzero()[:, 0].tolist() if t < length]
        now, begin = state.keep(torch.tensor([row])), 0
        for stop in [*cuts, length]:
            piece = Padded(ids.data[row : row + 1, begin : stop + 1], torch.tensor([stop - begin + 1]))
            part, now = net.loss(batch(piece), now)
            total = total + part.parts[net.output.term]
            if stop < length:
                now, begin = net.start(1), stop
        ends.append(now)
    close(loss.parts[net.output.term], total)
    for row, end in enumerate(ends):
        same_state(after.keep(torch.tensor([row])), end)
    mine, whole = gradients(loss.parts[net.output.term], net), gradients(total, net)
    for part, value in mine.items():
        torch.testing.assert_close(value, whole[part], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["lstm", "gru", "awd", "ngrams", "slstm", "adaptive, ngrams"])
def test_texts_begin_anew_where_they_begin(name: str) -> None:
    texts_begin_anew_where_they_begin(name)


@pytest.mark.parametrize("name", NETS)
def test_windows_of_a_stream_are_its_symbols(name: str) -> None:
    """What a window net is trained on, ``context`` and ``targets``, is what it reads step by step."""
    net = made(name)
    if not isinstance(net, WindowLM):
        return
    row = text([7]).data[0]
    row[0] = BOS
    context = torch.full((7, net.context), BOS)
    for t in range(7):
        known = row[max(0, t + 1 - net.context) : t + 1]
        context[t, net.context - len(known) :] = known
    loss = net.loss(Batch(context=context, targets=row[1:]))
    scores, _ = NetStepper(net, bos=BOS).score(Padded(row[None], torch.tensor([8])), net.start(1))
    close(loss.sum, -scores.sum())
    assert (loss.tokens, loss.sequences) == (7, 7)


# -- noise


@pytest.mark.parametrize("name", NETS)
def test_outside_of_training_there_is_no_noise(name: str) -> None:
    net = made(name)
    model = NetStepper(net, bos=BOS)
    first, _ = model.score(text(), model.start(rows=5))
    again, _ = model.score(text(), model.start(rows=5))
    assert torch.equal(first, again)


def test_in_training_there_is() -> None:
    net = made("awd").train()
    assert not torch.equal(net.loss(batch(text()))[0].sum, net.loss(batch(text()))[0].sum)
    for name in ("sampled", "blackout", "zoneout"):
        net = made(name).train()
        assert not torch.equal(net.loss(batch(text()))[0].sum, net.loss(batch(text()))[0].sum)
    window = made("window, direct").train()
    given = Batch(context=text([1] * 5).data, targets=torch.arange(5))
    assert not torch.equal(window.loss(given).sum, window.loss(given).sum)


def test_a_dropped_symbol_is_dropped_everywhere() -> None:
    ids = torch.randint(0, 40, (6, 50))
    dropout = SymbolDropout(0.3)
    out = dropout(ids, torch.ones(6, 50, 2))
    assert out.unique().tolist() == [0.0, pytest.approx(1 / 0.7)]
    by_symbol = {symbol: out[ids == symbol].unique().tolist() for symbol in ids.unique().tolist()}
    assert all(len(values) == 1 for values in by_symbol.values())
    assert 2 < sum(values == [0.0] for values in by_symbol.values()) < 25
    assert torch.equal(dropout.eval()(ids, out), out)


def activations_are_regularised_as_the_paper_does() -> None:
    net = noisy().double().train()
    seen: dict[str, Tensor] = {}
    net.encoder.register_forward_hook(lambda _, __, out: seen.update(raw=out[0].data))
    net.output_dropout.register_forward_hook(lambda _, __, out: seen.update(dropped=out.data))
    loss, _ = net.loss(batch(text([6, 6, 6])))
    assert loss.tokens == 18
    raw, dropped = seen["raw"], seen["dropped"]
    close(loss.parts["ar"] / 18, 2.0 * (dropped**2).mean())
    close(loss.parts["tar"] / 18, 1.0 * ((raw[:, 1:] - raw[:, :-1]) ** 2).mean())
    close(loss.sum, loss.parts["nll"] + loss.parts["ar"] + loss.parts["tar"])
    assert set(loss.parts) == {"nll", "ar", "tar"}
    # Of ragged rows, and where a text begins: of what is there, and of changes within a text.
    resets = torch.zeros(3, 6, dtype=torch.bool)
    resets[0, 2] = True
    loss, _ = net.loss(batch(text([6, 1, 3]), resets=resets))
    raw, dropped = seen["raw"], seen["dropped"]
    valid = Padded(dropped, torch.tensor([6, 1, 3])).mask()
    close(loss.parts["ar"] / 10, 2.0 * (dropped[valid] ** 2).mean())
    assert len(raw) == 4  # the pieces
    changes = [raw[k, 1:n] - raw[k, : n - 1] for k, n in enumerate((2, 4, 1, 3))]
    close(loss.parts["tar"] / 10, 1.0 * (torch.cat(changes) ** 2).mean())
    one, _ = net.loss(batch(text([1, 1])))
    assert one.parts["tar"] == 0


def test_activations_are_regularised_as_the_paper_does() -> None:
    activations_are_regularised_as_the_paper_does()


# -- stepping


@pytest.mark.parametrize("name", NETS)
def test_hypotheses_are_rows(name: str) -> None:
    net = made(name)
    model = NetStepper(net, bos=BOS)
    state = some_state(net, 2).select(torch.zeros(2, 3, dtype=torch.long))
    ids = torch.tensor([[1, 2, 3], [4, 5, 5]])
    for _ in range(2):
        step = model.step(ids, state)
        assert step.log_probs.shape == (2, 3, V) and step.extras["hidden"].shape == (2, 3, net.output.features)
        close(step.log_probs.exp().sum(-1), torch.ones(2, 3, dtype=torch.float64))
        for k in range(3):
            column = torch.full((2, 1), k)
            alone = model.step(ids[:, k : k + 1], state.select(column))
            close(alone.log_probs, step.log_probs[:, k : k + 1])
            same_state(alone.state, step.state.select(column))
        state, ids = step.state.select(torch.tensor([[2, 0, 0], [1, 1, 2]])), ids.flip(1)


@pytest.mark.parametrize("name", ["lstm", "ngrams", "window"])
def test_a_long_text_is_scored_in_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = made(name)
    model = NetStepper(net, bos=BOS, eos=2)
    assert (model.size, model.bos, model.eos) == (V, BOS, 2)
    ids = text([13, 2, 0, 7])
    whole, end = model.score(ids, model.start(rows=4))
    for positions in (1, 4, 12, 20):
        monkeypatch.setattr(stepper_module, "POSITIONS", positions)
        parts, state = model.score(ids.map(lambda array: array.numpy()), model.start(rows=4))
        close(parts, whole)
        same_state(state, end)


@pytest.mark.parametrize("name", ["lstm", "window", "ngrams"])
def test_nothing_to_score_leaves_the_state(name: str) -> None:
    net = made(name)
    state = some_state(net, 3)
    for model in (NetStepper(net, bos=BOS), CachedStepper(NetStepper(net, bos=BOS), window=2, theta=0.3, share=0.2)):
        begun = State(moving={**model.start(rows=3).moving, **state.moving})
        for ids in (text([0, 0, 0]), Padded(torch.zeros(3, 4, dtype=torch.long), torch.tensor([1, 0, 1]))):
            scores, after = model.score(ids, begun)
            assert scores.shape == (3, ids.data.shape[1] - 1) and not scores.any()
            same_state(after, begun)
    none = torch.zeros(3, dtype=torch.long)
    empty, _ = NetStepper(net, bos=BOS).score(Padded(none[:, None][:, :0], none), state)
    assert empty.shape == (3, 0)


def test_no_gradient_is_kept() -> None:
    model = NetStepper(made("ngrams"), bos=BOS)
    scores, state = model.score(text(), model.start(rows=5))
    step = model.step(torch.ones(5, 1, dtype=torch.long), state)
    for value in (scores, step.log_probs, *state.moving.values(), *step.state.moving.values()):
        assert not value.requires_grad


# -- the cache


def cached(name: str, *, window: int = 3, theta: float = 0.7, share: float = 0.3) -> tuple[CachedStepper, NetStepper]:
    plain = NetStepper(made(name), bos=BOS)
    return CachedStepper(plain, window=window, theta=theta, share=share), plain


def the_cache_is_its_equation(window: int) -> None:
    model, plain = cached("lstm", window=window)
    row = torch.tensor([1, 4, 4, 6, 4, 2, 6, 4, 4, 1])
    state, inner = model.start(rows=1), plain.start(rows=1)
    hidden: list[np.ndarray] = []
    for t, symbol in enumerate(row.tolist()):
        step, bare = model.step(torch.tensor([[symbol]]), state), plain.step(torch.tensor([[symbol]]), inner)
        state, inner = step.state, bare.state
        hidden.append(bare.extras["hidden"][0, 0].numpy())
        expected = bare.log_probs[0, 0].exp().numpy()
        seen = range(max(0, t - window), t)
        if len(seen):
            weights = np.exp([0.7 * hidden[t] @ hidden[i] for i in seen])
            memory = np.zeros(V)
            np.add.at(memory, [int(row[i + 1]) for i in seen], weights / weights.sum())
            expected = 0.7 * expected + 0.3 * memory
        np.testing.assert_allclose(step.log_probs[0, 0].exp().numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("window", [1, 3, 50])
def test_the_cache_is_its_equation(window: int) -> None:
    the_cache_is_its_equation(window)


def cached_scores_are_its_steps(name: str, window: int) -> None:
    model, _ = cached(name, window=window)
    first, then = text([5, 0, 2, 5, 1]), text(seed=4)
    stepped, state = score_by_steps(model, first, model.start(rows=5))
    scores, after = model.score(first, model.start(rows=5))
    close(scores, stepped)
    same_state(after, state)
    then.data[:, 0] = first.last()
    stepped, state = score_by_steps(model, then, state)
    scores, after = model.score(then, after)
    close(scores, stepped)
    same_state(after, state)


@pytest.mark.parametrize("window", [1, 2, 4, 30])
@pytest.mark.parametrize("name", ["lstm", "ngrams", "window, direct"])
def test_cached_scores_are_its_steps(name: str, window: int) -> None:
    cached_scores_are_its_steps(name, window)


@pytest.mark.parametrize("off", [{"window": 0}, {"share": 0.0}])
def test_without_a_cache_it_is_the_net(off: dict[str, Any]) -> None:
    model, plain = cached("gru", **off)
    assert list(model.start(rows=2).moving) == list(plain.start(rows=2).moving)
    found, state = model.score(text(), model.start(rows=5))
    expected, after = plain.score(text(), plain.start(rows=5))
    assert torch.equal(found, expected)
    same_state(state, after)
    ids = torch.ones(5, 1, dtype=torch.long)
    assert torch.equal(model.step(ids, state).log_probs, plain.step(ids, after).log_probs)


def test_a_cache_moves_with_its_hypothesis() -> None:
    model, _ = cached("gru")
    _, state = model.score(text([4, 4]), model.start(rows=2))
    beams = torch.tensor([[0, 0], [0, 0]])
    step = model.step(torch.tensor([[1, 2], [3, 4]]), state.select(beams))
    alone = model.step(torch.tensor([[2], [4]]), state)
    close(step.log_probs[:, 1:], alone.log_probs)
    same_state(step.state.select(torch.tensor([[1], [1]])), alone.state)
    assert bool(state.moving[BEGUN].all())


def test_a_cache_says_what_is_wrong() -> None:
    for window, share in ((-1, 0.1), (2, 1.0), (2, -0.1)):
        with pytest.raises(ConfigError, match="expected a window from 0 on and a share from 0 to below 1"):
            cached("gru", window=window, share=share)


# -- dynamic evaluation


@pytest.mark.parametrize("name", ["lstm", "adaptive", "ngrams", "window", "sampled"])
def test_without_a_rate_nothing_is_learned(name: str) -> None:
    net = made(name)
    ids = text()
    expected, end = NetStepper(net, bos=BOS).score(ids, net.start(5))
    squares = gradient_squares(net, ids, bptt=2)
    for more in ({}, {"squares": squares}, {"decay": 0.5}):
        found, state = dynamic_score(net, ids, bptt=3, rate=0.0, **more)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)
        same_state(state, end)


def dynamic_evaluation_is_its_equation(*, rms: bool) -> None:
    net = made("awd").train()  # no dropout plays along, whatever mode it is in
    weights = {name: value.detach().clone() for name, value in net.named_parameters()}
    ids = text([9])
    squares = gradient_squares(net, text([8], seed=5), bptt=4) if rms else None
    found, _ = dynamic_score(net, ids, bptt=3, rate=0.05, decay=0.3, squares=squares, epsilon=0.01)
    other = copy.deepcopy(net).eval()
    state, expected = other.start(1), []
    mean = torch.cat([value.sqrt().flatten() for value in squares.values()]).mean() if squares else 1.0
    for begin in (0, 3, 6):
        piece = Padded(ids.data[:, begin : begin + 4], torch.tensor([4]))
        scores = by_hand(other, piece, state)
        state = NetStepper(other, bos=BOS).score(piece, state)[1]
        expected.append(scores.detach())
        found_here = gradients(-scores.mean(), other)
        with torch.no_grad():
            for name, gradient in found_here.items():
                weight = other.get_parameter(name)
                root = squares[name].sqrt() if squares else torch.ones_like(weight)
                pull = torch.minimum(root / mean, torch.tensor(1 / 0.3, dtype=torch.float64))
                step = gradient / (root + 0.01) if squares else gradient
                weight.copy_(weight - 0.05 * step + 0.3 * pull * (weights[name] - weight))
    torch.testing.assert_close(found, torch.cat(expected, 1), rtol=1e-9, atol=1e-11)
    assert net.training and all(torch.equal(value, net.get_parameter(name)) for name, value in weights.items())


@pytest.mark.parametrize("rms", [False, True])
def test_dynamic_evaluation_is_its_equation(rms: bool) -> None:
    dynamic_evaluation_is_its_equation(rms=rms)


def test_what_repeats_is_learned() -> None:
    net = made("gru")
    ids = Padded(torch.tensor([[1, *[3, 7, 5] * 20]]), torch.tensor([61]))
    plain, _ = dynamic_score(net, ids, bptt=3, rate=0.0)
    learned, _ = dynamic_score(net, ids, bptt=3, rate=0.5)
    close(learned[:, :3], plain[:, :3])
    assert learned[:, -6:].sum() > 0.6 * plain[:, -6:].sum()


def test_squares_are_those_of_the_segments() -> None:
    net = made("gru")
    ids = text([5])
    found = gradient_squares(net, ids, bptt=3)
    state, expected = net.start(1), []
    for begin, stop in ((0, 3), (3, 5)):
        piece = Padded(ids.data[:, begin : stop + 1], torch.tensor([stop - begin + 1]))
        loss, state = net.loss(batch(piece), state.map(torch.detach))
        expected.append(gradients(loss.sum / loss.tokens, net))
    for name, value in found.items():
        close(value, (expected[0][name] ** 2 + expected[1][name] ** 2) / 2)


def test_dynamic_evaluation_says_what_is_wrong() -> None:
    net = made("gru")
    for wrong in ({"bptt": 0, "rate": 1.0}, {"bptt": 1, "rate": -1.0}, {"bptt": 1, "rate": 1.0, "decay": 2.0}):
        with pytest.raises(ConfigError, match="expected bptt from 1 on, a rate from 0 on, a decay from 0 to 1"):
            dynamic_score(net, text(), **wrong)
    with pytest.raises(ConfigError, match="expected squares of the parameters of this net"):
        dynamic_score(net, text(), bptt=1, rate=1.0, squares={})


# -- what does not fit


def test_what_does_not_fit_is_said() -> None:
    embedding, output = Embedding(V, D), FullSoftmax(D, V)
    with pytest.raises(ConfigError, match="reads from both ends sees the answer"):
        RecurrentLM(embedding, Stack("gru", D, D // 2, bidirectional=True), output)
    with pytest.raises(ShapeError, match=r"gives 4 numbers and the output reads 4, .* received one from 4 to 3"):
        RecurrentLM(embedding, Stack("gru", D, 3), output)
    with pytest.raises(ShapeError, match="received 12 in the embedding, 11 in the output"):
        RecurrentLM(Embedding(V + 1, D), Stack("gru", D, D), output)
    with pytest.raises(ShapeError, match="11 in the output, 9 in the n-grams"):
        RecurrentLM(embedding, Stack("gru", D, D), output, ngrams=HashedNgrams(9, order=2, buckets=20))
    with pytest.raises(
        ShapeError, match="an output of 11 symbols that reads 10 numbers, received one of 11 that reads 4"
    ):
        WindowLM(embedding, 2, 2, output, bos=0, direct=True)
    with pytest.raises(ConfigError, match="dropout must be a probability"):
        WindowLM(embedding, 2, D, output, bos=0, dropout=1.0)
    with pytest.raises(ConfigError, match="dropout of symbols must be a probability"):
        SymbolDropout(1.0)
    net = made("lstm")
    with pytest.raises(StateError, match=r"expected a state of 0\.h, 0\.c, 1\.h, 1\.c, received 0\.h, 1\.h; a state"):
        net.loss(batch(text()), made("gru").start(5))
    with pytest.raises(StateError, match=r"of 5 rows with one hypothesis each, received 0\.h of shape \(4, 1, 4\)"):
        net.loss(batch(text()), net.start(4))
    with pytest.raises(StateError, match=r"with the context \(5, 1, 3\), received \(5, 1, 2\)"):
        made("window").read(text(), made("window, direct").start(5))
    with pytest.raises(StateError, match="received none"):
        made("window").read(text(), State())
    with pytest.raises(ShapeError, match="a language model has no source"):
        NetStepper(net, bos=BOS).start(Batch())


def test_a_tied_embedding_is_one_parameter() -> None:
    net = noisy()
    assert net.output.weight is net.embedding.weight
    assert sum(value is net.embedding.weight for value in net.parameters()) == 1
