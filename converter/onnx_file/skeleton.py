"""An ONNX file as onnx's own messages, without its large weights: what oracles are given parts of.

The raw data of every large tensor is replaced by an ``external_data`` entry with its place in the file. What remains is
small, and onnx parses it as usual.

https://protobuf.dev/programming-guides/encoding/ and onnx/onnx.proto
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from converter.onnx_file.wire_format import Buffer, deeper, field_spans

EMBEDDED = "\x00embedded"
"""The ``location`` of data that lies in the model's own file."""

_SMALLEST_CUT = 1024
_LARGE = 1 << 20
_RAW_DATA = 9
_EXTERNAL_DATA = 13

# message -> field number -> what the field holds; only the ways that lead to the raw data of tensors
_FIELDS: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {_RAW_DATA: "bytes"},
}


def skeleton(data: Buffer, passed: Callable[[], None] = lambda: None) -> bytes:
    """The model without the raw data of its large tensors; ``passed`` is called behind each that takes megabytes.

    Raises :class:`InvalidModelError` where the bytes are not a protobuf message.
    """
    return _strip(memoryview(data), 0, len(data), "model", 0, passed)


def _strip(data: memoryview, start: int, end: int, message: str, depth: int, passed: Callable[[], None]) -> bytes:
    nested = _FIELDS[message]
    pieces: list[bytes | memoryview] = []
    copied = start
    for field in field_spans(data, start, end, nested):
        size = field.end - field.payload
        if size < _SMALLEST_CUT:
            continue  # as most nodes, which cannot hold what is cut: three quarters of the time
        if message == "tensor":
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
    return _encode_varint(number << 3 | 2) + _encode_varint(len(payload)) + payload


def _reference(offset: int, length: int) -> bytes:
    entries = {"location": EMBEDDED, "offset": str(offset), "length": str(length)}
    return b"".join(
        _tag(_EXTERNAL_DATA, _tag(1, key.encode()) + _tag(2, value.encode())) for key, value in entries.items()
    )
