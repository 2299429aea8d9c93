"""What the loop does when all goes well and when it does not."""

from __future__ import annotations

import errno
import math
import os
import signal

import msgspec
import pytest

torch = pytest.importorskip("torch")

from riverrun.config.train import Train  # noqa: E402
from riverrun.errors import CheckpointError, ConfigError, DataError  # noqa: E402
from riverrun.train import events  # noqa: E402
from riverrun.train.diverged import ROLLBACKS, SKIPS_IN_A_ROW, TrainingError  # noqa: E402
from riverrun.train.interrupt import interruptible  # noqa: E402

pytestmark = pytest.mark.train

SGD = Train(optimizer="sgd", rate=0.01, epochs=3, device="cpu")


def of(kind, seen):
    return [event for event in seen if isinstance(event, kind)]


def change(**fields):
    return msgspec.structs.replace(SGD, **fields)


def test_the_events_of_a_training(bench):
    seen = bench.run(SGD, evaluate=bench.scored(0.5, 0.7, 0.6))
    kinds = [type(event).__name__ for event in seen]
    epoch = ["Step"] * 4 + ["Evaluated"]
    assert kinds == ["Started", *epoch, "Saved", *epoch, "Saved", *epoch, "Saved", "Finished"]
    steps = of(events.Step, seen)
    assert [event.step for event in steps] == list(range(1, 13))
    assert {event.total for event in seen} == {12}
    assert [event.epoch for event in steps] == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert all(event.tokens == 5 and event.speed > 0 and event.remaining >= 0 for event in steps)
    assert [event.elapsed for event in seen] == sorted(event.elapsed for event in seen)
    assert [(e.improved, e.best, e.waited) for e in of(events.Evaluated, seen)] == [
        (True, 0.5, 0),
        (True, 0.7, 0),
        (False, 0.7, 1),
    ]
    assert of(events.Evaluated, seen)[1].loss == pytest.approx(sum(e.loss for e in steps[4:8]) / 4)
    assert (seen[-1].reason, seen[-1].best, seen[-1].best_step) == ("done", 0.7, 8)
    for event in seen:
        assert msgspec.json.decode(msgspec.json.encode(event))["event"] == type(event).__name__.lower()


def test_the_model_ends_with_its_best_weights(bench):
    kept = []

    def evaluate():
        kept.append(bench.model.weight.detach().clone())
        return {"f1": [0.5, 0.7, 0.6][len(kept) - 1]}

    bench.run(SGD, evaluate=evaluate)
    assert torch.equal(bench.model.weight, kept[1])
    assert not torch.equal(kept[1], kept[2])


def test_without_evaluation_the_last_weights_are_kept(bench):
    last = None
    for event in bench.events(SGD):
        if isinstance(event, events.Step):
            last = bench.model.weight.detach().clone()
    assert torch.equal(bench.model.weight, last)
    assert (event.best, event.best_step) == (None, 12)


def test_a_lower_perplexity_is_better(bench):
    values = iter([9.0, 7.0, 8.0])
    seen = bench.run(SGD, evaluate=lambda: {"perplexity": next(values)})
    assert (seen[-1].best, seen[-1].best_step) == (7.0, 8)


def test_a_metric_that_is_not_finite_is_never_the_best(bench):
    seen = bench.run(SGD, evaluate=bench.scored(math.nan, 0.1, math.nan))
    assert [(e.metrics["f1"], e.improved) for e in of(events.Evaluated, seen)] == [
        (None, False),
        (0.1, True),
        (None, False),
    ]
    assert seen[-1].best_step == 8


def test_patience_ends_the_training(bench):
    seen = bench.run(change(epochs=9, patience=2), evaluate=bench.scored(0.5, 0.7, 0.6, 0.7))
    assert (seen[-1].reason, seen[-1].step, seen[-1].best_step) == ("patience", 16, 8)
    again = bench.run(change(epochs=9, patience=2), evaluate=bench.scored(), resume=True)
    assert [type(event).__name__ for event in again] == ["Started", "Finished"]


def test_steps_end_the_training_within_an_epoch_and_evaluate(bench):
    seen = bench.run(change(steps=6), evaluate=bench.scored(0.5, 0.7))
    assert [e.step for e in of(events.Evaluated, seen)] == [4, 6]
    assert {event.total for event in seen} == {6}


