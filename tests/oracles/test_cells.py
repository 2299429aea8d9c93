"""Every cell against numpy cells written from the papers, and against torch.nn where torch has the same."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from riverrun.data.padded import Padded  # noqa: E402
from riverrun.nn.cells import CELLS, Cell, make_cell  # noqa: E402
from riverrun.nn.layers.convert import from_torch, to_torch  # noqa: E402
from riverrun.nn.layers.recurrent import Recurrent  # noqa: E402
from riverrun.nn.layers.stack import Stack  # noqa: E402

pytestmark = pytest.mark.train

Vector = np.ndarray[Any, Any]
Weights = SimpleNamespace  # W, b, R, p: name -> array
SIZE, OUTPUT, LENGTHS = 4, 3, [4, 1, 0, 6]


def sig(v: Vector) -> Vector:
    return 1 / (1 + np.exp(-v))


def affine(w: Weights, gate: str, x: Vector, h: Vector) -> Vector:
    return w.W[gate] @ x + w.b[gate] + w.R[gate] @ h


def elman(phi: Callable[[Vector], Vector]) -> Callable[..., tuple[Vector, ...]]:
    return lambda w, x, h: (phi(affine(w, "h", x, h)),)


def lstm(w: Weights, x: Vector, h: Vector, c: Vector) -> tuple[Vector, ...]:
    i, f, o = (sig(affine(w, gate, x, h)) for gate in "ifo")
    c = f * c + i * np.tanh(affine(w, "g", x, h))
    return o * np.tanh(c), c


def lstm_without_output_gate(w: Weights, x: Vector, h: Vector, c: Vector) -> tuple[Vector, ...]:
    i, f = (sig(affine(w, gate, x, h)) for gate in "if")
    c = f * c + i * np.tanh(affine(w, "g", x, h))
    return np.tanh(c), c


def lstm_1997(w: Weights, x: Vector, h: Vector, c: Vector) -> tuple[Vector, ...]:
    i, o = (sig(affine(w, gate, x, h)) for gate in "io")
    c = c + i * np.tanh(affine(w, "g", x, h))
    return o * np.tanh(c), c


def lstm_peephole(w: Weights, x: Vector, h: Vector, c: Vector) -> tuple[Vector, ...]:
    i = sig(affine(w, "i", x, h) + w.p["i"] * c)
    f = sig(affine(w, "f", x, h) + w.p["f"] * c)
    c = f * c + i * np.tanh(affine(w, "g", x, h))
    o = sig(affine(w, "o", x, h) + w.p["o"] * c)  # of the new memory
    return o * np.tanh(c), c


def lstm_coupled(w: Weights, x: Vector, h: Vector, c: Vector) -> tuple[Vector, ...]:
    f, o = (sig(affine(w, gate, x, h)) for gate in "fo")
    c = f * c + (1 - f) * np.tanh(affine(w, "g", x, h))
    return o * np.tanh(c), c


def lstm_projected(limit: float) -> Callable[..., tuple[Vector, ...]]:
    def step(w: Weights, x: Vector, h: Vector, c: Vector) -> tuple[Vector, ...]:
        i, f, o = (sig(affine(w, gate, x, h)) for gate in "ifo")
        c = np.clip(f * c + i * np.tanh(affine(w, "g", x, h)), -limit, limit)
        return np.clip(w.R["y"] @ (o * np.tanh(c)), -limit, limit), c

    return step


def gru(w: Weights, x: Vector, h: Vector) -> tuple[Vector, ...]:
    r, z = (sig(affine(w, gate, x, h)) for gate in "rz")
    n = np.tanh(affine(w, "n", x, r * h))
    return ((1 - z) * h + z * n,)


def gru_reset_after(w: Weights, x: Vector, h: Vector) -> tuple[Vector, ...]:
    r, z = (sig(affine(w, gate, x, h)) for gate in "rz")
    n = np.tanh(w.W["n"] @ x + w.b["n"] + r * (w.R["n"] @ h + w.p["b"]))
    return ((1 - z) * n + z * h,)


def sru(w: Weights, x: Vector, h: Vector, c: Vector) -> tuple[Vector, ...]:
    f, r = (sig(w.W[gate] @ x + w.p[gate] * c + w.b[gate]) for gate in "fr")
    c = f * c + (1 - f) * (w.W["u"] @ x + w.b["u"])
    beside = w.W["k"] @ x + w.b["k"] if "k" in w.W else x
    return r * c + (1 - r) * beside, c


def mingru(w: Weights, x: Vector, h: Vector) -> tuple[Vector, ...]:
    z = sig(w.W["z"] @ x + w.b["z"])
    return ((1 - z) * h + z * (w.W["n"] @ x + w.b["n"]),)


def normed(*vs: Vector) -> list[Vector]:
    whole = np.concatenate(vs)
    return [(v - whole.mean()) / np.sqrt(whole.var() + 1e-5) for v in vs]


def layernorm_lstm(w: Weights, x: Vector, h: Vector, c: Vector) -> tuple[Vector, ...]:
    from_x = normed(*(w.W[gate] @ x + w.b[gate] for gate in "ifgo"))
    from_h = normed(*(w.R[gate] @ h for gate in "ifgo"))
    i, f, g, o = (
        w.p[f"x{gate}"] * a + w.p[f"h{gate}"] * b + w.p[f"b{gate}"]
        for gate, a, b in zip("ifgo", from_x, from_h, strict=True)
    )
    c = sig(f) * c + sig(i) * np.tanh(g)
    return sig(o) * np.tanh(w.p["c"] * normed(c)[0] + w.p["bc"]), c


def layernorm_gru(w: Weights, x: Vector, h: Vector) -> tuple[Vector, ...]:
    from_x = normed(*(w.W[gate] @ x + w.b[gate] for gate in "rz"))
    from_h = normed(*(w.R[gate] @ h for gate in "rz"))
    r, z = (
        sig(w.p[f"x{gate}"] * a + w.p[f"h{gate}"] * b + w.p[f"b{gate}"])
        for gate, a, b in zip("rz", from_x, from_h, strict=True)
    )
    inner = w.p["hn"] * normed(w.R["n"] @ h)[0] + w.p["bh"]
    n = np.tanh(w.p["xn"] * normed(w.W["n"] @ x + w.b["n"])[0] + w.p["bn"] + r * inner)
    return ((1 - z) * h + z * n,)


def mogrifier(rounds: int) -> Callable[..., tuple[Vector, ...]]:
    def step(w: Weights, x: Vector, h: Vector, c: Vector) -> tuple[Vector, ...]:
        for k in range(1, rounds + 1):
            if k % 2:
                x = 2 * sig(w.R["q"] @ h) * x
            else:
                h = 2 * sig(w.R["r"] @ x) * h
        i, f, g, o = (w.R[f"{gate}_0"] @ x + w.R[f"{gate}_1"] @ h + w.p[gate] for gate in "ifgo")
        c = sig(f) * c + sig(i) * np.tanh(g)
        return sig(o) * np.tanh(c), c

    return step


def slstm(w: Weights, x: Vector, h: Vector, c: Vector, n: Vector, m: Vector) -> tuple[Vector, ...]:
    log_i, log_f = affine(w, "i", x, h), np.log(sig(affine(w, "f", x, h)))
    new = np.maximum(log_f + m, log_i)
    i, f = np.exp(log_i - new), np.exp(log_f + m - new)
    c = f * c + i * np.tanh(affine(w, "z", x, h))
    n = f * n + i
    return sig(affine(w, "o", x, h)) * c / n, c, n, new


ORACLES: dict[str, tuple[Any, Callable[..., tuple[Vector, ...]]]] = {
    "elman": ("elman", elman(np.tanh)),
    "elman-relu": ({"kind": "elman", "nonlinearity": "relu"}, elman(lambda v: np.maximum(v, 0))),
    "elman-sigmoid": ({"kind": "elman", "nonlinearity": "sigmoid"}, elman(sig)),
    "elman-identity": ({"kind": "elman", "nonlinearity": "identity"}, elman(lambda v: v)),
    "lstm": ("lstm", lstm),
    "lstm-no-output-gate": ("lstm-no-output-gate", lstm_without_output_gate),
    "lstm-1997": ("lstm-1997", lstm_1997),
    "lstm-peephole": ("lstm-peephole", lstm_peephole),
    "lstm-coupled": ("lstm-coupled", lstm_coupled),
    "lstm-projected": ("lstm-projected", lstm_projected(3.0)),
    "lstm-projected-tight": ({"kind": "lstm-projected", "limit": 0.3}, lstm_projected(0.3)),
    "gru": ("gru", gru),
    "gru-reset-after": ("gru-reset-after", gru_reset_after),
    "sru": ("sru", sru),
    "sru-projected": ("sru-projected", sru),
    "mingru": ("mingru", mingru),
    "layernorm-lstm": ("layernorm-lstm", layernorm_lstm),
    "layernorm-gru": ("layernorm-gru", layernorm_gru),
    "mogrifier": ("mogrifier", mogrifier(5)),
    "mogrifier-2": ({"kind": "mogrifier", "rounds": 2}, mogrifier(2)),
    "slstm": ("slstm", slstm),
}


def named_weights(layer: Recurrent) -> Weights:
    """The layer's parameters under the names of the equation, cut out by the order that the cell declares."""
    own = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    found = Weights(W={}, b={}, R={}, p={name: own[f"p_{name}"] for name in layer.cell.params})
    reads = [gate for gate in layer.cell.gates if gate in layer.layout.rows]
    if reads:
        found.W = dict(zip(reads, np.split(own["W"], len(reads)), strict=True))
        found.b = dict(zip(reads, np.split(own["b"], len(reads)), strict=True))
    for block in layer.layout.blocks:
        found.R |= dict(zip(block.gates, np.split(own[block.name], len(block.gates)), strict=True))
    return found


