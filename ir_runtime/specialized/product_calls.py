"""Products of matrices that are known, the way round that the library takes less time for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ir_runtime.element_types import Array

from .binding import Binding, Call

_FEW_ROWS = (2, 200)
_LARGE = 1 << 17


class Factor:
    """A constant matrix ``[depth, columns]``, kept in the order that the products with it take."""

    def __init__(self, source: Array, purpose: str, make: Callable[[], Array], b: Binding) -> None:
        self._source, self._purpose, self._make, self._b = source, purpose, make, b

    @property
    def plain(self) -> Array:
        """Row by row."""
        return self._b.packed(self._source, (self._purpose, "plain"), self._make)

    @property
    def turned(self) -> Array:
        """``[columns, depth]``, row by row."""
        return self._b.packed(self._source, (self._purpose, "turned"), lambda: self._make().T)


def product_calls(a: Array, factor: Factor, out: Array, b: Binding) -> list[Call]:
    """``a`` times the factor into ``out``, both of two dimensions.

    For few rows of ``a`` the library's packing of the factor counts: it is faster the other way round.
    """
    rows, columns = out.shape
    if _FEW_ROWS[0] <= rows <= _FEW_ROWS[1] and columns * a.shape[1] >= _LARGE:
        made = b.reused("turned", (columns, rows))
        return [partial(np.matmul, factor.turned, a.T, out=made), partial(np.copyto, out, made.T)]
    return [partial(np.matmul, a, factor.plain, out=out)]
