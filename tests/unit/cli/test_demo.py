"""What the demo tells people to type."""

from __future__ import annotations

import shlex

import pytest

from riverrun.cli import demo
from riverrun.cli.export import Export


class Model:
    """Answers to whatever it is asked."""

    first_use = "echo 'Some text.' | riverrun predict {}"

    def __init__(self, *arguments: object, **more: object) -> None:
        pass

    load = classmethod(lambda cls, name: cls())

    def fit(self, *arguments: object, **more: object) -> None:
        pass

    def evaluate(self, path: object) -> None:
        pass

    def generate(self, *arguments: object, **more: object) -> list[object]:
        return []

    def export(self, folder: object, **more: object) -> list[str]:
        return []


@pytest.mark.parametrize(
    ("what", "name"),
    [("tagger", "riverrun.tasks.tagger.Tagger"), ("lm", "riverrun.tasks.language_model.LanguageModel")],
)
def test_what_to_type_next_can_be_typed(capsys, monkeypatch, tmp_path, what, name) -> None:
    monkeypatch.setattr(name, Model)
    monkeypatch.setattr(demo, "tagged", lambda model: "")
    monkeypatch.setattr(demo, "table", lambda report: "")
    monkeypatch.setattr(demo, "needs_torch", lambda what: None)
    out = tmp_path / "Eve's own"
    demo.Demo(what=what, out=str(out)).run()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("   ") and "riverrun" in line]
    words = [shlex.split(line) for line in lines]  # an apostrophe that is not quoted is an error here
    assert sum(str(out) in line for line in words) == 2


def test_export_says_a_command_that_can_be_typed(capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("riverrun.tasks.load", lambda model: Model())
    monkeypatch.setattr("riverrun.cli.export.needs_torch", lambda what: None)
    out = str(tmp_path / "Eve's own")
    Export(model="m", folder=out).run()
    said = capsys.readouterr().err
    assert shlex.split(said.partition("Try: ")[2])[-1] == out
