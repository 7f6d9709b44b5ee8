"""Products with constant matrices: as they are, transposed or by blocks of these, as the library is fastest."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np

from ir_runtime.graph import Array, Output

from .registry import Call, Scratch, Site

_MAX_EFFORT_WITHOUT_PACKING = 10**6
"""Multiplications up to which OpenBLAS multiplies matrices as they are, where the processor has AVX-512. For larger
products it packs both first, and for few rows packing the factor takes most of the time."""
_MAX_ELEMENTS_WITHOUT_PACKING = 1200
"""Elements of the output up to which it does so where the factor is transposed."""
_BLOCK_WIDTHS = (64, 32, 16, 8)
_MAX_ROWS_BY_BLOCKS = 24
"""A second thread is worth more for products of more rows."""
_MAX_ROWS_BY_BLOCKS_ON_ONE_THREAD = 64
_MIN_DEPTH_FOR_BLOCKS_OF_MANY_ROWS = 256
_MAX_ROWS_FOR_TRANSPOSED_PRODUCT = 48
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

    ``made`` gives it from the constant ``output``, with any number of dimensions for its rows; ``restored`` gives the
    constant from what has its elements in this order. Both return views.
    """

    def __init__(
        self,
        output: Output,
        purpose: str,
        made: Callable[[Array], Array],
        site: Site,
        restored: Callable[[Array], Array],
    ) -> None:
        self._output, self._purpose, self._made, self._site, self._restored = output, purpose, made, site, restored

    @cached_property
    def plain(self) -> Array:
        """Row by row."""
        packed = self._packed("plain", self._made, self._restored)
        return packed.reshape(-1, packed.shape[-1])

    @cached_property
    def turned(self) -> Array:
        """``[columns, depth]``, row by row."""
        packed = self._packed(
            "turned",
            lambda array: np.moveaxis(self._made(array), -1, 0),
            lambda packed: self._restored(np.moveaxis(packed, 0, -1)),
        )
        return packed.reshape(len(packed), -1)

    def _packed(self, order: str, made: Callable[[Array], Array], restored: Callable[[Array], Array]) -> Array:
        source = self._site.constants[self._output]
        return self._site.packed(source, (self._purpose, order), lambda: made(source), self._output, restored)


def product_calls(a: Array, factor: Factor, out: Array, reused: Scratch) -> list[Call]:
    """``a`` times the factor into ``out``, both of two dimensions.

    For few rows of ``a`` the library's packing of the factor takes most of the time: small blocks of the transposed
    factor are not packed, and the transposed product packs ``a`` instead.
    ``reused`` gives memory for a purpose and a shape.
    """
    rows, columns = out.shape
    depth = a.shape[1]
    width = _block_width(rows, depth, columns)
    if width is not None and out.strides[1] == out.itemsize:
        turned, count = factor.turned, columns // width
        blocks = turned[: count * width].reshape(count, width, depth).transpose(0, 2, 1)
        strides = (width * out.itemsize, *out.strides)
        target = np.lib.stride_tricks.as_strided(out, (count, rows, width), strides)
        calls: list[Call] = [partial(np.matmul, a, blocks, out=target)]
        if count * width < columns:
            calls.append(partial(np.matmul, a, turned[count * width :].T, out=out[:, count * width :]))
        return calls
    if 1 < rows <= _MAX_ROWS_FOR_TRANSPOSED_PRODUCT and columns * depth >= _MIN_WEIGHTS_FOR_TRANSPOSED_PRODUCT:
        transposed = reused("turned", columns, rows)
        return [partial(np.matmul, factor.turned, a.T, out=transposed), partial(np.copyto, out, transposed.T)]
    plain = factor.plain
    return [partial(np.matmul, a[part], plain, out=out[part]) for part in _cuts(rows, columns * depth)]


def _block_width(rows: int, depth: int, columns: int) -> int | None:
    """The columns of a block for which the library packs nothing; None where the product is better done at once."""
    effort = rows * depth * columns
    is_small = effort <= _MIN_EFFORT_FOR_THREADS and depth >= _MIN_DEPTH_FOR_BLOCKS_OF_MANY_ROWS
    limit = _MAX_ROWS_BY_BLOCKS_ON_ONE_THREAD if is_small else _MAX_ROWS_BY_BLOCKS
    if effort <= _MAX_EFFORT_WITHOUT_PACKING or not 1 < rows <= limit:
        return None
    most = min(_MAX_ELEMENTS_WITHOUT_PACKING // rows, _MAX_EFFORT_WITHOUT_PACKING // (rows * depth), columns)
    return next((width for width in _BLOCK_WIDTHS if width <= most), None)


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


def is_matrix_for_blas(matrix: Array) -> bool:
    """True if NumPy's library multiplies the last two axes without copying them."""
    size = matrix.itemsize
    rows, columns = matrix.shape[-2:]
    down, across = matrix.strides[-2:]
    if across == size and (down >= columns * size or rows == 1) and down % size == 0:
        return True
    return down == size and (across >= rows * size or columns == 1) and across % size == 0
