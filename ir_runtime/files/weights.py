"""The ``.bin`` file: offsets of the constants, and writing it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import IO, cast

from .. import threads
from ..graph import Tensor
from .digests import blake2b
from .whole_files import NewFile

Progress = Callable[[float], object]
"""A function that is called with the share of the work that is done, between 0 and 1."""

ALIGNMENT = 64
"""Constants start at multiples of this many bytes, so that mapped ones are aligned; readers accept gaps."""


class WeightsLayout:
    """Assigns offsets in the ``.bin`` file to tensors; those of identical bytes share one."""

    def __init__(self) -> None:
        self._end = 0
        self._blobs: list[tuple[int, Tensor]] = []
        self._by_identity: dict[int, tuple[int, int]] = {}
        # Data is only hashed once there is a second tensor of the same size and sample.
        self._by_sample: dict[tuple[int, bytes], list[tuple[Tensor, int]]] = {}
        self._by_digest: dict[bytes, int] = {}

    def place(self, tensor: Tensor) -> tuple[int, int]:
        """Return the offset and the size of the tensor's data, in bytes."""
        position = self._by_identity.get(id(tensor))
        if position is None:
            position = self._by_identity[id(tensor)] = self._find_or_append(tensor)
        return position

    def _find_or_append(self, tensor: Tensor) -> tuple[int, int]:
        size = tensor.byte_size
        if size == 0:
            return 0, 0
        candidates = self._by_sample.setdefault((size, tensor.sample()), [])
        digest = None
        if candidates and tensor.is_sample_whole:
            return candidates[0][1], size
        if candidates:
            if len(candidates) == 1:
                self._by_digest[digest_of(candidates[0][0])] = candidates[0][1]
            digest = digest_of(tensor)
            if digest in self._by_digest:
                return self._by_digest[digest], size
        offset = -(-self._end // ALIGNMENT) * ALIGNMENT
        self._end = offset + size
        self._blobs.append((offset, tensor))
        candidates.append((tensor, offset))
        if digest is not None:
            self._by_digest[digest] = offset
        return offset, size

    def write(self, file: IO[bytes], progress: Progress | None = None) -> None:
        """Write every blob, with zeros in the gaps; ``progress`` is called with the share that is written."""
        write_blobs(file, self._blobs, progress)
        if self._by_identity and not self._end:
            # An empty file cannot be mapped, and some readers report its constants as missing.
            file.write(b"\0")


def write_blobs(file: IO[bytes], blobs: Sequence[tuple[int, Tensor]], progress: Progress | None = None) -> None:
    """Write tensors at ascending offsets of an empty file, with zeros in the gaps; threads share large models."""
    total, done = sum(tensor.byte_size for _, tensor in blobs), 0
    if isinstance(file, NewFile) and hasattr(os, "pwrite") and total >= threads.LARGE:
        tensors = _write_at_offsets(file, blobs, total)
    else:
        tensors = _write_in_sequence(file, blobs)
    for tensor in tensors:
        done += tensor.byte_size
        if progress is not None:
            progress(done / total)


def _write_in_sequence(file: IO[bytes], blobs: Sequence[tuple[int, Tensor]]) -> Iterator[Tensor]:
    """Write tensors one after the other, and yield each when it is written."""
    position = 0
    for offset, tensor in blobs:
        file.write(bytes(offset - position))
        tensor.write_to(file, offset)
        position = offset + tensor.byte_size
        yield tensor


def _write_at_offsets(file: NewFile, blobs: Sequence[tuple[int, Tensor]], total: int) -> Iterator[Tensor]:
    """Write tensors in threads, and yield them in their order; the system fills the gaps with zeros."""

    def write(blob: tuple[int, Tensor]) -> Tensor:
        offset, tensor = blob
        tensor.write_to(cast("IO[bytes]", _FileAtOffset(file, offset)), offset)
        return tensor

    last_offset, last = blobs[-1]
    file.truncate(last_offset + last.byte_size)
    return threads.map_in_order(write, blobs, total)


class _FileAtOffset:
    """A part of a file that is written from an offset on, with a position of its own."""

    def __init__(self, file: NewFile, offset: int) -> None:
        self._file = file
        self._position = offset

    def write(self, data: bytes | memoryview) -> int:
        """Write all of ``data``, and return its size."""
        self._file.write_at(self._position, data)
        self._position += len(data)
        return len(data)


def digest_of(tensor: Tensor) -> bytes:
    """Return a digest of the tensor's size and bytes, which are read in chunks."""
    digest = blake2b(tensor.byte_size.to_bytes(8, "little"), digest_size=32)
    for chunk in tensor.chunks():
        digest.update(chunk)
    return digest.digest()
