"""An ONNX file as onnx's own messages, without its large weights: what oracles are given parts of.

Reads the protobuf wire format only as far as tensors go: the raw data of every large tensor is cut out, and an
``external_data`` entry that says where in the file it lies is put in its place. What remains is small, and is parsed
by onnx as usual.

https://protobuf.dev/programming-guides/encoding/ and onnx/onnx.proto
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Union

from converter.errors import InvalidModelError

Buffer = Union[memoryview, bytes]

EMBEDDED = "\x00embedded"
"""The ``location`` of data that lies in the model's own file."""

_SMALLEST_CUT = 1024
_LARGE = 1 << 20
_RAW_DATA = 9
_EXTERNAL_DATA = 13
_DEEPEST = 200

# message -> field number -> the message that the field holds; only the ways that lead to tensors
_FIELDS: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}


@dataclass(frozen=True)
class _Field:
    number: int
    wire_type: int
    start: int
    """Where the field's tag begins."""
    payload: int
    """Where its value begins."""
    end: int


def skeleton(data: Buffer, passed: Callable[[], None] = lambda: None) -> bytes:
    """The model without the raw data of its large tensors; ``passed`` is called behind each that takes megabytes.

    Raises :class:`InvalidModelError` where the bytes are not a protobuf message.
    """
    return _strip(memoryview(data), 0, len(data), "model", 0, passed)


def _strip(data: memoryview, start: int, end: int, message: str, depth: int, passed: Callable[[], None]) -> bytes:
    if depth > _DEEPEST:
        raise InvalidModelError(f"graphs are nested more than {_DEEPEST // 3} deep")
    nested = _FIELDS[message]
    pieces: list[bytes | memoryview] = []
    copied = start
    for field in _fields(data, start, end):
        if field.wire_type != 2:
            continue
        if message == "tensor" and field.number == _RAW_DATA:
            size = field.end - field.payload
            if size >= _SMALLEST_CUT:
                pieces += [data[copied : field.start], _reference(field.payload, size)]
                copied = field.end
                if size >= _LARGE:
                    passed()
        elif field.number in nested:
            inner = _strip(data, field.payload, field.end, nested[field.number], depth + 1, passed)
            if len(inner) != field.end - field.payload:
                pieces += [data[copied : field.start], _tagged(field.number, inner)]
                copied = field.end
    pieces.append(data[copied:end])
    return b"".join(pieces)


def _fields(data: memoryview, start: int, end: int) -> list[_Field]:
    found = []
    position = start
    while position < end:
        tag, payload = _varint(data, position, end)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            after = _varint(data, payload, end)[1]
        elif wire_type == 1:
            after = payload + 8
        elif wire_type == 2:
            length, payload = _varint(data, payload, end)
            after = payload + length
        elif wire_type == 5:
            after = payload + 4
        else:
            raise InvalidModelError(f"byte {position} of the file does not begin a protobuf field")
        if after > end or number == 0:
            raise InvalidModelError(f"the file is truncated or corrupt: a field at byte {position} runs past its end")
        found.append(_Field(number, wire_type, position, payload, after))
        position = after
    return found


def _varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise InvalidModelError(f"the file is truncated or corrupt: a number at byte {position} does not end")


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tagged(number: int, payload: bytes) -> bytes:
    return _encode_varint(number << 3 | 2) + _encode_varint(len(payload)) + payload


def _reference(offset: int, length: int) -> bytes:
    entries = {"location": EMBEDDED, "offset": str(offset), "length": str(length)}
    return b"".join(
        _tagged(_EXTERNAL_DATA, _tagged(1, key.encode()) + _tagged(2, value.encode())) for key, value in entries.items()
    )
