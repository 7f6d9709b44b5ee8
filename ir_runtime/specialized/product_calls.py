"""Products of matrices that are known, the way round that the library takes less time for."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np

from ir_runtime.element_types import Array
from ir_runtime.graph import Output

from .binding import Binding, Call, PackedConstant

_FEW_ROWS = (2, 200)
_LARGE = 1 << 17
_ALONE = 1 << 19
"""Multiplications up to which the library does not wake its other threads."""
_ROWS = 48
"""With fewer rows the library's packing of the factor, for each cut anew, takes a fifth of the time and more."""
_WORTH_A_THREAD = 1 << 23
"""Multiplications from which on that is worth it: on a busy machine a short product that waits for a thread takes ten
times as long, on a quiet one it gains next to nothing."""


class Factor:
    """A constant matrix ``[depth, columns]``, kept in the order that the products with it take.

    ``make`` makes it from ``source``, ``restored`` the constant ``output`` from the matrix, both as views.
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
        home = PackedConstant(self._output, lambda made: self._restored(made.T))
        return self._b.packed(self._source, (self._purpose, "turned"), lambda: self._make().T, home)


def product_calls(a: Array, factor: Factor, out: Array, b: Binding) -> list[Call]:
    """``a`` times the factor into ``out``, both of two dimensions.

    For few rows of ``a`` the library's packing of the factor counts: it is faster the other way round.
    """
    rows, columns = out.shape
    depth = a.shape[1]
    if _FEW_ROWS[0] <= rows <= _FEW_ROWS[1] and columns * depth >= _LARGE:
        made = b.reused("turned", (columns, rows))
        turned = factor.turned
        cuts = _cuts(columns, rows * depth)
        calls = [partial(np.matmul, turned[part], a.T, out=made[part]) for part in cuts]
        return [*calls, partial(np.copyto, out, made.T)]
    plain = factor.plain
    return [partial(np.matmul, a[part], plain, out=out[part]) for part in _cuts(rows, columns * depth)]


def _cuts(rows: int, effort: int) -> list[slice]:
    """Rows, of ``effort`` multiplications each, that are multiplied at once."""
    if not _ALONE < rows * effort <= _WORTH_A_THREAD or _ROWS * effort > _ALONE:
        return [slice(0, rows)]
    count = -(-rows * effort // _ALONE)
    ends = [rows * number // count for number in range(count + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(ends)]
