"""Reads ONNX files: protobuf's wire format into :mod:`.messages`, past the weights.

This is the only module that walks the fields of a message: :func:`parse` makes messages, :func:`field_spans` gives the
places of fields. A file is read by windows. Of the raw data of a large tensor only the place is kept: neither the bytes
that are read nor the memory that a model takes grow with its weights.

https://protobuf.dev/programming-guides/encoding/ and onnx/onnx.proto
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar, Union

import numpy as np

from converter.errors import InvalidModelError
from converter.onnx_file import messages

Buffer = Union[memoryview, bytes]
Read = Callable[[int, int], bytes]
"""Gives bytes of a file: the arguments are the first position and the count."""
M = TypeVar("M", bound=messages.Message)

_WINDOW = 1 << 16
_LEAST_AHEAD = 1 << 12
"""A window with fewer bytes than this from the current position on is replaced by a new one."""
_SMALLEST_SPAN = 1 << 10
"""Raw data of at least this size stays in the file."""
_MAX_DEPTH = 200
_TYPE_CODES = {messages.INTS: "q", messages.UINTS: "Q", messages.FLOATS: "f", messages.DOUBLES: "d"}
_MAX_BYTES_FOR_LOOP = 64
"""Packed numbers of up to this many bytes are read in a loop, which is faster than arrays for them."""

_Cut = IndexError
"""Raised where a number ends behind the window."""


def parse(message: type[M], read: Read, size: int) -> M:
    """The message that ``size`` bytes are; ``read(start, count)`` gives some of them.

    Raises :class:`InvalidModelError` where they are not a protobuf message.
    """
    parsed = message()
    _Parser(read).walk(parsed, 0, size, 0)
    return parsed


def parse_bytes(message: type[M], data: Buffer) -> M:
    """The message that ``data`` is. Raises :class:`InvalidModelError` where it is none."""
    view = memoryview(data)
    return parse(message, lambda start, count: bytes(view[start : start + count]), len(view))


class FieldSpan(NamedTuple):
    """The place of a field: its tag begins at ``start``, its value at ``payload``."""

    number: int
    start: int
    payload: int
    end: int


def field_spans(data: memoryview, start: int, end: int, numbers: Iterable[int]) -> list[FieldSpan]:
    """The fields with these numbers that the message between two places holds, if their values have a length.

    Raises :class:`InvalidModelError` where the bytes are not a protobuf message.
    """
    spans: list[FieldSpan] = []
    fields = {number << 3 | 2: messages.Field(messages.SPANS, "spans", None) for number in numbers}
    _Parser(lambda start, count: b"").fields(fields, {"spans": spans}, data, start, end, 0, True)
    return spans


class _Parser:
    def __init__(self, read: Read) -> None:
        self._read = read
        self._base = 0
        self._window = b""

    def _at(self, position: int, end: int, least: int = _LEAST_AHEAD) -> int:
        """The place of ``position`` in the window; reads another one if fewer than ``least`` bytes follow."""
        index = position - self._base
        if not (index >= 0 and index + min(least, end - position) <= len(self._window)):
            count = min(max(_WINDOW, least), end - position)
            self._window, self._base, index = self._read(position, count), position, 0
            if len(self._window) < count:
                raise InvalidModelError(f"the file is truncated: it ends before byte {position + count}")
        return index

    def walk(self, message: messages.Message, position: int, end: int, depth: int) -> None:
        """Read the fields between two places of the file into ``message``, window by window."""
        while position < end:
            index = self._at(position, end)
            base, limit = self._base, min(len(self._window), end - self._base)
            last = base + limit == end
            done = self.fields(message.fields, message.__dict__, self._window, index, limit, depth, last)
            position = base + done
            if done > index or position >= end:
                continue
            position = self._larger(message, position, end, depth)

    def _larger(self, message: messages.Message, position: int, end: int, depth: int) -> int:
        """Read one field that is larger than the window; returns where the next one begins."""
        index = self._at(position, end)
        try:
            tag, after = _varint(self._window, index)
            length, after = _varint(self._window, after)
        except _Cut:
            raise InvalidModelError(_UNENDING.format(position)) from None
        payload = self._base + after
        following = payload + length
        if following > end:
            raise InvalidModelError(_TRUNCATED.format(position))
        field = message.fields.get(tag)
        if field is None:
            return following
        if field.message is not None:
            if following - position > _WINDOW:
                self.walk(_inner(message.__dict__, field), payload, following, deeper(depth))
                return following
        elif field.wire_type == messages.RAW:
            message.__dict__[field.name] = b""
            message.__dict__["raw_span"] = (payload, length)
            return following
        index = self._at(position, following, following - position)
        self.fields(message.fields, message.__dict__, self._window, index, index + following - position, depth, True)
        return following

    def fields(
        self,
        fields: Mapping[int, messages.Field],
        values: dict[str, Any],
        data: Buffer,
        position: int,
        end: int,
        depth: int,
        whole: bool,
    ) -> int:
        """Read the ``fields`` that ``data`` has between two places into ``values``.

        Returns where the first field begins whose end is not there; with ``whole`` that is an error. All of a model
        passes here, byte by byte, so the loop makes calls only where it must.
        """
        start = position
        try:
            while position < end:
                start = position
                tag = data[position]
                position += 1
                if tag > 127:
                    tag, position = _varint(data, start)
                wire_type = tag & 7
                if wire_type == 2:
                    length = data[position]
                    position += 1
                    if length > 127:
                        length, position = _varint(data, position - 1)
                    after = position + length
                    if after > end:
                        break
                    field = fields.get(tag)
                    if field is not None:
                        field_type, name, held = field
                        if held is not None:
                            inner = _inner(values, field)
                            below = deeper(depth)
                            self.fields(inner.fields, inner.__dict__, data, position, after, below, True)
                        elif field_type == messages.TEXTS:
                            text = _text(data[position:after])
                            if name in values:
                                values[name].append(text)
                            else:
                                values[name] = [text]
                        elif field_type == messages.TEXT:
                            values[name] = _text(data[position:after])
                        elif field_type == messages.BYTES:
                            values[name] = data[position:after]
                        elif field_type == messages.RAW:
                            large = length >= _SMALLEST_SPAN
                            values[name] = b"" if large else data[position:after]
                            values["raw_span"] = (self._base + position, length) if large else (0, 0)
                        elif field_type == messages.BYTES_LIST:
                            values.setdefault(name, []).append(data[position:after])
                        elif field_type == messages.SPANS:
                            values[name].append(FieldSpan(tag >> 3, start, position, after))
                        else:
                            _packed(_numbers(values, field), field_type, data, position, after)
                    position = after
                elif wire_type == 0:
                    value = data[position]
                    position += 1
                    if value > 127:
                        value, position = _varint(data, position - 1)
                    if position > end:
                        break
                    field = fields.get(tag)
                    if field is not None:
                        if field.wire_type == messages.INT:
                            values[field.name] = value - (1 << 64) if value >> 63 else value
                        elif field.wire_type == messages.INTS:
                            _numbers(values, field).append(value - (1 << 64) if value >> 63 else value)
                        else:
                            _numbers(values, field).append(value)
                elif wire_type in (1, 5):
                    after = position + (8 if wire_type == 1 else 4)
                    if after > end:
                        break
                    field = fields.get(tag)
                    if field is not None:
                        (number,) = struct.unpack("<d" if wire_type == 1 else "<f", data[position:after])
                        if field.wire_type == messages.FLOAT:
                            values[field.name] = number
                        else:
                            _numbers(values, field).append(number)
                    position = after
                else:
                    raise InvalidModelError(f"byte {self._base + start} of the file does not begin a protobuf field")
                if tag < 8:
                    raise InvalidModelError(_TRUNCATED.format(self._base + start))
            else:
                return position
        except _Cut:
            if whole:
                raise InvalidModelError(_UNENDING.format(self._base + start)) from None
            return start
        if whole:
            raise InvalidModelError(_TRUNCATED.format(self._base + start))
        return start


_TRUNCATED = "the file is truncated or corrupt: a field at byte {} runs past its end"
_UNENDING = "the file is truncated or corrupt: a number in the field at byte {} does not end"


def deeper(depth: int) -> int:
    if depth >= _MAX_DEPTH:
        raise InvalidModelError(f"graphs are nested more than {_MAX_DEPTH // 3} deep")
    return depth + 1


def _inner(values: dict[str, Any], field: messages.Field) -> messages.Message:
    """The message to read a field into: a new one for repeated fields, else the one that is there already."""
    field_type, name, held = field
    assert held is not None
    if field_type == messages.MESSAGES:
        value = held()
        if name in values:
            values[name].append(value)
        else:
            values[name] = [value]
        return value
    if name not in values:
        values[name] = held()
    return values[name]


def _numbers(values: dict[str, Any], field: messages.Field) -> array[Any]:
    values_of_field: array[Any] | None = values.get(field.name)
    if values_of_field is None:
        values_of_field = values[field.name] = array(_TYPE_CODES[field.wire_type])
    return values_of_field


def _text(data: Buffer) -> str:
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        raise InvalidModelError(f"the name {data!r} in the model is not UTF-8") from None


def _varint(data: Buffer, position: int) -> tuple[int, int]:
    """The number that begins at ``position``, and what follows it. Raises IndexError where the bytes end first."""
    value = shift = 0
    while shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
    raise InvalidModelError(_UNENDING.format(position))


def _packed(numbers: array[Any], field_type: int, data: Buffer, position: int, end: int) -> None:
    """Append the packed numbers between two places."""
    if field_type in (messages.FLOATS, messages.DOUBLES):
        if (end - position) % numbers.itemsize:
            raise InvalidModelError(f"the file is corrupt: {end - position} bytes are no row of numbers")
        numbers_read = array(numbers.typecode, data[position:end])
        if sys.byteorder == "big":
            numbers_read.byteswap()
        numbers.extend(numbers_read)
    elif end - position > _MAX_BYTES_FOR_LOOP:
        numbers.frombytes(_varints(data[position:end]).tobytes())
    else:
        while position < end:
            value, position = _varint(data, position)
            numbers.append(value - (1 << 64) if field_type == messages.INTS and value >> 63 else value)
        if position > end:
            raise InvalidModelError("the file is corrupt: a row of numbers does not end with the last of them")


def _varints(data: Buffer) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Packed numbers of 64 bits, decoded by arrays."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 128)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if not ends.size or ends[-1] != octets.size - 1 or lengths.max() > 10:
        raise InvalidModelError("the file is corrupt: a row of numbers does not end with the last of them")
    values = np.zeros(ends.size, np.uint64)
    for index in range(int(lengths.max())):
        longer = lengths > index
        values[longer] |= (octets[starts[longer] + index] & np.uint8(127)).astype(np.uint64) << np.uint64(7 * index)
    return values
