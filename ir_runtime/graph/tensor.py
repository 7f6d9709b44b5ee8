"""Constant data: a view of a mapped file or an array, which can be written in chunks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from ..errors import ModelError
from . import element_types
from .element_types import Array, ElementType
from .mapped_file import FileSpan, MappedFile, file_of, forget_pages, offset_in, write_pieces
from .provenance import Computed, Provenance, computed

MOST_DIMENSIONS = 64 if int(np.__version__.split(".")[0]) >= 2 else 32
"""The number of dimensions that a NumPy array may have."""
_CHUNK_BYTES = 1 << 22
_COPIED_BYTES = 1 << 21
"""The size of a chunk that is copied first."""
_MAX_SHOWN_ELEMENTS = 16
"""``repr`` shows the values of tensors of at most this many elements."""
_CACHE_LINE = 64
"""Bytes in a row of a transposed matrix that are copied at a time."""
_MAX_READ_BYTES = 1 << 23
"""Matrices that are not larger are read as a whole to be transposed."""
_MAX_STRIP_BYTES = 1 << 25
"""The part of a larger one that is read at a time: :data:`_STRIP_WIDTH` bytes of each row, fewer of very many rows."""
_STRIP_WIDTH = 1 << 11
_SAMPLE_ELEMENTS = 16
"""The number of elements at each of two places that :meth:`Tensor.sample` reads."""


class Tensor:
    """Immutable constant data of one element type and shape.

    The data is either packed bytes exactly as a ``.bin`` file holds them (a view of a mapped file),
    or an array in memory, of any strides. Data is copied only where a method needs it.
    """

    __slots__ = ("_array", "_file", "_packed", "_parts", "_view", "element_type", "kin", "provenance", "shape")

    def __init__(
        self,
        element_type: ElementType,
        shape: tuple[int, ...],
        *,
        packed: Array | None = None,
        array: Array | None = None,
        parts: Callable[[], Iterator[Array]] | None = None,
        kin: bytes = b"",
        file: MappedFile | None = None,
    ) -> None:
        self.element_type = element_type
        self.shape = shape
        self._packed = packed
        self._array = array
        self._parts = parts
        self._view: Array | None = None
        held = packed if packed is not None else array
        self._file = file if held is None else file_of(held)
        self.kin = kin
        """Tensors of different ``kin`` are taken for different data when equal tensors are looked for."""
        self.provenance: Provenance | None = None
        """The constants of the source model that the tensor was computed from; None where that is unknown."""

    @classmethod
    def from_array(cls, array: Array, element_type: ElementType | None = None) -> Tensor:
        """A tensor over ``array``, which must not be written to afterwards."""
        array = np.asarray(array)
        target_type = element_type or element_types.from_dtype(array.dtype)
        if array.dtype != target_type.dtype:
            array = array.astype(target_type.dtype)
        return cls(target_type, array.shape, array=array)

    @classmethod
    def from_packed(cls, data: Array, element_type: ElementType, shape: tuple[int, ...]) -> Tensor:
        """A tensor over bytes (a uint8 array) in the layout of a ``.bin`` file."""
        return cls(element_type, shape, packed=data)

    @classmethod
    def computed_in_parts(
        cls,
        element_type: ElementType,
        shape: tuple[int, ...],
        parts: Callable[[], Iterator[Array]],
        kin: bytes,
        source: Tensor,
        step: str,
    ) -> Tensor:
        """A tensor whose data is not stored: ``parts()`` computes its elements in order, a few at a time.

        ``step`` computes them from ``source``. Elements of sub-byte types may come as one byte each. Every access
        computes the data again, so that such a tensor is only compared with others of the same ``kin``.
        """
        return cls(element_type, shape, parts=parts, kin=kin, file=source.file).derived(step, source)

    def derived(self, step: str, *sources: Tensor | None) -> Tensor:
        """Note that ``step`` computed this tensor, which is new and not used yet, from ``sources``, and return it."""
        self.provenance = computed(step, (source.provenance for source in sources if source is not None))
        return self

    def transposed(self) -> Tensor:
        """The tensor with its last two dimensions swapped: a view, or computed where this one is computed.

        Raises :class:`ModelError` where the data lies in a file that has changed.
        """
        if self._parts is None:
            return Tensor.from_array(np.swapaxes(self.array(), -1, -2), self.element_type).derived("Transpose", self)
        shape = (*self.shape[:-2], self.shape[-1], self.shape[-2])
        kin = self.kin + b" transposed"
        return Tensor.computed_in_parts(
            self.element_type, shape, lambda: _flat_parts(np.swapaxes(self.array(), -1, -2)), kin, self, "Transpose"
        )

    def in_stored_order(self) -> Tensor:
        """Return :meth:`transposed` where the data lies in a file in that order, and is read faster; else this one."""
        held = self._array
        is_view = held is not None and held.ndim == 2 and self._file is not None and FileSpan.of(held.T) is not None
        return self.transposed() if is_view else self

    @property
    def file(self) -> MappedFile | None:
        """The file that the data lies in or is computed from; None where that is memory."""
        return self._file

    @property
    def is_stored(self) -> bool:
        """True if the values are at hand, in a file or in memory, and not computed each time that they are read."""
        return self._parts is None and not self.element_type.is_packed

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for dimension in self.shape:
            count *= dimension
        return count

    @property
    def byte_size(self) -> int:
        """The number of bytes in a ``.bin`` file."""
        if self.element_type.bits:
            return self.element_type.byte_size(self.size)
        return len(self._packed) if self._packed is not None else len(self._pack())

    def _pack(self) -> bytes:
        return element_types.pack(self.array(), self.element_type)

    def array(self) -> Array:
        """The values, read-only; a view wherever the element type allows one.

        Raises :class:`ModelError` where they lie in a file that has changed.
        """
        if self._file is not None:
            self._file.check()
        if self._view is not None:
            return self._view
        if self._parts is not None:
            array = self._join(self._parts())
        elif self._array is not None:
            array = self._array
        else:
            assert self._packed is not None
            array = element_types.unpack(self._packed, self.element_type, self.shape)
        view = array.view()
        view.flags.writeable = False
        if array.base is not None and self._parts is None and not self.element_type.is_packed and array.ndim < 2:
            self._view = view
        return view

    def span(self) -> FileSpan | None:
        """The place of the bytes in a file; None where they are computed, in memory, or in another layout."""
        held = self._packed if self._packed is not None else self._array
        if held is None or (self._packed is None and (self.element_type.is_packed or held.dtype.hasobject)):
            return None
        return FileSpan.of(held)

    def place(self) -> tuple[MappedFile, int, tuple[int, ...]] | None:
        """The file, the offset and the strides in bytes of data in a file, which may have gaps; else None.

        Tensors of one type, shape and place hold the same data.
        """
        held = self._packed if self._packed is not None else self._array
        if held is None or self._file is None:
            return None
        return self._file, offset_in(self._file, held), held.strides

    def sample(self) -> bytes:
        """A few of the bytes: tensors of one type whose samples differ hold different data, however they are stored."""
        width = self.element_type.bits // 8
        held = self._packed if self._packed is not None else self._array
        if held is None or not width or held.dtype.hasobject or self.element_type.is_packed:
            return self.kin
        places = (0, self.size // 2)
        span = self.span()
        if span is not None:
            return b"".join(span.look(at * width, _SAMPLE_ELEMENTS * width) for at in places)
        flat, step = (held, width) if self._packed is not None else (held.flat, 1)
        return b"".join(
            np.ascontiguousarray(flat[at * step : (at + _SAMPLE_ELEMENTS) * step]).tobytes() for at in places
        )

    @property
    def is_sample_whole(self) -> bool:
        """True if :meth:`sample` returns all bytes."""
        held = self._packed if self._packed is not None else self._array
        plain = held is not None and self.element_type.bits >= 8 and not self.element_type.is_packed
        return plain and self.size <= _SAMPLE_ELEMENTS

    def forget(self) -> None:
        """Release the memory that reading the values from a mapped file took."""
        if self._file is not None:
            self._file.forget()

    def parts(self) -> Iterator[Array]:
        """The values in order, flat, a few MiB at a time; no more of a file than that is in memory."""
        span = self.span()
        # Strings have offsets before their characters, and can only be read as a whole.
        if span is not None and not self.element_type.is_packed and self.element_type is not element_types.string:
            for chunk in span.chunks():
                yield np.frombuffer(chunk, self.element_type.dtype)
            return
        if self._parts is not None:
            yield from (part.reshape(-1) for part in self._parts())
            return
        yield from _flat_parts(self.array())

    def chunks(self) -> Iterator[bytes | memoryview]:
        """The bytes of the ``.bin`` file in order, a few MiB at a time."""
        span = self.span()
        if span is not None:
            yield from span.chunks()
            return
        if self._packed is not None:
            yield from _slices(self._packed)
            return
        if self._parts is not None:
            yield from self._packed_parts(self._parts())
            return
        array = self.array()
        if self.element_type.is_packed or self.element_type is element_types.string:
            yield self._pack()
            return
        for part in _flat_parts(array):
            yield part.view(np.uint8).data

    def write_to(self, file: IO[bytes], position: int) -> None:
        """Append the bytes of the ``.bin`` file to ``file``, which has ``position`` bytes so far."""
        span = self.span()
        if span is not None:
            span.copy_to(file, position)
            return
        is_plain = self._array is not None and not self.element_type.is_packed and not self._array.dtype.hasobject
        parts = (part.view(np.uint8).data for part in _flat_parts(self.array(), is_reused=True)) if is_plain else None
        for chunk in self.chunks() if parts is None else parts:
            write_pieces(file, chunk, position)
            position += len(chunk)

    def _join(self, parts: Iterator[Array]) -> Array:
        joined = np.empty(self.size, self.element_type.dtype)
        start = 0
        for part in parts:
            joined[start : start + part.size] = part.reshape(-1).astype(joined.dtype, copy=False)
            start += part.size
        return joined.reshape(self.shape)

    def _packed_parts(self, parts: Iterator[Array]) -> Iterator[bytes | memoryview]:
        """The parts as bytes; elements that do not fill a byte are joined with the next part."""
        whole = 8 if self.element_type.is_packed else 1
        rest = np.empty(0, np.uint8)
        for part in parts:
            flat = part.reshape(-1)
            if rest.size:
                flat = np.concatenate([rest, flat])
            end = flat.size - flat.size % whole
            rest = flat[end:]
            yield _bytes_of(flat[:end], self.element_type)
        if rest.size:
            yield element_types.pack(rest, self.element_type)

    def __repr__(self) -> str:
        return f"<Tensor {self.element_type}{list(self.shape)}: {self._format_values()}>"

    def _format_values(self) -> str:
        """The values of a small tensor, else how many there are."""
        if self._parts is not None or self.size > _MAX_SHOWN_ELEMENTS:
            return f"{self.size} values"
        try:
            return np.array2string(self.array(), separator=", ").replace("\n", "")
        except ModelError as error:  # of a file that has changed
            return str(error)

    def __reduce__(self) -> tuple[Any, ...]:
        provenance = self.provenance.resolved() if isinstance(self.provenance, Computed) else self.provenance
        return _unpickle, (self.element_type, self.shape, b"".join(self.chunks()), provenance)

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """Tensors do not change."""
        return self


def _unpickle(
    element_type: ElementType, shape: tuple[int, ...], data: bytes, provenance: Provenance | None = None
) -> Tensor:
    tensor = Tensor.from_packed(np.frombuffer(data, np.uint8), element_type, shape)
    tensor.provenance = provenance
    return tensor


def _flat_parts(array: Array, *, is_reused: bool = False) -> Iterator[Array]:
    """The elements in order, a few MiB at a time; of an array with strides a few rows are copied at a time.

    With ``is_reused`` each part may lie in the memory of the one before, which saves much of the time.
    """
    array = array.reshape([dimension for dimension in array.shape if dimension != 1])  # a view
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        step = max(1, _CHUNK_BYTES // flat.itemsize)
        for start in range(0, flat.size, step):
            yield flat[start : start + step]
        return
    rows = max(1, _COPIED_BYTES // max(1, array.nbytes // len(array)))
    buffer = np.empty((min(rows, len(array)), *array.shape[1:]), array.dtype) if is_reused else None
    for block in _read(array):
        for start in range(0, len(block), rows):
            some = block[start : start + rows]
            copied = np.empty(some.shape, array.dtype) if buffer is None else buffer[: len(some)]
            _copy(some, copied)
            yield copied.reshape(-1)
    forget_pages(array)


def _read(array: Array) -> Iterator[Array]:
    """Yield the rows of an array; those of a transposed matrix in a file as strips that are read into memory.

    Every page of a map costs time, and a column lies in as many pages as the matrix in the file has rows.
    """
    span = FileSpan.of(array.T) if array.ndim == 2 else None
    if span is None:
        yield array
        return
    count, row_size = array.shape[1], array.shape[1] * array.itemsize
    is_small = array.nbytes <= _MAX_READ_BYTES
    rows = len(array) if is_small else max(1, min(_MAX_STRIP_BYTES, count * _STRIP_WIDTH) // row_size)
    strip = np.empty(min(rows, len(array)) * count, array.dtype)
    for start in range(0, len(array), rows):
        columns = strip[: min(rows, len(array) - start) * count]
        span.read_columns(count, start * array.itemsize, columns.view(np.uint8).data)
        yield columns.reshape(count, -1).T


def _copy(array: Array, values: Array) -> None:
    """Copy the array into ``values``, whose elements lie in order; a transposed matrix a few columns at a time.

    A whole matrix at once takes several times as long: it is written across more lines of memory than the processor's
    nearest cache holds.
    """
    if array.ndim != 2 or array.strides[0] != array.itemsize:
        values[...] = array
        return
    columns = max(1, _CACHE_LINE // array.itemsize)
    for start in range(0, array.shape[1], columns):
        values[:, start : start + columns] = array[:, start : start + columns]


def _bytes_of(flat: Array, element_type: ElementType) -> bytes | memoryview:
    """The packed bytes of a row, without a copy where they are those in memory."""
    if (
        sys.byteorder == "little"
        and flat.dtype == element_type.dtype
        and element_type.bits >= 8
        and flat.flags.c_contiguous
    ):
        return flat.view(np.uint8).data
    return element_types.pack(flat, element_type)


def _slices(flat: Array) -> Iterator[memoryview]:
    view = flat.data
    for start in range(0, len(flat), _CHUNK_BYTES):
        yield view[start : start + _CHUNK_BYTES]
