"""A cell run over time: the layer that owns the weights, draws the noise and hands both to an engine."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from riverrun.data.padded import Padded
from riverrun.errors import ConfigError, RiverrunError, ShapeError, StateError, nearest
from riverrun.nn.cells.cell import Cell
from riverrun.nn.cells.graph import Graph
from riverrun.nn.cells.layout import layout
from riverrun.nn.cells.store import dumps
from riverrun.nn.cells.table import make_cell
from riverrun.nn.engines import eager
from riverrun.nn.engines.padding import backwards
from riverrun.nn.engines.request import Request, Result, Weights
from riverrun.nn.engines.table import check_name, choose, choose_for, explain
from riverrun.nn.engines.watch import tell

State = tuple[Tensor, ...]
"""A NamedTuple of (B, width) tensors, one for each state of the cell."""

Sequences = TypeVar("Sequences", Padded, Tensor)


class Recurrent(nn.Module):
    r"""One layer, one direction: :math:`(y_t, s_t) = \mathrm{step}(x_t, s_{t-1})` for all t.

    What stands in the padding has no influence on an output, a state or a gradient; outputs there are 0, and the final
    state of a row is that after its last step (its first state, where the row is empty).

    The parameters are ``W`` (rows, D) and ``b`` (rows,), the rows of the gates that read the input in the order of
    ``cell.gates``; ``R`` (gates * H, H), or several ``R_<gate>`` where shapes differ; ``p_<name>`` for each ``p.name``.

    Args:
        cell: a cell, its name in ``CELLS``, or a table with ``kind`` and its options.
        input_size: D.
        hidden_size: H.
        output_size: width of the output, for cells that project it; H when not given.
        engine: ``auto``, or the one that must run: ``eager``, ``vendor`` or ``scan``. On a GPU, ``vendor`` multiplies
            float32 in TF32, about three digits; ``describe`` says so there, and how to change it.
        reverse: run each row backwards, by its length.
        weight_drop: share of the entries of R that training sets to 0, drawn once a call.
        allow_import: whether ``cell`` may name a class of somebody else's module.

    >>> layer = Recurrent("gru", 3, 4)
    >>> y, state = layer(Padded(torch.randn(2, 5, 3), torch.tensor([5, 0])))
    >>> y.data.shape, state.h.shape
    (torch.Size([2, 5, 4]), torch.Size([2, 4]))
    """

    def __init__(
        self,
        cell: Cell | str | Mapping[str, Any],
        input_size: int,
        hidden_size: int,
        *,
        output_size: int | None = None,
        engine: str = "auto",
        reverse: bool = False,
        weight_drop: float = 0.0,
        allow_import: bool = False,
    ) -> None:
        super().__init__()
        self.cell = make_cell(cell, allow_import=allow_import)
        self.layout = layout(self.cell)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.sizes = {"input": input_size, "hidden": hidden_size, "output": output_size or hidden_size}
        self.engine, self.reverse, self.weight_drop = engine, reverse, weight_drop
        self._check(output_size)
        sizes = self.sizes
        rows = sum(sizes[width] for width in self.layout.rows.values())
        self.W = nn.Parameter(torch.zeros(rows, input_size)) if rows else None
        self.b = nn.Parameter(torch.zeros(rows)) if rows else None
        for block in self.layout.blocks:
            shape = len(block.gates) * sizes[block.out], sizes[block.into]
            self.register_parameter(block.name, nn.Parameter(torch.zeros(shape)))
        for name, width in self.layout.params.items():
            self.register_parameter(f"p_{name}", nn.Parameter(torch.zeros(sizes[width])))
        self._quiet = self.cell.graph.quiet() if self.cell.graph else None
        self.output_size: int = sizes[self.layout.states[self.cell.states[0]]]
        self.reset_parameters()
        for graph in {self.cell.graph, self._quiet}:
            choose(engine, self.cell, graph, torch.device("cpu"), torch.get_default_dtype())

    def _check(self, output_size: int | None) -> None:
        check_name(self.engine)
        for what, size in self.sizes.items():
            if not isinstance(size, int) or size < 1:
                raise ConfigError(f"Recurrent: {what}_size must be a whole number from 1, received {size!r}")
        if not 0 <= self.weight_drop < 1:
            raise ConfigError(f"Recurrent: weight_drop must be from 0 to below 1, received {self.weight_drop!r}")
        if output_size is not None and "output" not in self.layout.sizes:
            raise ConfigError(
                f"Recurrent: {self.cell!r} has no output of a width of its own, received output_size={output_size}; "
                "leave it out, or take a cell that projects, as lstm-projected"
            )
        for a, b, where in self.layout.equal:
            if self.sizes[a] != self.sizes[b]:
                raise ConfigError(
                    f"Recurrent: {self.cell!r} needs {a}_size == {b}_size, received {self.sizes[a]} and "
                    f"{self.sizes[b]}, because of\n    {where}\n    make them equal, or take a cell that projects its "
                    "input (a gate of its own instead of x.raw)"
                )
        if self.weight_drop and not self.layout.blocks:
            raise ConfigError(f"Recurrent: {self.cell!r} has no recurrent matrix that weight_drop could drop from")

    def reset_parameters(self) -> None:
        """Uniform within 1 / sqrt(H), as torch does it; the cell's own vectors take the values that it declares."""
        bound = 1 / math.sqrt(self.hidden_size)
        for name, value in self.named_parameters():
            if name.startswith("p_"):
                nn.init.constant_(value, self.cell.init.get(name.removeprefix("p_"), 0.0))
            else:
                nn.init.uniform_(value, -bound, bound)

    def extra_repr(self) -> str:
        """What is not said by the parameters."""
        said = [f"{self.cell!r}", f"{self.input_size}", f"{self.hidden_size}"]
        said += [f"output_size={self.output_size}"] if "output" in self.layout.sizes else []
        said += ["reverse=True"] if self.reverse else []
        said += [f"weight_drop={self.weight_drop}"] if self.weight_drop else []
        return ", ".join(said)

    def describe(self) -> str:
        """The cell, its sizes, and which engine runs it where its weights are now, and why.

        >>> Recurrent("lstm", 3, 4).describe()
        'lstm 3 -> 4: vendor, because the cell is exactly torch.nn.LSTM; a few steps run in eager where that is faster'
        """
        way = " backwards" if self.reverse else ""
        why = explain(self.engine, self.cell, self._graph(), *self._place())
        return f"{self.cell.kind} {self.input_size} -> {self.output_size}{way}: {why}"

    def initial_state(self, rows: int) -> State:
        """The state before the first step: 0, or what the cell declares."""
        device, dtype = self._place()
        start = self.cell.start
        widths = {name: self.sizes[width] for name, width in self.layout.states.items()}
        return self._state(
            torch.full((rows, width), start.get(name, 0.0), device=device, dtype=dtype)
            for name, width in widths.items()
        )

    def forward(self, x: Sequences, state: State | None = None) -> tuple[Sequences, State]:
        """All steps.

        Args:
            x: ``Padded`` (B, T, D), or a tensor (B, T, D) of full rows.
            state: of (B, width) tensors; ``initial_state`` where it is not given.

        Returns:
            y of the same kind (B, T, output_size), and the state after the last step of each row.
        """
        data, lengths = self._inputs(x)
        before = self._before(data, state)
        if torch.compiler.is_exporting():
            y, after = self._node(data, lengths, before)
        else:
            y, after = self._over_time(data, lengths, before, self._run)
        return _like(x, y), self._state(after)

    def trace(
        self, x: Sequences, state: State | None = None, names: Sequence[str] | None = None
    ) -> tuple[Sequences, State, dict[str, Tensor]]:
        """All steps in the eager engine, and the values that the equation gives a name: gates, states.

        Args:
            x: as in ``forward``.
            state: as in ``forward``.
            names: which values, as ``["f", "c"]``; all by default.

        Returns:
            y, the state, and name -> (B, T, width), 0 in the padding.
        """
        graph = self._graph()
        if graph is None:
            raise ConfigError(f"trace: {self.cell!r} has no graph (traced = False), so its values have no names")
        known = list(graph.traces())
        for name in names or ():
            if name not in known:
                raise ConfigError(
                    f"trace: {self.cell!r} has no value '{name}'{nearest(name, known)}; it has {', '.join(known)}"
                )
        data, lengths = self._inputs(x)
        found: dict[str, Tensor] = {}

        def run(request: Request) -> Result:
            tell(self.cell.kind, "eager")
            result, values = eager.run_traced(request, tuple(known if names is None else names))
            found.update(values)
            return result

        y, after = self._over_time(data, lengths, self._before(data, state), run)
        if self.reverse:
            found = {name: backwards(value, lengths) for name, value in found.items()}
        return _like(x, y), self._state(after), found

    # -- one run

    def _inputs(self, x: Padded | Tensor) -> tuple[Tensor, Tensor | None]:
        """The data and the lengths; None for them where all rows are known to be full."""
        data: Tensor = x.data if isinstance(x, Padded) else x
        if not isinstance(data, Tensor):
            raise ShapeError(
                f"Recurrent: expected x as a torch tensor, received {type(data).__module__}.{type(data).__name__}; "
                "convert it with torch.from_numpy, a Padded or a Batch with x.map(torch.from_numpy)"
            )
        if data.ndim != 3 or data.shape[2] != self.input_size:
            raise ShapeError(
                f"Recurrent(input_size={self.input_size}): expected x (B, T, {self.input_size}), received "
                f"{tuple(data.shape)}"
            )
        self._check_types(ShapeError, {"x": data})
        if not isinstance(x, Padded):
            return data, None
        lengths: Tensor = x.lengths
        if lengths.dtype != torch.int64:
            lengths = lengths.to(torch.int64)  # engines calculate with them, and small types overflow
        known = lengths.device.type == "cpu" and not torch.compiler.is_compiling()
        if known and len(lengths) and int(lengths.min()) == data.shape[1]:
            return data, None
        return data, lengths

    def _before(self, data: Tensor, state: State | None) -> State:
        if state is None:
            return self.initial_state(data.shape[0])
        names, widths = self.cell.states, self.layout.states
        wanted = [(data.shape[0], self.sizes[widths[name]]) for name in names]
        if [tuple(value.shape) for value in state] != wanted:
            listed = ", ".join(f"{name} {shape}" for name, shape in zip(names, wanted, strict=True))
            raise StateError(
                f"Recurrent({self.cell!r}): expected a state of {listed}, received "
                f"{', '.join(str(tuple(value.shape)) for value in state)}; a state belongs to one layer and one batch"
            )
        self._check_types(StateError, dict(zip(names, state, strict=True)))
        return state

    def _check_types(self, error: type[RiverrunError], values: Mapping[str, Tensor]) -> None:
        """An error unless the products take numbers of these types: that of the weights; autocast mixes but float64."""
        own = self._place()[1]
        for name, value in values.items():
            found = value.dtype
            if found == own or (self.W is None and not self.layout.blocks):
                continue
            how = f"convert it with .to({own}), or the layer with .to({found})"
            if not found.is_floating_point:
                how = f"convert it with .to({own}); ids go through an Embedding first"
            elif torch.is_autocast_enabled(value.device.type) and torch.float64 not in (found, own):
                continue
            ours, theirs = (str(dtype).removeprefix("torch.") for dtype in (own, found))
            what = name if error is ShapeError else f"{name} of the state"
            raise error(f"Recurrent: expected {what} of type {ours}, as the weights are, received {theirs}; {how}")

    def _run(self, request: Request) -> Result:
        engine = choose_for(self.engine, request)
        tell(self.cell.kind, engine.name)
        return engine.run(request)

    def _over_time(
        self, data: Tensor, lengths: Tensor | None, state: State, run: Callable[[Request], Result]
    ) -> Result:
        rows, steps = data.shape[:2]
        if rows == 0 or steps == 0:
            return data.new_zeros((rows, steps, self.output_size)), state
        graph = self._graph()
        request = Request(
            cell=self.cell,
            graph=graph,
            x=backwards(data, lengths) if self.reverse else data,
            lengths=lengths,
            state=state,
            weights=self._weights(),
            noise=self._noise(graph, rows, steps, data),
        )
        y, after = run(request)
        return backwards(y, lengths) if self.reverse else y, after

    def _graph(self) -> Graph | None:
        return self.cell.graph if self.training else self._quiet

    def _place(self) -> tuple[torch.device, torch.dtype]:
        parameter: Tensor | None = self.W
        if parameter is None:
            parameter = next(self.parameters(), None)
        if parameter is None:
            return torch.device("cpu"), torch.get_default_dtype()
        return parameter.device, parameter.dtype

    def _state(self, values: Iterable[Tensor]) -> State:
        state: State = _state_type(tuple(self.cell.states))(*values)
        return state

    def _weights(self) -> Weights:
        dropped = self.weight_drop if self.training else 0.0
        return Weights(
            W=self.W,
            b=self.b,
            rows={gate: self.sizes[width] for gate, width in self.layout.rows.items()},
            blocks=[
                (block, nn.functional.dropout(matrix, dropped) if dropped else matrix)
                for block in self.layout.blocks
                for matrix in [getattr(self, block.name)]
            ],
            p={name: getattr(self, f"p_{name}") for name in self.layout.params},
        )

    def _noise(self, graph: Graph | None, rows: int, steps: int, like: Tensor) -> dict[str, Tensor]:
        if graph is None:
            return {}
        return {
            name: like.new_full(
                (steps if noise.each == "step" else 1, rows, self.sizes[self.layout.noise[name]]), noise.rate
            ).bernoulli()
            * noise.high
            for name, noise in graph.noise.items()
        }

    def _node(self, data: Tensor, lengths: Tensor | None, state: State) -> Result:
        """The whole recurrence as one node of an exported graph, which ``riverrun.export`` replaces."""
        if self._quiet is None:
            raise ConfigError(f"export: {self.cell!r} has no graph (traced = False), so it cannot be exported")
        weights = self._weights()
        named: dict[str, Tensor] = {}
        if weights.W is not None and weights.b is not None:
            named |= {"W": weights.W, "b": weights.b}
        named |= {f"R.{gate}": weights.product(gate) for block in self.layout.blocks for gate in block.gates}
        named |= {f"p.{name}": value for name, value in weights.p.items()}
        named |= {f"s.{name}": value for name, value in zip(self.cell.states, state, strict=True)}
        if lengths is not None:
            data = Padded(data, lengths).zeroed().data
        else:
            lengths = torch.full((data.shape[0],), data.shape[1], dtype=torch.int64)
        shapes = [(data.shape[0], data.shape[1], self.output_size), *(value.shape for value in state)]
        y, *after = torch.onnx.ops.symbolic_multi_out(
            "riverrun::Recurrence",
            [data, lengths.to(torch.int64), *named.values()],
            {
                "graph": dumps(self._quiet),
                "hidden": self.hidden_size,
                "reverse": int(self.reverse),
                "inputs": ",".join(named),
            },
            dtypes=[data.dtype] * len(shapes),
            shapes=shapes,
            version=1,
        )
        return y, tuple(after)


@lru_cache(maxsize=512)
def _state_type(names: tuple[str, ...]) -> Any:
    kind = cast(Any, namedtuple("State", names))
    kind.__reduce__ = lambda self: (restored_state, (self._fields, tuple(self)))
    return kind


def restored_state(names: tuple[str, ...], values: State) -> State:
    """The state that was pickled: its class is made anew from the names, since no module has it."""
    state: State = _state_type(names)(*values)
    return state


def _like(x: Sequences, y: Tensor) -> Sequences:
    return x.with_data(y) if isinstance(x, Padded) else y
