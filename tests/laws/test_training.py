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

from riverrun.config.train import Train  # noqa: E402
from riverrun.data.batch import Batch  # noqa: E402
from riverrun.data.padded import Padded  # noqa: E402
from riverrun.nn.models.loss import Loss  # noqa: E402
from riverrun.train import events  # noqa: E402
from riverrun.train.average import Average  # noqa: E402
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


def evaluation(net: Net) -> Callable[[], dict[str, float]]:
    """A score that goes up and down with the weights."""

    def evaluate() -> dict[str, float]:
        assert not net.training
        weight = float(net.embed.weight.sum())
        return {"f1": float(np.sin(1e3 * weight)), "loss": weight}

    return evaluate


def run(folder: Path, train: Train, *, resume: bool = False, until: int | None = None, seed: int = 0) -> list[object]:
    """The events of a training, which is dropped at a step without a word, as a killed process is."""
    net = Net(seed=seed)
    seen = []
    for event in fit(net, Words(), train, checkpoints=Checkpoints(folder), evaluate=evaluation(net), resume=resume):
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
