"""A mistake in an equation is an error where the class is written, with the line and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from riverrun.errors import ConfigError
from riverrun.nn.cells import CELLS, Cell, CellError, Noise, RecurrentDropout, TracedCell, Zoneout, make_cell
from riverrun.nn.cells.lstm import LSTM
from riverrun.nn.cells.math import clip, exp, maximum, norm, relu, sigmoid, softplus, tanh

Step = Callable[[Any, Any, Any, Any, Any], Any]


def define(step: Step, **names: Any) -> type[Cell]:
    """A class with this step, which goes by that name."""
    step.__code__ = step.__code__.replace(co_name="step")  # type: ignore[attr-defined]
    return type("Broken", (Cell,), {"gates": ("i", "j"), "step": step, **names})


def unknown_gate(self, x, s, R, p):
    return s.next(h=sigmoid(x.i + R.k(s.h)))


def unknown_near(self, x, s, R, p):
    return s.next(h=sigmoid(x.imput + R.i(s.h)))


def unused_gate(self, x, s, R, p):
    return s.next(h=sigmoid(x.i + R.i(s.h)))


def dead_product(self, x, s, R, p):
    R.j(s.h)
    return s.next(h=x.i)


def branch(self, x, s, R, p):
    if x.i:
        return s.next(h=x.j)
    return s.next(h=x.i)


def compares(self, x, s, R, p):
    return s.next(h=x.i * (x.j > 0))


def equals(self, x, s, R, p):
    return s.next(h=x.i if s.h == 0 else x.j)


def differs(self, x, s, R, p):
    return s.next(h=x.i if s.h != 0 else x.j)


def among(self, x, s, R, p):
    return s.next(h=x.i if s.h in (0, 1) else x.j)


def same(self, x, s, R, p):
    return s.next(h=x.i if x.i == x.j else x.j)


def method(self, x, s, R, p):
    return s.next(h=x.i.cumsum(0) + x.j)


def library(self, x, s, R, p):
    return s.next(h=np.tanh(x.i) + x.j)


def numpy_number(self, x, s, R, p):
    return s.next(h=np.float64(2) * x.i + x.j)


def mathematics(self, x, s, R, p):
    return s.next(h=math.exp(x.i) + x.j)


def matrix(self, x, s, R, p):
    return s.next(h=x.i @ x.j)


def part(self, x, s, R, p):
    return s.next(h=x.i[0] + x.j)


def power(self, x, s, R, p):
    return s.next(h=x.i**x.j)


def cube(self, x, s, R, p):
    return s.next(h=x.i**3 + x.j)


def assigns(self, x, s, R, p):
    x.i = x.j
    return s.next(h=x.i)


def no_next(self, x, s, R, p):
    return x.i + x.j


def wrong_state(self, x, s, R, p):
    return s.next(c=x.i + x.j)


def unknown_state(self, x, s, R, p):
    return s.next(h=x.i + x.j + s.c)


def empty_product(self, x, s, R, p):
    return s.next(h=x.i + R.j())


def unknown_parameter(self, x, s, R, p):
    return s.next(h=x.i + x.j * p.a)


def constant(self, x, s, R, p):
    return s.next(h=sigmoid(p.a) * 2, c=x.i + x.j + R.i(s.h) + s.c)


def number(self, x, s, R, p):
    return s.next(h=x.i * x.j + s.c + p.a, c=0.5)


def text(self, x, s, R, p):
    return s.next(h=x.i + x.j + "1")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (unknown_gate, r"'k' is not a gate; declared: i, j"),
        (unknown_near, r"'imput' is not a gate, noise or raw; declared: i, j, raw"),
        (unused_gate, r"gate 'j' is declared but the equation never uses it"),
        (dead_product, r"'dot.j' is read, but no new state depends on it"),
        (branch, r"if x.i:\n.*branches on a value"),
        (compares, r"values cannot be compared; write maximum"),
        (equals, r"s.h == 0(.|\n)*values cannot be compared; write maximum"),
        (differs, r"s.h != 0(.|\n)*values cannot be compared; write maximum"),
        (among, r"in \(0, 1\)(.|\n)*values cannot be compared; write maximum"),
        (same, r"x.i == x.j(.|\n)*values cannot be compared; write maximum"),
        (method, r"a value has no 'cumsum'; functions are written f\(v\)"),
        (library, r"np.tanh\(x.i\)(.|\n)*uses Python numbers and the functions of riverrun.nn.cells.math"),
        (numpy_number, r"expected a value of the equation or a Python number, received float64"),
        (mathematics, r"TypeError: must be real number(.|\n)*functions of riverrun.nn.cells.math"),
        (matrix, r"products with matrices are written R.gate\(v\)"),
        (part, r"a value has no parts; declare a gate"),
        (power, r"only v \*\* 2 is known, not v \*\* x\(j\)"),
        (cube, r"only v \*\* 2 is known, not v \*\* 3"),
        (assigns, r"an equation does not assign to its inputs"),
        (no_next, r"step returns s.next\(...\), not Node"),
        (wrong_state, r"s.next must give exactly the states h; received c"),
        (unknown_state, r"'c' is not a state; declared: h"),
        (empty_product, r"R.j\(\) multiplies nothing; write R.j\(s.h\)"),
        (unknown_parameter, r"'a' is not a parameter; declared: none"),
        (text, r"expected a value of the equation or a Python number, received str"),
    ],
)
def test_mistake_is_an_error_at_its_line(step, message):
    with pytest.raises(CellError, match=message) as caught:
        define(step)
    assert str(caught.value).startswith("test_equations.py:")


@pytest.mark.parametrize(("step", "state"), [(constant, "h"), (number, "c")])
def test_a_state_depends_on_the_input_or_on_a_state(step, state):
    with pytest.raises(CellError, match=rf"the new {state} is the same at every step; a state depends on") as caught:
        define(step, states=("h", "c"), params=("a",))
    assert str(caught.value).startswith("test_equations.py:")


def fine(self, x, s, R, p):
    return s.next(h=x.i + x.j)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"gates": "ij"}, r'gates is a tuple of names, write gates = \("ij",\)'),
        ({"gates": ("i", "ﬁ")}, r"gates must be different plain words(.|\n)*received ﬁ"),
        ({"forget": "i"}, r'forget is a tuple of names, write forget = \("i",\)'),
        ({"forget": ("k",)}, r"forget names 'k', which is not among gates or p.<params>"),
        ({"forget": ("p.k",)}, r"forget names 'p.k', which is not among gates or p.<params>"),
        ({"gates": ("i", "i")}, r"gates must be different plain words"),
        ({"gates": ("i", "raw")}, r"received raw"),
        ({"gates": ("i", "lambda")}, r"received lambda"),
        ({"states": ()}, r"at least one state"),
        ({"params": ("a_",)}, r"params must be different plain words"),
        ({"init": {"b": 1.0}}, r"init"),
        ({"widths": {"h": "wide"}}, r"the width of 'h' must be one of input, hidden, output; received 'wide'"),
        ({"noise": {"k": 0.5}}, r"noise 'k' must be a Noise\(rate, high, each\), received 0.5"),
        ({"params": ("a",)}, r"parameter 'a' is declared but the equation never uses it"),
        ({"noise": {"k": Noise(0.5, 1.0, "step")}}, r"noise 'k' is declared but the equation never uses it"),
    ],
)
def test_declarations_are_checked(names, message):
    with pytest.raises(CellError, match=message):
        define(fine, **names)


def test_forget_bias_of_a_gate_without_one():
    def step(self, x, s, R, p):
        return s.next(h=sigmoid(R.i(s.h) + p.k) * x.j)

    with pytest.raises(CellError, match=r"forget names 'i', but without x.i it has no bias; name .* as 'p.i'"):
        define(step, params=("k",), forget=("i",))


def test_value_of_another_graph():
    kept: list[Any] = []

    def keeps(self, x, s, R, p):
        kept.append(x.i)
        return s.next(h=x.i + x.j)

    def mixes(self, x, s, R, p):
        return s.next(h=x.i + x.j + kept[0])

    define(keeps)
    with pytest.raises(CellError, match="belongs to another cell's graph"):
        define(mixes)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("lstn", r"no cell 'lstn'; did you mean 'lstm'\? Cells: elman, lstm"),
        ({"rounds": 3}, r"expected a name or a table with 'kind'"),
        (
            {"kind": "mogrifier", "round": 3},
            r"cell 'mogrifier' has no option 'round'; did you mean 'rounds'\? Options: r",
        ),
        ({"kind": "lstm", "rounds": 3}, r"cell 'lstm' has no option 'rounds'. Options: zoneout"),
        ({"kind": "mogrifier", "rounds": "3"}, r"Mogrifier: option rounds must be int \(default 5\), received '3'"),
        ({"kind": "elman", "nonlinearity": "tahn"}, r"nonlinearity must be one of tanh.*did you mean 'tanh'\?"),
        ({"kind": "lstm", "zoneout": 1.5}, r"rate of h must be a probability from 0 to below 1, received 1.5"),
        ({"kind": "lstm", "zoneuot": 0.1}, r"cell 'lstm' has no option 'zoneuot'; did you mean 'zoneout'\?"),
        ({"kind": "slstm", "zoneout": 0.1}, r"state 'm' of SLSTM\(\) begins at -inf"),
        ({"kind": "lstm", "zoneout": {"m": 0.1}}, r"carries no state 'm'"),
        ("os:path", r"'os:path' is code of its own.*--allow-import"),
    ],
)
def test_cells_in_recipes(spec, message):
    with pytest.raises(ConfigError, match=message):
        make_cell(spec)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("no_such_module:Cell", r"cannot import 'no_such_module:Cell'"),
        ("no_such_module:Cell", r"No module named 'no_such_module'; .* python -m riverrun, on PYTHONPATH or installed"),
        (":Cell", r"cannot import ':Cell': Empty module name"),
        ("os:nothing", r"cannot import 'os:nothing': os has no 'nothing'"),
        ("riverrun.nn.cells.lstm:LSMT", r"riverrun.nn.cells.lstm has no 'LSMT'; did you mean 'LSTM'\?"),
        ("os:path", r"'os:path' is not a subclass of riverrun.nn.cells.Cell"),
    ],
)
def test_imported_cells(kind, message):
    with pytest.raises(ConfigError, match=message):
        make_cell(kind, allow_import=True)


@pytest.mark.parametrize(
    ("text", "message", "cause"),
    [
        ("x = 1\nclass A(Cell:\n", r"theirs.py:2: SyntaxError: .*\n    class A\(Cell:", SyntaxError),
        (
            "def f():\n    return 1 / 0\nf()\n",
            r"theirs.py:2: ZeroDivisionError: .*\n    return 1 / 0",
            ZeroDivisionError,
        ),
        ("import missing_module\n", r"theirs.py:1: ModuleNotFoundError: .*\n    import missing_module", ImportError),
        ("class E(Exception): ...\nraise E('odd')\n", r"theirs.py:2: E: odd\n    raise E", Exception),
        ("import sys\nsys.exit(3)\n", r"theirs.py:2: SystemExit: 3\n    sys.exit\(3\)", SystemExit),
        ("import json\njson.loads('{')\n", r"theirs.py:2: JSONDecodeError: .*\n    json.loads", ValueError),
    ],
)
def test_module_that_cannot_be_imported_is_named_with_its_line(text, message, cause, tmp_path, monkeypatch):
    (tmp_path / "theirs.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=rf"^cell: cannot import 'theirs:A': .*{message}") as caught:
        make_cell("theirs:A", allow_import=True)
    assert isinstance(caught.value.__cause__, cause)


def test_mistaken_equation_of_a_users_module_is_said_as_it_is(tmp_path, monkeypatch):
    text = "from riverrun.nn.cells import Cell\nclass A(Cell):\n    def step(self, x, s, R, p):\n        return x.raw\n"
    (tmp_path / "wrong.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CellError, match=r"^wrong.py:3: .*\n    step returns s.next"):
        make_cell("wrong:A", allow_import=True)


def test_cell_of_a_users_module():
    cell = make_cell({"kind": "riverrun.nn.cells.mogrifier:Mogrifier", "rounds": 2}, allow_import=True)
    assert repr(cell) == "Mogrifier(rounds=2)"


def test_wrappers_say_what_they_cannot_wrap():
    with pytest.raises(ConfigError, match="has no recurrent products; use dropout between layers"):
        RecurrentDropout(make_cell("sru"))
    with pytest.raises(ConfigError, match="has noise of these names already: keep_h, keep_c"):
        Zoneout(Zoneout(LSTM()))
    graph = LSTM().graph
    assert graph is not None
    with pytest.raises(ConfigError, match="needs a cell with a traced equation"):
        Zoneout(TracedCell(graph))
    with pytest.raises(ConfigError, match=r"recurrent dropout must be a probability"):
        RecurrentDropout(LSTM(), rate=1.0)


def test_cell_without_a_step():
    with pytest.raises(CellError, match="Cell has no step"):
        Cell()


def test_numbers_are_folded_and_nothing_is_computed_twice():
    def step(self, x, s, R, p):
        zero = sigmoid(x.i * 0) - 0.5
        return s.next(h=x.i + R.j(s.h) + R.j(s.h) * zero + (2 * 3 - 6))

    graph = define(step)().graph
    assert graph is not None
    assert sorted(n.op for n in graph.nodes if n.op not in ("const", "x", "s"))[:2] == ["add", "dot"]


@pytest.mark.parametrize("name", CELLS)
def test_kinds_are_the_names_of_the_table(name):
    assert CELLS[name].kind == name
    graph = make_cell(name).graph
    assert graph is not None
    assert graph.kind == name


def test_clip_at_a_value():
    class Clips(Cell):
        gates = ("i",)
        params = ("k",)

        def step(self, x, s, R, p):
            return s.next(h=clip(x.i, p.k))

    graph = Clips().graph
    assert graph is not None
    assert repr(graph.new["h"]) == "h"
    assert [repr(n) for n in graph.nodes] == ["x(i)", "p(k)", "min(x, p)", "neg(p)", "h"]


def test_infinite_clip_is_none():
    class Clips(Cell):
        gates = ("i",)

        def step(self, x, s, R, p):
            return s.next(h=clip(maximum(relu(exp(softplus(norm(tanh(x.i))))), 0.5), float("inf")))

    graph = Clips().graph
    assert graph is not None
    assert graph.new["h"].op == "max"