def is_the_paper(cell: Cell, step: Callable[..., tuple[Vector, ...]], engine: str = "eager") -> None:
    """A whole ragged run from a random state."""
    torch.manual_seed(0)
    sizes = {"output_size": OUTPUT} if "output" in cell.widths.values() else {}
    layer = Recurrent(cell, SIZE, SIZE, engine=engine, **sizes).double()
    for value in layer.parameters():
        torch.nn.init.normal_(value, std=0.7)
    x = Padded(torch.randn(len(LENGTHS), max(LENGTHS), SIZE, dtype=torch.float64), torch.tensor(LENGTHS))
    state = layer.initial_state(len(LENGTHS))
    state = type(state)(*(torch.rand_like(value) + 0.1 for value in state))
    y, final = layer(x, state)
    w = named_weights(layer)
    for k, row in enumerate(x.rows()):
        now = tuple(value[k].numpy() for value in state)
        for t, v in enumerate(row.numpy()):
            now = step(w, v, *now)
            np.testing.assert_allclose(y.data[k, t].detach().numpy(), now[0], rtol=1e-10, atol=1e-12)
        for a, b in zip(final, now, strict=True):
            np.testing.assert_allclose(a[k].detach().numpy(), b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ORACLES)
def test_cell_is_the_paper(name):
    spec, step = ORACLES[name]
    is_the_paper(make_cell(spec), step)


