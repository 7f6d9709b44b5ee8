"""Writes an exported model to a file: the weights one after the other, never all of them in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

import onnx

from converter.errors import ConversionError
from ir_runtime.files.whole_files import check_target, write_pair, write_whole

from .messages import LeftOut


class Writable(Protocol):
    """A model that is written."""

    def message(self, left_out: LeftOut | None = None) -> onnx.ModelProto:
        """The model's message; ``left_out`` takes large constants instead, where it is given."""
        ...


_MOST_BYTES = (1 << 31) - (1 << 24)
"""protobuf reads messages of less than 2 GB: beyond this size of all weights they go into a file of their own."""
_ALIGNMENT = 1 << 12
"""Where weights in a file of their own begin: multiples of this can be mapped."""
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
"""The numbers of these fields in ModelProto, GraphProto and TensorProto (onnx.proto)."""


def check_onnx_path(path: Path) -> None:
    """Raises :class:`ConversionError` where a model cannot be written under this name."""
    if path.suffix.lower() != ".onnx":
        raise ConversionError(f"the ONNX model's path must end in .onnx, but is '{path}'")
    check_target(path)


def write_onnx(model: Writable, path: Path, external: bool | None) -> list[Path]:
    """As :func:`converter.save_onnx`; the files that were written."""
    check_onnx_path(path)
    large: LeftOut = []
    message = model.message(large)
    total = sum(tensor.byte_size for _, tensor in large)
    if external is None:
        external = total > _MOST_BYTES
    if not external:
        if total > _MOST_BYTES:
            raise ConversionError(f"{total} bytes of weights do not fit into one ONNX file: they need external data")
        write_whole(path, lambda file: file.writelines(_in_one_piece(message, large)))
        return [path]
    data = path.with_name(f"{path.name}.data")
    check_target(data)
    place = 0
    for stored, tensor in large:
        place += -place % _ALIGNMENT
        stored.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", data.name), ("offset", place), ("length", tensor.byte_size)):
            stored.external_data.add(key=key, value=str(value))
        place += tensor.byte_size
    message.graph.initializer.extend(tensor_message for tensor_message, _ in large)
    write_pair(path, lambda: [message.SerializeToString(deterministic=True)], data, lambda file: _write(file, large))
    return [path, data]


def _write(file: IO[bytes], large: LeftOut) -> None:
    place = 0
    for _, tensor in large:
        file.write(bytes(-place % _ALIGNMENT))
        place += -place % _ALIGNMENT
        tensor.write_to(file, place)
        place += tensor.byte_size


def _in_one_piece(message: onnx.ModelProto, large: LeftOut) -> Iterator[bytes | memoryview]:
    """The file's bytes: fields of a message may come in any order, so that the graph's large constants come last."""
    graph = message.graph.SerializeToString(deterministic=True)
    message.ClearField("graph")
    heads = []
    for stored, tensor in large:
        head = stored.SerializeToString(deterministic=True) + _begin(_RAW_DATA, tensor.byte_size)
        heads.append(_begin(_INITIALIZER, len(head) + tensor.byte_size) + head)
    size = len(graph) + sum(len(head) + tensor.byte_size for head, (_, tensor) in zip(heads, large))
    yield message.SerializeToString(deterministic=True) + _begin(_GRAPH, size)
    yield graph
    for head, (_, tensor) in zip(heads, large):
        yield head
        yield from tensor.chunks()


def _begin(field: int, size: int) -> bytes:
    """The tag of a field of ``size`` bytes, and the size as a varint."""
    encoded = bytearray([field << 3 | 2])
    while size > 127:
        encoded.append(size & 127 | 128)
        size >>= 7
    encoded.append(size)
    return bytes(encoded)
