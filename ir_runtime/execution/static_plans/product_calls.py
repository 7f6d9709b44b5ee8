"""Products with constant matrices, as they are or transposed, whichever the library computes faster."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np

from ir_runtime.graph import Array, Output

from .binding import Binding, Call, PackedConstant

_ROWS_FOR_TRANSPOSED_PRODUCT = (2, 200)
_MIN_WEIGHTS_FOR_TRANSPOSED_PRODUCT = 1 << 17
_MAX_EFFORT_ON_ONE_THREAD = 1 << 19
"""Multiplications up to which the library uses one thread."""
_MIN_ROWS_PER_CUT = 48
"""With fewer rows the library's packing of the factor, once for each cut, takes a fifth of the time or more."""
_MIN_EFFORT_FOR_THREADS = 1 << 23
"""Multiplications from which on more threads are worth it: on a busy machine a short product that waits for a thread
takes ten times as long, on an idle one it gains little."""


class Factor:
    """A constant matrix ``[depth, columns]``, packed in the order in memory that its products need.

    ``make`` gives it from ``source``, ``restored`` gives the constant ``output`` from the matrix, both as views.
    """

    def __init__(
        self,
        source: Array,
        purpose: str,
        make: Callable[[], Array],
        b: Binding,
        output: Output,
        restored: Callable[[Array], Array],
    ) -> None:
        self._source, self._purpose, self._make, self._b = source, purpose, make, b
        self._output, self._restored = output, restored

    @cached_property
    def plain(self) -> Array:
        """Row by row."""
        home = PackedConstant(self._output, self._restored)
        return self._b.packed(self._source, (self._purpose, "plain"), self._make, home)

    @cached_property
    def turned(self) -> Array:
        """``[columns, depth]``, row by row."""
        home = PackedConstant(self._output, lambda transposed: self._restored(transposed.T))
        return self._b.packed(self._source, (self._purpose, "turned"), lambda: self._make().T, home)


def product_calls(a: Array, factor: Factor, out: Array, b: Binding) -> list[Call]:
    """``a`` times the factor into ``out``, both of two dimensions.

    For few rows of ``a`` the library's packing of the factor takes most of the time: the transposed product is faster.
    """
    rows, columns = out.shape
    depth = a.shape[1]
    if (
        _ROWS_FOR_TRANSPOSED_PRODUCT[0] <= rows <= _ROWS_FOR_TRANSPOSED_PRODUCT[1]
        and columns * depth >= _MIN_WEIGHTS_FOR_TRANSPOSED_PRODUCT
    ):
        transposed = b.reused("turned", (columns, rows))
        turned = factor.turned
        cuts = _cuts(columns, rows * depth)
        calls = [partial(np.matmul, turned[part], a.T, out=transposed[part]) for part in cuts]
        return [*calls, partial(np.copyto, out, transposed.T)]
    plain = factor.plain
    return [partial(np.matmul, a[part], plain, out=out[part]) for part in _cuts(rows, columns * depth)]


def _cuts(rows: int, effort: int) -> list[slice]:
    """The slices of rows, of ``effort`` multiplications each, that are multiplied at once."""
    if (
        not _MAX_EFFORT_ON_ONE_THREAD < rows * effort <= _MIN_EFFORT_FOR_THREADS
        or _MIN_ROWS_PER_CUT * effort > _MAX_EFFORT_ON_ONE_THREAD
    ):
        return [slice(0, rows)]
    count = -(-rows * effort // _MAX_EFFORT_ON_ONE_THREAD)
    ends = [rows * number // count for number in range(count + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(ends)]
