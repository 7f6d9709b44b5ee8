"""The element types of the IR, their NumPy counterparts and the packing of sub-byte types.

Spellings follow OpenVINO: lower case in attributes (``f32``), upper case in a port's ``precision``
(``FP32``). In memory every element occupies at least one byte; ``pack`` and ``unpack`` convert
between that and the layout of a ``.bin`` file.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError, ModelError
from ..records import record

Array = NDArray[Any]

_NF4_TABLE = np.array(
    [-1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0.0,
     0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0],
    np.float32,
)  # fmt: skip


@record
class ElementType:
    """One element type of the IR.

    ``name`` is the attribute spelling, ``precision`` the port spelling, ``bits`` the width in a
    ``.bin`` file (0 where an element has no fixed width), ``category`` one of ``float``, ``signed``,
    ``unsigned``, ``boolean``, ``string``, ``dynamic``. ``scalar`` is NumPy's scalar type, or the name of one of
    ml_dtypes, which is imported with the first model that has such a type.
    """

    name: str
    precision: str
    bits: int
    category: str
    scalar: type[Any] | str

    # There is one object for each type.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"ElementType({self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return element_type, (self.name,)

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of arrays in memory."""
        if not isinstance(self.scalar, str):
            return np.dtype(self.scalar)
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, self.scalar))

    @property
    def is_real(self) -> bool:
        """Floating point of any width."""
        return self.category == "float"

    @property
    def is_integral(self) -> bool:
        """Signed or unsigned integer (not boolean)."""
        return self.category in ("signed", "unsigned")

    @property
    def is_signed(self) -> bool:
        """Can hold negative numbers."""
        return self.category in ("signed", "float")

    @property
    def is_dynamic(self) -> bool:
        """Not known before execution."""
        return self.category == "dynamic"

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest number of an integer type."""
        if self.is_signed:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    def holds(self, values: np.ndarray[Any, Any]) -> bool:
        """Return True if every value is one of an integer type: a whole number within its limits."""
        low, high = self.limits
        numbers = values.astype(np.float64)
        return bool(((numbers == np.rint(numbers)) & (numbers >= low) & (numbers <= high)).all())

    @property
    def is_packed(self) -> bool:
        """Several elements share a byte on disk."""
        return 0 < self.bits < 8

    def byte_size(self, count: int) -> int:
        """Bytes that ``count`` elements occupy in a ``.bin`` file (u3 and u6 in whole blocks)."""
        if self.bits == 0:
            raise ModelError(f"elements of type {self.name} have no fixed size")
        if self.name == "u3":
            return -(-count // 8) * 3
        if self.name == "u6":
            return -(-count // 4) * 3
        return -(-count * self.bits // 8)


def _make(name: str, precision: str, bits: int, category: str, scalar: type[Any] | str) -> ElementType:
    element_type = ElementType(name, precision, bits, category, scalar)
    _BY_NAME[name] = element_type
    _BY_PRECISION[precision] = element_type
    return element_type


_BY_NAME: dict[str, ElementType] = {}
_BY_PRECISION: dict[str, ElementType] = {}

dynamic = _make("dynamic", "UNSPECIFIED", 0, "dynamic", np.object_)
f64 = _make("f64", "FP64", 64, "float", np.float64)
f32 = _make("f32", "FP32", 32, "float", np.float32)
f16 = _make("f16", "FP16", 16, "float", np.float16)
bf16 = _make("bf16", "BF16", 16, "float", "bfloat16")
f8e4m3 = _make("f8e4m3", "F8E4M3", 8, "float", "float8_e4m3fn")
f8e5m2 = _make("f8e5m2", "F8E5M2", 8, "float", "float8_e5m2")
f8e8m0 = _make("f8e8m0", "F8E8M0", 8, "float", "float8_e8m0fnu")
f4e2m1 = _make("f4e2m1", "F4E2M1", 4, "float", "float4_e2m1fn")
nf4 = _make("nf4", "NF4", 4, "float", np.float32)
i64 = _make("i64", "I64", 64, "signed", np.int64)
i32 = _make("i32", "I32", 32, "signed", np.int32)
i16 = _make("i16", "I16", 16, "signed", np.int16)
i8 = _make("i8", "I8", 8, "signed", np.int8)
i4 = _make("i4", "I4", 4, "signed", "int4")
u64 = _make("u64", "U64", 64, "unsigned", np.uint64)
u32 = _make("u32", "U32", 32, "unsigned", np.uint32)
u16 = _make("u16", "U16", 16, "unsigned", np.uint16)
u8 = _make("u8", "U8", 8, "unsigned", np.uint8)
u6 = _make("u6", "U6", 6, "unsigned", np.uint8)
u4 = _make("u4", "U4", 4, "unsigned", "uint4")
u3 = _make("u3", "U3", 3, "unsigned", np.uint8)
u2 = _make("u2", "U2", 2, "unsigned", "uint2")
u1 = _make("u1", "BIN", 1, "unsigned", np.uint8)
boolean = _make("boolean", "BOOL", 8, "boolean", np.bool_)
string = _make("string", "STRING", 0, "string", np.object_)

ALL: tuple[ElementType, ...] = tuple(_BY_NAME.values())

_BY_DTYPE = {t.dtype: t for t in ALL if not isinstance(t.scalar, str) and t not in (dynamic, nf4, u6, u3, u1)}
"""The types that NumPy itself has."""


@functools.cache
def _by_other_dtype() -> Mapping[np.dtype[Any], ElementType]:
    """The types of ml_dtypes."""
    return {t.dtype: t for t in ALL if isinstance(t.scalar, str)}


def finfo(element_type: ElementType) -> Any:
    """The limits of a real type, as ``numpy.finfo`` gives them."""
    if not isinstance(element_type.scalar, str):
        return np.finfo(element_type.dtype)
    import ml_dtypes

    return ml_dtypes.finfo(element_type.dtype)  # type: ignore[no-untyped-call]


def element_type(name: str | ElementType) -> ElementType:
    """The type of an attribute spelling (``"f32"``; ``undefined`` is ``dynamic``).

    Raises :class:`ModelError` for an unknown spelling.
    """
    if isinstance(name, ElementType):
        return name
    match = _BY_NAME.get("dynamic" if name == "undefined" else name)
    if match is None:
        raise ModelError(f"{name!r} is not an element type of the IR; known are {', '.join(_BY_NAME)}")
    return match


def from_precision(precision: str) -> ElementType:
    """The type of a port's ``precision``; both spellings are accepted, as in OpenVINO."""
    match = _BY_PRECISION.get(precision) or _BY_NAME.get(precision)
    if match is None:
        raise ModelError(f"{precision!r} is not a precision of the IR")
    return match


