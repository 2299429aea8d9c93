"""A cell of your own: its equation in ten lines, compared with a plain loop in torch, its gradient checked.

python examples/own_cell.py
"""

import torch

from riverrun import Cell, Padded, Recurrent
from riverrun.nn.cells.derive import recurrence
from riverrun.nn.cells.math import sigmoid, tanh


class MGU(Cell):
    """The minimal gated unit (Zhou et al. 2016): a GRU whose reset gate is its update gate."""

    gates = ("f", "n")

    def step(self, x, s, R, p):
        """One step."""
        f = sigmoid(x.f + R.f(s.h))
        n = tanh(x.n + R.n(f * s.h))
        return s.next(h=(1 - f) * s.h + f * n)


def by_hand(layer: Recurrent, x: torch.Tensor) -> torch.Tensor:
    """The same, as one would write it in torch, for one row."""
    W, b, R = layer.W.chunk(2), layer.b.chunk(2), layer.R.chunk(2)  # the rows of f, then those of n
    h = torch.zeros(layer.hidden_size, dtype=x.dtype)
    out = []
    for x_t in x:
        f = torch.sigmoid(W[0] @ x_t + b[0] + R[0] @ h)
        n = torch.tanh(W[1] @ x_t + b[1] + R[1] @ (f * h))
        h = (1 - f) * h + f * n
        out.append(h)
    return torch.stack(out)


torch.manual_seed(0)
layer = Recurrent(MGU(), input_size=3, hidden_size=4).double()
print(layer.describe())
print("class of the recurrence:", recurrence(layer.cell.graph))

# Rows of different lengths: what stands in the padding, here NaN, changes nothing.
x = torch.randn(2, 5, 3, dtype=torch.float64)
x[1, 2:] = float("nan")
y, state = layer(Padded(x, torch.tensor([5, 2])))
for row, length in enumerate((5, 2)):
    expected = by_hand(layer, x[row, :length])
    torch.testing.assert_close(y.data[row, :length], expected)
    torch.testing.assert_close(state.h[row], expected[-1])
print("equal to the loop in torch")

# The gradient against finite differences, in float64.
inputs = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
assert torch.autograd.gradcheck(lambda x: layer(x)[0], inputs)
print("the gradient is right")
