"""Values of types that NumPy lacks, to onnxruntime and back: bfloat16, float8, and types of 4 bits or fewer.

``InferenceSession.run`` takes none of them, and returns uint8 or nothing. An ``OrtValue`` has the type and the
address of its bytes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from converter.onnx_file.types import element_type_of, onnx_number, spelling
from ir_runtime.graph import Array, ElementType, element_types


def _is_foreign(element_type: ElementType) -> bool:
    return element_type.is_packed or element_type.dtype.isbuiltin == 2


_FOREIGN = {spelling(element_type) for element_type in element_types.ALL if _is_foreign(element_type)}


def run(session: Any, feeds: Mapping[str, Any]) -> Sequence[Any]:
    """The outputs of a session for inputs by name, whatever their types."""
    ort_feeds = {name: _with_type(value) for name, value in feeds.items()}
    if not any(output.type in _FOREIGN for output in session.get_outputs()):
        return cast("Sequence[Any]", session.run(None, ort_feeds))
    from onnxruntime import OrtValue

    values = {
        n: v if isinstance(v, OrtValue) else OrtValue.ortvalue_from_numpy(np.asarray(v)) for n, v in ort_feeds.items()
    }
    return [_array_of(value) for value in session.run_with_ort_values(None, values)]


def _with_type(value: Any) -> Any:
    """``value``, or its bits with their type beside them where NumPy has no such type."""
    if not isinstance(value, np.ndarray) or value.dtype.isbuiltin != 2:
        return value
    from onnxruntime import OrtValue

    bits = np.ascontiguousarray(value).view(np.uint16 if value.dtype.itemsize == 2 else np.uint8)
    element_type = element_types.from_dtype(value.dtype)
    if element_type.is_packed:
        # onnxruntime takes the shape from the array, and reads several elements from each of its first bytes.
        packed = np.frombuffer(element_types.pack(value, element_type), np.uint8)
        bits = np.zeros(value.size, np.uint8)
        bits[: packed.size] = packed
    return OrtValue.ortvalue_from_numpy_with_onnx_type(bits.reshape(value.shape), onnx_number(element_type))


def _array_of(value: Any) -> Array:
    element_type = element_type_of(value.element_type())
    if not _is_foreign(element_type):
        return np.asarray(value.numpy())
    held = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return element_types.unpack(np.frombuffer(held, np.uint8), element_type, tuple(value.shape()))
