"""A table, as TOML gives it, to the typed struct that it describes; with every mistake in it at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, get_args

import msgspec

from riverrun.config.describe import choices, expected, received
from riverrun.config.struct import Config, tag_of
from riverrun.errors import nearest


class Invalid(Exception):
    """What is wrong with a value, one line for each mistake, each beginning with its path."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = list(lines)
        super().__init__("\n".join(self.lines))


def build(type_: Any, value: object, path: str = "") -> Any:
    """The value as an instance of its declared type.

    msgspec reports one mistake and stops, so tables are walked here, key by key, and only single values are left to it.

    Args:
        path: where the value stands, for example ``model.encoder``.

    Raises:
        Invalid: with all mistakes.
    """
    if value == "none" and optional(type_):
        return None  # TOML has no word of its own for it
    if isinstance(value, Mapping) and (alternatives := tables(type_)):
        return _build_table(choose(alternatives, value, path), value, path)
    try:
        built = msgspec.convert(value, type_)
    except msgspec.ValidationError:
        hint = nearest(value, choices(type_)) if isinstance(value, str) else ""
        raise Invalid([f"{path}: expected {expected(type_)}, received {received(value)}{hint}"]) from None
    if isinstance(built, int) and abs(built) >= 1 << 63:
        raise Invalid([f"{path}: expected {expected(type_)} of at most 63 bits, received {built}"])
    # A recipe is kept as JSON, which has no NaN and no infinity.
    if isinstance(built, float) and not math.isfinite(built):
        raise Invalid([f"{path}: expected {expected(type_)}, received {built}"])
    if isinstance(built, dict):
        endless = {key: inner for key, inner in built.items() if isinstance(inner, float) and not math.isfinite(inner)}
        if endless:
            raise Invalid(f"{join(path, key)}: expected a finite number, received {n}" for key, n in endless.items())
    return built


def optional(type_: Any) -> bool:
    """Whether a declared type allows none.

    >>> optional(str | None), optional(str)
    (True, False)
    """
    return NoneType in get_args(type_)


def tables(type_: Any) -> list[type[Config]]:
    """The tables that a declared type allows: one, several that a tag tells apart, or none.

    >>> from riverrun.config.tagger import TaggerModel
    >>> [table.__name__ for table in tables(field_types(TaggerModel)["chars"])]
    ['CharCNN', 'CharLSTM', 'CharGRU']
    """
    return [t for t in (get_args(type_) or (type_,)) if isinstance(t, type) and issubclass(t, Config)]


def choose(alternatives: list[type[Config]], table: Mapping[str, Any], path: str) -> type[Config]:
    """The alternative that the table's tag names; a table without tags has only one."""
    field = alternatives[0].__struct_config__.tag_field
    if field is None:
        return alternatives[0]
    by_tag = {tag_of(alternative): alternative for alternative in alternatives}
    tag = table.get(field)
    if isinstance(tag, str) and tag in by_tag:
        return by_tag[tag]
    hint = nearest(tag, by_tag) if isinstance(tag, str) else ""
    was = f"received {received(tag)}{hint}" if field in table else "which is missing"
    raise Invalid([f"{join(path, field)}: expected one of {', '.join(by_tag)}, {was}"])


def field_types(table: type[Config]) -> dict[str, Any]:
    """key -> declared type, in the order of the class."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(table)}


def keys(table: type[Config]) -> list[str]:
    """Every key that a table of this kind may have, its tag included."""
    tag = table.__struct_config__.tag_field
    return [*([tag] if tag else []), *field_types(table)]


def unknown(path: str, key: str, allowed: Iterable[str]) -> str:
    """The line for a key that a table does not have."""
    allowed = list(allowed)
    return f"{join(path, key)}: unknown key{nearest(key, allowed) or '.'} Allowed: {', '.join(allowed)}"


def join(path: str, key: str) -> str:
    """``model`` and ``words`` to ``model.words``."""
    return f"{path}.{key}" if path else key


def _build_table(struct: type[Config], table: Mapping[str, Any], path: str) -> Config:
    types, allowed = field_types(struct), keys(struct)
    values: dict[str, Any] = {}
    lines: list[str] = []
    for key, value in table.items():
        if key not in allowed:
            lines.append(unknown(path, key, allowed))
        elif key in types:
            try:
                values[key] = build(types[key], value, join(path, key))
            except Invalid as wrong:
                lines.extend(wrong.lines)
    for field in msgspec.structs.fields(struct):
        if field.required and field.encode_name not in table:
            lines.append(f"{join(path, field.encode_name)}: missing; expected {expected(field.type)}")
    if lines:
        raise Invalid(lines)
    built = struct(**values)
    if lines := [f"{join(path, field)}: {what}" for field, what in built.conflicts()]:
        raise Invalid(lines)
    return built