def from_dtype(dtype: Any) -> ElementType:
    """The element type that holds values of that NumPy dtype.

    Raises :class:`ModelError` where the IR has no such type (complex, datetime ...).
    """
    dtype = np.dtype(dtype)
    if dtype.kind in "UT":
        return string
    match = _BY_DTYPE.get(dtype.newbyteorder("=") if dtype.kind in "iufb" else dtype) or _by_other_dtype().get(dtype)
    if match is None:
        raise ModelError(f"the IR has no element type for arrays of dtype {dtype}")
    return match


def _block_layout(name: str) -> tuple[int, int, int, int]:
    """(elements a block, low bits, high bits, low-part bytes) of the two split layouts."""
    return (8, 2, 1, 2) if name == "u3" else (4, 4, 2, 2)


def _to_bits(codes: Array, width: int, most_significant_first: bool) -> Array:
    shifts = np.arange(width, dtype=np.uint8)
    bits = (codes[:, None] >> (shifts[::-1] if most_significant_first else shifts)) & 1
    return bits.astype(np.uint8)


def pack(array: Array, element_type: ElementType) -> bytes:
    """The bytes of ``array`` as a ``.bin`` file holds them: little-endian, C order, packed."""
    if element_type is string:
        return _pack_strings(array)
    if not element_type.is_packed:
        little = element_type.dtype.newbyteorder("<") if element_type.dtype.kind in "iuf" else element_type.dtype
        return np.ascontiguousarray(array, little).tobytes()
    codes = _codes(array, element_type)
    if element_type in (u3, u6):
        per_block, low, high, _ = _block_layout(element_type.name)
        codes = np.concatenate([codes, np.zeros(-len(codes) % per_block, np.uint8)])
        blocks = codes.reshape(-1, per_block)
        low_bits = _to_bits((blocks & ((1 << low) - 1)).ravel(), low, True).reshape(len(blocks), -1)
        high_bits = _to_bits((blocks >> low).ravel(), high, True).reshape(len(blocks), -1)
        return np.packbits(np.concatenate([low_bits, high_bits], axis=1), axis=1).tobytes()
    if element_type.bits == 4:
        if len(codes) % 2:
            codes = np.concatenate([codes, np.zeros(1, np.uint8)])
        return (codes[0::2] | (codes[1::2] << 4)).tobytes()
    first_high = element_type is u1
    bits = _to_bits(codes, element_type.bits, first_high).ravel()
    return np.packbits(bits, bitorder="big" if first_high else "little").tobytes()