def test_evaluate_every_counts_steps(bench):
    seen = bench.run(change(evaluate_every=5), evaluate=bench.scored(0.5, 0.7, 0.8))
    assert [e.step for e in of(events.Evaluated, seen)] == [5, 10, 12]


def test_accumulated_batches_stop_at_the_end_of_an_epoch(bench):
    seen = bench.run(change(accumulate=3, epochs=2))
    assert [e.tokens for e in of(events.Step, seen)] == [15, 5, 15, 5]
    assert {event.total for event in seen} == {4}


def test_an_average_is_what_is_evaluated_and_kept(bench):
    seen = []

    def evaluate():
        seen.append(bench.model.weight.detach().clone())
        return {"f1": 1.0}

    raw = []
    for event in bench.events(change(ema=0.75, epochs=1), evaluate=evaluate):
        if isinstance(event, events.Step):
            raw.append(bench.model.weight.detach().clone())
    # The first four updates are averaged evenly: 1 / 4 = 1 - 0.75.
    torch.testing.assert_close(seen[0], torch.stack(raw).mean(0), rtol=1e-12, atol=0)
    assert torch.equal(bench.model.weight, seen[0])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_stop_names_the_step_and_leaves_the_checkpoint(bench, bad):
    bench.model.spoilt = lambda call: bad if call == 7 else 1.0
    steps = []
    with pytest.raises(TrainingError, match=r"step 7: expected a finite loss.*at learning rate 0\.01\. The checkpoint"):
        for event in bench.events(change(checkpoint_seconds=1e-9)):
            steps.append(event.step)
    assert bench.checkpoints.steps() == [5, 6]
    assert torch.isfinite(bench.model.weight).all()


def test_stop_says_when_nothing_was_saved(bench):
    bench.model.spoilt = lambda call: math.nan
    with pytest.raises(TrainingError, match=r"step 1: .*No checkpoint was saved\. Try a smaller train\.rate"):
        bench.run(SGD)


def test_skip_leaves_the_weights_and_goes_on(bench):
    bench.model.spoilt = lambda call: math.nan if call in (3, 4) else 1.0
    weights = []
    seen = []
    for event in bench.events(change(nan="skip")):
        seen.append(event)
        weights.append(bench.model.weight.detach().clone())
    assert [(e.step, e.in_a_row) for e in of(events.Skipped, seen)] == [(3, 1), (4, 2)]
    assert torch.equal(weights[4], weights[2]) and not torch.equal(weights[5], weights[4])
    assert len(of(events.Step, seen)) == 10


def test_skip_gives_up_after_many_in_a_row(bench):
    bench.model.spoilt = lambda call: math.nan if call > 2 else 1.0
    with pytest.raises(TrainingError, match=f"step {SKIPS_IN_A_ROW + 2}: .*after {SKIPS_IN_A_ROW} skipped updates"):
        bench.run(change(nan="skip", epochs=20))


def test_rollback_goes_on_with_another_order(bench):
    bench.model.spoilt = lambda call: math.nan if call == 7 else 1.0
    seen = bench.run(change(nan="rollback"), evaluate=bench.scored(0.5, 0.7, 0.8))
    (back,) = of(events.RolledBack, seen)
    assert (back.step, back.failed, back.rollbacks) == (4, 7, 1)
    assert [e.step for e in of(events.Step, seen)] == [1, 2, 3, 4, 5, 6, *range(5, 13)]
    assert bench.model.seen[4:7] != bench.model.seen[7:10]
    assert seen[-1].step == 12


def test_rollback_has_something_to_go_back_to_from_the_first_step(bench):
    bench.model.spoilt = lambda call: math.nan if call == 1 else 1.0
    seen = bench.run(change(nan="rollback"))
    assert [type(event).__name__ for event in seen[:4]] == ["Started", "Saved", "RolledBack", "Step"]


def test_rollback_gives_up(bench):
    bench.model.spoilt = lambda call: math.nan
    with pytest.raises(TrainingError, match=f"after {ROLLBACKS} rollbacks"):
        bench.run(change(nan="rollback"))
    assert bench.model.calls == ROLLBACKS + 1


