"""The recipes' JSON Schema, by which editors complete and check a TOML file."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from riverrun.config.decode import field_types, tables
from riverrun.config.docs import field_docs
from riverrun.config.recipe import Recipe
from riverrun.config.struct import Config


def json_schema() -> dict[str, Any]:
    """The schema of every recipe, with a description for each table and each setting.

    >>> schema = json_schema()
    >>> schema["$defs"]["Train"]["properties"]["seed"]["minimum"]
    0
    """
    (reference,), definitions = msgspec.json.schema_components([Recipe])
    for struct in _reachable(Recipe):
        definition = definitions[struct.__name__]
        definition["description"] = inspect.cleandoc(struct.__doc__ or "")
        for key, text in field_docs(struct).items():
            definition["properties"][key]["description"] = text
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **reference, "$defs": definitions}


def _reachable(type_: Any) -> list[type[Config]]:
    """The tables of a type and the tables within them."""
    return [
        table
        for struct in tables(type_)
        for table in (struct, *(inner for field in field_types(struct).values() for inner in _reachable(field)))
    ]
