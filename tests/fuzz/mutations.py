"""Damage to ONNX files and IRs: single bits, fields of protobuf messages, elements of XML."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

NUMBERS = [0, 1, 2, 3, 7, 16, 127, 128, 255, 1 << 16, 1 << 20, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 40]
NUMBERS += [(1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 2]
TEXTS = [b"", b"x", b"y", b"\x00", b"\xff\xfe", b"../../etc/passwd", b"a" * 300, b"Loop", b"If", b"Conv", b"Add"]
TEXTS += [b"\xf0\x9f\x98\x80", b"'", b"<&>", b"Constant", b"then_branch", b"axis", b"ai.onnx.ml", b"com.microsoft"]


@dataclass(frozen=True)
class Field:
    """A field of a protobuf message within the file."""

    start: int
    payload: int
    end: int
    wire_type: int
    depth: int
    parents: tuple[int, ...]
    """Where the length of each message around it begins."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 70:
            return value, at


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _message(data: bytes, start: int, end: int, depth: int) -> list[Field] | None:
    """The fields, if the bytes are a message; None where they are a text or numbers."""
    found: list[Field] = []
    at = start
    try:
        while at < end:
            tag, payload = _varint(data, at)
            kind = tag & 7
            if tag >> 3 == 0 or tag >> 3 > 60 or kind not in (0, 1, 2, 5):
                return None
            after = payload + {1: 8, 5: 4}.get(kind, 0)
            if kind == 0:
                after = _varint(data, payload)[1]
            elif kind == 2:
                size, payload = _varint(data, payload)
                after = payload + size
            if after > end:
                return None
            found.append(Field(at, payload, after, kind, depth, ()))
            at = after
    except IndexError:
        return None
    return found


def fields(data: bytes) -> list[Field]:
    """Every field of the file, those of inner messages, too."""
    found: list[Field] = []
    pending = [(0, len(data), 0, ())]
    while pending:
        start, end, depth, parents = pending.pop()
        for field in _message(data, start, end, depth) or ():
            whole = Field(field.start, field.payload, field.end, field.wire_type, depth, parents)
            found.append(whole)
            if field.wire_type == 2 and depth < 12:
                pending.append((field.payload, field.end, depth + 1, (*parents, field.start)))
    return found


def replaced(data: bytes, field: Field, new: bytes) -> bytes:
    """The file with ``new`` in the field's place, and the lengths of all messages around it made right."""
    start, end = field.start, field.end
    for parent in reversed(field.parents):
        at = _varint(data, parent)[1]
        size, payload = _varint(data, at)
        new = (
            data[parent:at]
            + varint(len(data[payload:start]) + len(new) + len(data[end : payload + size]))
            + (data[payload:start] + new + data[end : payload + size])
        )
        start, end = parent, payload + size
    return data[:start] + new + data[end:]


def _with_payload(data: bytes, field: Field, payload: bytes) -> bytes:
    tag = _varint(data, field.start)[1]
    head = data[field.start : tag]
    if field.wire_type == 2:
        head += varint(len(payload))
    return replaced(data, field, head + payload)


