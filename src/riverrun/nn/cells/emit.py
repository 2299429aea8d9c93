"""A list of nodes as lines of code: one table of expressions for each language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from riverrun.nn.cells.graph import Node

INFIX = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}"}

TORCH = {
    **INFIX,
    **{op: f"torch.{op}({{0}})" for op in ("sigmoid", "tanh", "relu", "exp", "log", "rsqrt")},
    "softplus": "softplus({0})",
    "max": "torch.maximum({0}, {1})",
    "min": "torch.minimum({0}, {1})",
}
CLAMP = {"max": "{0}.clamp(min={1})", "min": "{0}.clamp(max={1})"}
"""torch.maximum takes no Python number."""

SCALAR = {
    **INFIX,
    **{op: f"{op}({{0}})" for op in ("sigmoid", "tanh", "exp", "log", "softplus")},
    "relu": "max({0}, ZERO)",
    "rsqrt": "ONE / sqrt({0})",
    "max": "max({0}, {1})",
    "min": "min({0}, {1})",
    "gt": "(ONE if {0} > {1} else ZERO)",
}

_BRACKETED = (*INFIX, "gt")
_DEEPEST = 20
"""Values written within each other, before one gets a name; Python takes 200 brackets."""


class Emitter:
    """Remembers what each node is called; ``lines`` writes those of a batch that have no name yet.

    Args:
        style: operation -> expression.
        nodes: all that will ever be written, to see what is used once.
        roots: those that somebody asks for by name.
        names: id of node -> what it is called already.
        number: how a constant is written.
        clamp: expressions for an extreme of which the second argument is a number.
    """

    def __init__(
        self,
        style: Mapping[str, str],
        nodes: Iterable[Node],
        roots: Iterable[Node],
        *,
        names: Mapping[int, str],
        reserved: Iterable[str] = (),
        number: Callable[[float], str] = repr,
        clamp: Mapping[str, str] | None = None,
    ) -> None:
        self.style, self.names, self.number, self.clamp = style, dict(names), number, clamp or {}
        self.taken = {*self.names.values(), *reserved}
        self.calls: dict[str, int] = {}  # name -> how often it was taken
        self.uses: dict[int, int] = {}
        for node in nodes:
            for arg in node.args:
                self.uses[id(arg)] = self.uses.get(id(arg), 0) + 1
        for node in roots:
            self.uses[id(node)] = 2

    def __getitem__(self, node: Node) -> str:
        return self.number(float(str(node.tag))) if node.op == "const" else self.names[id(node)]

    def __contains__(self, node: Node) -> bool:
        return node.op == "const" or id(node) in self.names

    def call(self, node: Node, wanted: str | None = None) -> str:
        """Give a node a name of its own, the wanted one or its own name where that is free."""
        base = wanted or node.name or "v"
        name = base
        while name in self.taken:
            self.calls[base] = self.calls.get(base, 0) + 1
            name = f"{base}_{self.calls[base]}"
        self.names[id(node)] = name
        self.taken.add(name)
        return name

    def lines(self, batch: Iterable[Node]) -> list[str]:
        """Lines for these nodes, arguments first. An unnamed value that is used once is written where it is used."""
        batch = list(batch)
        local = {id(arg) for node in batch for arg in node.args}
        inline: dict[int, str] = {}
        depth: dict[int, int] = {}
        out = []
        for node in batch:
            if node in self:
                continue
            style = self.style[node.op]
            if node.op in self.clamp and node.args[1].op == "const":
                style = self.clamp[node.op]
            args = [inline.get(id(arg)) or self[arg] for arg in node.args]
            value = style.format(*args, all=", ".join(args))
            depth[id(node)] = 1 + max((depth[id(arg)] for arg in node.args if id(arg) in inline), default=0)
            once = self.uses.get(id(node)) == 1 and id(node) in local
            if once and not node.name and depth[id(node)] < _DEEPEST:
                inline[id(node)] = f"({value})" if node.op in _BRACKETED else value
            else:
                out.append(f"{self.call(node)} = {value}")
        return out
