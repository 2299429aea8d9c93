"""What the arrays of this room are called: numpy's types by what they hold."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ids: TypeAlias = npt.NDArray[np.int32]
"""Symbols."""

AnyIds: TypeAlias = npt.NDArray[np.integer]
"""Symbols, of any type of integers."""

Integers: TypeAlias = npt.NDArray[np.int64]
"""Places and counts."""

Bits: TypeAlias = npt.NDArray[np.uint64]
"""Packed symbols and hashes."""

Floats: TypeAlias = npt.NDArray[np.float64]

Truths: TypeAlias = npt.NDArray[np.bool_]
