"""The model folder: whole or not there, whatever fails; found by path or name."""

from __future__ import annotations

import errno
import hashlib
import os

import msgspec
import pytest

from riverrun.errors import CheckpointError
from riverrun.tasks import folder, load

CONFIG = folder.Config(format=folder.FORMAT, task="tagger", riverrun="0", recipe={})
OLD = {"model": b"old", "vocab/a.json": b"old", "README.md": b"old", "only": b"old"}
NEW = {"model": b"new", "vocab/a.json": b"new", "README.md": b"new"}


def sums(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != "README.md"}


def test_what_is_written_is_read(tmp_path):
    folder.write(tmp_path / "a" / "b", CONFIG, NEW)
    config = folder.read(tmp_path / "a" / "b")
    assert config == msgspec.structs.replace(CONFIG, files=sums(NEW))
    assert folder.task_of(tmp_path / "a" / "b") == "tagger"
    assert (tmp_path / "a" / "b" / "config.json").read_bytes().endswith(b"}\n")


@pytest.mark.parametrize("call", range(6))
def test_a_model_that_was_not_written_to_its_end_is_never_taken_for_a_whole_one(tmp_path, monkeypatch, call):
    folder.write(tmp_path, CONFIG, OLD)
    real, calls = os.fsync, iter(range(100))

    def fsync(file):
        if next(calls) == call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    failed = False
    try:
        folder.write(tmp_path, CONFIG, NEW)
    except OSError:
        failed = True
    monkeypatch.undo()
    assert failed == (call < 5)  # three files, the config, the folder
    if failed and call < 4:
        with pytest.raises(CheckpointError, match=r"no config\.json; this is not a finished model"):
            folder.read(tmp_path)
    else:
        assert folder.read(tmp_path).files == sums(NEW)
    assert not list(tmp_path.rglob(".*"))
    folder.write(tmp_path, CONFIG, NEW)
    assert folder.read(tmp_path).files == sums(NEW)


def test_what_only_the_model_before_had_goes_away(tmp_path):
    folder.write(tmp_path, CONFIG, OLD)
    (tmp_path / "mine").touch()
    folder.write(tmp_path, CONFIG, NEW)
    assert not (tmp_path / "only").exists() and (tmp_path / "mine").exists()


def test_a_file_that_is_named_already_is_kept(tmp_path):
    (tmp_path / "graph").write_bytes(b"graph")
    folder.write(tmp_path, msgspec.structs.replace(CONFIG, files=sums({"graph": b"graph"})), NEW)
    assert folder.read(tmp_path).files == sums({"graph": b"graph", **NEW})


def test_a_damaged_config_names_no_file_to_take_away(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (tmp_path / "mine").touch()
    config = msgspec.structs.replace(CONFIG, files={"../mine": "0"})
    (model / "config.json").write_bytes(msgspec.json.encode(config))
    folder.write(model, CONFIG, NEW)
    assert (tmp_path / "mine").exists()
    (model / "config.json").write_bytes(b"{")
    folder.write(model, CONFIG, NEW)
    assert folder.read(model).files == sums(NEW)


def test_a_model_is_found_by_path_or_name(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "bundled", lambda: {"en-upos": tmp_path})
    assert folder.find("en-upos") == tmp_path == folder.find(tmp_path) == folder.find(str(tmp_path))
    with pytest.raises(
        CheckpointError, match=r"en-upso: no such folder, .*; did you mean 'en-upos'\? \(bundled: en-upos\)"
    ):
        folder.find("en-upso")


def test_the_unfinished_run_is_looked_at_only_where_there_is_no_finished_one(tmp_path):
    folder.write(tmp_path / "checkpoint", CONFIG, {"a": b""})
    assert folder.root(tmp_path) == (tmp_path / "checkpoint", True)
    folder.write(tmp_path, CONFIG, {"a": b""})
    assert folder.root(tmp_path) == (tmp_path, False)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match=r"empty: no config\.json; this is not a finished model.*--resume"):
        load(tmp_path / "empty")


def test_what_failed_leaves_the_place_as_it_was(tmp_path):
    place = tmp_path / "a" / "b"
    with pytest.raises(ValueError), folder.left_as_found(place):
        (place / "checkpoint").mkdir(parents=True)
        (place / "metrics.jsonl").touch()
        raise ValueError
    assert os.listdir(tmp_path) == []
    (place / "checkpoint").mkdir(parents=True)
    (place / "checkpoint" / "mine").touch()
    with pytest.raises(ValueError), folder.left_as_found(place):
        (place / "cache").mkdir()
        (place / "other").touch()
        raise ValueError
    assert sorted(os.listdir(place)) == ["checkpoint", "other"] and (place / "checkpoint" / "mine").exists()
    with pytest.raises(ValueError), folder.left_as_found(place):
        (place / "cache").mkdir()
        (place / "checkpoint" / "12").mkdir()
        raise ValueError
    assert (place / "cache").exists()  # a run that can be resumed


@pytest.mark.skipif(os.name == "nt", reason="Windows wants a privilege for a link")
def test_a_hubs_cache_of_links_is_a_model(tmp_path):
    # As huggingface_hub keeps them: a snapshot is made of links to files that are named by their sums.
    folder.write(tmp_path / "whole", CONFIG, NEW)
    snapshot, blobs = tmp_path / "snapshots" / "main", tmp_path / "blobs"
    blobs.mkdir()
    for k, path in enumerate(p for p in (tmp_path / "whole").rglob("*") if p.is_file()):
        link = snapshot / path.relative_to(tmp_path / "whole")
        link.parent.mkdir(parents=True, exist_ok=True)
        path.rename(blobs / str(k))
        link.symlink_to(os.path.relpath(blobs / str(k), link.parent))
    assert folder.read(snapshot).files == sums(NEW)
    (blobs / "changed").write_bytes(b"changed")
    (snapshot / "model").unlink()
    (snapshot / "model").symlink_to(blobs / "changed")
    with pytest.raises(CheckpointError, match="model: its SHA-256 is not the one in"):
        folder.read(snapshot)


@pytest.mark.parametrize("name", ["../mine", "vocab/../../mine", "..", "vocab/..", "/mine", "{}/mine"])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path, name):
    model = tmp_path / "model"
    (tmp_path / "mine").write_bytes(b"old")
    name = name.format(tmp_path)
    folder.write(model, CONFIG, NEW)
    listed = msgspec.structs.replace(CONFIG, files={name: hashlib.sha256(b"old").hexdigest(), **sums(NEW)})
    (model / "config.json").write_bytes(msgspec.json.encode(listed))
    with pytest.raises(CheckpointError, match=f"the file name {name!r} leads out of the folder"):
        folder.read(model)
