"""``riverrun train``: what is handed to the tagger, and what is said before, after and in place of a training."""

from __future__ import annotations

import errno
import json
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from riverrun import errors
from riverrun.cli import train as cli_train
from riverrun.cli.main import INTERRUPTED, WRONG_INPUT, run
from riverrun.cli.train import next_folder
from riverrun.errors import DataError


class Tagger:
    """Takes down what it is asked for; ``notes`` are those of a tagger."""

    first_use = "echo 'Some text.' | riverrun predict {}"

    asked: list[dict[str, Any]]
    answer: BaseException | None = None

    def __init__(self, recipe: Any) -> None:
        self.recipe = recipe
        self.notes = ["so it goes"]

    def fit(self, **keywords: Any) -> Tagger:
        Tagger.asked.append({"recipe": self.recipe, **keywords})
        if Tagger.answer is not None:
            raise Tagger.answer
        return self


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """What the tagger is asked for; in a folder of its own."""
    module = ModuleType("riverrun.tasks.tagger")
    module.Tagger = Tagger  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "riverrun.tasks.tagger", module)
    monkeypatch.setattr(errors, "find_spec", lambda name: object())
    monkeypatch.setattr(Tagger, "asked", [], raising=False)
    monkeypatch.setattr(Tagger, "answer", None)
    monkeypatch.chdir(tmp_path)
    return Tagger.asked


def test_the_recipe_with_its_settings_reaches_the_tagger(asked, capsys) -> None:
    line = "train tagger/upos a.conllu b.conllu --set train.epochs=3 --set model.chars=none --out here"
    assert run(line.split()) == 0
    (call,) = asked
    recipe = call["recipe"]
    assert (recipe.data.train, recipe.data.dev, recipe.train.epochs) == ("a.conllu", "b.conllu", 3)
    assert recipe.model.chars is None
    assert (call["out"], call["resume"], call["allow_import"]) == (Path("here"), False, False)
    out, said = capsys.readouterr()
    assert out == ""
    assert "tagger/upos -> here" in said and "Note: so it goes" in said
    assert "Try: echo 'Some text.' | riverrun predict here" in said


def test_resume_and_allow_import_reach_the_tagger(asked) -> None:
    assert run(["train", "tagger/upos", "a.conllu", "--out", "here", "--resume", "--allow-import"]) == 0
    assert (asked[0]["resume"], asked[0]["allow_import"]) == (True, True)


def test_a_folder_is_found_where_none_is_given(asked, tmp_path) -> None:
    (tmp_path / "runs" / "tagger" / "upos-1").mkdir(parents=True)
    assert run(["train", "tagger/upos", "a.conllu"]) == 0
    assert asked[0]["out"] == Path("runs/tagger/upos-2")
    assert asked[0]["out"].is_dir()  # before the training begins, so that no other run takes it
    assert next_folder("tagger/upos") == Path("runs/tagger/upos-3")


def test_two_runs_that_begin_together_have_each_its_folder(asked, monkeypatch) -> None:
    real = cli_train.next_folder

    def overtaken(recipe: str) -> Path:
        """Between the look and the making another run makes the folder."""
        folder = real(recipe)
        if folder.name == "upos-1":
            folder.mkdir(parents=True)
        return folder

    monkeypatch.setattr(cli_train, "next_folder", overtaken)
    for _ in range(2):
        assert run(["train", "tagger/upos", "a.conllu"]) == 0
    assert [call["out"].name for call in asked] == ["upos-2", "upos-3"]


@pytest.mark.parametrize("before", [None, "runs/other-1", "runs/tagger/upos-1"])
def test_a_run_that_fails_at_once_leaves_no_folder(asked, monkeypatch, tmp_path, before) -> None:
    if before:
        (tmp_path / before).mkdir(parents=True)
    found = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(Tagger, "answer", DataError("a.conllu: no such file"))
    assert run(["train", "tagger/upos", "a.conllu"]) == WRONG_INPUT
    assert asked[0]["out"].parent == Path("runs/tagger")
    assert sorted(tmp_path.rglob("*")) == found