def test_rollback_survives_a_resume(bench):
    bench.model.spoilt = lambda call: math.nan if call == 3 else 1.0
    train = change(nan="rollback", checkpoint_seconds=1e-9)
    for event in bench.events(train):
        if event.step == 6:
            break
    assert bench.checkpoints.latest().record.progress.rollbacks == 1


def test_ctrl_c_finishes_the_step_saves_and_can_be_resumed(bench):
    seen = []
    with interruptible() as stop:
        for event in bench.events(SGD, stop=stop):
            seen.append(event)
            if event.step == 5 and not stop():
                signal.raise_signal(signal.SIGINT)
    assert [type(event).__name__ for event in seen[-3:]] == ["Step", "Saved", "Interrupted"]
    assert seen[-1].step == 5 and seen[-1].path == str(bench.checkpoints.folder / "5")
    seen = bench.run(SGD, resume=True)
    assert seen[0].resumed and [e.step for e in of(events.Step, seen)] == list(range(6, 13))


def test_a_second_ctrl_c_stops_at_once_and_the_handler_is_put_back():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
def test_ctrl_c_that_is_ignored_stays_so():
    # As in a script's background job: the terminal's Ctrl-C is for what stands in front.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible() as stop:
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            assert not stop()
            stop.request()  # by something else than a signal it can be asked for
            assert stop()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_that_is_not_pythons_stays(monkeypatch):
    # Python says None for one that a host in C has set, and cannot put it back.
    real, before = signal.getsignal, signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    with interruptible() as stop:
        assert real(signal.SIGINT) is before
        stop.request()
        assert stop()
    assert real(signal.SIGINT) is before


