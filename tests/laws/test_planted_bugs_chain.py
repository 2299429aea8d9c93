"""A test of the tests: each bug planted in the CRF and the decoders breaks a law."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from riverrun.decode import greedy, viterbi  # noqa: E402
from riverrun.decode.lattice import Lattice  # noqa: E402
from riverrun.decode.scorer import Chain  # noqa: E402
from riverrun.nn.layers import crf, crf_kernels  # noqa: E402
from riverrun.nn.layers.chars import CharCNN  # noqa: E402
from riverrun.nn.layers.softmax import Softmax  # noqa: E402

from .borrowed import borrow  # noqa: E402

pytestmark = pytest.mark.train

Patch = pytest.MonkeyPatch


layers, decoding, chains = (
    borrow("laws/test_layers.py"),
    borrow("laws/test_decoding.py"),
    borrow("oracles/test_chain.py"),
)


def enumerated(form: str) -> None:
    """Every decoder against the enumeration of all paths."""
    rules = chains.Rules(decoding.RULES.transitions, decoding.RULES.start, decoding.RULES.stop)
    for ruled in (None, rules):
        chains.check(chains.draw(np.random.default_rng(0), form, [3, 0, 1, 5, 2], tags=3, wide=1), "numpy", ruled)


def likelihood_forgets_the_stop(patch: Patch) -> None:
    real = crf_kernels.path

    def path(*args: Any) -> bool:
        nothing = np.zeros_like(args[4])
        return bool(real(*args[:4], nothing, *args[5:]))

    patch.setattr(crf_kernels, "path", path)


def gradient_forgets_the_transitions_of_the_path(patch: Patch) -> None:
    real = crf_kernels.path_backward

    def path_backward(*args: Any) -> None:
        before = args[5].copy()
        real(*args)
        args[5][...] = before

    patch.setattr(crf_kernels, "path_backward", path_backward)


def partition_runs_on_into_the_padding(patch: Patch) -> None:
    real = Lattice.advance

    def advance(self: Lattice, scores: Any, t: int, reduce: Any) -> Any:
        endless = SimpleNamespace(**vars(self), step=self.step, order=self.order)
        endless.lengths = self.lengths * 0 + 10**6
        return real(endless, scores, t, reduce)  # type: ignore[arg-type]

    patch.setattr(Lattice, "advance", advance)


def transitions_are_read_from_column_to_row(patch: Patch) -> None:
    real = Lattice.of

    def of(chain: Chain) -> Lattice:
        parts = vars(chain) | {"transitions": np.swapaxes(chain.transitions, -1, -2)}
        return real(Chain(**parts))

    patch.setattr(Lattice, "of", staticmethod(of))


def the_way_back_starts_at_the_end_of_the_batch(patch: Patch) -> None:
    patch.setattr(viterbi, "_while_going", lambda going, new, old: new)


def constraints_are_forgotten_at_the_end(patch: Patch) -> None:
    real = viterbi.constrain

    def constrain(chain: Chain, allowed: Any) -> Chain:
        return Chain(**(vars(real(chain, allowed)) | {"stop": chain.stop}))

    patch.setattr(viterbi, "constrain", constrain)


def any_chain_is_decided_position_by_position(patch: Patch) -> None:
    patch.setattr(viterbi, "_is_independent", lambda chain: not chain.per_position and chain.order == 1)


def greedy_stops_at_every_position(patch: Patch) -> None:
    real = greedy._given

    def given(chain: Chain, tags: list[Any]) -> tuple[Any, Any]:
        step, stop = real(chain, tags)
        return step + stop, stop

    patch.setattr(greedy, "_given", given)


def the_head_reads_its_padding(patch: Patch) -> None:
    patch.setattr(crf, "clean", lambda x: x.data)


def softmax_reads_its_padding(patch: Patch) -> None:
    patch.setattr(Softmax, "_emissions", lambda self, x: self.emission(x.data))


def a_filter_sees_behind_the_word(patch: Patch) -> None:
    real = CharCNN.from_tables

    def from_tables(self: CharCNN, ids: Any, mask: Any) -> Any:
        return real(self, ids, torch.ones_like(mask))

    patch.setattr(CharCNN, "from_tables", from_tables)


BUGS: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (likelihood_forgets_the_stop, lambda: layers.likelihoods_sum_to_one(layers.CASES["crf additive"])),
    (
        gradient_forgets_the_transitions_of_the_path,
        lambda: layers.gradients_are_derivatives(layers.CASES["crf additive"]),
    ),
    (partition_runs_on_into_the_padding, lambda: enumerated("shared")),
    (transitions_are_read_from_column_to_row, lambda: enumerated("per position")),
    (the_way_back_starts_at_the_end_of_the_batch, lambda: enumerated("shared")),
    (constraints_are_forgotten_at_the_end, lambda: decoding.decoders_agree("shared", decoding.RULES)),
    (any_chain_is_decided_position_by_position, lambda: enumerated("shared")),
    (
        greedy_stops_at_every_position,
        lambda: chains.left_to_right(decoding.draw("shared"), "numpy", None, None),
    ),
    (the_head_reads_its_padding, lambda: layers.padding_has_no_influence(layers.CASES["crf additive"])),
    (softmax_reads_its_padding, lambda: layers.padding_has_no_influence(layers.CASES["softmax"])),
    (a_filter_sees_behind_the_word, lambda: layers.a_batch_is_its_rows(layers.CASES["char cnn"])),
]


@pytest.mark.parametrize(("plant", "law"), BUGS, ids=[f"{k}-{bug[0].__name__}" for k, bug in enumerate(BUGS)])
def test_a_planted_bug_breaks_a_law(plant: Callable[[Patch], None], law: Callable[[], None]) -> None:
    law()  # without the bug it holds
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises(AssertionError):
            law()
