"""``riverrun evaluate``: what is handed to the task, and that how spans are counted can be chosen and is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from riverrun import tasks
from riverrun.cli.main import WRONG_INPUT, run
from riverrun.config.recipe import load_recipe
from riverrun.metrics.report import Report


class Task:
    """Takes down what it is asked for."""

    notes = ("a note",)

    def __init__(self, recipe: str) -> None:
        self.recipe = load_recipe(recipe)
        self.asked: list[Any] = []

    def evaluate(self, source: str, *, format: Any = "", columns: Any = "", scoring: Any = "") -> Report:
        self.asked.append((source, format, columns, scoring))
        return Report(task="tagger", n=1, metrics={"f1": 0.5}, signature="spans:strict|scheme:iob2|v1")


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    """The task that is loaded, whatever the model."""
    task = Task("tagger/ner")
    monkeypatch.setattr(tasks, "load", lambda model, **keywords: task)
    return task


@pytest.mark.parametrize("scoring", ["conlleval", "strict"])
def test_how_spans_are_counted_reaches_the_task(task, capsys, scoring) -> None:
    assert run(["evaluate", "model", "a.conll", "--scoring", scoring]) == 0
    assert task.asked == [("a.conll", "", "", scoring)]  # what is not asked is left to the task
    assert capsys.readouterr() == ("f1  0.5000\n\nspans:strict|scheme:iob2|v1\n", "Note: a note\n")


def test_format_and_columns_reach_the_task(task) -> None:
    assert run(["evaluate", "model", "a.conll", "--format", "conll", "--columns", "tag=3"]) == 0
    assert task.asked == [("a.conll", "conll", {"tag": 3}, "")]


def test_another_task_has_no_spans(task, capsys, monkeypatch) -> None:
    monkeypatch.setattr(task, "evaluate", lambda source, *, format=None: None)
    assert run(["evaluate", "model", "a.txt", "--scoring", "strict"]) == WRONG_INPUT
    assert "ConfigError: --scoring: means nothing to the task" in capsys.readouterr().err


@pytest.mark.train
def test_the_signature_says_how_it_was_counted(exported_folder, names_data, capsys) -> None:
    for scoring in ("conlleval", "strict"):
        line = ["evaluate", str(exported_folder), str(names_data / "dev.conll"), "--json", "--scoring", scoring]
        assert run(line) == 0
        assert json.loads(capsys.readouterr().out)["signature"] == f"spans:{scoring}|scheme:iob1|v1"
