"""Options whose text is more than a name or a number."""

from __future__ import annotations

from riverrun.errors import ConfigError


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
