"""Options whose text is more than a name or a number."""

from __future__ import annotations

import tomllib

import msgspec

from riverrun.errors import ConfigError


def read_columns(text: str | None) -> dict[str, int | str] | None:
    """``--columns`` as a table, with or without braces.

    >>> read_columns("form=0, tag='upos'")
    {'form': 0, 'tag': 'upos'}
    """
    if text is None:
        return None
    try:
        columns = tomllib.loads(f"columns = {{{text.strip().removeprefix('{').removesuffix('}')}}}")["columns"]
        return msgspec.convert(columns, dict[str, int | str])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError):
        raise ConfigError(f'--columns: expected for example "form=0, tag=\'upos\'", received "{text}"') from None