def test_a_run_that_fails_later_keeps_what_it_wrote(asked, monkeypatch) -> None:
    def fit(self: Tagger, *, out: Path, **more: Any) -> None:
        (out / "checkpoint").mkdir()
        raise DataError("no more")

    monkeypatch.setattr(Tagger, "fit", fit)
    assert run(["train", "tagger/upos", "a.conllu"]) == WRONG_INPUT
    assert Path("runs/tagger/upos-1/checkpoint").is_dir()


def test_for_machines_every_line_is_an_object(asked, capsys, monkeypatch) -> None:
    assert run(["train", "tagger/upos", "a.conllu", "--out", "a b", "--json"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert said == [
        {"event": "run", "recipe": "tagger/upos", "out": "a b"},
        {"event": "note", "note": "so it goes"},
        {"event": "done", "out": "a b", "try": "echo 'Some text.' | riverrun predict 'a b'"},
    ]
    monkeypatch.setattr(Tagger, "answer", KeyboardInterrupt())
    assert run(["train", "tagger/upos", "a.conllu", "--out", "here", "--json"]) == INTERRUPTED
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [each["event"] for each in said] == ["run", "stopped", "failed"]
    assert said[1]["again"] == "riverrun train tagger/upos a.conllu --out here"


def test_what_a_finished_run_may_do_without_is_said(asked, capsys) -> None:
    Path("here/checkpoint").mkdir(parents=True)
    assert run(["train", "tagger/upos", "a.conllu", "--out", "here"]) == 0
    assert "Done: here (here/checkpoint is not needed any more and may be deleted). Try: " in capsys.readouterr().err


@pytest.mark.parametrize("begun", [False, True])
def test_after_a_failure_it_says_whether_something_is_left(asked, capsys, monkeypatch, begun) -> None:
    def fit(self: Tagger, *, listeners: Any, **more: Any) -> None:
        Path("here/checkpoint/3").mkdir(parents=True)
        if begun:
            listeners[-1](None)
        raise OSError(errno.ENOSPC, "No space left on device", "here/model.safetensors")

    monkeypatch.setattr(Tagger, "fit", fit)
    assert run(["train", "tagger/upos", "a.conllu", "--out", "here"]) == WRONG_INPUT
    said = capsys.readouterr().err
    assert (
        "What was saved is kept. To go on: riverrun train tagger/upos a.conllu --out here --resume" in said
    ) == begun
    assert "No space left on device. Free some space, or write to another disk\n" in said


@pytest.mark.parametrize("begun", [False, True])
def test_ctrl_c_says_how_to_go_on(asked, capsys, monkeypatch, tmp_path, begun) -> None:
    monkeypatch.setattr(Tagger, "answer", KeyboardInterrupt())
    if begun:
        (tmp_path / "a b" / "checkpoint").mkdir(parents=True)
    given = ["train", "tagger/upos", "a.conllu", "--set", "data.columns={tag='x y'}", "--out", "a b", "--allow-import"]
    assert run(given) == INTERRUPTED
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Stopped. To go on: ")]
    # Nothing is there to be resumed while nothing was written.
    expected = [*given, "--resume"] if begun else given
    assert shlex.split(line.removeprefix("Stopped. To go on: ")) == ["riverrun", *expected]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train tagger/upos", "data.train: the recipe tagger/upos names no training file. Give one: riverrun train"),
        ("train tagger/upso a", "tagger/upso: no shipped recipe has this name; did you mean 'tagger/upos'?"),
        ("train tagger/upos a --set train.epoch=3", "train.epoch: unknown key; did you mean 'epochs'?"),
        ("train tagger/upos a --resume", "--resume: which run? Give its folder with --out"),
    ],
)
def test_what_is_wrong_is_said_before_anything_begins(asked, capsys, line, message) -> None:
    assert run(line.split()) == WRONG_INPUT
    assert capsys.readouterr().err.startswith(f"ConfigError: {message}")
    assert not asked


def test_without_torch_the_line_that_installs_it_is_said(asked, capsys, monkeypatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    assert run(["train", "tagger/upos", "a"]) == WRONG_INPUT
    assert capsys.readouterr().err == (
        "ConfigError: training needs the package 'torch', which is not installed. "
        "Install it with: pip install 'riverrun[train]'\n"
    )
    assert run(["export", "somewhere", "else"]) == WRONG_INPUT
    assert "exporting a model needs the package 'torch'" in capsys.readouterr().err
