"""What training promises: a resumed run is the run that never stopped, and a batch may be cut anywhere."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from riverrun.config.lm import LmTrain  # noqa: E402
from riverrun.config.train import Train  # noqa: E402
from riverrun.data.batch import Batch  # noqa: E402
from riverrun.data.padded import Padded  # noqa: E402
from riverrun.decode.state import State  # noqa: E402
from riverrun.errors import CheckpointError  # noqa: E402
from riverrun.nn.layers.dropout import Dropout  # noqa: E402
from riverrun.nn.layers.embed import Embedding  # noqa: E402
from riverrun.nn.layers.full_softmax import FullSoftmax  # noqa: E402
from riverrun.nn.layers.ngrams import HashedNgrams  # noqa: E402
from riverrun.nn.layers.sampled_softmax import SampledSoftmax  # noqa: E402
from riverrun.nn.layers.stack import Stack  # noqa: E402
from riverrun.nn.models.loss import Loss  # noqa: E402
from riverrun.nn.models.recurrent_lm import RecurrentLM  # noqa: E402
from riverrun.nn.models.stepper import NetStepper  # noqa: E402
from riverrun.train import events  # noqa: E402
from riverrun.train.average import Average, averaging_begins  # noqa: E402
from riverrun.train.checkpoint import Checkpoints  # noqa: E402
from riverrun.train.interrupt import interruptible  # noqa: E402
from riverrun.train.learner import Learner  # noqa: E402
from riverrun.train.loop import fit  # noqa: E402
from riverrun.train.optim import OPTIMIZERS, scale_gradients  # noqa: E402
from riverrun.train.schedule import SCHEDULES, rate  # noqa: E402

pytestmark = pytest.mark.train

SCHEDULE_NAMES = [*SCHEDULES, "one-cycle"]


class Net(nn.Module):
    """Tags words by an embedding, a GRU and a tied output layer, with dropout between them."""

    def __init__(self, *, dropout: float = 0.3, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(9, 4)
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.GRU(4, 4, batch_first=True)
        self.output = nn.Linear(4, 9)
        self.output.weight = self.embed.weight
        self.double()

    def loss(self, batch: Batch) -> Loss:
        words: Padded = batch["words"]
        mask = words.mask()
        if not words.data.shape[1]:  # which torch's GRU refuses
            nothing = self.embed.weight.sum() * 0
            return Loss(nothing, tokens=0, sequences=len(words), parts={"half": nothing})
        hidden, _ = self.encoder(self.dropout(self.embed(words.data)))
        logits = self.output(self.dropout(hidden))
        terms = nn.functional.cross_entropy(logits[mask], (words.data[mask] * 5 + 1) % 9, reduction="none")
        return Loss(terms.sum(), tokens=int(mask.sum()), sequences=len(words), parts={"half": terms.sum() / 2})


class Words:
    """Five batches of random words in an epoch, with rows of length 0 and 1."""

    def count(self, epoch: int) -> int:
        return 5

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        for index in range(start, self.count(epoch)):
            rng = np.random.default_rng((epoch, index))
            yield Batch(words=Padded.of([rng.integers(0, 9, length) for length in (*rng.integers(2, 6, 2), 0, 1)]))


SYMBOLS = 9


def carrying(
    *,
    dropout: float = 0.3,
    seed: int = 0,
    sparse: bool = False,
    output: str = "full",
    dtype: torch.dtype = torch.float64,
) -> RecurrentLM:
    """A language model, whose state goes on from batch to batch."""
    torch.manual_seed(seed)
    embedding = Embedding(SYMBOLS, 4, sparse=sparse)
    softmax = FullSoftmax(4, SYMBOLS) if output == "full" else SampledSoftmax(4, SYMBOLS, samples=3, sparse=sparse)
    net = RecurrentLM(
        embedding,
        Stack("lstm", 4, 4, layers=2, dropout=dropout, weight_drop=dropout),
        softmax,
        ngrams=HashedNgrams(SYMBOLS, order=3, buckets=40),
        symbol_dropout=dropout,
        output_dropout=Dropout(dropout, variational=True),
        ar=0.1,
        tar=0.1,
    )
    return net.double()


class Stream:
    """Three places of a text of 60 symbols, read side by side in windows whose lengths are drawn for each epoch."""

    text = np.random.default_rng(9).integers(0, SYMBOLS, (3, 20))

    def edges(self, epoch: int) -> list[int]:
        return [0, *sorted(np.random.default_rng((7, epoch)).choice(np.arange(1, 19), 5, replace=False)), 19]

    def count(self, epoch: int) -> int:
        return 6

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        for index, (begin, end) in list(enumerate(pairwise(self.edges(epoch))))[start:]:
            lengths = np.full(3, end - begin)
            lengths[2] = max(0, lengths[2] - (end == 19))  # the last place ends early
            yield Batch(
                ids=Padded(self.text[:, begin:end], lengths),
                targets=Padded(self.text[:, begin + 1 : end + 1], lengths),
                fresh=np.full(3, index == 0),
            )


def evaluation(net: Net) -> Callable[[], dict[str, float]]:
    """A score that goes up and down with the weights."""

    def evaluate() -> dict[str, float]:
        assert not net.training
        weight = float(net.embed.weight.sum())
        return {"f1": float(np.sin(1e3 * weight)), "loss": weight}

    return evaluate


def scored(net: RecurrentLM) -> Callable[[], dict[str, float]]:
    """The likelihood of a text, read from its beginning while the training is in the middle of another."""

    def evaluate() -> dict[str, float]:
        model = NetStepper(net, bos=0)
        scores, _ = model.score(Padded.of([range(SYMBOLS), [1, 2, 3]]), model.start(rows=2))
        return {"f1": float(np.sin(1e3 * float(scores.sum())))}

    return evaluate


def run(
    folder: Path,
    train: Train,
    *,
    resume: bool = False,
    until: int | None = None,
    seed: int = 0,
    carries: bool = False,
    **more: object,
) -> list[object]:
    """The events of a training, which is dropped at a step without a word, as a killed process is."""
    net = carrying(seed=seed, **more) if carries else Net(seed=seed)
    loader, evaluate = (Stream(), scored(net)) if carries else (Words(), evaluation(net))
    seen = []
    for event in fit(net, loader, train, checkpoints=Checkpoints(folder), evaluate=evaluate, resume=resume):
        seen.append(event)
        if isinstance(event, events.Step) and event.step == until:
            break
    return seen


def contents(folder: Path) -> dict[str, tuple[bytes, bytes, list[object], int, int]]:
    """Everything that the checkpoints of a training hold, but the time."""
    checkpoints = Checkpoints(folder)
    out = {}
    for step in checkpoints.steps():
        checkpoint = checkpoints.read(step)
        progress = checkpoint.record.progress
        progress.elapsed = 0.0
        files = [(checkpoint.path / name).read_bytes() for name in ("model.safetensors", "state.safetensors")]
        out[str(step)] = (*files, progress, checkpoint.record.score)
    return out


AVERAGES = [(None, 1), (None, 2), (0.8, 1), (0.8, 3)]  # ema, accumulate

# Every optimiser with every schedule, and each of both with every average.
WAYS = [
    (optimizer, schedule, *AVERAGES[(i + k) % 4])
    for (i, optimizer), (k, schedule) in product(enumerate(OPTIMIZERS), enumerate(SCHEDULE_NAMES))
]


@pytest.mark.parametrize(("optimizer", "schedule", "ema", "accumulate"), WAYS)
def test_a_resumed_run_is_the_run_that_never_stopped(tmp_path, optimizer, schedule, ema, accumulate):
    train = Train(
        optimizer=optimizer,
        schedule=schedule,
        ema=ema,
        accumulate=accumulate,
        rate=0.05,
        momentum=0.9 if optimizer == "sgd" else 0.0,
        decay=0.3 if schedule == "inverse" else 0.0,
        weight_decay=0.01,
        warmup=2,
        clip=0.4,
        steps=11,
        evaluate_every=3,
        checkpoint_seconds=1e-9 if schedule == "cosine" else 60,
        device="cpu",
    )
    whole = run(tmp_path / "whole", train)
    run(tmp_path / "parts", train, until=5)
    second = run(tmp_path / "parts", train, resume=True, until=10, seed=7)
    third = run(tmp_path / "parts", train, resume=True, seed=8)

    assert second[0].resumed and 0 < second[0].step <= 5
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    steps = {e.step: (e.loss, e.rate, e.norm, e.parts) for e in whole if isinstance(e, events.Step)}
    for event in (*second, *third):
        if isinstance(event, events.Step):
            assert (event.loss, event.rate, event.norm, event.parts) == steps[event.step]
    assert (third[-1].best, third[-1].best_step) == (whole[-1].best, whole[-1].best_step)


def a_resumed_run_carries_on(folder: Path, train: Train, **more: object) -> None:
    whole = run(folder / "whole", train, carries=True, **more)
    run(folder / "parts", train, until=5, carries=True, **more)
    second = run(folder / "parts", train, resume=True, until=10, seed=7, carries=True, **more)
    third = run(folder / "parts", train, resume=True, seed=8, carries=True, **more)
    assert second[0].resumed and second[0].step == 4 and third[0].step == 9
    assert contents(folder / "parts") == contents(folder / "whole")
    steps = {e.step: (e.loss, e.rate, e.norm, e.parts) for e in whole if isinstance(e, events.Step)}
    for event in (*second, *third):
        if isinstance(event, events.Step):
            assert (event.loss, event.rate, event.norm, event.parts) == steps[event.step]


# Checkpoints in the middle of an epoch, evaluations too.
CARRYING = LmTrain(rate=0.05, steps=14, epochs=9, evaluate_every=3, checkpoint_seconds=1e-9, device="cpu", batch=3)


SAMPLED = {"output": "sampled", "sparse": True}


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({"optimizer": "sgd", "rate": 0.5}, {}),
        ({"optimizer": "sgd", "rate": 0.5}, SAMPLED),
        ({"optimizer": "sgd", "rate": 0.5, "momentum": 0.9, "accumulate": 2, "schedule": "plateau"}, {}),
        ({"optimizer": "adam", "bptt_jitter": True, "bptt": 3, "ema": 0.9}, {}),
        ({"optimizer": "asgd", "rate": 0.5, "evaluate_every": 1, "steps": 20}, SAMPLED),
    ],
    ids=["sgd", "sampled", "accumulated", "jitter", "averaged"],
)
def test_a_resumed_run_carries_its_state_on(tmp_path, settings, more):
    train = LmTrain(**({name: getattr(CARRYING, name) for name in CARRYING.__struct_fields__} | settings))
    a_resumed_run_carries_on(tmp_path, train, **more)


def stream(learner: Learner, count: int, *, size: int = 1, epoch: int = 0) -> list[float]:
    """The losses, per token, of updates of so many batches each."""
    batches = list(Stream().batches(epoch))[:count]
    return [learner.update(batches[k : k + size], rate=0.5).loss for k in range(0, len(batches), size)]


def small(train: Train = CARRYING, **more: object) -> Learner:
    return Learner(carrying(dropout=0.0, **more), train, torch.device("cpu"))


def test_accumulated_windows_are_one_after_the_other() -> None:
    """The sum of the losses of consecutive windows is that of the long window, whose gradient goes back further."""
    train = LmTrain(optimizer="sgd", rate=0.5, clip=None, ar=0.0, tar=0.0)
    one, many = (Learner(carrying(dropout=0.0), train, torch.device("cpu")) for _ in range(2))
    for learner in (one, many):
        learner.model.ar = learner.model.tar = 0.0
    batches = list(Stream().batches(0))
    ids = Padded(Stream.text[:, :-1], np.array([19, 19, 18]))
    whole = Batch(ids=ids, targets=Padded(Stream.text[:, 1:], ids.lengths), fresh=np.ones(3, bool))
    long, short = one.update([whole], rate=0.5), many.update(batches, rate=0.5)
    assert long.tokens == short.tokens == 56
    np.testing.assert_allclose(short.loss, long.loss, rtol=1e-12)
    assert not np.isclose(short.norm, long.norm, rtol=1e-6)
    for name, value in one.carried.moving.items():
        torch.testing.assert_close(many.carried.moving[name], value, rtol=1e-12, atol=1e-14)


def test_the_carried_state_has_no_past_and_begins_anew_where_a_row_is_fresh() -> None:
    learner = small()
    seen: list[State | None] = []
    loss = learner.model.loss
    learner.model.loss = lambda batch, state: seen.append(state) or loss(batch, state)
    stream(learner, 6)
    assert seen[0] is None
    assert all(not value.requires_grad for state in seen[1:] for value in state.moving.values())
    assert all(float(state.moving["1.h"].abs().sum()) > 0 for state in seen[1:])
    expected = learner.model.loss(next(iter(Stream().batches(1))).map(torch.from_numpy), None)[0].sum.item()
    found = learner.model.loss(next(iter(Stream().batches(1))).map(torch.from_numpy), learner.carried)[0].sum.item()
    assert expected == found


def test_an_evaluation_does_not_disturb_the_carried_state() -> None:
    learners = [small(), small()]
    for learner in learners:
        stream(learner, 2)
    learners[1].evaluate(scored(learners[1].model))
    found = [learner.update(list(Stream().batches(0))[2:3], rate=0.5) for learner in learners]
    assert found[0] == found[1]


def test_an_update_that_is_left_out_leaves_the_state() -> None:
    learner = small()
    stream(learner, 2)
    before = {name: value.clone() for name, value in learner.carried.moving.items()}
    weight = learner.model.embedding.weight
    with torch.no_grad():
        kept, weight[:] = weight.clone(), torch.nan
    assert not learner.update(list(Stream().batches(0))[2:4], rate=0.5).finite
    with torch.no_grad():
        weight.copy_(kept)
    assert all(torch.equal(value, before[name]) for name, value in learner.carried.moving.items())
    assert learner.update(list(Stream().batches(0))[2:3], rate=0.5).finite


def test_a_rollback_takes_the_carried_state_back(tmp_path) -> None:
    net = carrying(dropout=0.0)
    seen: list[State | None] = []
    loss = net.loss

    def spoilt(batch: Batch, state: State | None) -> tuple[Loss, State]:
        seen.append(state)
        found, after = loss(batch, state)
        return Loss(found.sum * (np.nan if len(seen) == 6 else 1), found.tokens, found.sequences), after

    net.loss = spoilt
    train = LmTrain(optimizer="sgd", nan="rollback", evaluate_every=3, steps=8, device="cpu", batch=3)
    happened = list(fit(net, Stream(), train, checkpoints=Checkpoints(tmp_path), evaluate=scored(net)))
    (back,) = (event for event in happened if isinstance(event, events.RolledBack))
    assert (back.failed, back.step) == (6, 3)
    again, first = seen[6].moving, seen[3].moving  # of the fourth step, both times
    assert all(torch.equal(value, first[name]) for name, value in again.items())


@pytest.mark.parametrize("output", ["full", "sampled"])
@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "sgd"},
        {"optimizer": "sgd", "clip": 0.01},
        {"optimizer": "sgd", "momentum": 0.9},
        {"optimizer": "sgd", "weight_decay": 0.1},
        {"optimizer": "asgd"},
        {"optimizer": "adam"},
        {"optimizer": "adamw", "weight_decay": 0.1},
        {"optimizer": "sgd", "ema": 0.9},
    ],
    ids=str,
)
def test_a_gradient_of_some_rows_changes_what_the_whole_one_does(settings, output) -> None:
    found = []
    for sparse in (False, True):
        learner = small(LmTrain(**{"clip": 5.0, **settings}), sparse=sparse, output=output)
        if settings["optimizer"] == "asgd":
            learner.begin_averaging()
        torch.manual_seed(3)
        updates = stream(learner, 6, size=2)
        found.append((updates, learner.weights()))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-11)
    for name, value in found[0][1].items():
        torch.testing.assert_close(found[1][1][name], value, rtol=1e-9, atol=1e-11)


def test_the_rate_follows_the_length_of_a_drawn_window(tmp_path) -> None:
    for jitter in (False, True):
        train = LmTrain(
            optimizer="sgd", rate=0.3, bptt=4, bptt_jitter=jitter, epochs=1, accumulate=2, device="cpu", batch=3
        )
        happened = fit(carrying(), Stream(), train, checkpoints=Checkpoints(tmp_path / str(jitter)))
        rates = [event.rate for event in happened if isinstance(event, events.Step)]
        lengths = np.diff(Stream().edges(0))
        expected = 0.3 * lengths.reshape(3, 2).mean(1) / 4 if jitter else [0.3] * 3
        np.testing.assert_allclose(rates, expected, rtol=1e-12)


@pytest.mark.parametrize(("name", "value"), [("bptt", 5), ("bptt_jitter", True), ("batch", 4)])
def test_another_cut_of_the_stream_cannot_be_resumed(tmp_path, name, value) -> None:
    run(tmp_path, CARRYING, until=4, carries=True)
    other = LmTrain(**({n: getattr(CARRYING, n) for n in CARRYING.__struct_fields__} | {name: value}))
    with pytest.raises(
        CheckpointError, match=f"was trained with train.{name} = .*, received {value}; a training cannot"
    ):
        run(tmp_path, other, resume=True, carries=True)


@given(st.lists(st.integers(0, 6), max_size=30))
def test_averaging_begins_where_merity_begins_it(losses) -> None:
    """Algorithm 1 of the paper, as its authors run it: the loss of each epoch against those more than five before."""
    logs: list[int] = []
    began = None
    for number, loss in enumerate(losses):
        if began is None and len(logs) > 5 and loss > min(logs[:-5]):
            began = number
        logs.append(loss)
    ours = next((k for k in range(len(losses)) if averaging_begins([-loss for loss in losses[: k + 1]])), None)
    assert ours == began


# Saved after each step, so that a signal is likely to come while a checkpoint is written.
OFTEN = Train(
    rate=0.05, schedule="cosine", ema=0.9, epochs=24, evaluate_every=7, checkpoint_seconds=1e-9, device="cpu", threads=1
)


def own_process(folder: Path) -> subprocess.Popen[str]:
    """A process that trains, or goes on, in a folder; it has made and saved its first step."""
    process = subprocess.Popen([sys.executable, __file__, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] in (["Step\n", "Saved\n"], ["Step\n", "Evaluated\n"])
    return process


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
def test_a_killed_run_resumed_is_the_run_that_never_stopped(tmp_path):
    for _ in range(2):
        with own_process(tmp_path / "parts") as process:
            time.sleep(random.uniform(0.0, 0.15))
            process.kill()
        assert process.returncode == -signal.SIGKILL
    assert 0 < Checkpoints(tmp_path / "parts").steps()[-1] < 120
    run(tmp_path / "parts", OFTEN, resume=True, seed=5)
    run(tmp_path / "whole", OFTEN)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert not list((tmp_path / "parts").glob(".*"))


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
def test_ctrl_c_at_any_moment_saves_what_can_be_resumed(tmp_path):
    with own_process(tmp_path / "parts") as process:
        time.sleep(random.uniform(0.0, 0.15))
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    *before, last = said.split()
    assert last == "Interrupted" and "Interrupted" not in before and before[-1] == "Saved"
    # The last checkpoint is of the last step that was announced; the first step was read by own_process.
    assert Checkpoints(tmp_path / "parts").steps()[-1] == before.count("Step") + 1
    run(tmp_path / "parts", OFTEN, resume=True, seed=5)
    run(tmp_path / "whole", OFTEN)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_an_averaged_sgd_that_has_begun_to_average_resumes_exactly(tmp_path):
    # Evaluated at each step, a score that wanders makes averaging begin soon.
    train = Train(optimizer="asgd", rate=0.5, steps=20, epochs=9, evaluate_every=1, checkpoint_seconds=1e-9)
    run(tmp_path / "whole", train)
    run(tmp_path / "parts", train, until=14)
    run(tmp_path / "parts", train, resume=True)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert Checkpoints(tmp_path / "whole").latest().state()["average.count"] > 0


def test_the_same_seed_gives_the_same_run_and_another_seed_another(tmp_path):
    train = [Train(steps=4, seed=seed) for seed in (1, 1, 2)]
    for k, each in enumerate(train):
        run(tmp_path / str(k), each)
    first, again, other = (contents(tmp_path / str(k))["4"] for k in range(3))
    assert first == again
    assert first[0] != other[0]


def rows(lengths: list[int]) -> list[np.ndarray]:
    rng = np.random.default_rng(len(lengths))
    return [rng.integers(0, 9, length) for length in lengths]


@given(
    lengths=st.lists(st.integers(0, 5), min_size=2, max_size=7),
    cuts=st.sets(st.integers(1, 6)),
    reduce=st.sampled_from(["token-mean", "sequence-mean", "sum"]),
    clip=st.sampled_from([None, 0.1]),
)
@settings(max_examples=40)
def test_a_batch_may_be_cut_anywhere(lengths, cuts, reduce, clip):
    train = Train(reduce=reduce, clip=clip, optimizer="sgd", momentum=0.5)
    edges = [0, *sorted(cut for cut in cuts if cut < len(lengths)), len(lengths)]
    results = []
    for pairs in ([(0, len(lengths))], list(pairwise(edges))):
        learner = Learner(Net(dropout=0.0), train, torch.device("cpu"))
        update = learner.update([Batch(words=Padded.of(rows(lengths)[a:b])) for a, b in pairs], rate=0.1)
        results.append((update, learner.weights()))
    (one, whole), (many, cut) = results
    assert many.tokens == one.tokens == sum(lengths)
    np.testing.assert_allclose(
        [many.loss, many.norm, many.parts["half"]], [one.loss, one.norm, one.parts["half"]], 1e-12
    )
    for name, value in whole.items():
        torch.testing.assert_close(cut[name], value, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("reduce", ["token-mean", "sequence-mean", "sum"])
def test_the_divisor_is_what_reduce_says(reduce):
    batch = Batch(words=Padded.of(rows([5, 0, 1, 3])))
    net = Net(dropout=0.0)
    loss = net.loss(batch.map(torch.from_numpy)).sum / {"token-mean": 9, "sequence-mean": 4, "sum": 1}[reduce]
    gradients = torch.autograd.grad(loss, list(net.parameters()))
    before = {name: weight.detach().clone() for name, weight in net.named_parameters()}
    learner = Learner(net, Train(reduce=reduce, clip=None, optimizer="sgd"), torch.device("cpu"))
    update = learner.update([batch], rate=0.25)
    np.testing.assert_allclose(update.loss, loss.item(), rtol=1e-13)
    np.testing.assert_allclose(update.norm, np.sqrt(sum(float((g**2).sum()) for g in gradients)), rtol=1e-12)
    for (name, weight), gradient in zip(before.items(), gradients, strict=True):
        torch.testing.assert_close(learner.trained[name].detach(), weight - 0.25 * gradient, rtol=1e-12, atol=1e-14)


@given(
    values=st.lists(st.floats(-100, 100), min_size=2, max_size=12),
    divisor=st.sampled_from([1.0, 3.0, 250.0]),
    limit=st.sampled_from([1e-3, 0.5, 5.0, 1e4, None]),
)
def test_a_clipped_gradient_has_the_direction_of_the_whole_and_at_most_the_limit(values, divisor, limit):
    whole = torch.tensor(values, dtype=torch.float64)
    parts = [whole[:1].clone(), whole[1:].clone()]
    norm = scale_gradients(parts, divisor=divisor, limit=limit)
    expected = np.asarray(values) / divisor
    length = np.sqrt((expected**2).sum())
    np.testing.assert_allclose(norm, length, rtol=1e-12, atol=1e-300)
    if limit is not None and length > limit:
        np.testing.assert_allclose(np.sqrt(sum(float((p**2).sum()) for p in parts)), limit, rtol=1e-12)
        expected = expected * (limit / length)
    np.testing.assert_allclose(torch.cat(parts).numpy(), expected, rtol=1e-12, atol=1e-200)


def rates(train: Train, total: int) -> np.ndarray:
    return np.array([rate(train, step=step, total=total, epoch=0, stalls=0) for step in range(total)])


@pytest.mark.parametrize("schedule", SCHEDULE_NAMES)
@pytest.mark.parametrize("warmup", [0, 1, 7])
@pytest.mark.parametrize("total", [1, 2, 30])
def test_a_rate_is_never_negative_or_above_what_was_asked(schedule, warmup, total):
    values = rates(Train(rate=0.3, schedule=schedule, warmup=warmup), total)
    assert (values >= 0).all() and (values <= 0.3 * (1 + 1e-12)).all()
    if schedule != "one-cycle":
        np.testing.assert_allclose(values[:warmup], 0.3 * np.arange(1, warmup + 1)[:total] / max(warmup, 1))
    if warmup < total and total > 2:
        np.testing.assert_allclose(values.max(), 0.3)


def test_schedules_are_those_of_torch():
    def torch_rates(make, total=30):
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)
        scheduler = make(optimizer)
        out = []
        for _ in range(total):
            out.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        return out

    lr = torch.optim.lr_scheduler
    np.testing.assert_allclose(
        rates(Train(rate=0.3, schedule="cosine"), 30), torch_rates(lambda o: lr.CosineAnnealingLR(o, 30)), rtol=1e-9
    )
    np.testing.assert_allclose(
        rates(Train(rate=0.3, schedule="linear"), 30),
        torch_rates(lambda o: lr.LinearLR(o, start_factor=1.0, end_factor=0.0, total_iters=30)),
        rtol=1e-9,
    )
    one_cycle = torch_rates(lambda o: lr.OneCycleLR(o, 0.3, total_steps=31, cycle_momentum=False, pct_start=0.3), 30)
    np.testing.assert_allclose(rates(Train(rate=0.3, schedule="one-cycle"), 31)[:30], one_cycle, rtol=1e-9)


def test_inverse_falls_with_the_epoch_and_plateau_with_each_stall():
    inverse = Train(rate=0.3, schedule="inverse", decay=0.5)
    plateau = Train(rate=0.3, schedule="plateau")
    for k in range(4):
        assert rate(inverse, step=90, total=100, epoch=k, stalls=9) == pytest.approx(0.3 / (1 + 0.5 * k))
        assert rate(plateau, step=90, total=100, epoch=9, stalls=k) == pytest.approx(0.3 * 0.5**k)


@pytest.mark.parametrize("decay", [0.5, 0.9, 1.0])
def test_an_average_is_even_at_first_and_exponential_later(rng, decay):
    weight = nn.Parameter(torch.full((3,), 50.0, dtype=torch.float64))
    average = Average({"w": weight}, decay=decay)
    updates = rng.normal(size=(30, 3))
    expected = np.zeros(3)
    for k, value in enumerate(updates):
        weight.data.copy_(torch.from_numpy(value))
        average.update()
        share = max(1 - decay, 1 / (k + 1))
        expected = (1 - share) * expected + share * value
    with average.applied():
        np.testing.assert_allclose(weight.detach(), expected, rtol=1e-12)
    np.testing.assert_allclose(weight.detach(), updates[-1])
    if decay == 1:
        np.testing.assert_allclose(expected, updates.mean(0), rtol=1e-12)


def test_averaged_sgd_is_that_of_torch(rng):
    ours, theirs = (nn.Parameter(torch.ones(3, dtype=torch.float64)) for _ in range(2))
    sgd, average = torch.optim.SGD([ours], 0.125), Average({"w": ours}, decay=1.0)
    asgd = torch.optim.ASGD([theirs], 0.125, lambd=0, t0=0)
    for step in range(9):
        ours.grad = torch.from_numpy(rng.normal(size=3))
        theirs.grad = ours.grad.clone()
        sgd.step()
        if step:  # torch's average forgets the first update
            average.update()
        asgd.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)
    # torch holds its 1 / n as a float32.
    torch.testing.assert_close(average.values["w"], asgd.state[theirs]["ax"], rtol=1e-6, atol=0)


def test_every_name_of_the_recipe_has_its_line():
    hints = get_type_hints(Train)
    assert {*OPTIMIZERS} == {*get_args(hints["optimizer"])}
    assert {*SCHEDULE_NAMES} == {*get_args(hints["schedule"])}


def train_here(folder: Path) -> None:
    """What ``own_process`` does."""
    net = Net(seed=os.getpid())  # a resumed run takes nothing from it
    if not Checkpoints(folder).steps():
        net = Net()
    with interruptible() as stop:
        for event in fit(
            net,
            Words(),
            OFTEN,
            checkpoints=Checkpoints(folder),
            evaluate=evaluation(net),
            resume=True,
            stop=stop,
        ):
            if not isinstance(event, events.Started):
                print(type(event).__name__, flush=True)
            time.sleep(0.02)


if __name__ == "__main__":
    train_here(Path(sys.argv[1]))