def mutated_onnx(data: bytes, rng: random.Random) -> bytes:
    """A file with one to three faults."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = _damaged(data, rng)
    return data


def _damaged(data: bytes, rng: random.Random) -> bytes:
    if len(data) < 2:
        return data
    how = rng.randrange(14)
    if how == 0:
        at = rng.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if how == 1:
        return data[: rng.randrange(len(data))]
    if how == 2:
        at = rng.randrange(len(data))
        return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]
    known = fields(data)
    if not known:
        return data
    field = rng.choice(known)
    raw = data[field.start : field.end]
    if how == 3:
        return replaced(data, field, b"")
    if how == 4:
        return replaced(data, field, raw * rng.choice((2, 2, 2, 50)))
    if how == 5:
        other = rng.choice(known)
        return replaced(data, field, data[other.start : other.end])
    if how == 6 and field.wire_type == 2:
        # A length that lies, and nothing around it made right.
        tag = _varint(data, field.start)[1]
        return data[:tag] + varint(rng.choice(NUMBERS)) + data[field.payload :]
    if how == 7:
        field = rng.choice([f for f in known if f.wire_type == 0] or [field])
    if field.wire_type == 0:
        return _with_payload(data, field, varint(rng.choice(NUMBERS)))
    if field.wire_type in (1, 5):
        return _with_payload(data, field, rng.randbytes(field.end - field.payload))
    if how == 8:
        return _with_payload(data, field, rng.choice(TEXTS))
    if how == 9:
        names = [data[f.payload : f.end] for f in known if f.wire_type == 2 and f.end - f.payload < 20]
        return _with_payload(data, field, rng.choice(names or [b"x"]))
    if how == 10:
        # The message within itself, again and again.
        inner = raw
        for _ in range(rng.choice((2, 10, 70, 300))):
            tag = _varint(data, field.start)[1]
            inner = data[field.start : tag] + varint(len(inner)) + inner
            if len(inner) > 200_000:
                break
        return replaced(data, field, inner)
    if how == 11:
        payload = bytearray(data[field.payload : field.end])
        for _ in range(rng.randrange(1, 5)):
            if payload:
                payload[rng.randrange(len(payload))] = rng.randrange(256)
        return _with_payload(data, field, bytes(payload))
    if how == 12:
        return _with_payload(data, field, data[field.payload : field.end] + rng.choice(TEXTS))
    return _with_payload(data, field, b"".join(varint(rng.choice(NUMBERS)) for _ in range(rng.randrange(1, 5))))


XML_NUMBERS = ["0", "1", "-1", "2", "7", "65536", "4294967296", "9223372036854775807", "99999999999999999999999", "1e9"]
XML_NUMBERS += ["0x10", "", " 1", "1 ", "nan", "1" * 5000, "?", "..", "1..2", "2..1", "-9223372036854775808", "3.5"]
XML_TEXTS = ["&lt;", "&#0;", "&#x10FFFF;", "&amp;", "&unknown;", "x" * 5000, "", "dynamic", "FP32", "opset99", "opset1"]
XML_TEXTS += ["Loop", "If", "Const", "Parameter", "Result", "true", "string", "u1", "nf4", "ü", ",", "a,b"]


def mutated_xml(document: bytes, rng: random.Random) -> bytes:
    """A document with one to three faults."""
    text = document.decode()
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = _damaged_xml(text, rng)
    return text.encode("utf-8", "surrogatepass")


def _damaged_xml(text: str, rng: random.Random) -> str:
    how = rng.randrange(12)
    if how == 0:
        at = rng.randrange(len(text) + 1)
        return text[:at] + chr(rng.choice((0, 9, 60, 62, 38, 34, 233, 0xFFFE, 0x1F600))) + text[at + 1 :]
    if how == 1:
        return text[: rng.randrange(len(text) + 1)]
    if how == 2:
        bombs = [f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "x"}">' for i in range(9)]
        entity = "<!DOCTYPE net [" + "".join(bombs)
        return re.sub(r"(<\?xml[^>]*>)", lambda m: m[0] + entity + "]>", text, count=1)
    if how == 3:
        depth = rng.choice((10, 100, 300, 5000))
        return re.sub(r"(<rt_info[^>]*/?>)", "<rt_info>" + "<a>" * depth + "</a>" * depth + "</rt_info>", text, count=1)
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    if how == 4:
        return "\n".join([*lines[:at], *lines[at + 1 :]])
    if how == 5:
        return "\n".join([*lines[:at], *[lines[at]] * rng.choice((2, 2, 100)), *lines[at + 1 :]])
    if how == 6:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
        return "\n".join(lines)
    attributes = list(re.finditer(r'([\w-]+)="([^"]*)"', text))
    if not attributes:
        return text
    found = rng.choice(attributes)
    if how == 7:
        return text[: found.start()] + text[found.end() :]
    if how == 8:
        return text[: found.end()] + " " + found[0] + text[found.end() :]
    if how == 9:
        numbers = list(re.finditer(r"(?<![\w])-?\d+", text))
        found = rng.choice(numbers or attributes)
        return text[: found.start()] + rng.choice(XML_NUMBERS) + text[found.end() :]
    values = XML_NUMBERS if how == 10 else [*XML_TEXTS, rng.choice(attributes)[2]]
    return text[: found.start(2)] + rng.choice(values) + text[found.end(2) :]
