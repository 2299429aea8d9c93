"""``riverrun predict``: what is handed to the task, and what is said of the file when it was read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from riverrun import tasks
from riverrun.cli.main import WRONG_INPUT, run
from riverrun.errors import DataError

NOTE = "a.txt: not UTF-8; read as Latin-1"


class Task:
    """Takes down what it is asked for; what it has to say of a file it knows when it was read."""

    def __init__(self) -> None:
        self.notes = ["the training is not finished"]
        self.asked: list[Any] = []
        self.answer: BaseException | None = None

    def predict_file(self, source: str, target: str, **keywords: Any) -> None:
        self.asked.append({"source": source, "target": target, **keywords})
        print("ada\tI-PER")
        self.notes.append(NOTE)
        if self.answer is not None:
            raise self.answer


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    """The task that is loaded, whatever the model."""
    task = Task()

    def load(model: str, *, threads: int | None) -> Task:
        task.asked.append((model, threads))
        return task

    monkeypatch.setattr(tasks, "load", load)
    return task


def test_what_is_asked_reaches_the_task(task) -> None:
    line = "predict model a.txt --out b --format conll --columns form=1,tag='x' --encoding koi8-r --json --threads 3"
    assert run(line.split()) == 0
    assert task.asked == [
        ("model", 3),
        {
            "source": "a.txt",
            "target": "b",
            "format": "conll",
            "columns": {"form": 1, "tag": "x"},
            "encoding": "koi8-r",
            "as_json": True,
        },
    ]


def test_what_is_not_asked_is_left_to_the_task(task) -> None:
    assert run(["predict", "model"]) == 0
    assert task.asked == [
        ("model", None),
        {"source": "-", "target": "-", "format": None, "columns": None, "encoding": None, "as_json": False},
    ]


def test_what_was_noted_while_the_file_was_read_is_said(task, capsys) -> None:
    assert run(["predict", "model", "a.txt"]) == 0
    out, said = capsys.readouterr()
    assert out == "ada\tI-PER\n"
    assert said == f"Note: the training is not finished\nNote: {NOTE}\n"


def test_a_mistake_is_said_alone(task, capsys) -> None:
    task.answer = DataError("a.txt:3: a binary file")
    assert run(["predict", "model", "a.txt"]) == WRONG_INPUT
    assert capsys.readouterr().err == "DataError: a.txt:3: a binary file\n"


@pytest.mark.train
def test_a_file_in_an_old_encoding(exported_folder: Path, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.conll").write_bytes("ada\tI-PER\ncafé\tO\n\n".encode("latin-1"))
    line = ["predict", str(exported_folder), "a.conll"]
    assert run([*line, "--encoding", "latin-1"]) == 0
    answer, said = capsys.readouterr()
    assert answer.split()[::2] == ["ada", "café"] and said == ""
    assert run(line) == 0
    note = "Note: a.conll: not UTF-8; read as Latin-1; name it with --encoding\n"
    assert capsys.readouterr() == (answer, note)
    assert run([*line, "--encoding", "koi8-r", "--out", "b.conll"]) == 0
    assert Path("b.conll").read_text(encoding="utf-8").split()[2] == "cafИ"
    assert run([*line, "--encoding", "latin-x"]) == WRONG_INPUT
    assert "ConfigError: --encoding: unknown encoding 'latin-x'" in capsys.readouterr().err
