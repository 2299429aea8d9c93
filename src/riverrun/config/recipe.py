"""From a recipe's name or file, and settings on top of it, to the typed recipe."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from riverrun.config.decode import Invalid, build
from riverrun.config.lm import LmRecipe
from riverrun.config.overrides import merge, override
from riverrun.config.tagger import TaggerRecipe
from riverrun.errors import ConfigError, nearest

Recipe = TaggerRecipe | LmRecipe
"""Any recipe: the union of the tables that ``task`` tells apart."""


def load_recipe(name: str | Path, *, settings: Iterable[str] = (), data: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe of a TOML file or a shipped name, with settings on top of it.

    Args:
        settings: texts like ``train.epochs=3``.
        data: values for ``[data]``, for example the files that the command line names; settings win over them.

    >>> load_recipe("tagger/blstm", settings=["train.epochs=3"]).train.epochs
    3

    Raises:
        ConfigError: with every mistake in the file and in the settings, at once.
    """
    if isinstance(settings, str | Mapping):
        one = settings if isinstance(settings, str) else "train.epochs=3"
        kind = "one text" if isinstance(settings, str) else "a table"
        raise ConfigError(f"settings: expected a list of texts, received {kind}; write settings=[{one!r}]")
    table = read_recipe(name)
    given = {key: value for key, value in (data or {}).items() if value is not None}
    table = merge(table, {"data": given} if given else {})
    lines: list[str] = []
    for setting in settings:
        if not isinstance(setting, str):
            raise ConfigError(f"settings: expected texts like 'train.epochs=3', received {setting!r}")
        try:
            table = override(table, [setting], Recipe)
        except Invalid as wrong:
            lines += wrong.lines
    try:
        recipe: Recipe = build(Recipe, table)
    except Invalid as wrong:
        lines += wrong.lines
    if lines:
        raise _error(Invalid(lines), f"recipe {name}")
    return recipe


def decode_recipe(table: Mapping[str, Any], *, source: str = "recipe") -> Recipe:
    """A table, for example the ``recipe`` of a model folder's ``config.json``, as the recipe that it describes.

    >>> decode_recipe({"task": "tagger", "model": {"encoder": {"num_layer": 2}}})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    riverrun.errors.ConfigError: model.encoder.num_layer: unknown key; did you mean 'layers'? Allowed: ...
    """
    try:
        recipe: Recipe = build(Recipe, table)
    except Invalid as wrong:
        raise _error(wrong, source) from None
    return recipe


def encode_recipe(recipe: Recipe) -> dict[str, Any]:
    """The resolved recipe, every default written out, as plain tables; ``decode_recipe`` reads it back."""
    table: dict[str, Any] = msgspec.to_builtins(recipe)
    return table


def read_recipe(name: str | Path) -> dict[str, Any]:
    """The table of a TOML file, or of the shipped recipe with this name; not yet decoded."""
    try:
        return tomllib.loads(recipe_text(name))
    except tomllib.TOMLDecodeError as wrong:
        raise ConfigError(f"{name}: expected TOML: {wrong}") from None


def recipe_text(name: str | Path) -> str:
    """The text of a TOML file, or of the shipped recipe with this name."""
    path = Path(name)
    if path.suffix != ".toml":
        shipped = shipped_recipes()
        if str(name) not in shipped:
            raise ConfigError(
                f"{name}: no shipped recipe has this name{nearest(str(name), shipped) or '.'} "
                f"Shipped: {', '.join(shipped)}; a recipe of your own is a file that ends in .toml"
            )
        return shipped[str(name)]
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; `riverrun recipes` lists the shipped ones") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: this is a folder; expected a recipe, a TOML file") from None
    except UnicodeDecodeError as wrong:
        raise ConfigError(f"{path}: expected TOML: {wrong}") from None


def shipped_recipes() -> dict[str, str]:
    """name -> text of every recipe that comes with the package.

    >>> "tagger/blstm-cnn-crf" in shipped_recipes()
    True
    """
    found = {
        f"{task.name}/{file.name.removesuffix('.toml')}": file.read_text(encoding="utf-8")
        for task in resources.files("riverrun").joinpath("recipes").iterdir()
        if task.is_dir()
        for file in task.iterdir()
        if file.name.endswith(".toml")
    }
    return dict(sorted(found.items()))


def _error(wrong: Invalid, source: str) -> ConfigError:
    """The mistakes, one a line, and which recipe has them."""
    if len(wrong.lines) == 1:
        return ConfigError(f"{wrong.lines[0]} (in {source})")
    return ConfigError("\n".join([*wrong.lines, f"({len(wrong.lines)} errors in {source})"]))
