"""A graph as JSON, kept in a model folder, so that running a folder needs no code of the cell's author.

What is read is checked node by node: names must be plain words and operations known ones, because engines generate
code from the graph.
"""

from __future__ import annotations

import json
import math
from typing import Any

from riverrun.errors import CheckpointError
from riverrun.nn.cells.graph import ARITY, SIZES, VARIADIC, Graph, Node, Noise, Width, ancestors
from riverrun.nn.cells.trace import local_word, plain_word

FORMAT = 1


def dumps(graph: Graph) -> str:
    """The graph as one line of JSON; equal graphs are equal texts."""
    nodes = ancestors(graph.new.values())
    place = {id(n): k for k, n in enumerate(nodes)}
    products = {str(n.tag) for n in nodes if n.op == "dot"}
    return json.dumps(
        {
            "format": FORMAT,
            "kind": graph.kind,
            "gates": graph.gates,
            "states": graph.states,
            "params": [[name, _number(value)] for name, value in graph.params.items()],
            "noise": [[name, n.rate, n.high, n.each] for name, n in graph.noise.items()],
            "widths": sorted(graph.widths.items()),
            "start": [[name, _number(value)] for name, value in sorted(graph.start.items())],
            "nodes": [[n.op, [place[id(a)] for a in n.args], _tag(n), n.width.size(), n.name] for n in nodes],
            "new": [place[id(graph.new[name])] for name in graph.states],
            "operands": [[gate, graph.gate_in[gate].size()] for gate in sorted(products)],
            "equal": graph.equal,
            **({"forget": graph.forget} if graph.forget else {}),
        },
        separators=(",", ":"),
    )


def loads(text: str) -> Graph:
    """The graph that ``dumps`` wrote; a CheckpointError where the text is anything else.

    >>> from riverrun.nn.cells.lstm import LSTM
    >>> graph = LSTM().graph
    >>> loads(dumps(graph)).signature() == graph.signature()
    True
    """
    try:
        data = json.loads(text)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            found = data.get("format") if isinstance(data, dict) else type(data).__name__
            raise CheckpointError(f"the cell's graph has format {found!r}; this version reads {FORMAT}")
        return _graph(data)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise CheckpointError(f"the cell's graph is damaged: {type(error).__name__}: {error}") from error


def _graph(data: dict[str, Any]) -> Graph:
    graph = Graph(
        str(data["kind"]),
        tuple(map(_word, data["gates"])),
        tuple(map(_word, data["states"])),
        {_word(name): float(value) for name, value in data["params"]},
        {_word(name): Noise(float(rate), float(high), str(each)) for name, rate, high, each in data["noise"]},
        {_word(name): _size(size) for name, size in data["widths"]},
        {_word(name): float(value) for name, value in data["start"]},
        tuple(map(str, data.get("forget", ()))),
    )
    if not {*graph.forget} <= {*graph.gates, *(f"p.{name}" for name in graph.params)}:
        raise ValueError(f"no gate or parameter {graph.forget}")
    nodes: list[Node] = []
    for op, args, tag, size, name in data["nodes"]:
        if op == "gt" or (op not in ARITY and op not in VARIADIC):  # gt stands in derivatives alone
            raise ValueError(f"unknown operation {op!r}")
        if any(not 0 <= k < len(nodes) for k in args) or len(args) != ARITY.get(op, max(1, len(args))):
            raise ValueError(f"'{op}' has arguments {args}")
        nodes.append(graph.node(op, [nodes[k] for k in args], _checked(graph, op, tag), Width(_size(size))))
        nodes[-1].name = None if name is None else _word(name, local=True)
        if op == "dot":
            graph.gate_out[str(tag)] = nodes[-1].width
    graph.new = {name: nodes[k] for name, k in zip(graph.states, data["new"], strict=True)}
    graph.gate_in = {_product(graph, gate): Width(_size(size)) for gate, size in data["operands"]}
    graph.equal = [(_size(a), _size(b), str(where)) for a, b, where in data["equal"]]
    return graph


def _number(value: float) -> float | str:
    return value if abs(value) < float("inf") else str(value)  # JSON knows no infinity


def _tag(node: Node) -> Any:
    return _number(float(str(node.tag))) if node.op == "const" else node.tag


def _checked(graph: Graph, op: str, tag: Any) -> object:
    match op:
        case "const":
            if math.isnan(value := float(tag)):
                raise ValueError("a constant is not a number")
            return value
        case "x" if tag == "raw" or tag in graph.gates or tag in graph.noise:
            return tag
        case "s" if tag in graph.states:
            return tag
        case "p" if tag in graph.params:
            return tag
        case "dot":
            return _product(graph, tag)
        case "x" | "s" | "p" | "d" | "dotT":
            raise ValueError(f"'{op}' of {tag!r}")
    if tag is not None:
        raise ValueError(f"'{op}' has no name, received {tag!r}")
    return None


def _product(graph: Graph, gate: Any) -> str:
    name, _, number = str(gate).rpartition("_")
    if gate in graph.gates or (name in graph.gates and number.isdigit()):
        return str(gate)
    raise ValueError(f"no gate {gate!r}")


def _word(name: Any, *, local: bool = False) -> str:
    """A name that may stand in generated code, of a value or of what a cell declares."""
    if isinstance(name, str) and (local_word(name) if local else plain_word(name)):
        return name
    raise ValueError(f"{name!r} is not a plain word")


def _size(name: Any) -> str:
    if name in SIZES:
        return str(name)
    raise ValueError(f"{name!r} is not one of the sizes {', '.join(SIZES)}")
