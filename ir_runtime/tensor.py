"""Constant data: a view over a mapped file or an array, which knows how to stream itself out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from . import element_types
from .element_types import Array, ElementType

_CHUNK_BYTES = 1 << 22


class Tensor:
    """Immutable constant data of one element type and shape.

    The data is either packed bytes exactly as a ``.bin`` file holds them (a view of a mapped file),
    or an array in memory, of any strides. Nothing is copied before it is asked for.
    """

    __slots__ = ("_array", "_deferred", "_packed", "element_type", "shape")

    def __init__(
        self,
        element_type: ElementType,
        shape: tuple[int, ...],
        *,
        packed: Array | None = None,
        array: Array | None = None,
        deferred: Callable[[], Array] | None = None,
    ) -> None:
        self.element_type = element_type
        self.shape = shape
        self._packed = packed
        self._array = array
        self._deferred = deferred

    @classmethod
    def from_array(cls, array: Array, element_type: ElementType | None = None) -> Tensor:
        """A tensor over ``array``, which must not be written to afterwards."""
        array = np.asarray(array)
        kind = element_type or element_types.from_dtype(array.dtype)
        if array.dtype != kind.dtype:
            array = array.astype(kind.dtype)
        return cls(kind, array.shape, array=array)

    @classmethod
    def from_packed(cls, data: Array, element_type: ElementType, shape: tuple[int, ...]) -> Tensor:
        """A tensor over bytes (a uint8 array) in the layout of a ``.bin`` file."""
        return cls(element_type, shape, packed=data)

    @classmethod
    def computed(cls, element_type: ElementType, shape: tuple[int, ...], compute: Callable[[], Array]) -> Tensor:
        """A tensor whose array is made each time it is needed, and kept by nobody."""
        return cls(element_type, shape, deferred=compute)

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
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
        """The values, read-only; a view wherever the element type allows one."""
        if self._deferred is not None:
            made = self._deferred()
        elif self._array is not None:
            made = self._array
        else:
            assert self._packed is not None
            made = element_types.unpack(self._packed, self.element_type, self.shape)
        view = made.view()
        view.flags.writeable = False
        return view

    def chunks(self) -> Iterator[bytes | memoryview]:
        """The bytes of the ``.bin`` file in order, a few MiB at a time."""
        if self._packed is not None:
            yield from _slices(self._packed)
            return
        array = self.array()
        if self.element_type.is_packed or self.element_type is element_types.string:
            yield self._pack()
            return
        if array.flags.c_contiguous:
            yield from _slices(array.reshape(-1).view(np.uint8))
            return
        rows = max(1, _CHUNK_BYTES // max(1, array.itemsize * (array.size // max(1, array.shape[0]))))
        for start in range(0, array.shape[0], rows):
            yield np.ascontiguousarray(array[start : start + rows]).tobytes()

    def __repr__(self) -> str:
        return f"Tensor({self.element_type}, {list(self.shape)})"


def _slices(flat: Array) -> Iterator[memoryview]:
    view = flat.data
    for start in range(0, len(flat), _CHUNK_BYTES):
        yield view[start : start + _CHUNK_BYTES]
