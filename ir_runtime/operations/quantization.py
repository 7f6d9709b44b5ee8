"""Quantisation that stays in floats: FakeQuantize and FakeConvert.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/quantization/fake-quantize-1.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, ElementType, element_types
from ir_runtime.graph.operation import Operation, TensorType, enum, integer, operation, type_of_elements
from ir_runtime.graph.shapes import broadcast_to
from ir_runtime.graph.value_ranges import Range, hull

from .elementwise import broadcast_shapes, merge_types


@operation("FakeQuantize", opset=1)
class FakeQuantize1(Operation):
    """x quantised to ``levels`` values between two limits, and dequantised between two others.

    Inputs: x, input low, input high, output low, output high. What is not above the lesser input
    limit becomes output low, what is above the greater one output high; in between the nearest of
    the steps is taken, the even one of two.
    """

    inputs = (5, 5)
    elementwise = True
    levels: int = integer(default=0)
    auto_broadcast: str = enum("numpy", "pdpd", "none", default="numpy")

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        return hull(inputs[3:])

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        if self.levels < 2:
            raise InferenceError(f"at least two levels are needed, but there are {self.levels}")
        element_type = merge_types(inputs)
        shape = inputs[0].shape
        for limit in inputs[1:]:
            shape = broadcast_shapes(shape, limit.shape, self.auto_broadcast)
        return [TensorType(element_type, shape)]

    def evaluate(self, *inputs: Array) -> Array:
        dtype = inputs[0].dtype
        work = [value.astype(np.float32) if value.dtype.itemsize < 4 else value for value in inputs]
        x = work[0]
        if self.auto_broadcast == "pdpd":
            work[1:] = [value.reshape(value.shape + (1,) * (x.ndim - value.ndim)) for value in work[1:]]
        low, high, out_low, out_high = work[1:]
        steps = x.dtype.type(self.levels - 1)
        place = np.rint((x - low) / (high - low) * steps)
        result = place / steps * (out_high - out_low) + out_low
        result = np.where(x <= np.minimum(low, high), out_low, result)
        result = np.where(x > np.maximum(low, high), out_high, result)
        return result.astype(dtype, copy=False)


@operation("FakeConvert", opset=13)
class FakeConvert13(Operation):
    """(x * scale - shift) rounded to a type of 8 bits, and dequantised again: x with the error of the rounding.

    Inputs: x, scale and optionally shift. What is beyond the type's greatest number becomes that.
    """

    inputs = (2, 3)
    elementwise = True
    destination_type: ElementType = type_of_elements(default=element_types.f8e4m3)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        if self.destination_type not in (element_types.f8e4m3, element_types.f8e5m2):
            raise InferenceError(f"destination_type must be f8e4m3 or f8e5m2, but is {self.destination_type}")
        element_type = merge_types(inputs)
        shape = inputs[0].shape
        for value in inputs[1:]:
            fitted = broadcast_to(shape, value.shape)
            if fitted is None:
                raise InferenceError(
                    f"scale and shift must not be larger than the data {shape}, but one is {value.shape}"
                )
            shape = fitted
        return [TensorType(element_type, shape)]

    def evaluate(self, *inputs: Array) -> Array:
        dtype = inputs[0].dtype
        x, scale, *rest = [value.astype(np.float32) if value.dtype.itemsize < 4 else value for value in inputs]
        shift = rest[0] if rest else x.dtype.type(0)
        greatest = 448 if self.destination_type is element_types.f8e4m3 else 57344
        small = np.clip(x * scale - shift, -greatest, greatest).astype(self.destination_type.dtype)
        return ((small.astype(x.dtype) + shift) / scale).astype(dtype, copy=False)
