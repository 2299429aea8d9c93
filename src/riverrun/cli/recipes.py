"""``riverrun recipes``: what can be trained, and every setting of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from tyro.conf import Positional, arg

from riverrun.cli.options import Flag
from riverrun.cli.screen import aligned
from riverrun.config.decode import field_types, join, tables
from riverrun.config.describe import expected
from riverrun.config.docs import field_docs
from riverrun.config.recipe import encode_recipe, load_recipe, recipe_text, shipped_recipes
from riverrun.config.schema import json_schema
from riverrun.config.struct import Config


class Recipes(msgspec.Struct, frozen=True, kw_only=True):
    """List the recipes, or show one as TOML, to be changed and trained."""

    name: Annotated[Positional[str | None], arg(metavar="[RECIPE]", help_behavior_hint="")] = None
    """The recipe to show."""

    settings: Flag = False
    """Every setting of the recipe: its value, what it may be, what it does."""

    schema: Flag = False
    """The JSON Schema of recipes, for editors."""

    json: Flag = False
    """One JSON object a recipe; of RECIPE, every setting with its value; with --settings, an object a setting."""

    def run(self) -> None:
        """Print the list, the recipe, its settings or the schema."""
        if self.schema:
            print(msgspec.json.format(msgspec.json.encode(json_schema()), indent=2).decode())
        elif self.settings:
            recipe = load_recipe(self.name or next(iter(shipped_recipes())))
            if self.json:
                print("\n".join(msgspec.json.encode(each).decode() for each in settings(recipe)))
            else:
                print("\n\n".join(map(str, settings(recipe))))
        elif self.name:
            recipe = load_recipe(self.name)  # a wrong name or file is an error, not an empty answer
            print(msgspec.json.encode(encode_recipe(recipe)).decode() if self.json else recipe_text(self.name).rstrip())
        else:
            loaded = {name: load_recipe(name) for name in shipped_recipes()}
            if self.json:
                for name, recipe in loaded.items():
                    entry = {"name": name, "task": recipe.task, "cites": recipe.cites, "expects": recipe.expects}
                    print(msgspec.json.encode(entry).decode())
            else:
                print(aligned((name, recipe.cites or "") for name, recipe in loaded.items()))


class Setting(msgspec.Struct, frozen=True):
    """One setting: its value, what it may be, what it does."""

    setting: str
    value: Any
    expected: str
    help: str

    def __str__(self) -> str:
        shown = "none" if self.value is None else msgspec.json.encode(self.value).decode()
        return f"{self.setting} = {shown}\n    {self.expected}\n    {self.help}"


def settings(table: Config, path: str = "") -> Iterator[Setting]:
    """Every setting of a table and of the tables within it."""
    docs = field_docs(type(table))
    for key, type_ in field_types(type(table)).items():
        value = getattr(table, key)
        if isinstance(value, Config):
            yield from settings(value, join(path, key))
            continue
        yield Setting(join(path, key), value, "a table" if tables(type_) else expected(type_), docs[key])
