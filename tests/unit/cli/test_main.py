"""From what went wrong to a line on stderr and an exit code."""

from __future__ import annotations

import errno
import json
import os
import sys

import pytest

from riverrun.cli import main
from riverrun.cli.commands import VERBS
from riverrun.cli.main import run
from riverrun.errors import CheckpointError, ConfigError, DataError, ShapeError, StateError
from riverrun.version import __version__


def failing(monkeypatch: pytest.MonkeyPatch, wrong: BaseException) -> None:
    def verb(arguments: object) -> None:
        raise wrong

    monkeypatch.setattr(main, "_do", verb)


@pytest.mark.parametrize("kind", [ConfigError, DataError, ShapeError, StateError, CheckpointError])
def test_an_error_of_ours_is_its_message(capsys, monkeypatch, kind) -> None:
    failing(monkeypatch, kind("a.txt:3: expected this\nand that"))
    assert run([]) == 1
    assert capsys.readouterr() == ("", f"{kind.__name__}: a.txt:3: expected this\nand that\n")


@pytest.mark.parametrize(
    ("wrong", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "Interrupted."),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "a.txt"),
            1,
            "a.txt: No such file or directory. Was it removed meanwhile? Look at the path",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "a.txt"),
            1,
            "a.txt: Permission denied. Change its rights, or name another place",
        ),
        (
            NotADirectoryError(errno.ENOTDIR, "Not a directory", "a/b"),
            1,
            "a/b: Not a directory. A part of this path is a file; expected a folder",
        ),
        (OSError("something else"), 1, "something else"),
        (
            OSError(errno.ENOSPC, "No space left on device", "a.txt"),
            1,
            "a.txt: No space left on device. Free some space, or write to another disk",
        ),
        (
            MemoryError(),
            1,
            "Out of memory. A smaller model or smaller batches need less, for example --set train.batch=8",
        ),
    ],
)
def test_what_the_system_says_is_a_line(capsys, monkeypatch, wrong, code, line) -> None:
    failing(monkeypatch, wrong)
    assert run([]) == code
    assert capsys.readouterr() == ("", f"{line}\n")


def test_a_mistake_of_ours_is_not_hidden(monkeypatch) -> None:
    failing(monkeypatch, AssertionError("a bug"))
    with pytest.raises(AssertionError, match="a bug"):
        run([])


def test_the_version(capsys) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"riverrun {__version__}\n"


@pytest.mark.parametrize("line", ["", "trian", "train", "train tagger/upos --no-such-option", "data", "demo parser"])
def test_a_wrong_command_line_is_2(capsys, line) -> None:
    with pytest.raises(SystemExit) as ended:
        run(line.split())
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == "" and err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("trian", "riverrun: unknown verb 'trian'; did you mean 'train'? Expected one of demo, train, "),
        ("data chek", "riverrun data: unknown verb 'chek'; did you mean 'check'? Expected one of check, verify; see "),
        ("--versoin", "riverrun: unknown option '--versoin'; did you mean '--version'? "),
        ("train tagger/upos --no-such", "riverrun train --help"),
    ],
)
def test_a_wrong_word_is_corrected_and_the_help_named(capsys, line, said) -> None:
    with pytest.raises(SystemExit):
        run(line.split())
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", VERBS)
def test_help_shows_what_may_be_left_out_and_no_noise(capsys, name) -> None:
    with pytest.raises(SystemExit):
        run([*name.split(), "--help"])
    said = capsys.readouterr().out
    assert f"usage: riverrun {name}" in said
    assert "{None}" not in said and "(default: None)" not in said and "(default: False)" not in said
    if name == "train":
        assert "RECIPE [TRAIN] [DEV]" in said


def test_the_help_of_all_names_every_verb_and_the_version(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0 and "riverrun --version" in said and all(f"  {name}  " in said for name in VERBS)


def test_errors_name_the_options_that_a_verb_has(capsys, monkeypatch) -> None:
    failing(monkeypatch, DataError("a: name it with data.encoding or data.columns"))
    run(["predict"])
    assert capsys.readouterr().err == "DataError: a: name it with --encoding or --columns\n"
    run(["train"])
    assert capsys.readouterr().err == "DataError: a: name it with data.encoding or data.columns\n"


@pytest.mark.parametrize("wrong", [DataError("no \udcff"), OSError(errno.EROFS, "Read-only", "a"), MemoryError()])
def test_for_machines_an_error_is_an_object_too(capsys, monkeypatch, wrong) -> None:
    failing(monkeypatch, wrong)
    assert run(["train", "tagger/upos", "--json"]) == 1
    said = json.loads(capsys.readouterr().err)
    assert said["event"] == "failed" and said["message"]


def test_without_stderr_nothing_is_said(capsys, monkeypatch) -> None:
    failing(monkeypatch, DataError("a"))
    monkeypatch.setattr(sys, "stderr", None)
    assert run(["predict"]) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("verb", ["", "train", "evaluate", "predict", "export", "data check", "recipes", "doctor"])
def test_every_verb_has_help(capsys, verb) -> None:
    with pytest.raises(SystemExit) as ended:
        run([*verb.split(), "--help"])
    assert ended.value.code == 0
    assert "usage: riverrun" in capsys.readouterr().out


def test_columns_that_are_none_are_an_error(capsys) -> None:
    assert run(["data", "check", os.devnull, "--columns", "form"]) == 1
    assert capsys.readouterr().err == (
        'ConfigError: --columns: expected for example "form=0, tag=upos", received "form"\n'
    )
