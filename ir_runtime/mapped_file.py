"""Files that tensors are views of, and their bytes without the detour through memory.

A map makes every byte reachable as an array, but whoever reads a large file through it holds it all in memory.
What is only passed on is copied from file to file by the kernel where it can, or read a few MiB at a time.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np

from .element_types import Array
from .errors import ModelError
from .records import record

_CHUNK_BYTES = 1 << 22
_LEAST_COPIED = 1 << 16
"""Bytes from which on a call of the kernel for a single tensor is worth it."""
CAN_READ_APART = hasattr(os, "pread")
"""Whether a part of a file can be read without moving its position: not on Windows."""


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
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(f"{os.fspath(path)} is not a file")
            if found.st_size == 0:
                os.close(descriptor)
                return None
            made = cls(descriptor, 0, access=mmap.ACCESS_READ)
        except BaseException:
            os.close(descriptor)
            raise
        made.path, made._descriptor, made._state = os.fspath(path), descriptor, (found.st_size, found.st_mtime_ns)
        return made

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self._descriptor)

    def forget(self, low: int = 0, high: int | None = None) -> None:
        """Give the memory back that bytes were looked at in; they are there again when they are asked for.

        Of some bytes alone: the pages that hold nothing else. Systems hold whole huge pages around a byte, so that a
        look at each tensor alone fills memory.
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

        Asked before values are looked at through the map: what a file has lost ends the process when it is touched.
        """
        found = os.fstat(self._descriptor)
        if (found.st_size, found.st_mtime_ns) != self._state:
            raise ModelError(
                f"the file '{self.path}' has changed since it was opened; read or convert it again, or give its bytes"
            )

    @property
    def descriptor(self) -> int:
        """To read from. Raises :class:`ModelError` where the file has changed."""
        self.check()
        return self._descriptor


def reader_of(file: MappedFile) -> Callable[[int, int], bytes]:
    """A function that reads bytes from a position on, and how many: without the map where the system can.

    Of a map that is looked at the system holds more than is asked for. The function raises :class:`ModelError`
    where the file has changed.
    """
    if CAN_READ_APART:
        return lambda start, count: os.pread(file.descriptor, count, start)
    return lambda start, count: file[start : start + count]


def bytes_of(file: MappedFile | None) -> Array:
    """All of a file, or of an empty one."""
    return np.empty(0, np.uint8) if file is None else file.bytes()


def file_of(array: Array) -> MappedFile | None:
    """The mapped file that ``array`` is a view of, with or without gaps."""
    base: object = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, MappedFile) else None


def forget_pages(array: Array) -> None:
    """Give the memory back that holds bytes of ``array`` alone, where it is a view of a mapped file.

    They are there again when they are asked for. For weights that somebody has copied.
    """
    file = file_of(array)
    if file is None or not array.size:
        return
    begin = array.__array_interface__["data"][0] - np.frombuffer(file, np.uint8).__array_interface__["data"][0]
    reach = [(extent - 1) * step for extent, step in zip(array.shape, array.strides)]
    low = begin + sum(step for step in reach if step < 0)
    file.forget(low, begin + sum(step for step in reach if step > 0) + array.itemsize)


def aligned(array: Array) -> Array:
    """The array itself, or a copy where it is not aligned: what uses it often would copy it every time."""
    if array.flags.aligned:
        return array
    made = np.require(array, requirements=["A"])
    forget_pages(array)
    return made


@record
class FileSpan:
    """Some bytes of a mapped file."""

    file: MappedFile
    offset: int
    size: int

    @classmethod
    def of(cls, array: Array) -> FileSpan | None:
        """Where the bytes of ``array`` lie, if it is a view of a mapped file without gaps."""
        base = file_of(array)
        if base is None or not array.flags.c_contiguous or not CAN_READ_APART:
            return None
        start = np.frombuffer(base, np.uint8).ctypes.data
        return cls(base, array.ctypes.data - start, array.nbytes)

    def forget(self) -> None:
        """Give the memory back that was read of the bytes."""
        self.file.forget(self.offset, self.offset + self.size)

    def look(self, start: int, size: int) -> bytes:
        """Some of the bytes."""
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

    def copy_to(self, file: IO[bytes]) -> bool:
        """Append the bytes to ``file`` within the kernel; False where that is not possible, and nothing was done."""
        if self.size < _LEAST_COPIED or not hasattr(os, "copy_file_range"):
            return False
        source, begin = self.file.descriptor, file.tell()
        position, done = begin, 0
        try:
            file.flush()
            target = file.fileno()
            while done < self.size:
                copied = os.copy_file_range(source, target, self.size - done, self.offset + done, position)
                if not copied:
                    raise ModelError(f"the file '{self.file.path}' ends before byte {self.offset + self.size}")
                done, position = done + copied, position + copied
        except OSError:
            # Another file system, or no file at all: whoever asked writes the bytes instead.
            file.seek(begin)
            return False
        file.seek(position)
        return True
