"""Types and values in words, for messages: what was expected, what was received."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect


def expected(type_: Any) -> str:
    """A declared type as a reader of a recipe would say it.

    >>> from riverrun.config.struct import Fraction
    >>> expected(Fraction | None)
    'a number from 0 to 1 or none'
    """
    return _words(inspect.type_info(type_))


def received(value: object) -> str:
    """A value as TOML would write it, with its kind where that is the mistake.

    >>> received("ten"), received(True), received({"a": 1})
    ("the text 'ten'", 'true', "a table with the keys 'a'")
    """
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {value!r}"
        case dict():
            return f"a table with the keys {', '.join(map(repr, value))}" if value else "an empty table"
        case list():
            return f"the list {value!r}"
        case _:
            return str(value)


def choices(type_: Any) -> tuple[str, ...]:
    """The texts that a type allows where it allows only certain texts, else nothing."""
    info = inspect.type_info(type_)
    members = info.types if isinstance(info, inspect.UnionType) else (info,)
    return tuple(str(v) for member in members if isinstance(member, inspect.LiteralType) for v in member.values)


def _words(info: inspect.Type) -> str:
    match info:
        case inspect.UnionType(types=members):
            # Alternatives of one table (by kind) are one table to the reader.
            return " or ".join(dict.fromkeys(map(_words, members)))
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case inspect.IntType():
            return "a whole number" + _range(info)
        case inspect.FloatType():
            return "a number" + _range(info)
        case inspect.TupleType(item_types=items):
            return f"a list of {len(items)} values, each {_words(items[0])}"
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return "none"
        case inspect.DictType(value_type=value):
            return f"a table of values that are {_words(value)}"
        case _:
            return "a table"


def _range(info: inspect.IntType | inspect.FloatType) -> str:
    if info.ge is not None and info.le is not None:
        return f" from {_number(info.ge)} to {_number(info.le)}"
    lower = (
        f"at least {_number(info.ge)}" if info.ge is not None else f"above {_number(info.gt)}" * (info.gt is not None)
    )
    upper = (
        f"below {_number(info.lt)}" if info.lt is not None else f"at most {_number(info.le)}" * (info.le is not None)
    )
    both = " and ".join(filter(None, (lower, upper)))
    return f" {both}" if both else ""


def _number(value: float | None) -> str:
    return msgspec.json.encode(value).decode().removesuffix(".0")
