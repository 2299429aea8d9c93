"""From what went wrong to a line on stderr and an exit code."""

from __future__ import annotations

import errno
import os

import pytest

from riverrun.cli import main
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
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "a.txt"), 1, "a.txt: No such file or directory"),
        (PermissionError(errno.EACCES, "Permission denied", "a.txt"), 1, "a.txt: Permission denied"),
        (OSError("something else"), 1, "something else"),
        (
            OSError(errno.ENOSPC, "No space left on device", "a.txt"),
            1,
            "a.txt: No space left on device. Free some space, or write to another disk with --out; "
            "a run continues with --resume",
        ),
        (
            MemoryError(),
            1,
            "Out of memory. Smaller batches need less: --set train.batch=8, or --set train.tokens=512",
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
