"""Products with constant matrices: as they are, transposed or in blocks of columns, as the library is fastest."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np

from ir_runtime.graph import Array, Output
from ir_runtime.graph.mapped_file import file_of

from .binding import Binding, Call, PackedConstant

_MAX_EFFORT_WITHOUT_PACKING = 10**6
"""Multiplications up to which OpenBLAS multiplies matrices as they are, where the processor has AVX-512. For larger
products it packs both first, and for few rows packing the factor takes most of the time."""
_BLOCK_WIDTHS = (64, 32, 16)
_MAX_ROWS_OF_WIDE_BLOCKS = 4
_MAX_ROWS_BY_BLOCKS = 8
"""A second thread is worth more for products of more rows."""
_MAX_ROWS_BY_BLOCKS_ON_ONE_THREAD = 100
_MAX_WEIGHTS_HELD_TWICE = 1 << 20
"""Elements of a constant that is in no file: it is held beside its blocks."""
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

    @property
    def may_be_held_twice(self) -> bool:
        """True if the memory of the constant can be given back, or is small."""
        return file_of(self._source) is not None or self._source.size <= _MAX_WEIGHTS_HELD_TWICE

    def blocks(self, width: int) -> tuple[Array, Array]:
        """Blocks ``[n, depth, width]`` of columns, each row by row, and the columns that are left over."""

        def make_blocks() -> Array:
            matrix = self._make()
            depth, columns = matrix.shape
            return matrix[:, : columns - columns % width].reshape(depth, -1, width).transpose(1, 0, 2)

        def make_rest() -> Array:
            matrix = self._make()
            columns = matrix.shape[1]
            return matrix[:, columns - columns % width :]

        blocks = self._b.packed(self._source, (self._purpose, "blocks", width), make_blocks)
        return blocks, self._b.packed(self._source, (self._purpose, "rest", width), make_rest)


def product_calls(a: Array, factor: Factor, out: Array, b: Binding) -> list[Call]:
    """``a`` times the factor into ``out``, both of two dimensions.

    For few rows of ``a`` the library's packing of the factor takes most of the time: small blocks are not packed, and
    the transposed product packs ``a`` instead.
    """
    rows, columns = out.shape
    depth = a.shape[1]
    width = _block_width(rows, depth, columns) if factor.may_be_held_twice else None
    if width is not None and out.strides[1] == out.itemsize:
        blocks, rest = factor.blocks(width)
        shape, strides = (len(blocks), rows, width), (width * out.itemsize, *out.strides)
        calls: list[Call] = [partial(np.matmul, a, blocks, out=np.lib.stride_tricks.as_strided(out, shape, strides))]
        if rest.size:
            calls.append(partial(np.matmul, a, rest, out=out[:, len(blocks) * width :]))
        return calls
    if 1 < rows <= _MAX_ROWS_FOR_TRANSPOSED_PRODUCT and columns * depth >= _MIN_WEIGHTS_FOR_TRANSPOSED_PRODUCT:
        transposed = b.reused("turned", (columns, rows))
        return [partial(np.matmul, factor.turned, a.T, out=transposed), partial(np.copyto, out, transposed.T)]
    plain = factor.plain
    return [partial(np.matmul, a[part], plain, out=out[part]) for part in _cuts(rows, columns * depth)]


def _block_width(rows: int, depth: int, columns: int) -> int | None:
    """The columns of a block for which the library packs nothing; None where the product is better done at once."""
    effort = rows * depth * columns
    limit = _MAX_ROWS_BY_BLOCKS_ON_ONE_THREAD if effort <= _MIN_EFFORT_FOR_THREADS else _MAX_ROWS_BY_BLOCKS
    if effort <= _MAX_EFFORT_WITHOUT_PACKING or not 1 < rows <= limit:
        return None
    widths = _BLOCK_WIDTHS if rows <= _MAX_ROWS_OF_WIDE_BLOCKS else _BLOCK_WIDTHS[1:]
    return next((n for n in widths if rows * depth * n <= _MAX_EFFORT_WITHOUT_PACKING and n <= columns), None)


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
