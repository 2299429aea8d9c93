"""The JSON Schema, and the texts under the fields."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import riverrun.config
from riverrun.config import Config, LmRecipe, TaggerRecipe, json_schema
from riverrun.config.decode import field_types, tables
from riverrun.config.docs import field_docs


def reachable(type_: Any) -> set[type[Config]]:
    """Every table of a recipe, found here on our own."""
    found = set(tables(type_))
    for table in tables(type_):
        for field in field_types(table).values():
            found |= reachable(field)
    return found


@pytest.mark.parametrize("table", sorted(reachable(TaggerRecipe), key=lambda table: table.__name__))
def test_every_setting_is_explained(table: type[Config]) -> None:
    docs = field_docs(table)
    assert list(docs) == list(field_types(table))
    for text in docs.values():
        assert text.endswith(".")
    properties = json_schema()["$defs"][table.__name__]["properties"]
    for name, text in docs.items():
        assert properties[name]["description"] == text


def test_every_setting_is_read_by_some_code() -> None:
    root = Path(riverrun.config.__file__).parent
    code = "\n".join(
        file.read_text(encoding="utf-8") for file in root.parent.rglob("*.py") if not file.is_relative_to(root)
    )
    unread = [
        f"{table.__name__}.{field}"
        for recipe in (TaggerRecipe, LmRecipe)
        for table in reachable(recipe)
        for field in field_types(table)
        if not re.search(rf"\.{field}\b|\"{field}\"", code)
    ]
    assert sorted(unread) == []


def test_the_schema_knows_ranges_choices_and_strays() -> None:
    schema = json.loads(json.dumps(json_schema()))
    definitions = schema["$defs"]
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert {each["$ref"] for each in schema["anyOf"]} == {"#/$defs/TaggerRecipe", "#/$defs/LmRecipe"}
    assert definitions["Train"]["properties"]["epochs"]["minimum"] == 0
    assert definitions["Head"]["properties"]["kind"]["enum"] == ["crf", "softmax"]
    assert definitions["TaggerRecipe"]["properties"]["task"]["enum"] == ["tagger"]
    for definition in definitions.values():
        assert definition["additionalProperties"] is False
        assert definition["description"]
