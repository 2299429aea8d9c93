"""``--set a.b=c``: settings as text, put into a recipe's table before it is decoded.

The text becomes the type that the field declares, so that a name needs no quotes; tables and lists are TOML.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args, get_origin

from msgspec import inspect

from riverrun.config.decode import Invalid, choose, field_types, join, keys, tables, unknown
from riverrun.config.describe import expected
from riverrun.config.struct import Config


def override(table: Mapping[str, Any], assignments: Iterable[str], recipe: Any) -> dict[str, Any]:
    """The table with every assignment in it; the table that was given is left as it was.

    Args:
        recipe: the struct (or the union of structs) that the table will be decoded to.

    >>> from riverrun.config.tagger import TaggerRecipe
    >>> override({"train": {"epochs": 9}}, ["train.epochs=3", "data.train=a.conll"], TaggerRecipe)
    {'train': {'epochs': 3}, 'data': {'train': 'a.conll'}}

    Raises:
        Invalid: with a line for each assignment that names no setting or cannot be read.
    """
    result, lines = merge({}, table), []
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        parts = [part.strip() for part in path.split(".")]
        if not equals or not all(parts):
            lines.append(f"{assignment}: expected a setting and its value, for example train.epochs=3")
            continue
        try:
            value: Any = _value(_declared(recipe, result, parts), text.strip(), ".".join(parts))
        except Invalid as wrong:
            lines.extend(wrong.lines)
            continue
        for part in reversed(parts):
            value = {part: value}
        result = merge(result, value)
    if lines:
        raise Invalid(lines)
    return result


def merge(table: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables in one. Where both have a key the other's value counts, and tables are merged in their turn, unless
    they are of another ``kind``: the options of one kind mean nothing to the next.

    >>> merge({"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"x": 4}})
    {'a': {'x': 4, 'y': 2}, 'b': 3}
    >>> merge({"chars": {"kind": "cnn", "filters": 9}}, {"chars": {"kind": "lstm"}})
    {'chars': {'kind': 'lstm'}}
    """
    result = {key: merge({}, value) if isinstance(value, Mapping) else value for key, value in table.items()}
    for key, value in other.items():
        mine = result.get(key)
        if isinstance(value, Mapping):
            mine = mine if isinstance(mine, dict) else {}
            other_kind = "kind" in mine and value.get("kind", mine["kind"]) != mine["kind"]
            result[key] = merge({} if other_kind else mine, value)
        else:
            result[key] = value
    return result


def _declared(type_: Any, table: object, parts: Sequence[str], path: str = "") -> Any:
    """The declared type of the setting at ``parts``, below a value of ``type_`` that is ``table`` as yet."""
    if not parts:
        return type_
    part, rest = parts[0], parts[1:]
    table = table if isinstance(table, Mapping) else {}
    if structs := _narrowed(tables(type_), table, path):
        types = {key: field for struct in reversed(structs) for key, field in field_types(struct).items()}
        if part == structs[0].__struct_config__.tag_field and not rest:
            return str
        if part not in types:
            raise Invalid([unknown(path, part, dict.fromkeys(key for struct in structs for key in keys(struct)))])
        return _declared(types[part], table.get(part), rest, join(path, part))
    for member in get_args(type_) if get_origin(type_) is not dict else (type_,):
        if get_origin(member) is dict:
            return _declared(get_args(member)[1], table.get(part), rest, join(path, part))
    raise Invalid([f"{join(path, part)}: {path} has no settings of its own; it is {expected(type_)}"])


def _narrowed(structs: list[type[Config]], table: Mapping[str, Any], path: str) -> list[type[Config]]:
    """The alternative that the table already is, or all of them where its tag does not say."""
    try:
        return [choose(structs, table, path)] if structs else []
    except Invalid:
        return structs


def _value(type_: Any, text: str, path: str) -> Any:
    """The text as the declared type has it; what it does not fit stays text, for ``build`` to report."""
    info = inspect.type_info(type_)
    kinds = {type(member) for member in (info.types if isinstance(info, inspect.UnionType) else (info,))}
    if inspect.BoolType in kinds and text in ("true", "false"):
        return text == "true"
    for kind, number in ((inspect.IntType, int), (inspect.FloatType, float), (inspect.IntType, float)):
        if kind in kinds:
            try:
                return number(text)
            except ValueError:
                continue
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    if not quoted and (text[:1] not in ("{", "[") or kinds <= {inspect.StrType, inspect.NoneType, inspect.LiteralType}):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as wrong:
        raise Invalid([f"{path}: expected TOML, received {text} ({wrong})"]) from None
