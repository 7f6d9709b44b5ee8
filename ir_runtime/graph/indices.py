"""Functions of NumPy that take indices, for indices of every integer type on every platform.

``numpy.take``, ``bincount`` and ``repeat`` convert indices to ``numpy.intp`` only where no value can be lost: platforms
of 32 bits, such as Pyodide, refuse int64, and all platforms refuse uint64. Indices within an array's bounds fit always.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .element_types import Array

INDEX_TYPE = np.dtype(np.intp)


def as_indices(values: ArrayLike) -> Array:
    """Return integers in the type that NumPy uses for indices."""
    return np.asarray(values).astype(INDEX_TYPE, copy=False)


def take(data: Array, indices: ArrayLike, axis: int, out: Array | None = None, mode: Any = "raise") -> Array:
    """``numpy.take``: the elements of ``data`` at ``indices`` along ``axis``."""
    return np.asarray(np.take(data, as_indices(indices), axis, out, mode))


def bincount(values: ArrayLike, length: int) -> Array:
    """``numpy.bincount``: how often each number from 0 occurs, in a list of at least ``length`` numbers."""
    return np.bincount(as_indices(values), minlength=length)


def repeat(data: ArrayLike, counts: ArrayLike) -> Array:
    """``numpy.repeat``: each element as often as ``counts`` says."""
    return np.repeat(data, as_indices(counts))