def _codes(array: Array, element_type: ElementType) -> Array:
    flat = np.ascontiguousarray(array).reshape(-1)
    if element_type is nf4:
        codes = np.searchsorted((_NF4_TABLE[1:] + _NF4_TABLE[:-1]) / 2, flat.astype(np.float32))
        return codes.astype(np.uint8)
    if element_type is f4e2m1:
        return flat.astype(element_type.dtype).view(np.uint8) & 15
    if flat.dtype.itemsize == 1:  # among them ml_dtypes' own, which hold an element a byte
        return flat.view(np.uint8) & np.uint8((1 << element_type.bits) - 1)
    return (flat.astype(np.int16) & ((1 << element_type.bits) - 1)).astype(np.uint8)


def unpack(data: Array, element_type: ElementType, shape: tuple[int, ...]) -> Array:
    """The array that the bytes ``data`` (a uint8 array) hold; a view wherever the type allows it.

    Raises :class:`FormatError` where there are fewer bytes than the shape needs.
    """
    count = 1
    for dimension in shape:
        count *= dimension
    if element_type is string:
        return _unpack_strings(data, count).reshape(shape)
    needed = element_type.byte_size(count)
    if len(data) < needed:
        raise FormatError(f"{element_type}{list(shape)} needs {needed} bytes, but there are {len(data)}")
    data = data[:needed]
    if not element_type.is_packed:
        little = element_type.dtype.newbyteorder("<") if element_type.dtype.kind in "iuf" else element_type.dtype
        return data.view(little).reshape(shape)
    if element_type in (u3, u6):
        per_block, low, high, low_bytes = _block_layout(element_type.name)
        bits = np.unpackbits(data.reshape(-1, 3), axis=1)
        weights_low = (1 << np.arange(low)[::-1]).astype(np.uint8)
        weights_high = (1 << np.arange(high)[::-1]).astype(np.uint8)
        lows = bits[:, : low_bytes * 8].reshape(-1, per_block, low) @ weights_low
        highs = bits[:, low_bytes * 8 :].reshape(-1, per_block, high) @ weights_high
        return (lows | (highs << low)).reshape(-1)[:count].astype(np.uint8).reshape(shape)
    if element_type.bits == 4:
        codes = np.stack([data & 15, data >> 4], axis=1).reshape(-1)[:count]
    else:
        bits = np.unpackbits(data, bitorder="big" if element_type is u1 else "little")[: count * element_type.bits]
        weights = (1 << np.arange(element_type.bits)).astype(np.uint8)
        codes = bits.reshape(count, element_type.bits) @ weights
    if element_type is nf4:
        return _NF4_TABLE[codes].reshape(shape)
    if element_type is f4e2m1:
        return codes.view(element_type.dtype).reshape(shape)
    if element_type in (i4, u4):
        return codes.view(element_type.dtype).reshape(shape)
    return codes.astype(element_type.dtype).reshape(shape)


def _pack_strings(array: Array) -> bytes:
    encoded = [s if isinstance(s, bytes) else str(s).encode() for s in array.reshape(-1).tolist()]
    ends = np.concatenate([[0], np.cumsum([len(s) for s in encoded], dtype=np.int64)])
    if ends[-1] > 2**31 - 1:
        raise ModelError("a string constant holds more than 2 GiB of text, which the IR cannot address")
    return struct.pack("<i", len(encoded)) + ends.astype("<i4").tobytes() + b"".join(encoded)


def _unpack_strings(data: Array, count: int) -> Array:
    raw = data.tobytes()
    if len(raw) < 4 or struct.unpack_from("<i", raw)[0] != count:
        raise FormatError(f"a string constant of {count} elements has a header with another count")
    start = 4 + 4 * (count + 1)
    if len(raw) < start:
        raise FormatError("a string constant ends inside its table of offsets")
    ends = np.frombuffer(raw, "<i4", count + 1, 4)
    if ends[0] != 0 or (np.diff(ends) < 0).any() or start + int(ends[-1]) > len(raw):
        raise FormatError("a string constant's offsets do not rise within its bytes")
    out = np.empty(count, np.object_)
    try:
        for i in range(count):
            out[i] = raw[start + ends[i] : start + ends[i + 1]].decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"a string constant is not UTF-8: {error}") from error
    return out