@pytest.mark.parametrize("handler", [signal.SIG_DFL, lambda number, frame: None], ids=["the system's", "python's"])
def test_any_other_handler_is_put_back(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        with interruptible() as stop:
            assert signal.getsignal(signal.SIGINT) is not handler  # else the signal would end the tests
            signal.raise_signal(signal.SIGINT)
            assert stop()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def full_disk(monkeypatch, when):
    """From the n-th on, what is written does not reach the disk."""
    real, calls = os.fsync, iter(range(10_000))

    def fsync(file):
        if when(next(calls)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_full_disk_does_not_end_the_training(bench, monkeypatch):
    full_disk(monkeypatch, lambda call: 6 <= call < 14)
    seen = bench.run(change(checkpoint_seconds=1e-9))
    failed = of(events.SaveFailed, seen)
    assert failed and "No space left on device" in failed[0].message
    assert len(of(events.Step, seen)) == 12 and bench.checkpoints.steps() == [11, 12]
    assert not list(bench.checkpoints.folder.glob(".*"))


def test_a_disk_that_is_full_at_the_end_is_an_error_and_the_last_checkpoint_stays(bench, monkeypatch):
    full_disk(monkeypatch, lambda call: call >= 20)
    with pytest.raises(
        CheckpointError, match=r"12: the checkpoint could not be written: No space left.*--resume goes on"
    ):
        bench.run(change(checkpoint_seconds=1e-9))
    monkeypatch.undo()
    steps = bench.checkpoints.steps()
    assert steps and 0 < steps[-1] < 12 and bench.checkpoints.latest().weights()
    assert not list(bench.checkpoints.folder.glob(".*"))


def test_old_checkpoints_that_cannot_be_removed_do_not_end_the_training(bench, monkeypatch):
    real = os.rename

    def rename(source, target):
        if str(target).endswith(".removed"):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    seen = bench.run(change(checkpoint_seconds=1e-9))
    assert seen[-1].reason == "done" and not of(events.SaveFailed, seen)
    assert bench.checkpoints.steps() == list(range(1, 13)) and bench.checkpoints.latest().weights()


def test_what_ctrl_c_could_not_save_is_an_error(bench, monkeypatch):
    full_disk(monkeypatch, lambda call: True)
    with pytest.raises(CheckpointError, match=r"1: the checkpoint could not be written"):
        bench.run(SGD, stop=lambda: True)


def test_a_folder_with_checkpoints_wants_resume(bench):
    bench.run(SGD)
    with pytest.raises(CheckpointError, match=r"expected no checkpoints of another training, received 12\..*--resume"):
        bench.run(SGD)


def test_resume_without_checkpoints_begins(bench):
    assert not bench.run(SGD, resume=True)[0].resumed


def test_resume_with_more_epochs_goes_on(bench):
    bench.run(SGD)
    seen = bench.run(change(epochs=4), resume=True)
    assert [e.step for e in of(events.Step, seen)] == [13, 14, 15, 16]


def test_resume_with_another_optimiser_is_an_error(bench):
    bench.run(SGD)
    with pytest.raises(CheckpointError, match=r"was trained with train\.optimizer = sgd, received adam"):
        bench.run(change(optimizer="adam"), resume=True)


def test_resume_with_another_metric_is_an_error(bench):
    # The scores so far are of the other metric: a best one among them would never be beaten, or at once.
    bench.run(change(metric="f1"), evaluate=bench.scored(0.5, 0.7, 0.6))
    with pytest.raises(CheckpointError, match=r"was trained with train\.metric = f1, received accuracy"):
        bench.run(change(metric="accuracy", epochs=5), evaluate=lambda: {"accuracy": 0.1}, resume=True)
    seen = bench.run(change(metric="f1", epochs=4), evaluate=bench.scored(0.65), resume=True)
    assert (seen[-1].best, seen[-1].best_step) == (0.7, 8)


def test_resume_of_another_model_is_an_error(bench):
    bench.run(SGD)
    bench.model.weight = torch.nn.Parameter(torch.zeros(7))
    with pytest.raises(CheckpointError, match=r"another model: for 'weight' expected \(7,\), received \(6,\)"):
        bench.run(SGD, resume=True)


def test_a_metric_that_the_task_does_not_have_is_an_error(bench):
    with pytest.raises(ConfigError, match=r"train\.metric: the evaluation gives no 'x'\. It gives: f1"):
        bench.run(change(metric="x"), evaluate=bench.scored(0.5))
    with pytest.raises(ConfigError, match=r"no 'acuracy'; did you mean 'accuracy'\? It gives: accuracy"):
        bench.run(change(metric="acuracy"), evaluate=lambda: {"accuracy": 0.5}, resume=True)


def test_an_evaluation_without_metrics_is_an_error(bench):
    with pytest.raises(ConfigError, match="gave no metrics"):
        bench.run(SGD, evaluate=dict)


def test_no_training_data_is_an_error(bench):
    bench.data.count = lambda epoch: 0
    with pytest.raises(DataError, match="the training data is empty"):
        bench.run(SGD)


def test_a_loader_that_miscounts_is_an_error(bench):
    bench.data.count = lambda epoch: 5
    with pytest.raises(DataError, match="epoch 0: expected 5 batches, as the loader counts, received 4"):
        bench.run(SGD)


def test_a_model_without_parameters_is_an_error(bench):
    bench.model.weight.requires_grad = False
    with pytest.raises(ConfigError, match="no parameters to train"):
        bench.run(SGD)


def test_a_device_that_is_not_here_is_an_error(bench):
    with pytest.raises(ConfigError, match=r"train\.device: .*received 'cuda:99'.*Choose 'cpu'"):
        bench.run(change(device="cuda:99"))


def test_no_epochs_leave_the_model_as_it_is(bench):
    seen = bench.run(change(epochs=0))
    assert [type(event).__name__ for event in seen] == ["Started", "Finished"]


def test_bfloat16_multiplies_in_bfloat16_and_keeps_float32_weights(tmp_path):
    from riverrun.nn.models.loss import Loss
    from riverrun.train.learner import Learner

    class Wide(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def loss(self, batch):
            y = self.layer(batch["x"])
            self.dtype = y.dtype
            return Loss((y.float() ** 2).sum(), tokens=4, sequences=4)

    import numpy as np

    from riverrun.data.batch import Batch

    for precision, dtype in (("bfloat16", torch.bfloat16), ("float32", torch.float32)):
        model = Wide()
        update = Learner(model, Train(precision=precision), torch.device("cpu")).update(
            [Batch(x=np.ones((4, 3), np.float32))], rate=0.1
        )
        assert update.finite and model.dtype == dtype and model.layer.weight.dtype == torch.float32
