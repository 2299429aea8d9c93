"""What is said of a training, and that listening never ends one."""

from __future__ import annotations

import errno
import io
import json
import os

import msgspec
import pytest

from riverrun.cli.progress import Bar, Due, Lines, Log, listeners, sentence, until_it_fails
from riverrun.train import events

AT = {"step": 3, "total": 9, "epoch": 1, "elapsed": 65.0}
STEP = events.Step(loss=0.5, parts={}, rate=0.1, norm=2.0, tokens=7, speed=1234.0, remaining=90.0, **AT)

SAID: list[tuple[events.Event, str]] = [
    (events.Prepared(facts={"train": "9 sentences", "tags": "3"}, **AT), "train  9 sentences\ntags   3"),
    (
        events.Started(parameters=12345, device="cpu", precision="float32", resumed=False, **AT),
        "training 12,345 parameters for 9 steps on cpu",
    ),
    (
        events.Started(parameters=12345, device="cpu", precision="float32", resumed=True, **AT),
        "continuing at step 3 of 9 on cpu",
    ),
    (
        events.Evaluated(
            loss=0.25, metrics={"f1": 0.5}, metric="f1", improved=True, best=0.5, waited=0, patience=None, **AT
        ),
        "epoch 1  loss 0.2500  f1 0.5000  1 min 5 s  (best)",
    ),
    (
        events.Evaluated(
            loss=None, metrics={"f1": None}, metric="f1", improved=False, best=None, waited=1, patience=None, **AT
        ),
        "epoch 1  loss none  f1 none  1 min 5 s",
    ),
    (
        events.Skipped(loss=float("nan"), norm=1.0, in_a_row=1, **AT),
        "step 3: loss nan, gradient norm 1.0: not finite, left out",
    ),
    (
        events.RolledBack(failed=5, loss=float("inf"), norm=1.0, rollbacks=1, **AT),
        "step 5: loss inf, gradient norm 1.0: back to step 3",
    ),
    (events.SaveFailed(message="no room", **AT), "no room. The training goes on and tries again"),
    (events.Interrupted(path="out/checkpoint/3", **AT), "interrupted at step 3, saved in out/checkpoint/3"),
    (
        events.Finished(reason="patience", best=0.5, best_step=2, **AT),
        "the dev metric no longer improved after 3 steps, 1 min 5 s; best 0.5000 at step 2",
    ),
    (events.Finished(reason="done", best=None, best_step=3, **AT), "done after 3 steps, 1 min 5 s"),
    (events.Saved(path="p", **AT), ""),
]


@pytest.mark.parametrize(("event", "text"), SAID, ids=[type(event).__name__ for event, _ in SAID])
def test_each_event_has_its_sentence(event: events.Event, text: str) -> None:
    assert sentence(event) == text


def test_every_kind_of_event_is_here() -> None:
    assert {type(event) for event, _ in SAID} | {events.Step} == set(events.Event.__subclasses__())


def test_lines_say_a_step_now_and_then_and_all_else_at_once() -> None:
    stream = io.StringIO()
    lines = Lines(stream, interval=3600)
    for event in (STEP, STEP, SAID[1][0], STEP):
        lines(event)
    assert stream.getvalue().splitlines() == [
        "step 3/9  loss 0.5000  1,234 tokens/s  1 min 30 s left",
        "training 12,345 parameters for 9 steps on cpu",
    ]


def test_the_bar_shows_the_step_and_the_sentences() -> None:
    stream = io.StringIO()
    with Bar(stream) as bar:
        for event in (SAID[0][0], SAID[1][0], STEP, SAID[3][0]):
            bar(event)
    said = stream.getvalue()
    assert "train  9 sentences" in said and "f1 0.5000" in said


def test_the_bar_counts_what_there_is(monkeypatch) -> None:
    stream = io.StringIO()
    bar = Bar(stream)

    def shown() -> tuple[object, ...]:
        (task,) = bar._progress.tasks
        return task.fields["epoch"], task.fields["steps"]

    at = {"total": 128, "elapsed": 1.0}
    assert shown() == ("reading", "")
    bar(events.Prepared(facts={}, step=0, total=0, epoch=0, elapsed=0.0))
    assert shown() == ("reading", "")
    bar(events.Saved(path="p", step=64, epoch=1, **at))
    assert shown() == ("epoch 2", "64/128")
    bar(events.Saved(path="p", step=128, epoch=2, **at))
    assert shown() == ("epoch 2", "128/128")
    bar(events.Finished(reason="patience", best=None, best_step=1, step=64, epoch=1, **at))
    assert shown() == ("epoch 1", "64/128")


def test_what_is_very_long_or_large_is_cut() -> None:
    facts = {"first sentence": "word/NOUN " * 500}
    said = sentence(events.Prepared(facts=facts, **AT))
    assert len(said) < 300 and said.endswith("word/NOUN ...")
    stream = io.StringIO()
    Lines(stream)(msgspec.structs.replace(STEP, loss=37797851587695659125504055705600.0))
    assert "loss 3.78e+31 " in stream.getvalue()


def test_the_log_holds_every_event_and_some_steps(tmp_path) -> None:
    with Log(tmp_path / "new" / "metrics.jsonl", interval=3600) as log:
        for event in (SAID[1][0], STEP, STEP, SAID[3][0]):
            log(event)
    lines = (tmp_path / "new" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["started", "step", "evaluated"]
    with Log(tmp_path / "new" / "metrics.jsonl") as log:  # a resumed run writes on
        log(SAID[1][0])
    assert len((tmp_path / "new" / "metrics.jsonl").read_text().splitlines()) == 4


def test_a_run_that_said_nothing_leaves_no_folder(tmp_path) -> None:
    with listeners(tmp_path / "out", stream=io.StringIO()):
        pass
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows limits no file sizes")
def test_a_full_disk_leaves_events_out_of_the_log_and_no_half_lines(tmp_path) -> None:
    import resource

    path = tmp_path / "metrics.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Log(path, interval=0) as log:
        log(STEP)
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + size // 2, before[1]))
        try:
            log(STEP)  # a part of it has room
            log(STEP)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        log(SAID[3][0])
    lines = path.read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["step", "evaluated"]


def test_who_cannot_be_spoken_to_is_spoken_to_no_more() -> None:
    heard = []

    def gone(event: events.Event) -> None:
        heard.append(event)
        raise OSError(errno.EIO, "the terminal is gone")

    hear = until_it_fails(gone)
    hear(STEP)
    hear(STEP)
    assert len(heard) == 1


def test_json_is_an_object_an_event(tmp_path) -> None:
    stream = io.StringIO()
    with listeners(tmp_path, as_json=True, stream=stream) as (_, speak):
        speak(STEP)
        speak(STEP)
    objects = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert objects == 2 * [msgspec.json.decode(msgspec.json.encode(STEP))]


def test_due_is_true_at_first_and_after_the_interval() -> None:
    due, always = Due(3600), Due(0)
    assert [due(), due()] == [True, False]
    assert [always(), always()] == [True, True]
