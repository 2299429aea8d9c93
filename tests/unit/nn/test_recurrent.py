"""What the layer says, refuses and draws."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import riverrun.nn  # noqa: E402
from riverrun.data.padded import Padded  # noqa: E402
from riverrun.errors import CheckpointError, ConfigError, ShapeError, StateError  # noqa: E402
from riverrun.nn.cells import Cell, RecurrentDropout, TracedCell, make_cell  # noqa: E402
from riverrun.nn.engines import Ran, kernel, program, scan, vendor, watch  # noqa: E402
from riverrun.nn.engines.table import explain  # noqa: E402
from riverrun.nn.layers import recurrent  # noqa: E402
from riverrun.nn.layers.convert import from_torch, to_torch  # noqa: E402
from riverrun.nn.layers.recurrent import Recurrent  # noqa: E402
from riverrun.nn.layers.stack import Stack  # noqa: E402

pytestmark = pytest.mark.train


class Untraced(Cell):
    gates = ("h",)
    traced = False

    def step(self, x, s, R, p):
        return s.next(h=torch.asinh(x.h + R.h(s.h)))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("lstm", 0, 4), {}, "input_size must be a whole number from 1, received 0"),
        (("lstm", 3, 4), {"weight_drop": 1.0}, "weight_drop must be from 0 to below 1, received 1.0"),
        (("sru-projected", 3, 4), {"weight_drop": 0.5}, "has no recurrent matrix that weight_drop could drop from"),
        (("lstm", 3, 4), {"output_size": 2}, "no output of a width of its own, received output_size=2"),
        (("sru", 3, 4), {}, r"needs hidden_size == input_size, received 4 and 3(.|\n)*x.raw"),
        (
            ("lstm", 3, 4),
            {"engine": "vendr"},
            r"no engine 'vendr'; did you mean 'vendor'\?; expected one of auto",
        ),
        (
            ("gru", 3, 4),
            {"engine": "vendor"},
            "engine='vendor' cannot run GRU.. on cpu in float32: torch has",
        ),
        (("lstm", 3, 4), {"engine": "scan"}, "its units see each other at every step, as in every dense recurrence"),
        ((Untraced(), 3, 4), {"engine": "scan"}, "the cell has no graph"),
        ((RecurrentDropout(make_cell("lstm")), 3, 4), {"engine": "vendor"}, "torch has no such cell"),
    ],
)
def test_what_cannot_be_built(arguments, options, message):
    with pytest.raises(ConfigError, match=message):
        Recurrent(*arguments, **options)


def test_scan_refuses_types_and_devices():
    graph = make_cell("mingru").graph
    assert "computes in float32 and float64, not in bfloat16" in scan.refusal(
        graph, torch.device("cpu"), torch.bfloat16
    )
    assert "runs on a CPU, not on cuda" in scan.refusal(graph, torch.device("cuda"), torch.float32)


def test_scan_without_numba(monkeypatch):
    monkeypatch.setattr(scan.importlib.util, "find_spec", lambda name: None)
    refused = scan.refusal(make_cell("mingru").graph, torch.device("cpu"), torch.float32)
    assert refused == "it needs the package 'numba': pip install 'riverrun[train]'"


@pytest.mark.parametrize(
    ("cell", "engine", "said"),
    [
        ("lstm", "auto", "lstm 3 -> 3: vendor, because the cell is exactly torch.nn.LSTM; a few"),
        ("gru-reset-after", "vendor", "gru-reset-after 3 -> 3: vendor, as asked"),
        ("sru", "auto", "sru 3 -> 3: scan, because the recurrence is diagonal: no unit sees"),
        ("mingru", "auto", "mingru 3 -> 3: scan, because the recurrence is linear"),
        ("gru", "auto", "gru 3 -> 3: eager, because it runs every cell; vendor cannot: torch has no such cell"),
        (Untraced(), "auto", "eager, because it runs every cell; vendor cannot: "),
    ],
)
def test_describe_says_which_engine_and_why(cell, engine, said):
    assert said in Recurrent(cell, 3, 3, engine=engine).describe()
    assert " backwards: " in Recurrent(cell, 3, 3, engine=engine, reverse=True).describe()


def test_dropout_is_vendor_outside_training():
    layer = Recurrent(RecurrentDropout(make_cell("lstm")), 3, 4)
    x = torch.zeros(2, 3, 3)
    with watch() as ran:
        layer(x)
        layer.eval()(x)
    assert [one.engine for one in ran] == ["eager", "vendor"]


def test_watchers_are_nested_and_end():
    layer = Recurrent("gru", 3, 4)
    with watch() as outer:
        layer(torch.zeros(1, 2, 3))
        with watch() as inner:
            layer.trace(torch.zeros(1, 2, 3))
    layer(torch.zeros(1, 2, 3))
    assert inner == [Ran("gru", "eager")]
    assert outer == [Ran("gru", "eager")] * 2


@pytest.mark.parametrize(
    ("cell", "size", "shape", "gradient", "engine"),
    [
        ("lstm", 256, (1, 1), False, "eager"),  # the weights would be put in another order for one product
        ("lstm", 256, (1, 30), False, "vendor"),
        ("lstm", 256, (32, 4), False, "vendor"),
        ("lstm", 16, (1, 1), False, "vendor"),
        ("gru-reset-after", 256, (1, 1), False, "vendor"),
        ("mingru", 16, (2, 3), True, "eager"),
        ("mingru", 16, (2, 5), True, "scan"),
        ("mingru", 16, (2, 5), False, "eager"),
        ("mingru", 16, (2, 16), False, "scan"),
    ],
)
def test_auto_takes_no_engine_that_is_slower_than_eager(cell, size, shape, gradient, engine):
    with watch() as ran, torch.set_grad_enabled(gradient):
        Recurrent(cell, size, size)(torch.zeros(*shape, size))
    assert [one.engine for one in ran] == [engine]


def test_forced_engine_is_never_swapped():
    with watch() as ran:
        Recurrent("lstm", 64, 64, engine="vendor")(torch.zeros(1, 1, 64))
        Recurrent("mingru", 4, 4, engine="scan")(torch.zeros(1, 1, 4))
    assert [one.engine for one in ran] == ["vendor", "scan"]


def test_shapes_are_checked():
    layer = Recurrent("lstm", 3, 4)
    with pytest.raises(ShapeError, match=r"expected x \(B, T, 3\), received \(2, 5, 4\)"):
        layer(torch.zeros(2, 5, 4))
    with pytest.raises(ShapeError, match=r"received \(2, 3\)"):
        layer(torch.zeros(2, 3))
    with pytest.raises(StateError, match=r"expected a state of h \(2, 4\), c \(2, 4\), received \(1, 4\), \(1, 4\)"):
        layer(torch.zeros(2, 5, 3), layer.initial_state(1))
    with pytest.raises(StateError, match=r"a state belongs to one layer and one batch"):
        layer(torch.zeros(2, 5, 3), layer.initial_state(2)[:1])


@pytest.mark.parametrize("name", ["lstm", "sru", "mogrifier"])
def test_types_are_checked(name):
    layer = Recurrent(name, 4, 4)
    with pytest.raises(
        ShapeError, match=r"expected x of type float32, as the weights are, received float64; convert it"
    ):
        layer(torch.zeros(2, 5, 4, dtype=torch.float64))
    with pytest.raises(ShapeError, match=r"received int64; .*torch.float32\); ids go through an Embedding first"):
        layer(torch.zeros(2, 5, 4, dtype=torch.int64))
    with pytest.raises(ShapeError, match=r"expected x as a torch tensor, received numpy.ndarray; convert it"):
        layer(Padded(np.zeros((2, 5, 4)), np.array([5, 2])))
    state = layer.initial_state(2)
    for wrong in (torch.float64, torch.bfloat16, torch.int64):
        mixed = type(state)(*state[:-1], state[-1].to(wrong))
        with pytest.raises(
            StateError, match=rf"expected {state._fields[-1]} of the state of type float32, .* received"
        ):
            layer(torch.zeros(2, 5, 4), mixed)
    double = layer.double()
    with pytest.raises(ShapeError, match=r"expected x of type float64, .* or the layer with .to\(torch.float32\)"):
        double(torch.zeros(2, 5, 4))
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ShapeError, match="expected x of type float64"):
        double(torch.zeros(2, 5, 4))


@pytest.mark.parametrize("own", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", ["lstm", "gru", "sru", "mogrifier"])
def test_autocast_takes_what_it_mixes(name, own):
    layer = Recurrent(name, 4, 4).to(own)
    types = [torch.float64] if own == torch.float64 else [torch.float32, torch.bfloat16]
    with torch.autocast("cpu", torch.bfloat16):
        for dtype in types:
            y, state = layer(torch.zeros(2, 20, 4, dtype=dtype))
            layer(y[:, :1].to(dtype), state)
            if name == "sru" and own != torch.float64:
                for k, other in ((0, torch.bfloat16), (1, torch.float32)):
                    mixed = [value.to(other) if at == k else value for at, value in enumerate(state)]
                    layer(y.to(dtype), type(state)(*mixed))


@pytest.mark.parametrize("engine", ["eager", "vendor", "scan"])
@pytest.mark.parametrize("reverse", [False, True])
def test_types_of_lengths_do_not_matter(engine, reverse):
    layer = Recurrent("mingru" if engine == "scan" else "lstm", 3, 4, engine=engine, reverse=reverse)
    x, lengths = torch.randn(200, 3, 3), torch.randint(0, 4, (200,))  # 600 positions are more than int8 has
    expected, final = layer(Padded(x, lengths))
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32):
        y, state = layer(Padded(x, lengths.to(dtype)))
        assert y.data.equal(expected.data)
        assert all(a.equal(b) for a, b in zip(state, final, strict=True))


def test_second_derivatives_are_not_those_of_scan():
    layer = Recurrent("mingru", 3, 4, engine="scan")
    x = torch.randn(2, 5, 3, requires_grad=True)
    value = layer(x)[0].sum()  # of which the incoming gradient needs none itself
    with pytest.raises(ConfigError, match=r"engine='scan' has first derivatives only, .*create_graph.*engine='eager'"):
        torch.autograd.grad(value, x, create_graph=True)
    assert torch.autograd.grad(value, x)[0].isfinite().all()


def test_states_are_pickled():
    with torch.no_grad():
        state = Recurrent("lstm", 3, 4)(torch.randn(2, 5, 3))[1]
    for again in (pickle.loads(pickle.dumps(state)), copy.deepcopy(state), copy.copy(state)):
        assert type(again) is type(state)
        assert again.c.equal(state.c)
    file = io.BytesIO()
    torch.save({"state": state}, file)
    file.seek(0)
    with torch.serialization.safe_globals([recurrent.restored_state]):
        assert torch.load(file)["state"].h.equal(state.h)


def test_vendor_says_what_tf32_does_on_a_gpu():
    def said(name: str, dtype: torch.dtype, device: str = "cuda", engine: str = "auto") -> str:
        cell = make_cell(name)
        return explain(engine, cell, cell.graph, torch.device(device), dtype)

    precision = torch.backends.cudnn.rnn.fp32_precision
    try:
        torch.backends.cudnn.rnn.fp32_precision = "tf32"
        for engine in ("auto", "vendor"):
            assert "cuDNN multiplies in TF32, about three digits" in said("lstm", torch.float32, engine=engine)
        for other in (("lstm", torch.float64), ("lstm", torch.float32, "cpu"), ("gru", torch.float32)):
            assert "TF32" not in said(*other)
        torch.backends.cudnn.rnn.fp32_precision = "ieee"  # as the note says
        assert "TF32" not in said("lstm", torch.float32)
    finally:
        torch.backends.cudnn.rnn.fp32_precision = precision


def test_weights_for_cudnn_lie_in_one_piece():
    parts = [torch.randn(8, 3), torch.randn(2, 8).T, torch.randn(8), torch.randn(8)]
    packed = vendor._packed([part.requires_grad_() for part in parts])
    at = packed[0].untyped_storage().data_ptr()
    for part, own in zip(packed, parts, strict=True):
        assert part.equal(own) and part.is_contiguous()
        assert part.data_ptr() == at  # each where the one before ends, the first at the beginning of the memory
        at += part.numel() * part.element_size()
    weights = [torch.randn_like(part) for part in parts]
    found = torch.autograd.grad(sum((a * w).sum() for a, w in zip(packed, weights, strict=True)), parts)
    assert all(a.equal(w) for a, w in zip(found, weights, strict=True))


class Long(Cell):
    """Many values, each read once; then many, each read twice."""

    gates = ("a",)
    once, twice = 400, 40

    def step(self, x, s, R, p):
        v, h = x.a, s.h
        for _ in range(self.once):
            v = 0.5 * v + 1
        for _ in range(self.twice):
            h = h - 0.01 * x.a * h
        return s.next(h=h + v)


def test_long_equations():
    layer = Recurrent(Long(), 3, 4, engine="eager").double()
    x, state = torch.randn(2, 1, 3, dtype=torch.float64), torch.rand(2, 4, dtype=torch.float64)
    a = x[:, 0] @ layer.W.mT + layer.b
    torch.testing.assert_close(layer(x, (state,))[1].h, state * (1 - 0.01 * a) ** 40 + 2 + 0.5**400 * (a - 2))
    code = kernel.source(program.program(Long(once=1, twice=1200).graph, again=True))
    compile(code.text, "the loops of scan", "exec")  # Python takes brackets 200 deep, and calls 1000


def test_trace_names_and_values():
    layer = Recurrent("lstm", 3, 4, reverse=True)
    x = Padded(torch.randn(2, 5, 3), torch.tensor([5, 2]))
    y, state, found = layer.trace(x)
    assert list(found) == ["h", "c", "i", "f", "g", "o"]
    assert found["h"].equal(y.data)
    torch.testing.assert_close(found["o"] * found["c"].tanh(), found["h"])
    assert (found["f"][1, 2:] == 0).all()
    torch.testing.assert_close(found["c"][:, 0], state.c)  # backwards, the first position is the last step
    assert list(layer.trace(x, names=["f"])[2]) == ["f"]
    with pytest.raises(ConfigError, match=r"has no value 'ff'; did you mean 'f'\?|has no value 'ff'; it has h, c"):
        layer.trace(x, names=["ff"])
    with pytest.raises(ConfigError, match=r"traced = False"):
        Recurrent(Untraced(), 3, 4).trace(x)


def test_trace_of_what_does_not_vary():
    class Fixed(Cell):
        gates = ("n",)
        params = ("a",)

        def step(self, x, s, R, p):
            a = p.a * p.a
            k = x.n * 2
            return s.next(h=a * s.h + k)

    layer = Recurrent(Fixed(), 3, 4)
    found = layer.trace(torch.randn(2, 5, 3))[2]
    assert {name: tuple(value.shape) for name, value in found.items()} == dict.fromkeys(["h", "a", "k"], (2, 5, 4))


def test_weight_drop_is_drawn_once_a_call_and_leaves_the_parameters_alone():
    layer = Recurrent("elman", 3, 64, weight_drop=0.5)
    before, x = copy.deepcopy(layer.state_dict()), torch.randn(2, 3, 3)
    first, second = layer(x)[0], layer(x)[0]
    assert not first.equal(second)
    first.sum().backward()
    share = (layer.R.grad == 0).float().mean()
    assert 0.45 < share < 0.55
    layer.eval()
    assert layer(x)[0].equal(layer(x)[0])
    assert all(a.equal(b) for a, b in zip(layer.state_dict().values(), before.values(), strict=True))


@pytest.mark.parametrize(("spec", "each"), [({"kind": "lstm", "zoneout": 0.3}, 7), ("dropped", 1)])
def test_noise_is_drawn_for_each_step_or_once(spec, each):
    cell = RecurrentDropout(make_cell("gru"), rate=0.25) if spec == "dropped" else make_cell(spec)
    layer = Recurrent(cell, 3, 50)
    drawn = layer._noise(cell.graph, 20, 7, torch.zeros(()))
    for name, values in drawn.items():
        noise = cell.noise[name]
        assert values.shape == (each, 20, 50)
        assert values.unique().tolist() == pytest.approx([0.0, noise.high])
        assert abs((values > 0).float().mean() - noise.rate) < 0.06


def test_start_of_parameters_and_states():
    layer = Recurrent("layernorm-gru", 3, 4)
    assert layer.p_xr.tolist() == [1.0] * 4
    assert layer.p_br.tolist() == [0.0] * 4
    assert layer.W.abs().max() <= 0.5
    assert Recurrent("slstm", 3, 2).initial_state(1).m.tolist() == [[float("-inf")] * 2]
    state = layer.double().initial_state(2)
    assert (state.h.dtype, tuple(state.h.shape), state._fields) == (torch.float64, (2, 4), ("h",))


def test_projection():
    layer = Recurrent("lstm-projected", 3, 6, output_size=2)
    assert (layer.output_size, tuple(layer.R_i.shape), tuple(layer.R_y.shape)) == (2, (24, 2), (2, 6))
    assert Recurrent("lstm-projected", 3, 6).output_size == 6
    assert repr(layer) == "Recurrent(ProjectedLSTM(), 3, 6, output_size=2)"
    assert (
        repr(Recurrent("gru", 3, 6, reverse=True, weight_drop=0.1))
        == "Recurrent(GRU(), 3, 6, reverse=True, weight_drop=0.1)"
    )


def test_copies_and_traced_cells_are_the_layer():
    layer = Recurrent("mogrifier", 3, 4)
    x = torch.randn(2, 3, 3)
    assert copy.deepcopy(layer)(x)[0].equal(layer(x)[0])
    other = Recurrent(TracedCell(layer.cell.graph), 3, 4)
    other.load_state_dict(layer.state_dict())
    assert other(x)[0].equal(layer(x)[0])
    assert repr(other.cell) == "TracedCell(mogrifier)"


def test_untraced_cells_cannot_be_exported(monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    with pytest.raises(ConfigError, match="traced = False"):
        Recurrent(Untraced(), 3, 4)(torch.zeros(1, 2, 3))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["lstm", "gru", "sru"])
def test_half_precision_keeps_the_promises(name, dtype):
    layer = Recurrent(name, 4, 4).to(dtype)
    x = Padded(torch.randn(2, 5, 4).to(dtype), torch.tensor([5, 2]))
    x.data[1, 2:] = float("nan")
    y, state = layer(x)
    alone, own = layer(x.data[1:, :2])
    # Another number of rows is another order of sums: some roundings of numbers below 1.
    torch.testing.assert_close(y.data[1:, :2], alone, rtol=0, atol=4 * torch.finfo(dtype).eps)
    torch.testing.assert_close(state.h[1:], own.h, rtol=0, atol=4 * torch.finfo(dtype).eps)


def test_kernels_go_elsewhere_where_the_cache_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "riverrun").write_text("a file where a folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = kernel._file("x = 1\n", "0" * 64)
    assert path.read_text() == "x = 1\n"
    assert tmp_path not in path.parents


def test_kernel_file_that_somebody_changed_is_written_anew(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = kernel._file("x = 1\n", "0" * 64)
    path.write_text("x = 2\n")
    assert kernel._file("x = 1\n", "0" * 64) == path
    assert path.read_text() == "x = 1\n"


@pytest.mark.parametrize(
    ("module", "state", "message"),
    [
        (lambda: Recurrent("gru", 3, 4), {}, "update gate keeps the old state: that is gru-reset-after, not gru"),
        (lambda: Stack("lstm", 3, 3, layers=2, wiring="residual"), {}, "no stack with wiring 'residual', only 'plain'"),
    ],
)
def test_what_torch_does_not_have(module, state, message):
    with pytest.raises(ConfigError, match=message):
        from_torch(module(), state)
    with pytest.raises(ConfigError, match=message):
        to_torch(module())


def test_state_dicts_that_do_not_fit():
    ours = Recurrent("lstm", 3, 4)
    before = copy.deepcopy(ours.state_dict())
    with pytest.raises(CheckpointError, match=r"expected weight_ih_l0 of shape \(16, 3\), received \(16, 5\)"):
        from_torch(ours, torch.nn.LSTM(5, 4).state_dict())
    with pytest.raises(CheckpointError, match=r"no place for bias_hh_l1, .*: more layers or directions"):
        from_torch(ours, torch.nn.LSTM(3, 4, num_layers=2).state_dict())
    with pytest.raises(CheckpointError, match=r"expected weight_ih_l0 of shape \(16, 3\), received nothing"):
        from_torch(ours, {})
    assert all(a.equal(b) for a, b in zip(ours.state_dict().values(), before.values(), strict=True))


def test_public_names_and_no_torch_for_cells():
    assert riverrun.nn.CELLS is riverrun.nn.cells.CELLS
    assert riverrun.nn.Recurrent is Recurrent
    assert riverrun.nn.engines.watch is watch
    assert "Recurrent" in dir(riverrun.nn)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        riverrun.nn.nothing  # noqa: B018
    code = "import sys, riverrun.nn; riverrun.nn.CELLS; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
