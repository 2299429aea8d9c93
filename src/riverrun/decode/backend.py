"""What the array standard lacks, for numpy and torch alike; torch itself is never imported.

Everything else in this room is written against ``array_api_compat``, so that one text decodes scores of both kinds.
"""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array

from riverrun.data.padded import Array

NEGATIVE_INFINITY = float("-inf")


def logsumexp(values: Array, axis: int) -> Array:
    """log of the sum of exponentials along an axis; -inf, with a gradient of zero, where every value is -inf.

    >>> import numpy as np
    >>> logsumexp(np.log([[1.0, 3.0], [0.5, 0.5]]), axis=1).round(4).tolist()
    [1.3863, 0.0]
    """
    xp = array_namespace(values)
    peak = xp.max(values, axis=axis, keepdims=True)
    peak = xp.where(xp.isfinite(peak), peak, xp.zeros_like(peak))
    if is_torch_array(peak):
        peak = peak.detach()
    total = xp.sum(xp.exp(values - peak), axis=axis)
    nothing = total == 0
    logarithm = xp.log(xp.where(nothing, xp.ones_like(total), total)) + xp.squeeze(peak, axis=axis)
    return xp.where(nothing, xp.full_like(logarithm, NEGATIVE_INFINITY), logarithm)


def log_softmax(values: Array, axis: int = -1) -> Array:
    """Values minus their ``logsumexp``: log probabilities.

    >>> import numpy as np
    >>> np.exp(log_softmax(np.log([1.0, 3.0]))).round(4).tolist()
    [0.25, 0.75]
    """
    xp = array_namespace(values)
    return values - xp.expand_dims(logsumexp(values, axis), axis=axis)


def topk(values: Array, k: int, axis: int = -1) -> tuple[Array, Array]:
    """The k largest values along an axis, largest first, and their indices; k may not exceed the axis.

    >>> import numpy as np
    >>> values, indices = topk(np.array([3.0, 9.0, 1.0, 7.0]), 2)
    >>> values.tolist(), indices.tolist()
    ([9.0, 7.0], [1, 3])
    """
    if is_torch_array(values):
        top = values.topk(k, dim=axis)
        return top.values, top.indices
    xp = array_namespace(values)
    size = values.shape[axis]
    some = xp.argpartition(values, size - k, axis=axis) if k < size else xp.argsort(values, axis=axis)
    some = xp.take(some, xp.arange(size - k, size), axis=axis)
    order = xp.flip(xp.argsort(xp.take_along_axis(values, some, axis=axis), axis=axis), axis=axis)
    indices = xp.take_along_axis(some, order, axis=axis)
    return xp.take_along_axis(values, indices, axis=axis), indices


def like(values: Array, other: Array) -> Array:
    """A numpy array as an array of the other's kind, on its device.

    >>> import numpy as np
    >>> like(np.arange(2), np.zeros(3)).tolist()
    [0, 1]
    """
    return array_namespace(other).asarray(values, device=device(other))


def contiguous(values: Array) -> Array:
    """The same values laid out row by row in memory.

    >>> import numpy as np
    >>> contiguous(np.zeros((2, 3)).T).flags.c_contiguous
    True
    """
    return values.contiguous() if is_torch_array(values) else np.ascontiguousarray(values)
