"""ONNX's element types and their counterparts in the IR."""

from __future__ import annotations

from converter.errors import UnsupportedModelError
from converter.onnx_file.messages import DATA_TYPES
from ir_runtime.graph import ElementType, element_types

# ONNX name -> (IR type, the spelling in ONNX's schemas)
_COUNTERPARTS = {
    "FLOAT": ("f32", "float"),
    "DOUBLE": ("f64", "double"),
    "FLOAT16": ("f16", "float16"),
    "BFLOAT16": ("bf16", "bfloat16"),
    "INT64": ("i64", "int64"),
    "INT32": ("i32", "int32"),
    "INT16": ("i16", "int16"),
    "INT8": ("i8", "int8"),
    "INT4": ("i4", "int4"),
    "UINT64": ("u64", "uint64"),
    "UINT32": ("u32", "uint32"),
    "UINT16": ("u16", "uint16"),
    "UINT8": ("u8", "uint8"),
    "UINT4": ("u4", "uint4"),
    "UINT2": ("u2", "uint2"),
    "BOOL": ("boolean", "bool"),
    "STRING": ("string", "string"),
    "FLOAT8E4M3FN": ("f8e4m3", "float8e4m3fn"),
    "FLOAT8E5M2": ("f8e5m2", "float8e5m2"),
    "FLOAT8E8M0": ("f8e8m0", "float8e8m0"),
    "FLOAT4E2M1": ("f4e2m1", "float4e2m1"),
}

_BY_NUMBER = {DATA_TYPES[name]: element_types.element_type(ir) for name, (ir, _) in _COUNTERPARTS.items()}
_NUMBERS = {element_type: number for number, element_type in _BY_NUMBER.items()}
_SPELLINGS = {element_types.element_type(ir): onnx_name for ir, onnx_name in _COUNTERPARTS.values()}


def element_type_of(number: int) -> ElementType:
    """The IR's counterpart of ``TensorProto.DataType`` ``number``.

    Raises :class:`UnsupportedModelError` where the IR has none.
    """
    element_type = _BY_NUMBER.get(number)
    if element_type is None:
        names = {value: name for name, value in DATA_TYPES.items()}
        raise UnsupportedModelError(f"the IR has no element type for ONNX's {names.get(number, number)}")
    return element_type


def onnx_number(element_type: ElementType) -> int:
    """The ``TensorProto.DataType`` of an IR type; 0 (undefined) for types ONNX does not have."""
    return _NUMBERS.get(element_type, 0)


def spelling(element_type: ElementType) -> str | None:
    """The name of the type in ONNX's schemas (``tensor(float)``); None for types that ONNX does not have."""
    onnx_name = _SPELLINGS.get(element_type)
    return None if onnx_name is None else f"tensor({onnx_name})"


def of_spelling(onnx_name: str) -> ElementType | None:
    """The IR type that schemas spell so (``tensor(float)``); None for any other."""
    return next((candidate for candidate, name in _SPELLINGS.items() if f"tensor({name})" == onnx_name), None)
