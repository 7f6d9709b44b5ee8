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
    return bytes([*out, value])


def _message(data: bytes, at: int, end: int, parents: tuple[int, ...]) -> list[Field]:
    """The fields, if the bytes are a message; none where they are a text or numbers."""
    found: list[Field] = []
    try:
        while at < end:
            tag, payload = _varint(data, at)
            kind = tag & 7
            if tag >> 3 == 0 or tag >> 3 > 60 or kind not in (0, 1, 2, 5):
                return []
            after = payload + {1: 8, 5: 4}.get(kind, 0)
            if kind == 0:
                after = _varint(data, payload)[1]
            elif kind == 2:
                size, payload = _varint(data, payload)
                after = payload + size
            if after > end:
                return []
            found.append(Field(at, payload, after, kind, parents))
            at = after
    except IndexError:
        return []
    return found


def fields(data: bytes) -> list[Field]:
    """Every field of the file, those of inner messages, too."""
    found = _message(data, 0, len(data), ())
    for field in found:  # which grows
        if field.wire_type == 2 and len(field.parents) < 12:
            found += _message(data, field.payload, field.end, (*field.parents, field.start))
    return found


def replaced(data: bytes, field: Field, new: bytes) -> bytes:
    """The file with ``new`` in the field's place, and the lengths of all messages around it made right."""
    start, end = field.start, field.end
    for parent in reversed(field.parents):
        at = _varint(data, parent)[1]
        size, payload = _varint(data, at)
        inner = data[payload:start] + new + data[end : payload + size]
        new = data[parent:at] + varint(len(inner)) + inner
        start, end = parent, payload + size
    return data[:start] + new + data[end:]


def _with_payload(data: bytes, field: Field, payload: bytes) -> bytes:
    head = data[field.start : _varint(data, field.start)[1]]
    return replaced(data, field, head + (varint(len(payload)) if field.wire_type == 2 else b"") + payload)


def mutated_onnx(data: bytes, rng: random.Random) -> bytes:
    """A file with one to three faults."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = _damaged(data, rng)
    return data


def _damaged(data: bytes, rng: random.Random) -> bytes:
    if len(data) < 2:
        return data
    how, at = rng.randrange(14), rng.randrange(len(data))
    if how == 0:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if how == 1:
        return data[:at]
    if how == 2:
        return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]
    known = fields(data)
    if not known:
        return data
    field = rng.choice([one for one in known if one.wire_type == 0 or how != 7] or known)
    raw, payload, tag = data[field.start : field.end], data[field.payload : field.end], _varint(data, field.start)[1]
    number = varint(rng.choice(NUMBERS))
    if how == 3:
        return replaced(data, field, b"")
    if how == 4:
        return replaced(data, field, raw * rng.choice((2, 2, 2, 50)))
    if how == 5:
        other = rng.choice(known)
        return replaced(data, field, data[other.start : other.end])
    if how == 6 and field.wire_type == 2:
        return data[:tag] + number + data[field.payload :]  # a length that lies, and nothing around it made right
    if field.wire_type != 2:
        return _with_payload(data, field, number if field.wire_type == 0 else rng.randbytes(len(payload)))
    if how == 10:
        for _ in range(rng.choice((2, 10, 70, 300))):  # the message within itself, again and again
            raw = data[field.start : tag] + varint(len(raw)) + raw
            if len(raw) > 200_000:
                break
        return replaced(data, field, raw)
    if how == 9:
        names = [data[f.payload : f.end] for f in known if f.wire_type == 2 and f.end - f.payload < 20]
        return _with_payload(data, field, rng.choice(names or [b"x"]))
    if how == 11 and payload:
        changed = bytearray(payload)
        for _ in range(rng.randrange(1, 5)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        return _with_payload(data, field, bytes(changed))
    if how in (8, 12):
        return _with_payload(data, field, payload[: len(payload) if how == 12 else 0] + rng.choice(TEXTS))
    return _with_payload(data, field, b"".join(varint(n) for n in rng.choices(NUMBERS, k=rng.randrange(1, 5))))


def _words(text: str) -> list[str]:
    return text.split(" ")


XML_NUMBERS = _words(
    "0 1 -1 2 7 65536 4294967296 9223372036854775807 99999999999999999999999 1e9 0x10 nan ? .. 1..2 2..1"
)
XML_NUMBERS += ["-9223372036854775808", "3.5", "", " 1", "1 ", "1" * 5000, "3", "1000", "-5", "0.5"]
XML_TEXTS = _words("&lt; &#0; &#x10FFFF; &amp; &unknown; FP32 FP64 FP16 f64 f32 f16 i32 I64 I32 u1 nf4 boolean string")
XML_TEXTS += _words("Loop If Const Parameter Result true false dynamic opset99 opset1 explicit same_upper numpy pdpd")
XML_TEXTS += ["x" * 5000, "", "ü", ",", "a,b", *_words("none sizes scales floor ceil forward reverse")]


def mutated_xml(document: bytes, rng: random.Random) -> bytes:
    """A document with one to three faults."""
    text = document.decode()
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = damaged_xml(text, rng)
    return text.encode("utf-8", "surrogatepass")


def damaged_xml(text: str, rng: random.Random) -> str:
    """A document with one fault, mostly of a number."""
    how, at = rng.choice((*range(13), 9, 9, 9, 11, 12)), rng.randrange(len(text) + 1)
    if how == 0:
        return text[:at] + chr(rng.choice((0, 9, 60, 62, 38, 34, 233, 0xFFFE, 0x1F600))) + text[at + 1 :]
    if how == 1:
        return text[:at]
    if how == 2:
        bombs = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "x"}">' for i in range(9))
        return re.sub(r"(<\?xml[^>]*>)", lambda m: f"{m[0]}<!DOCTYPE net [{bombs}]>", text, count=1)
    if how == 3:
        depth = rng.choice((10, 100, 300, 5000))
        return re.sub(r"(<rt_info[^>]*/?>)", "<rt_info>" + "<a>" * depth + "</a>" * depth + "</rt_info>", text, count=1)
    if how in (4, 5, 6):
        lines = text.split("\n")
        at, other = (rng.randrange(len(lines)) for _ in range(2))
        if how == 6:
            lines[at], lines[other] = lines[other], lines[at]
        else:
            lines[at : at + 1] = [lines[at]] * (0 if how == 4 else rng.choice((2, 2, 100)))
        return "\n".join(lines)
    attributes = list(re.finditer(r'([\w-]+)="([^"]*)"', text))
    parts = {9: r"(?<![\w])-?\d+", 12: r"<dim>-?\d+</dim>"}
    places = list(re.finditer(parts[how], text)) if how in parts else attributes
    if not places:
        return text
    found = rng.choice(places)
    if how == 7:
        return text[: found.start()] + text[found.end() :]
    if how == 8:
        return text[: found.end()] + " " + found[0] + text[found.end() :]
    if how == 12:
        return (
            text[: found.start()]
            + rng.choice(("<dim>-1</dim>", "", "<dim>0</dim>", "<dim>1</dim>"))
            + text[found.end() :]
        )
    start, end = found.span(2 if how != 9 else 0)
    values = XML_NUMBERS if how in (9, 10) else [*XML_TEXTS, rng.choice(attributes)[2]]
    return text[:start] + rng.choice(values) + text[end:]
