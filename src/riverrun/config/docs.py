"""The text under each field of a table: its help, its description for editors, its documentation."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache

from riverrun.config.struct import Config


@cache
def field_docs(struct: type[Config]) -> dict[str, str]:
    """key -> the text under the field, those of the parent class included.

    >>> from riverrun.config.data import Data
    >>> field_docs(Data)["train"]
    'The file to learn from.'
    """
    docs = dict(field_docs(parent)) if issubclass(parent := struct.__bases__[0], Config) else {}
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(struct))).body
    assert isinstance(definition, ast.ClassDef)
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                docs[name] = " ".join(doc.split())
    return docs
