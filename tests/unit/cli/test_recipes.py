"""``riverrun recipes``: the list, a recipe, its settings, the schema."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from riverrun.cli.main import run
from riverrun.config import decode_recipe, load_recipe, shipped_recipes


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["recipes", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_list_names_every_recipe_and_what_it_cites(capsys) -> None:
    lines = said(capsys).splitlines()
    assert [line.split()[0] for line in lines] == list(shipped_recipes())
    assert all(line.endswith(load_recipe(line.split()[0]).cites) for line in lines)
    objects = [json.loads(line) for line in said(capsys, "--json").splitlines()]
    assert [entry["name"] for entry in objects] == list(shipped_recipes())
    assert next(entry for entry in objects if entry["name"] == "tagger/blstm-cnn-crf") == {
        "name": "tagger/blstm-cnn-crf",
        "task": "tagger",
        "cites": load_recipe("tagger/blstm-cnn-crf").cites,
        "expects": {"f1": 0.912},
    }


def test_a_recipe_is_shown_as_it_can_be_trained(capsys, tmp_path: Path) -> None:
    text = said(capsys, "tagger/ner")
    assert decode_recipe(tomllib.loads(text)) == load_recipe("tagger/ner")
    assert decode_recipe(json.loads(said(capsys, "tagger/ner", "--json"))) == load_recipe("tagger/ner")
    own = tmp_path / "own.toml"
    own.write_text(text, encoding="utf-8")
    assert said(capsys, str(own)) == text


def test_every_setting_is_shown_with_its_value_and_meaning(capsys) -> None:
    paragraphs = said(capsys, "tagger/upos", "--settings").split("\n\n")
    assert paragraphs[0].splitlines() == ["data.train = none", "    text or none", "    The file to learn from."]
    names = [paragraph.partition(" = ")[0] for paragraph in paragraphs]
    assert {"model.words.dropout", "model.chars.hidden", "train.nan", "expects"} <= set(names)
    assert len(names) == len(set(names))


def test_every_setting_is_an_object_for_machines(capsys) -> None:
    objects = [json.loads(line) for line in said(capsys, "tagger/upos", "--settings", "--json").splitlines()]
    assert {
        "setting": "data.train",
        "value": None,
        "expected": "text or none",
        "help": "The file to learn from.",
    } in objects
    assert len(objects) == len(said(capsys, "tagger/upos", "--settings").split("\n\n"))


def test_the_schema_is_json(capsys) -> None:
    schema = json.loads(said(capsys, "--schema"))
    assert {each["$ref"] for each in schema["anyOf"]} == {"#/$defs/TaggerRecipe", "#/$defs/LmRecipe"}


@pytest.mark.parametrize("name", ["tagger/no", "no.toml"])
def test_one_that_is_not_there(capsys, name: str) -> None:
    for more in ([], ["--json"], ["--settings"]):
        assert run(["recipes", name, *more]) == 1
        out, err = capsys.readouterr()
        assert out == "" and err.startswith(f"ConfigError: {name}: no such file" if "." in name else "ConfigError: ")
