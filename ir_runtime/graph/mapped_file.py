"""Mapped files, of which tensors are views, and copies of their bytes that do not fill memory.

A map gives every byte as part of an array, but reading a large file through it keeps all of the file in memory.
Bytes that are only copied are read apart from the map, a few MiB at a time.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np

from ..errors import ModelError
from ..records import record
from .element_types import Array

_CHUNK_BYTES = 1 << 22
_WRITTEN_BYTES = 1 << 18
"""Size of a write. Linux keeps a file in pages of about this size: from smaller ones OpenVINO loads a large model
more slowly (VGG-11 in 1.4 of the time with 64 KiB), and larger ones are hard to find where memory is used.
"""
CAN_READ_APART = hasattr(os, "pread")
"""True if the system can read at an offset without moving the file's position; Windows cannot."""


class MappedFile(mmap.mmap):
    """A regular file mapped for reading, which stays open."""

    path: str
    _descriptor: int
    _state: tuple[int, int]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> MappedFile | None:
        """Map the file; None where it is empty. Raises :class:`OSError`, also for what is no regular file."""
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(f"{os.fspath(path)} is not a file")
            if status.st_size == 0:
                os.close(descriptor)
                return None
            mapped = cls(descriptor, 0, access=mmap.ACCESS_READ)
        except BaseException:
            os.close(descriptor)
            raise
        mapped.path, mapped._descriptor, mapped._state = (
            os.fspath(path),
            descriptor,
            (status.st_size, status.st_mtime_ns),
        )
        return mapped

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self._descriptor)

    def forget(self, low: int = 0, high: int | None = None) -> None:
        """Release the memory of bytes that were read; the next access reads them from the file again.

        With ``low`` and ``high`` only the pages between these offsets are released. Systems map whole huge pages
        around a byte, so that reading a little of each tensor would fill memory.
        """
        if not hasattr(mmap, "MADV_DONTNEED"):
            return
        if high is None:
            self.madvise(mmap.MADV_DONTNEED)
            return
        low, high = -(-low // mmap.PAGESIZE) * mmap.PAGESIZE, high - high % mmap.PAGESIZE
        if high > low:
            self.madvise(mmap.MADV_DONTNEED, low, high - low)

    def bytes(self) -> Array:
        """All of it, as an array of u8 that keeps the file open."""
        return np.frombuffer(self, np.uint8)

    def check(self) -> None:
        """Raises :class:`ModelError` where the file is not what it was when it was opened.

        Called before values are read through the map: reading bytes that a file has lost would end the process.
        """
        status = os.fstat(self._descriptor)
        if (status.st_size, status.st_mtime_ns) != self._state:
            raise ModelError(
                f"the file '{self.path}' has changed since it was opened; read or convert it again, or give its bytes"
            )

    @property
    def descriptor(self) -> int:
        """The descriptor, for reading. Raises :class:`ModelError` where the file has changed."""
        self.check()
        return self._descriptor


def reader_of(file: MappedFile) -> Callable[[int, int], bytes]:
    """A function of an offset and a size that reads bytes, without the map where the system can read at an offset.

    Through the map the system would keep more in memory than is read. The function raises :class:`ModelError` where
    the file has changed.
    """
    if CAN_READ_APART:
        return lambda start, count: os.pread(file.descriptor, count, start)
    return lambda start, count: file[start : start + count]


def bytes_of(file: MappedFile | None) -> Array:
    """All bytes of a file; no bytes for None, which stands for an empty file."""
    return np.empty(0, np.uint8) if file is None else file.bytes()


def file_of(array: Array) -> MappedFile | None:
    """The mapped file that ``array`` is a view of, with or without gaps."""
    base: object = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, MappedFile) else None


def offset_in(file: MappedFile, array: Array) -> int:
    """The byte of ``file`` that a view of it begins with."""
    first: int = np.frombuffer(file, np.uint8).ctypes.data
    return int(array.ctypes.data) - first


def forget_pages(array: Array) -> None:
    """Release the pages that hold only bytes of ``array``, where it is a view of a mapped file.

    The next access reads them from the file again. This is for weights that have been copied.
    """
    file = file_of(array)
    if file is None or not array.size:
        return
    begin = offset_in(file, array)
    reach = [(dimension - 1) * step for dimension, step in zip(array.shape, array.strides)]
    low = begin + sum(step for step in reach if step < 0)
    file.forget(low, begin + sum(step for step in reach if step > 0) + array.itemsize)


