"""A graph from a file is data from outside: what is not a graph is a CheckpointError, never code that runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from riverrun.errors import CheckpointError
from riverrun.nn.cells import RecurrentDropout, make_cell
from riverrun.nn.cells.store import dumps, loads

GOOD = json.loads(dumps(RecurrentDropout(make_cell("lstm-peephole")).graph))


def text(change: Callable[[dict[str, Any]], None]) -> str:
    data = json.loads(json.dumps(GOOD))
    change(data)
    return json.dumps(data)


def first(data: dict[str, Any], op: str) -> list[Any]:
    return next(node for node in data["nodes"] if node[0] == op)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format=2), "has format 2; this version reads 1"),
        (lambda d: d.pop("nodes"), "damaged: KeyError: 'nodes'"),
        (lambda d: d.update(gates=["i)\nimport os", "f", "g", "o"]), "is not a plain word"),
        (lambda d: d.update(gates=["ﬁ", "f", "g", "o"]), "'ﬁ' is not a plain word"),
        (lambda d: d.update(forget=["k"]), r"no gate or parameter \('k',\)"),
        (lambda d: d.update(states=["h", "__class__"]), "is not a plain word"),
        (lambda d: d.update(new=[0, 10**6]), "damaged: IndexError"),
        (lambda d: d.update(new=[0]), "damaged: ValueError"),
        (lambda d: d["nodes"][0].__setitem__(0, "system"), "unknown operation 'system'"),
        (lambda d: first(d, "sigmoid").__setitem__(1, [10**6]), r"'sigmoid' has arguments \[1000000\]"),
        (lambda d: first(d, "sigmoid").__setitem__(1, [0, 0]), r"'sigmoid' has arguments \[0, 0\]"),
        (lambda d: first(d, "sigmoid").__setitem__(4, "v = 1; import os"), "is not a plain word"),
        (lambda d: first(d, "sigmoid").__setitem__(2, "tag"), "'sigmoid' has no name, received 'tag'"),
        (lambda d: first(d, "sigmoid").__setitem__(3, "huge"), "'huge' is not one of the sizes"),
        (lambda d: first(d, "dot").__setitem__(2, "k"), "no gate 'k'"),
        (lambda d: first(d, "x").__setitem__(2, "k"), "'x' of 'k'"),
        (lambda d: first(d, "s").__setitem__(2, "k"), "'s' of 'k'"),
        (lambda d: d.update(widths=[["h", "huge"]]), "'huge' is not one of the sizes"),
        (lambda d: first(d, "sigmoid").__setitem__(4, "lambda"), "'lambda' is not a plain word"),
        (lambda d: first(d, "sigmoid").__setitem__(4, "ﬁ"), "'ﬁ' is not a plain word"),
        (lambda d: d["nodes"].append(["const", [], math.nan, "hidden", None]), "a constant is not a number"),
        (lambda d: d["nodes"].append(["gt", [0, 0], None, "hidden", None]), "unknown operation 'gt'"),
    ],
)
def test_damage_is_found(change, message):
    with pytest.raises(CheckpointError, match=message):
        loads(text(change))


@pytest.mark.parametrize("broken", ["", "[]", "{", "null"])
def test_not_a_graph(broken):
    with pytest.raises(CheckpointError, match="the cell's graph"):
        loads(broken)


def test_graph_of_an_older_version():
    loads(text(lambda d: d.pop("forget")))


def test_unharmed():
    assert json.loads(dumps(loads(text(lambda d: None)))) == GOOD
