"""Where a cell's weights lie: the rows of W, the blocks of R, the vectors; the same for every engine and file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.graph import ancestors


@dataclass(frozen=True)
class Block:
    """Recurrent matrices of one shape, stacked: (gates * out, into).

    Args:
        name: the name of the parameter, ``R`` where it is the cell's only block.
        gates: the products, in the order of the rows.
        out: the name of the width of each gate.
        into: the name of the width of what is multiplied.
    """

    name: str
    gates: tuple[str, ...]
    out: str
    into: str


@dataclass(frozen=True)
class Layout:
    """The names of widths of everything that a layer owns.

    Args:
        rows: gate -> width: the rows of W and of b, in the order of the cell's gates.
        blocks: the parameters that R is made of.
        params: parameter -> width.
        states: state -> width.
        noise: stream -> width.
        equal: pairs of sizes that must be equal, with the line of the equation that says so.
    """

    rows: Mapping[str, str]
    blocks: tuple[Block, ...]
    params: Mapping[str, str]
    states: Mapping[str, str]
    noise: Mapping[str, str]
    equal: tuple[tuple[str, str, str], ...]

    @property
    def sizes(self) -> set[str]:
        """The names of all sizes that the layer must know."""
        blocks = {size for block in self.blocks for size in (block.out, block.into)}
        return {*self.rows.values(), *blocks, *self.params.values(), *self.states.values()}


def layout(cell: Cell) -> Layout:
    """The layout of a cell's weights.

    >>> from riverrun.nn.cells.lstm import LSTM
    >>> layout(LSTM()).blocks
    (Block(name='R', gates=('i', 'f', 'g', 'o'), out='hidden', into='hidden'),)
    """
    graph = cell.graph
    if graph is None:  # no graph to read: every gate has both products, everything is as wide as the memory
        hidden = dict.fromkeys(cell.gates, "hidden")
        states = {name: cell.widths.get(name, "hidden") for name in cell.states}
        blocks = (Block("R", tuple(cell.gates), "hidden", states[cell.states[0]]),) if cell.gates else ()
        return Layout(hidden, blocks, dict.fromkeys(cell.params, "hidden"), states, {}, ())
    streams = graph.leaves("x")
    rows = {gate: streams[gate].width.size() for gate in graph.gates if gate in streams}
    stacks: dict[tuple[str, str, int], list[str]] = {}
    products = {str(n.tag): n for n in ancestors(graph.new.values()) if n.op == "dot"}
    for gate in sorted(products, key=graph.product_rank):
        node = products[gate]
        key = node.width.size(), graph.gate_in[gate].size(), graph.product_rank(gate)[0]
        stacks.setdefault(key, []).append(gate)
    return Layout(
        rows,
        tuple(
            Block("R" if len(stacks) == 1 else f"R_{gates[0]}", tuple(gates), out, into)
            for (out, into, _), gates in stacks.items()
        ),
        {name: node.width.size() for name, node in graph.leaves("p").items()},
        {name: graph.widths.get(name, "hidden") for name in graph.states},
        {name: streams[name].width.size() for name in graph.noise if name in streams},
        tuple(graph.equal),
    )
