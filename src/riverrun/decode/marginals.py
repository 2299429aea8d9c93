"""How probable each tag is at each position, over all paths: the sums where ``viterbi`` takes the maximum."""

from __future__ import annotations

from array_api_compat import array_namespace

from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import logsumexp
from riverrun.decode.constraints import Allowed, constrain
from riverrun.decode.lattice import Lattice
from riverrun.decode.scorer import Chain
from riverrun.decode.skip import leave_out, put_back


def log_partition(chain: Chain, *, allowed: Allowed | None = None, mask: Array | None = None) -> Array:
    r"""(B,), the logarithm of the sum over all paths of exp(score), in log space; 0 for a row of length 0.

    .. math:: \log Z = \log \sum_y \exp s(y)

    On tensors it can be differentiated: the gradient for the emissions is the marginals.

    >>> import numpy as np
    >>> chain = Chain(np.log([[[1.0, 3.0], [2.0, 2.0]]]), np.zeros((2, 2)), np.zeros(2), np.zeros(2), np.array([2]))
    >>> np.exp(log_partition(chain)).round(4).tolist()
    [16.0]
    """
    xp = array_namespace(chain.emissions)
    if mask is not None:
        chain = leave_out(chain, mask)
    chain = constrain(chain, allowed)
    if chain.emissions.shape[1] == 0:
        return xp.sum(chain.emissions, axis=(1, 2))
    lattice = Lattice.of(chain)
    return _total(lattice, lattice.forward(logsumexp)[-1])


def marginals(chain: Chain, *, allowed: Allowed | None = None, mask: Array | None = None) -> Padded:
    """(B, T, C), the probability of each tag at each position: a confidence that knows of the neighbours.

    They sum to 1 at every position, are 0 in the padding and where a mask skips a position, and 0 throughout a row
    that no allowed path goes through.

    >>> import numpy as np
    >>> chain = Chain(np.log([[[1.0, 3.0], [2.0, 2.0]]]), np.zeros((2, 2)), np.zeros(2), np.zeros(2), np.array([2]))
    >>> marginals(chain).data.round(4).tolist()
    [[[0.25, 0.75], [0.5, 0.5]]]
    """
    if mask is not None:
        found = marginals(leave_out(chain, mask), allowed=allowed)
        return Padded(put_back(found.data, chain, mask), chain.lengths)
    xp = array_namespace(chain.emissions)
    chain = constrain(chain, allowed)
    if chain.emissions.shape[1] == 0:
        return Padded(chain.emissions, chain.lengths)
    lattice = Lattice.of(chain)
    forward, backward = lattice.forward(logsumexp), lattice.backward(logsumexp)
    total = _total(lattice, forward[-1])
    total = xp.where(xp.isfinite(total), total, xp.zeros_like(total))
    probabilities = xp.stack([xp.exp(f + b - total) for f, b in zip(forward, backward, strict=True)])  # (T, H, B)
    if lattice.order == 2:
        probabilities = xp.sum(probabilities, axis=1)
    return Padded(xp.permute_dims(probabilities, (2, 0, 1)), chain.lengths).zeroed()


def _total(lattice: Lattice, forward: Array) -> Array:
    xp = array_namespace(forward)
    final = forward + lattice.stop
    while final.ndim > 1:
        final = logsumexp(final, 0)
    return xp.where(lattice.lengths > 0, final, xp.zeros_like(final))
