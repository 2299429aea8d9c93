"""A test of the tests: each bug planted in a language net or its output breaks a law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from riverrun.decode.state import State  # noqa: E402
from riverrun.errors import ShapeError  # noqa: E402
from riverrun.nn.layers import adaptive_softmax, full_softmax, likelihood  # noqa: E402
from riverrun.nn.layers.ngrams import HashedNgrams  # noqa: E402
from riverrun.nn.layers.sampled_softmax import SampledSoftmax  # noqa: E402
from riverrun.nn.models import cache, dynamic, language_net, recurrent_lm  # noqa: E402
from riverrun.nn.models.documents import Documents  # noqa: E402
from riverrun.nn.models.recurrent_lm import RecurrentLM  # noqa: E402

from .borrowed import borrow  # noqa: E402

pytestmark = pytest.mark.train

Patch = pytest.MonkeyPatch
Law = Callable[[Patch], None]

language = borrow("laws/test_language_nets.py")
vocabulary = borrow("laws/test_vocabulary_softmax.py")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: Patch) -> None:
    monkeypatch.setattr(likelihood, "_BLOCK", 1)


def gradients(name: str, *, with_ngrams: bool = False, scale: float = 1.0) -> Law:
    return lambda _: vocabulary.the_gradients_are_those_of_the_whole(name, with_ngrams=with_ngrams, scale=scale)


def bounded(patch: Patch) -> None:
    vocabulary.test_chunks_bound_what_is_held()


def law(name: str, *args: Any, **more: Any) -> Law:
    return lambda _: getattr(language, name)(*args, **more)


def put(owner: Any, name: str, value: Any) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(owner, name, value)


def changed(owner: Any, name: str, change: Callable[[Any], Any]) -> Callable[[Patch], None]:
    """What a function gives is changed."""

    def plant(patch: Patch) -> None:
        real = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, **more: change(real(*args, **more)))

    return plant


def no_peak(patch: Patch) -> None:
    """Exponentials of large scores overflow."""
    real = torch.Tensor.amax
    patch.setattr(torch.Tensor, "amax", lambda self, *args, **more: real(self, *args, **more) * 0)


def documents(**wrong: Callable[[Any], Any]) -> Callable[[Patch], None]:
    def plant(patch: Patch) -> None:
        real = Documents.of

        def of(resets: Any) -> Documents:
            found = real(resets)
            return replace(found, **{name: change(getattr(found, name)) for name, change in wrong.items()})

        patch.setattr(Documents, "of", staticmethod(of))

    return plant


def state_stays(patch: Patch) -> None:
    """The state after the first piece is that after all."""
    read = RecurrentLM.read
    patch.setattr(RecurrentLM, "read", lambda self, ids, state, resets=None: (read(self, ids, state, resets)[0], state))


def wrong_probabilities(patch: Patch) -> None:
    real = SampledSoftmax.sample

    def sample(self: SampledSoftmax) -> Any:
        symbols, _ = real(self)
        return symbols, torch.log(-torch.expm1(-self.q[symbols] * self.samples))  # as if drawn with replacement

    patch.setattr(SampledSoftmax, "sample", sample)


def forgets_context(patch: Patch) -> None:
    real = HashedNgrams.starts
    patch.setattr(HashedNgrams, "starts", lambda self, context: real(self, context.flip(-1)))


def learns_the_net_itself(patch: Patch) -> None:
    patch.setattr(dynamic.copy, "deepcopy", lambda net: net)


def sees_more(shares: Callable[..., Any], scores: Any, seen: Any) -> Any:
    return shares(scores, seen | seen.roll(-1, -1))


def without_the_last(state: State) -> State:
    return State(moving={**state.moving, cache.LAST: state.moving[cache.LAST] * 0})


BUGS: dict[str, tuple[Callable[[Patch], None], Law]] = {
    "a block forgets its peak": (no_peak, gradients("full", scale=300.0)),
    "the gradient of the table is forgotten": (
        put(likelihood, "add_back_", lambda *_: None),
        gradients("full", with_ngrams=True),
    ),
    "windows are not added": (put(likelihood, "add_", lambda *_: None), gradients("adaptive", with_ngrams=True)),
    "windows of a cluster begin at 0": (
        put(adaptive_softmax, "nll", lambda *args, offset=0, **more: likelihood.nll(*args, **more)),
        gradients("adaptive", with_ngrams=True),
    ),
    "a chunk is as large as all": (put(likelihood, "_block", lambda rows, size, *_, **__: size), bounded),
    "a chunk is kept": (
        lambda patch: patch.setattr(full_softmax, "nll", lambda *args, chunk, **more: likelihood.nll(*args, **more)),
        bounded,
    ),
    "a sample is weighted as if drawn with replacement": (
        wrong_probabilities,
        lambda _: vocabulary.the_sampled_sum_is_unbiased(),
    ),
    "blackout has no weights": (
        changed(vocabulary, "made", lambda layer: layer.q.fill_(1.0) is None or layer),
        lambda patch: vocabulary.blackout_is_its_equation(patch),
    ),
    "the state does not move": (state_stays, law("steps_are_scores_are_losses", "gru")),
    "the state is not carried": (state_stays, law("a_carried_state_is_one_long_run", "gru")),
    "the context is read backwards": (
        forgets_context,
        lambda _: vocabulary.test_ngrams_depend_on_their_symbols_alone(),
    ),
    "a text does not begin anew": (
        documents(anew=lambda anew: anew & False),
        law("texts_begin_anew_where_they_begin", "gru"),
    ),
    "the first piece of a row begins anew": (
        documents(anew=lambda anew: anew | True),
        law("texts_begin_anew_where_they_begin", "gru"),
    ),
    "the state is that of the piece before the last": (
        documents(last=lambda last: (last - 1).clamp(min=0)),
        law("texts_begin_anew_where_they_begin", "gru"),
    ),
    "the wrong places are put together": (
        documents(places=lambda places: places.clamp(max=1)),
        law("texts_begin_anew_where_they_begin", "gru"),
    ),
    "the sum of squares is a mean": (
        put(recurrent_lm, "_squares", lambda values: values.pow(2).mean()),
        law("activations_are_regularised_as_the_paper_does"),
    ),
    "the padding counts": (put(language_net, "places_of", lambda _: None), law("steps_are_scores_are_losses", "gru")),
    "the cache sees one vector more": (
        lambda patch: put(cache, "_shares", partial(sees_more, cache._shares))(patch),
        law("cached_scores_are_its_steps", "lstm", 3),
    ),
    "the cache forgets the last vector": (
        changed(cache.CachedStepper, "score", lambda found: (found[0], without_the_last(found[1]))),
        law("cached_scores_are_its_steps", "lstm", 3),
    ),
    "what the cache has seen has no weight": (
        changed(cache, "_shares", lambda shares: shares * 0 + 0.1),
        law("the_cache_is_its_equation", 3),
    ),
    "the net itself learns": (learns_the_net_itself, law("dynamic_evaluation_is_its_equation", rms=False)),
    "the squares count twice": (
        changed(dynamic, "_factors", lambda found: ({k: v**2 for k, v in found[0].items()}, found[1])),
        law("dynamic_evaluation_is_its_equation", rms=True),
    ),
    "nothing pulls back": (
        changed(dynamic, "_factors", lambda found: (found[0], dict.fromkeys(found[1], 0.0))),
        law("dynamic_evaluation_is_its_equation", rms=False),
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_without_the_bug_the_law_holds(bug: str, monkeypatch: Patch) -> None:
    BUGS[bug][1](monkeypatch)


@pytest.mark.parametrize("bug", BUGS)
def test_the_law_catches(bug: str, monkeypatch: Patch) -> None:
    plant, broken = BUGS[bug]
    plant(monkeypatch)
    with pytest.raises((AssertionError, ShapeError)):
        broken(monkeypatch)
