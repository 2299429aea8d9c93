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


def largest(values: Array, least: Array, count: Array | int) -> Array:
    """(..., V) of booleans: the ``count`` largest values along the last axis; of equal ones those that come first.

    Which of several equal values is taken must not depend on the library: counted models have many of them.

    Args:
        least: (..., 1), the value of rank ``count``, which the caller has found by ``topk`` or by sorting.
        count: how many; (..., 1) where rows differ.

    >>> import numpy as np
    >>> largest(np.array([1.0, 2.0, 1.0, 1.0]), np.array([1.0]), 3).tolist()
    [True, True, True, False]
    """
    xp = array_namespace(values)
    above, equal = values > least, values == least
    room = count - xp.sum(xp.astype(above, xp.int64), axis=-1, keepdims=True)
    return above | (equal & (xp.cumulative_sum(xp.astype(equal, xp.int64), axis=-1) <= room))


def ranked(values: Array, k: int) -> tuple[Array, Array]:
    """The k largest values along the last axis, largest first and equal ones in their order, and their indices.

    It is ``topk`` where ties must be decided the same way everywhere.

    >>> import numpy as np
    >>> values, indices = ranked(np.array([1.0, 2.0, 1.0, 1.0]), 3)
    >>> values.tolist(), indices.tolist()
    ([2.0, 1.0, 1.0], [1, 0, 2])
    """
    xp = array_namespace(values)
    size = values.shape[-1]
    if k == size:
        order = xp.argsort(values, axis=-1, descending=True, stable=True)
        return xp.take_along_axis(values, order, axis=-1), order
    chosen = largest(values, topk(values, k)[0][..., -1:], k)
    index = xp.reshape(xp.nonzero(xp.reshape(chosen, (-1, size)))[1], (*values.shape[:-1], k))
    some = xp.take_along_axis(values, index, axis=-1)
    order = xp.argsort(some, axis=-1, descending=True, stable=True)
    return xp.take_along_axis(some, order, axis=-1), xp.take_along_axis(index, order, axis=-1)


def put_along_axis(values: Array, indices: Array, new: Array) -> Array:
    """A copy with new values (..., U) at these indices (..., U) of the last axis.

    >>> import numpy as np
    >>> put_along_axis(np.zeros((1, 3)), np.array([[2, 0]]), np.array([[5.0, 6.0]])).tolist()
    [[6.0, 0.0, 5.0]]
    """
    if is_torch_array(values):
        return values.scatter(-1, indices, new)
    out = values.copy()
    np.put_along_axis(out, indices, new, axis=-1)
    return out


def double(values: Array) -> Array:
    """The same values in float64.

    >>> import numpy as np
    >>> double(np.zeros(1, np.float32)).dtype
    dtype('float64')
    """
    xp = array_namespace(values)
    return xp.astype(values, xp.float64, copy=False)


def to_numpy(values: Array) -> Array:
    """As a numpy array, detached and in main memory; bfloat16, which numpy has not, as float32.

    >>> import numpy as np
    >>> to_numpy(np.arange(2)).tolist()
    [0, 1]
    """
    if not is_torch_array(values):
        return np.asarray(values)
    values = values.detach()
    return (values.float() if str(values.dtype) == "torch.bfloat16" else values).cpu().numpy()


def nearby(values: Array) -> Array:
    """A tensor in main memory as the numpy array that shares it; others stay where they are.

    To choose a symbol takes many small operations, which numpy begins sooner, and without waking torch's threads.

    >>> import numpy as np
    >>> nearby(np.arange(2)).tolist()
    [0, 1]
    """
    return to_numpy(values) if is_torch_array(values) and values.device.type == "cpu" else values


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
