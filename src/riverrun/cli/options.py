"""Options whose text is more than a name or a number."""

from __future__ import annotations

from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from riverrun.errors import ConfigError

# An option as the help shows it: what stands behind its name, and no default where that says nothing.
Flag = Annotated[bool, arg(help_behavior_hint="")]
Name = Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")]
Text = Annotated[str | None, arg(metavar="TEXT", help_behavior_hint="")]
Number = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]
Fraction = Annotated[float | None, arg(metavar="P", help_behavior_hint="")]
File = Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")]
Dir = Annotated[str | None, arg(metavar="DIR", help_behavior_hint="")]
Model = Annotated[Positional[str], arg(metavar="MODEL", help_behavior_hint="")]
Input = Annotated[Positional[str], arg(metavar="[FILE]", help_behavior_hint="")]
Settings = Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="A.B=C", help_behavior_hint="")]
Texts = Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="TEXT", help_behavior_hint="")]


def _number_or_name(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdigit() else text.strip("'\"")


def read_columns(text: str | None) -> dict[str, int | str] | None:
    """``--columns`` as a table: names and numbers, with or without braces and quotes.

    >>> read_columns("form=0, tag=upos")
    {'form': 0, 'tag': 'upos'}
    """
    if text is None:
        return None
    columns = {}
    for part in text.strip().removeprefix("{").removesuffix("}").split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise ConfigError(f'--columns: expected for example "form=0, tag=upos", received "{text}"')
        columns[name] = _number_or_name(value)
    return columns
