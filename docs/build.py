"""Generate the reference pages: ``docs/cells.md``, and the part of ``docs/recipes.md`` between the two markers.

Run by ``make docs``. Everything on these pages is read from the code, so nothing is written twice.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch

from riverrun.config import Config, Recipe, load_recipe, shipped_recipes
from riverrun.config.decode import field_types, join, tables
from riverrun.config.describe import expected
from riverrun.config.docs import field_docs
from riverrun.config.struct import tag_of
from riverrun.nn.cells import CELLS, Cell, Graph
from riverrun.nn.cells.derive import plan, recurrence
from riverrun.nn.cells.layout import layout
from riverrun.nn.engines import ENGINES

DOCS = Path(__file__).resolve().parent
BEGIN, END = "<!-- begin: written by docs/build.py -->", "<!-- end: written by docs/build.py -->"
CELLS_HEAD = """# Cells

<!-- This page is written by docs/build.py (`make docs`); change the docstrings instead. -->

A cell is one step of a recurrence, written as its equation. The columns of the table:

- **Recurrence**: `dense`, where units see each other from step to step; `diagonal`, where each unit goes its own way;
  `linear`, a diagonal one whose new state is *a · s + b* with *a* and *b* free of *s*.
- **Exchanges**: how often a step must wait until all units are known, to multiply them with a matrix or to take their
  mean. 0 is fast, 1 is an LSTM.
- **CPU**, **GPU**: the engines that can run it, first the one that `engine = "auto"` takes. It takes `eager` too where
  a sequence has only a few steps. On a GPU, `vendor` multiplies float32 in TF32, about three digits, as torch does by
  default; `torch.backends.cudnn.rnn.fp32_precision = "ieee"` in Python has all digits.

