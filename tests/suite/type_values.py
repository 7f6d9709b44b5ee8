"""Values of a tensor turned into those of another element type."""

from __future__ import annotations

import numpy as np

from converter.onnx_file.types import onnx_number
from ir_runtime.graph import element_types
from ir_runtime.graph.element_types import ElementType, from_dtype

Value = np.ndarray | list[np.ndarray] | None
"""An input: a tensor, a sequence of tensors, or nothing."""


def fitted(values: np.ndarray, kind: ElementType) -> np.ndarray:
    """Values like the given ones that the type holds without overflow, and as different from each other."""
    if kind is from_dtype(values.dtype):
        return values
    if values.dtype.kind in "OU" or kind is element_types.string:
        return _as_texts(values) if kind is element_types.string else fitted(_counted(values), kind)
    numbers = np.nan_to_num(values.astype(np.float64), nan=1.0, posinf=8.0, neginf=-8.0)
    if kind is element_types.boolean:
        return _as_booleans(numbers)
    if kind.is_integral:
        if values.dtype.kind in "iu" and kind.bits >= 16 and (numbers == numbers.astype(kind.dtype)).all():
            return values.astype(kind.dtype)
        return _as_integers(numbers, kind)
    if kind is element_types.f8e8m0:
        return np.exp2(np.clip(np.rint(np.log2(np.abs(numbers) + 2.0**-9)), -8, 7)).astype(kind.dtype)
    limit = {4: 6.0, 8: 16.0, 16: 2048.0}.get(kind.bits, np.inf)
    greatest = np.abs(numbers).max(initial=0.0)
    return (numbers * (limit / greatest) if greatest > limit else numbers).astype(kind.dtype)


def _as_texts(values: np.ndarray) -> np.ndarray:
    texts = np.empty(values.shape, np.object_)
    texts.reshape(-1)[:] = [
        f"{value:g}" if not isinstance(value, str) else value for value in values.reshape(-1).tolist()
    ]
    return texts


def _counted(values: np.ndarray) -> np.ndarray:
    return np.arange(values.size).reshape(values.shape)


def _as_booleans(numbers: np.ndarray) -> np.ndarray:
    if (numbers < 0).any():
        return numbers > 0
    whole = bool((numbers == np.rint(numbers)).all())
    return np.rint(numbers) % 2 == 1 if whole else numbers > np.median(numbers)


def _as_integers(numbers: np.ndarray, kind: ElementType) -> np.ndarray:
    whole = np.rint(numbers) if (numbers == np.rint(numbers)).all() else np.rint(3 * numbers)
    if not kind.is_signed:
        whole = np.abs(whole)
    # Few enough bits for sums and products of a few values.
    limit = {2: 4, 4: 8 if kind.is_signed else 16, 8: 32}.get(kind.bits, 1024)
    return np.fmod(whole, limit).astype(np.int64).astype(kind.dtype)


def retyped(value: Value, kind: ElementType) -> Value:
    if value is None:
        return None
    if isinstance(value, list):
        return [np.asarray(fitted(item, kind)) for item in value]
    return np.asarray(fitted(value, kind))


def number_of(value: Value) -> int:
    """ONNX's number for the value's type; of a sequence that of its elements, 0 of nothing."""
    first = value[0] if isinstance(value, list) else value
    return 0 if first is None else onnx_number(from_dtype(first.dtype))