def aligned(array: Array) -> Array:
    """The array itself, or an aligned copy: NumPy would copy an unaligned array in every call."""
    if array.flags.aligned:
        return array
    aligned_array = np.require(array, requirements=["A"])
    forget_pages(array)
    return aligned_array


def write_pieces(file: IO[bytes], chunk: bytes | memoryview, position: int) -> None:
    """Append bytes to ``file``, which has ``position`` bytes so far, in pieces that are written fast."""
    view = memoryview(chunk)
    for start, end in _pieces(len(view), position):
        file.write(view[start:end])


def _pieces(size: int, position: int) -> Iterator[tuple[int, int]]:
    """Yield the boundaries of pieces at places in the file that are multiples of their size."""
    start = 0
    while start < size:
        end = min(size, start + _WRITTEN_BYTES - (position + start) % _WRITTEN_BYTES)
        yield start, end
        start = end


@record
class FileSpan:
    """Some bytes of a mapped file."""

    file: MappedFile
    offset: int
    size: int

    @classmethod
    def of(cls, array: Array) -> FileSpan | None:
        """Return the place of the bytes of ``array`` if it is a view of a mapped file without gaps."""
        base = file_of(array)
        if base is None or not array.flags.c_contiguous or not CAN_READ_APART:
            return None
        return cls(base, offset_in(base, array), array.nbytes)

    def forget(self) -> None:
        """Release the memory of these bytes."""
        self.file.forget(self.offset, self.offset + self.size)

    def look(self, start: int, size: int) -> bytes:
        """``size`` of the bytes, from ``start`` on."""
        return os.pread(self.file.descriptor, min(size, self.size - start), self.offset + start)

    def chunks(self) -> Iterator[bytes]:
        """The bytes in order, a few MiB at a time. Raises :class:`ModelError` where the file has changed."""
        descriptor, position, end = self.file.descriptor, self.offset, self.offset + self.size
        while position < end:
            chunk = os.pread(descriptor, min(_CHUNK_BYTES, end - position), position)
            while len(chunk) < min(_CHUNK_BYTES, end - position):
                more = os.pread(descriptor, min(_CHUNK_BYTES, end - position) - len(chunk), position + len(chunk))
                if not more:
                    raise ModelError(f"the file '{self.file.path}' has lost its bytes from {position + len(chunk)} on")
                chunk += more
            position += len(chunk)
            yield chunk

    def copy_to(self, file: IO[bytes], position: int) -> None:
        """Append the bytes to ``file``, which has ``position`` bytes so far, in pieces.

        The copy within the kernel (``copy_file_range``) is not faster, and leaves the new file in pages of 4 KiB in
        the page cache: OpenVINO compiles a model from such a file up to 9 % more slowly. Raises :class:`ModelError`
        where the file has changed.
        """
        buffer = memoryview(bytearray(min(_WRITTEN_BYTES, self.size)))
        for start, end in _pieces(self.size, position):
            some = buffer[: end - start]
            FileSpan(self.file, self.offset + start, len(some)).read_into(some)
            file.write(some)

    def read_columns(self, count: int, start: int, columns: memoryview) -> None:
        """Read the same bytes of each of ``count`` rows of a matrix, from the byte ``start`` of a row on.

        ``columns`` has as many bytes of each row as are read. Raises :class:`ModelError` where the file has changed.
        """
        row_size, width = self.size // count, len(columns) // count
        if width == row_size:
            self.read_into(columns)
            return
        descriptor, offset = self.file.descriptor, self.offset + start
        for place in range(0, len(columns), width):
            self._read_at(descriptor, columns[place : place + width], offset)
            offset += row_size

    def read_into(self, buffer: memoryview) -> None:
        """Read the bytes into a buffer of their size. Raises :class:`ModelError` where the file has changed."""
        self._read_at(self.file.descriptor, buffer, self.offset)

    def _read_at(self, descriptor: int, buffer: memoryview, offset: int) -> None:
        while buffer:
            count = _read_some(descriptor, buffer, offset)
            if not count:
                raise ModelError(f"the file '{self.file.path}' has lost its bytes from {offset} on")
            buffer, offset = buffer[count:], offset + count


def _read_some(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Read bytes at an offset into a buffer, and return how many the system gave."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    some = os.pread(descriptor, min(len(buffer), _CHUNK_BYTES), offset)
    buffer[: len(some)] = some
    return len(some)