In the equations *x* is the input, *h* the output, σ the logistic function and ⊙ the product unit by unit. These cells
and your own take the option `zoneout` too; `slstm` does not train with it, because its state *m* begins at minus
infinity. How to write a cell: [extending.md](extending.md).
"""


def pages() -> dict[Path, str]:
    """path -> text of every page that is generated or has a generated part."""
    recipes = DOCS / "recipes.md"
    head, rest = recipes.read_text(encoding="utf-8").split(BEGIN)
    tail = rest.split(END)[1]
    return {
        DOCS / "cells.md": cells_page(),
        recipes: f"{head}{BEGIN}\n\n{recipes_reference()}\n{END}{tail}",
    }


# -- cells


def cells_page() -> str:
    """The table of all cells, and a section for each."""
    rows = ["| cell | recurrence | states | exchanges | CPU | GPU |", "|---|---|---|---|---|---|"]
    for name in CELLS:
        cell = CELLS[name]()
        graph = graph_of(cell)
        found = recurrence(graph), ", ".join(cell.states), plan(graph).exchanges, engines(graph, "cpu")
        rows.append(f"| [{name}](#{name}) | " + " | ".join(map(str, (*found, engines(graph, "cuda")))) + " |")
    return "\n".join([CELLS_HEAD, *rows, "", *(section(name) for name in CELLS)])


def section(name: str) -> str:
    """A cell: what it is, its equation, names and options."""
    cell = CELLS[name]()
    graph = graph_of(cell)
    text, options = split_docstring(inspect.getdoc(type(cell)) or "")
    facts = [f"gates {code(cell.gates)}", f"states {code(cell.states)}"]
    if cell.params:
        facts.append(f"learned vectors {code(cell.params)}")
    if "output" in layout(cell).sizes:
        facts.append("an output of a width of its own (`output_size`)")
    for one, other, _ in layout(cell).equal:
        facts.append(f"`{one}_size` and `{other}_size` must be equal")
    lines = [f"## {name}", "", text, "", f"`{type(cell).__name__}`: {'; '.join(facts)}."]
    defaults = cell.options()
    if defaults:
        lines += ["", *(f"- `{key} = {toml(value)}`: {options[key]}" for key, value in defaults.items())]
    traced = ", ".join(f"`{value}`" for value in graph.traces())
    return "\n".join([*lines, "", f"`trace` shows {traced}.", ""])


def graph_of(cell: Cell) -> Graph:
    """What the cell computes outside training."""
    if cell.graph is None:
        raise TypeError(f"{cell!r} has no graph, so there is nothing to say of it")
    return cell.graph.quiet()


def engines(graph: Graph, device: str) -> str:
    """The engines that can run an equation, the first choice first."""
    where = torch.device(device)
    return ", ".join(name for name, engine in ENGINES.items() if not engine.refusal(graph, where, torch.float32))


def split_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """A docstring as Markdown, without examples and arguments; and argument -> its text."""
    doc = re.split(r"\n+>>> ", doc)[0]
    text, _, arguments = doc.partition("\nArgs:\n")
    options = dict(re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", arguments, re.MULTILINE))
    return markdown(text.strip()), {name: " ".join(markdown(line).split()) for name, line in options.items()}


def markdown(text: str) -> str:
    """Mathematics and code of a docstring as Markdown has them."""
    blocks = re.compile(r"\.\. math::(?: (?P<short>.*)|\n(?P<long>(?:\n|    .*\n?)+))")
    text = blocks.sub(lambda found: formula(found["short"] or found["long"]), text)
    text = re.sub(r":math:`(.*?)`", r"$`\1`$", text)
    text = re.sub(r"``(.*?)``", r"`\1`", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def formula(tex: str) -> str:
    """A displayed equation; several lines of it, one under the other."""
    tex = "\n".join(line.strip() for line in tex.strip().splitlines())
    if "\\\\" in tex:
        tex = f"\\begin{{gathered}}\n{tex}\n\\end{{gathered}}"
    return f"\n```math\n{tex}\n```\n\n"


# -- recipes


def recipes_reference() -> str:
    """The shipped recipes, then every table with its keys."""
    rows = ["### Shipped recipes", "", "| recipe | after | must reach |", "|---|---|---|"]
    for name in shipped_recipes():
        recipe = load_recipe(name)
        scores = ", ".join(f"{metric} {value}" for metric, value in recipe.expects.items())
        rows.append(f"| `{name}` | {cell_text(recipe.cites or '')} | {scores} |")
    seen: set[tuple[type[Config], str]] = set()
    for recipe in tables(Recipe):
        rows += ["", *table_sections(recipe, "", seen)]
    return "\n".join(rows)


def table_sections(struct: type[Config], path: str, seen: set[tuple[type[Config], str]]) -> Iterator[str]:
    """A section for a table and for each of the tables within it, in the order of the keys; each of them once."""
    if (struct, path) in seen:
        return
    seen.add((struct, path))
    field = struct.__struct_config__.tag_field
    title = f"`[{path}]`" if path else "Top of the file"
    which = f", with `{field} = {toml(tag_of(struct))}`" if field else ""
    yield f"### {title}{which}\n"
    yield (inspect.getdoc(struct) or "") + "\n"
    docs = field_docs(struct)
    rows = ["| key | default | what may stand there | what it does |", "|---|---|---|---|"]
    inner: list[tuple[str, type[Config]]] = []
    for declared in msgspec.structs.fields(struct):
        key, type_ = declared.encode_name, field_types(struct)[declared.encode_name]
        nested = tables(type_)
        inner += [(join(path, key), table) for table in nested]
        default = "its defaults" if nested and declared.default_factory is not msgspec.NODEFAULT else shown(declared)
        what = "a table" if nested else expected(type_)
        rows.append(f"| `{key}` | {default} | {cell_text(what)} | {cell_text(docs[key])} |")
    yield "\n".join(rows) + "\n"
    for where, table in inner:
        yield from table_sections(table, where, seen)


def shown(field: Any) -> str:
    """The default of a key, as TOML has it."""
    if field.default is not msgspec.NODEFAULT:
        return f"`{toml(field.default)}`"
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{toml(field.default_factory())}`"
    return "must be given"


def toml(value: object) -> str:
    """A value as it stands in a recipe."""
    return '"none"' if value is None else msgspec.json.encode(value).decode().replace(",", ", ")


def cell_text(text: str) -> str:
    """Text that may stand in a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


def code(names: tuple[str, ...]) -> str:
    """Names, each as code."""
    return ", ".join(f"`{name}`" for name in names)


def main() -> None:
    """Write the pages."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
