"""What makes hypotheses comparable that differ in length, or in how much of the source they speak of.

The probability of a text falls with every symbol, so that the most probable one is often too short. A length penalty
turns the log probability of a hypothesis and its length (``eos`` included) into the score that it is ranked by. It
must rise with the log probability, and rise or fall with the length, not both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace

from riverrun.data.padded import Array, Padded
from riverrun.decode.backend import like
from riverrun.errors import ConfigError, nearest

LEAST = 1e-10  # what an attention of 0 counts as, so that one position cannot forbid a hypothesis

LengthPenalty = Callable[[Array, int], Array]  # log probabilities of any shape, and the length of all of them

Coverage = Callable[[Mapping[str, Array], npt.NDArray[np.int64]], Array]
"""The extras (B, K, ...) of a step and the row of the batch (B,) of each source, to what is added to the scores (B, K).

It is never above 0: what is still to come can only make up for what is missing.
"""


def no_penalty(log_probs: Array, length: int) -> Array:
    """The log probability itself.

    >>> no_penalty(-3.0, 2)
    -3.0
    """
    return log_probs


def average(log_probs: Array, length: int) -> Array:
    """The log probability for each symbol.

    >>> average(-3.0, 2)
    -1.5
    """
    return log_probs / length


def gnmt(alpha: float) -> LengthPenalty:
    r"""The penalty of Wu et al. (2016): 0 is none, 1 almost the average.

    .. math:: s = \log P \cdot \left( \frac{5 + 1}{5 + n} \right)^\alpha

    >>> gnmt(1.0)(-3.0, 7)
    -1.5
    """
    if not 0 <= alpha < math.inf:
        raise ConfigError(f"length penalty: expected alpha from 0 on, received {alpha}")
    return lambda log_probs, length: log_probs * (6 / (5 + length)) ** alpha


def reward(bonus: float) -> LengthPenalty:
    """Each symbol adds the same: what speech recognisers call a word insertion bonus (below 0 a penalty).

    >>> reward(0.5)(-3.0, 2)
    -2.0
    """
    if not math.isfinite(bonus):
        raise ConfigError(f"length penalty: expected a finite bonus, received {bonus}")
    return lambda log_probs, length: log_probs + bonus * length


def length_penalty(name: str, strength: float = 1.0) -> LengthPenalty:
    """The penalty of this name: ``none``, ``average``, ``gnmt`` or ``reward``, the last two of this strength.

    >>> length_penalty("gnmt", 1.0)(-3.0, 7)
    -1.5
    """
    makers: dict[str, Callable[[], LengthPenalty]] = {
        "none": lambda: no_penalty,
        "average": lambda: average,
        "gnmt": lambda: gnmt(strength),
        "reward": lambda: reward(strength),
    }
    if name not in makers:
        raise ConfigError(f"length penalty: expected {', '.join(makers)}, received '{name}'{nearest(name, makers)}")
    return makers[name]()


def coverage_penalty(beta: float, lengths: npt.NDArray[np.int64], *, name: str = "coverage") -> Coverage:
    r"""What a hypothesis loses for positions of the source that it has not attended to (Wu et al. 2016).

    .. math:: c = \beta \sum_j \log \min \left( \sum_t a_{t,j},\ 1 \right)

    Args:
        beta: its weight.
        lengths: of the sources of the whole batch; what stands behind them is not looked at.
        name: the extra (B, K, S) of a step that has the attention summed over the symbols so far, this one included.

    >>> extras = {"coverage": np.exp([[[-1.0, 0.5, -9.0]]])}
    >>> coverage_penalty(0.5, np.array([2]))(extras, np.array([0])).tolist()
    [[-0.5]]
    """
    if not 0 <= beta < math.inf:
        raise ConfigError(f"coverage penalty: expected beta from 0 on, received {beta}")

    def covered(extras: Mapping[str, Array], rows: npt.NDArray[np.int64]) -> Array:
        if name not in extras:
            raise ConfigError(
                f"coverage penalty: expected a model whose steps tell '{name}', received one that tells "
                f"{', '.join(sorted(extras)) or 'nothing'}{nearest(name, extras)}"
            )
        attended = extras[name]
        xp = array_namespace(attended)
        ones = xp.ones_like(attended)
        there = like(Padded(np.zeros((len(rows), attended.shape[2])), lengths[rows]).mask(), attended)[:, None, :]
        attended = xp.where(there & (attended < 1), attended, ones)
        return beta * xp.sum(xp.log(xp.where(attended > LEAST, attended, LEAST * ones)), axis=-1)

    return covered