def test_every_cell_has_an_oracle():
    assert {type(make_cell(spec)) for spec, _ in ORACLES.values()} == set(CELLS.values())


TORCH = {
    "lstm": ("lstm", torch.nn.LSTM, {}),
    "lstm-projected": ({"kind": "lstm-projected", "limit": float("inf")}, torch.nn.LSTM, {"proj_size": OUTPUT}),
    "gru-reset-after": ("gru-reset-after", torch.nn.GRU, {}),
    "elman": ("elman", torch.nn.RNN, {}),
    "elman-relu": ({"kind": "elman", "nonlinearity": "relu"}, torch.nn.RNN, {"nonlinearity": "relu"}),
}


def theirs_and_ours(name: str, engine: str = "auto") -> tuple[Any, Recurrent]:
    torch.manual_seed(1)
    spec, kind, options = TORCH[name]
    theirs = kind(SIZE, 5, batch_first=True, **options).double()
    sizes = {"output_size": OUTPUT} if "proj_size" in options else {}
    ours = Recurrent(spec, SIZE, 5, engine=engine, **sizes).double()
    from_torch(ours, theirs.state_dict())
    return theirs, ours


@pytest.mark.parametrize("engine", ["eager", "auto"])
@pytest.mark.parametrize("name", TORCH)
def test_cell_is_torchs(name, engine):
    theirs, ours = theirs_and_ours(name, engine)
    x = torch.randn(3, 6, SIZE, dtype=torch.float64, requires_grad=True)
    first = tuple(torch.randn_like(v) for v in ours.initial_state(3))
    expected, last = theirs(x, tuple(v[None] for v in first) if len(first) > 1 else first[0][None])
    y, final = ours(x, first)
    torch.testing.assert_close(y, expected)
    for a, b in zip(final, last if isinstance(last, tuple) else (last,), strict=True):
        torch.testing.assert_close(a, b[0])
    weights = torch.randn_like(y)
    found = torch.autograd.grad((y * weights).sum(), [x, ours.W, ours.b])
    wanted = torch.autograd.grad((expected * weights).sum(), [x, theirs.weight_ih_l0, theirs.bias_ih_l0])
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", TORCH)
def test_weights_go_to_torch_and_back(name):
    theirs, ours = theirs_and_ours(name)
    other = type(theirs)(SIZE, 5, batch_first=True, **TORCH[name][2]).double()
    other.load_state_dict(to_torch(ours))
    x = torch.randn(2, 3, SIZE, dtype=torch.float64)
    torch.testing.assert_close(other(x)[0], theirs(x)[0])
    again = theirs_and_ours(name)[1]
    from_torch(again, other.state_dict())
    for a, b in zip(again.parameters(), ours.parameters(), strict=True):
        assert a.equal(b)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize(("name", "kind"), [("lstm", torch.nn.LSTM), ("gru-reset-after", torch.nn.GRU)])
def test_stack_of_both_directions_is_torchs(name, kind, bias):
    torch.manual_seed(2)
    theirs = kind(SIZE, 3, num_layers=2, bidirectional=True, batch_first=True, bias=bias).double()
    ours = Stack(name, SIZE, 3, layers=2, bidirectional=True).double()
    from_torch(ours, theirs.state_dict())
    x = torch.randn(3, 5, SIZE, dtype=torch.float64)
    lengths = torch.tensor([5, 2, 4])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    y, _ = ours(Padded(x, lengths))
    torch.testing.assert_close(y.data, expected)
    if bias:
        assert set(to_torch(ours)) == set(theirs.state_dict())
