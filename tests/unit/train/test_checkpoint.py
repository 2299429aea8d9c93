"""Checkpoints: complete or absent, the newest and the best, and what is said of a damaged one."""

from __future__ import annotations

import errno
import json
import os
import shutil

import msgspec
import pytest

torch = pytest.importorskip("torch")

from riverrun.config.train import Train  # noqa: E402
from riverrun.errors import CheckpointError  # noqa: E402
from riverrun.train.checkpoint import Checkpoints  # noqa: E402
from riverrun.train.progress import Progress  # noqa: E402

pytestmark = pytest.mark.train

SETTINGS = msgspec.json.decode(msgspec.json.encode(Train()))


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoint")


def save(checkpoints, step, score=None, size=3):
    tensor = torch.full((size,), float(step))
    return checkpoints.save(
        Progress(step=step), weights={"w": tensor}, state={"s": -tensor}, settings=Train(), score=score
    )


def test_a_checkpoint_comes_back(checkpoints):
    path = save(checkpoints, 7, score=0.5)
    assert path == checkpoints.folder / "7" and sorted(os.listdir(path)) == [
        "checkpoint.json",
        "model.safetensors",
        "state.safetensors",
    ]
    found = checkpoints.latest()
    assert (found.record.progress.step, found.record.score, found.record.settings) == (7, 0.5, SETTINGS)
    assert found.weights()["w"].tolist() == [7, 7, 7] and found.state()["s"].tolist() == [-7, -7, -7]


def test_where_nothing_was_saved_there_is_nothing(checkpoints):
    assert (checkpoints.steps(), checkpoints.latest(), checkpoints.best()) == ([], None, None)


@pytest.mark.parametrize(
    ("scores", "kept", "best"),
    [
        ([None, None, None, None], [3, 4], 4),
        ([0.5, 0.9, 0.7, 0.6], [2, 3, 4], 2),
        ([0.5, 0.9, 0.9, 0.9, 0.1], [2, 4, 5], 2),
        ([-9.0, -7.0, None, None], [2, 3, 4], 2),
        ([0.1, 0.2, 0.3, 0.4], [3, 4], 4),
        ([float("-inf"), 0.0, float("nan"), None], [2, 3, 4], 2),
    ],
)
def test_the_two_newest_and_the_best_stay(checkpoints, scores, kept, best):
    for step, score in enumerate(scores, 1):
        save(checkpoints, step, score)
    assert checkpoints.steps() == kept
    assert checkpoints.best().record.progress.step == best
    assert checkpoints.latest().record.progress.step == len(scores)
    assert sorted(os.listdir(checkpoints.folder)) == sorted(map(str, kept))


def test_what_a_killed_process_left_is_not_a_checkpoint_and_goes_away(checkpoints):
    save(checkpoints, 1)
    for name in (".2.partial", ".1.removed"):
        (checkpoints.folder / name).mkdir()
        (checkpoints.folder / name / "model.safetensors").write_bytes(b"half")
    assert checkpoints.steps() == [1]
    save(checkpoints, 3)
    assert sorted(os.listdir(checkpoints.folder)) == ["1", "3"]


@pytest.mark.parametrize("call", range(5))
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_at_any_write_leaves_what_was_there(checkpoints, monkeypatch, call, number):
    save(checkpoints, 1, 0.5)
    real, calls = os.fsync, iter(range(10))

    def fsync(file):
        if next(calls) == call:
            raise OSError(number, os.strerror(number))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(CheckpointError, match=rf"2: the checkpoint could not be written: {os.strerror(number)}"):
        save(checkpoints, 2, 0.6)
    monkeypatch.undo()
    assert checkpoints.steps()[0] == 1 and checkpoints.read(1).weights()["w"].tolist() == [1, 1, 1]
    for step in checkpoints.steps():  # the last call comes after the renaming: both are there, and whole
        assert checkpoints.read(step).state()
    assert not list(checkpoints.folder.glob(".*"))
    save(checkpoints, 2, 0.6)
    assert checkpoints.best().record.progress.step == 2


def test_what_could_not_be_removed_goes_with_the_next_one(checkpoints, monkeypatch):
    real = os.rename

    def rename(source, target):
        if str(target).endswith(".removed"):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    for step, score in ((1, 0.9), (2, 0.5), (3, 0.4), (4, 0.6)):
        assert save(checkpoints, step, score) == checkpoints.folder / str(step)
    assert checkpoints.steps() == [1, 2, 3, 4] and checkpoints.best().record.progress.step == 1
    monkeypatch.undo()
    save(checkpoints, 5, 0.1)
    assert checkpoints.steps() == [1, 4, 5]


@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_an_old_checkpoint_that_is_damaged_is_no_matter_to_a_new_one(checkpoints, damage):
    file = save(checkpoints, 1) / "checkpoint.json"
    file.unlink() if damage == "gone" else file.write_text("{")
    for step in (2, 3, 4):
        save(checkpoints, step)
        assert checkpoints.latest().weights()["w"].tolist() == [step] * 3
    assert checkpoints.steps() == [1, 2, 3, 4]  # which of them is the best cannot be said
    shutil.rmtree(checkpoints.folder / "1")  # as the message says
    save(checkpoints, 5)
    assert checkpoints.steps() == [4, 5]


@pytest.mark.skipif(os.name == "nt", reason="Windows limits no file sizes")
def test_a_real_limit_leaves_the_last_checkpoint(checkpoints):
    import resource

    save(checkpoints, 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, before[1]))
    try:
        with pytest.raises(CheckpointError, match="2: the checkpoint could not be written: File too large"):
            save(checkpoints, 2, size=1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(checkpoints.folder) == ["1"] and checkpoints.latest().weights()


@pytest.mark.parametrize("name", ["model.safetensors", "state.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_damaged_file_is_found_and_the_way_out_is_named(checkpoints, name, damage):
    file = save(checkpoints, 5) / name
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(data[:-1] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    why = "cannot be read" if damage == "gone" else "is not the file that was written"
    with pytest.raises(
        CheckpointError, match=rf"this checkpoint is damaged: {name} {why}.*Remove the folder .*5 to go"
    ):
        (checkpoints.latest().weights if name.startswith("model") else checkpoints.latest().state)()


def test_a_record_that_is_damaged_or_of_another_format(checkpoints):
    file = save(checkpoints, 5) / "checkpoint.json"
    record = json.loads(file.read_bytes())
    file.write_text(json.dumps({**record, "format": 99}))
    with pytest.raises(CheckpointError, match="expected format 1, received format 99"):
        checkpoints.latest()
    for text in ("{", "{}", '{"format": 1}'):
        file.write_text(text)
        with pytest.raises(CheckpointError, match=r"damaged: checkpoint\.json is not what this release writes"):
            checkpoints.latest()
    file.unlink()
    with pytest.raises(CheckpointError, match=r"damaged: checkpoint\.json cannot be read"):
        checkpoints.latest()


def test_saving_a_step_again_replaces_it(checkpoints):
    save(checkpoints, 2, 0.5)
    save(checkpoints, 2, 0.7)
    assert checkpoints.latest().record.score == 0.7
    assert os.listdir(checkpoints.folder) == ["2"]


def test_it_may_be_moved(checkpoints, tmp_path):
    save(checkpoints, 2, 0.5)
    shutil.move(checkpoints.folder, tmp_path / "elsewhere")
    assert Checkpoints(tmp_path / "elsewhere").latest().weights()
