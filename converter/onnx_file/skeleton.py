"""An ONNX file as onnx's own messages, without its large weights: what oracles are given parts of.

The raw data of every large tensor is replaced by an ``external_data`` entry with its place in the file. What remains is
small, and onnx parses it as usual.

https://protobuf.dev/programming-guides/encoding/ and onnx/onnx.proto
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from converter.onnx_file.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
)
from converter.onnx_file.wire_format import Buffer, deeper, field_spans

if TYPE_CHECKING:
    import onnx

    from ir_runtime.graph import Tensor

EMBEDDED = "\x00embedded"
"""The ``location`` of data that lies in the model's own file."""

_MARK = EMBEDDED.encode()
_SMALLEST_CUT = 1024
_LARGE = 1 << 20
_RAW_DATA = 9
_EXTERNAL_DATA = 13

_HOLDERS = (GraphProto, FunctionProto, NodeProto, AttributeProto, SparseTensorProto, TensorProto)
_WAYS: Mapping[str, Mapping[int, str]] = {
    message.__name__: {
        tag >> 3: field.message.__name__ for tag, field in message.fields.items() if field.message in _HOLDERS
    }
    for message in (ModelProto, *_HOLDERS)
}
"""Message -> the numbers of the fields that lead to tensors, and what these hold."""


def skeleton(data: Buffer, passed: Callable[[], None] = lambda: None) -> bytes:
    """The model without the raw data of its large tensors; ``passed`` is called behind each that takes megabytes.

    Raises :class:`InvalidModelError` where the bytes are not a protobuf message.
    """
    return _strip(memoryview(data), 0, len(data), "ModelProto", 0, passed)


def _strip(data: memoryview, start: int, end: int, message: str, depth: int, passed: Callable[[], None]) -> bytes:
    nested = _WAYS[message]
    pieces: list[bytes | memoryview] = []
    copied = start
    for field in field_spans(data, start, end, nested or (_RAW_DATA,)):
        size = field.end - field.payload
        if size < _SMALLEST_CUT:
            continue  # as most nodes, which cannot hold what is cut: three quarters of the time
        if message == "TensorProto":
            pieces += [data[copied : field.start], _reference(field.payload, size)]
            copied = field.end
            if size >= _LARGE:
                passed()
        else:
            inner = _strip(data, field.payload, field.end, nested[field.number], deeper(depth), passed)
            if len(inner) != size:
                pieces += [data[copied : field.start], _tag(field.number, inner)]
                copied = field.end
    pieces.append(data[copied:end])
    return b"".join(pieces)


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tag(number: int, payload: bytes) -> bytes:
    return _begin(number, len(payload)) + payload


def _reference(offset: int, length: int) -> bytes:
    entries = {"location": EMBEDDED, "offset": str(offset), "length": str(length)}
    return b"".join(
        _tag(_EXTERNAL_DATA, _tag(1, key.encode()) + _tag(2, value.encode())) for key, value in entries.items()
    )


def refer(tensor: onnx.TensorProto, index: int) -> None:
    """Let the data of a tensor be at ``index`` of the list that :func:`restored` is given."""
    for name in ("raw_data", "external_data", "data_location"):
        tensor.ClearField(name)
    for key, value in (("location", EMBEDDED), ("offset", str(index))):
        tensor.external_data.add(key=key, value=value)


def place_of(tensor: onnx.TensorProto) -> int | None:
    """Return where :func:`refer` said that the data is; None for a tensor that has its data, or has it elsewhere."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    return int(entries["offset"]) if entries.get("location") == EMBEDDED else None


def restored(message: onnx.ModelProto, tensors: Sequence[Tensor]) -> Iterator[memoryview | Tensor]:
    """Yield the bytes of a model and the tensors of :func:`refer` between them; the opposite of :func:`skeleton`."""
    data = message.SerializeToString(deterministic=True)
    yield from _restored(data, 0, len(data), "ModelProto", tensors)[0]


def _restored(
    data: bytes, start: int, end: int, message: str, tensors: Sequence[Tensor]
) -> tuple[list[memoryview | Tensor], int]:
    """Return the pieces of a message, and how many bytes they are."""
    mark, view = data.find(_MARK, start, end), memoryview(data)
    if mark < 0:
        return [view[start:end]], end - start
    if message == "TensorProto":
        return _filled(data, start, end, tensors)
    pieces: list[memoryview | Tensor] = []
    copied, size = start, end - start
    for field in field_spans(view, start, end, _WAYS[message]):
        if mark < 0:
            break
        if field.end > mark:
            inner, length = _restored(data, field.payload, field.end, _WAYS[message][field.number], tensors)
            head = _begin(field.number, length)
            pieces += [view[copied : field.start], memoryview(head), *inner]
            size += len(head) + length - (field.end - field.start)
            copied, mark = field.end, data.find(_MARK, field.end, end)
    return [*pieces, view[copied:end]], size


def _filled(data: bytes, start: int, end: int, tensors: Sequence[Tensor]) -> tuple[list[memoryview | Tensor], int]:
    """Return the pieces of a tensor without its references, and with what they refer to."""
    pieces: list[memoryview | Tensor] = []
    copied, size, view = start, end - start, memoryview(data)
    fields = field_spans(view, start, end, (_EXTERNAL_DATA,))
    if all(data.find(_MARK, field.payload, field.end) < 0 for field in fields):
        return [view[start:end]], size  # the mark is part of a text
    for field in fields:
        pieces.append(view[copied : field.start])
        copied, size = field.end, size - (field.end - field.start)
        at = data.find(b"offset", field.payload, field.end) + len(b"offset") + 1  # behind it the length of the text
        if at > len(b"offset"):
            tensor = tensors[int(data[at + 1 : at + 1 + data[at]])]
            head = _begin(_RAW_DATA, tensor.byte_size)
            pieces += [memoryview(head), tensor]
            size += len(head) + tensor.byte_size
    return [*pieces, view[copied:end]], size


def _begin(number: int, size: int) -> bytes:
    return _encode_varint(number << 3 | 2) + _encode_varint(size)


def tensors_in(message: Any) -> Iterator[onnx.TensorProto]:
    """Yield the tensors of a model, graph, function or node, those in the graphs of its nodes included."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    nested = _WAYS[message.DESCRIPTOR.name]
    for field, value in message.ListFields():
        if field.number in nested:
            for held in [value] if hasattr(value, "ListFields") else value:
                yield from tensors_in(held)
