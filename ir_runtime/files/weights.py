"""The ``.bin`` file: where each constant lies, and how it is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from ..graph import Tensor
from .digests import blake2b

ALIGNMENT = 64
"""Constants start at multiples of this many bytes, so that mapped ones are aligned; readers accept gaps."""


class WeightsLayout:
    """Gives every tensor its place in the ``.bin`` file; identical bytes share one."""

    def __init__(self) -> None:
        self._end = 0
        self._blobs: list[tuple[int, Tensor]] = []
        self._by_identity: dict[int, tuple[int, int]] = {}
        # Data is only hashed once there is a second tensor of the same size and sample.
        self._by_sample: dict[tuple[int, bytes], list[tuple[Tensor, int]]] = {}
        self._by_digest: dict[bytes, int] = {}

    def place(self, tensor: Tensor) -> tuple[int, int]:
        """(offset, size) in bytes of the tensor's data."""
        position = self._by_identity.get(id(tensor))
        if position is None:
            position = self._by_identity[id(tensor)] = self._find_or_append(tensor)
        return position

    def _find_or_append(self, tensor: Tensor) -> tuple[int, int]:
        size = tensor.byte_size
        if size == 0:
            return 0, 0
        peers = self._by_sample.setdefault((size, tensor.sample()), [])
        digest = None
        if peers and tensor.is_sample_whole:
            return peers[0][1], size
        if peers:
            if len(peers) == 1:
                self._by_digest[digest_of(peers[0][0])] = peers[0][1]
            digest = digest_of(tensor)
            if digest in self._by_digest:
                return self._by_digest[digest], size
        offset = -(-self._end // ALIGNMENT) * ALIGNMENT
        self._end = offset + size
        self._blobs.append((offset, tensor))
        peers.append((tensor, offset))
        if digest is not None:
            self._by_digest[digest] = offset
        return offset, size

    def write(self, file: IO[bytes]) -> None:
        """Write every blob, with zeros in the gaps."""
        position = 0
        for offset, tensor in self._blobs:
            file.write(bytes(offset - position))
            tensor.write_to(file, offset)
            position = offset + tensor.byte_size
        if self._by_identity and not position:
            # A file of no bytes cannot be mapped, and some readers take constants in it for missing ones.
            file.write(b"\0")


def digest_of(tensor: Tensor) -> bytes:
    """Return the key of tensors that hold the same bytes; they are read a few at a time."""
    digest = blake2b(tensor.byte_size.to_bytes(8, "little"), digest_size=32)
    _update(digest, tensor.chunks())
    return digest.digest()


def _update(digest: blake2b, chunks: Iterable[bytes | memoryview]) -> None:
    for chunk in chunks:
        digest.update(chunk)
