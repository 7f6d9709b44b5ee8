"""ConvertPromoteTypes: two tensors brought to one element type.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/type/convert-promote-types-14.html
"""

from __future__ import annotations

from collections.abc import Sequence

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, ElementType, element_types
from ir_runtime.graph.element_types import from_dtype
from ir_runtime.graph.operation import Operation, TensorType, boolean, operation, type_of_elements

from .elementwise import convert

_TYPES = "boolean f16 bf16 f32 f64 f8e4m3 f8e5m2 i4 i8 i16 i32 i64 u1 u4 u8 u16 u32 u64 dynamic"
_PROMOTED = frozenset(map(element_types.element_type, _TYPES.split(" ")))
_SIGNED = {bits: element_types.element_type(f"i{bits}") for bits in (4, 8, 16, 32, 64)}


@operation("ConvertPromoteTypes", opset=14)
class ConvertPromoteTypes14(Operation):
    """Both inputs in the one type that holds the values of either.

    Booleans take the other's type, integers that of floats, the narrower of two the wider. An unsigned
    and a signed integer become a signed one of twice the unsigned one's width at least, where there is
    one, else ``u64_integer_promotion_target``. With ``pytorch_scalar_promotion`` a scalar takes the type
    of the other input, if both are floats or both integers. Only with ``promote_unsafe`` may values be
    lost: without, floats must be twice as wide as integers that they take in, and a type that would not
    hold the other's values is an error.
    """

    inputs = (2, 2)
    promote_unsafe: bool = boolean(default=False)
    pytorch_scalar_promotion: bool = boolean(default=False)
    u64_integer_promotion_target: ElementType = type_of_elements(default=element_types.f32)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        a, b = inputs
        scalars = [value.shape.rank == 0 if value.shape.has_rank else None for value in inputs]
        element_type = self._common(a.element_type, b.element_type, *scalars)
        return [TensorType(element_type, a.shape), TensorType(element_type, b.shape)]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        a, b = inputs
        dtype = self._common(from_dtype(a.dtype), from_dtype(b.dtype), a.ndim == 0, b.ndim == 0)
        return convert(a, dtype), convert(b, dtype)

    def _common(
        self, a: ElementType, b: ElementType, a_is_scalar: bool | None, b_is_scalar: bool | None
    ) -> ElementType:
        if not {a, b} <= _PROMOTED:
            raise InferenceError(f"{a} and {b} have no common type")
        if a.is_dynamic or b.is_dynamic:
            return element_types.dynamic
        if a is b or b is element_types.boolean:
            return a
        if a is element_types.boolean:
            return b
        if a.is_real != b.is_real:
            return self._of_float(*((a, b) if a.is_real else (b, a)))
        if self.pytorch_scalar_promotion and (a_is_scalar is None or b_is_scalar is None):
            return element_types.dynamic
        if self.pytorch_scalar_promotion and a_is_scalar != b_is_scalar:
            return self._of_scalar(*((b, a) if a_is_scalar else (a, b)))
        if a.is_signed != b.is_signed:
            return self._of_integers(*((a, b) if a.is_signed else (b, a)))
        if a.bits != b.bits:
            return a if a.bits > b.bits else b
        if not self.promote_unsafe:
            raise InferenceError(f"neither {a} nor {b} holds the values of the other")
        return element_types.f16 if a.bits == 8 else element_types.f32

    def _of_float(self, real: ElementType, whole: ElementType) -> ElementType:
        if not self.promote_unsafe and real.bits < 2 * whole.bits:
            raise InferenceError(f"{real} does not hold the values of {whole}")
        return real

    def _of_scalar(self, element_type: ElementType, scalar: ElementType) -> ElementType:
        holds = element_type.is_signed and 2 * element_type.bits >= scalar.bits and not scalar.is_signed
        if element_type.is_signed == scalar.is_signed:
            holds = element_type.bits >= scalar.bits
        if not self.promote_unsafe and not holds:
            raise InferenceError(f"{element_type} does not hold the values of a scalar of the type {scalar}")
        return element_type

    def _of_integers(self, signed: ElementType, unsigned: ElementType) -> ElementType:
        doubled = 2 * unsigned.bits
        if not self.promote_unsafe and doubled > signed.bits:
            raise InferenceError(f"{signed} does not hold the values of {unsigned}")
        if unsigned.bits > 32:
            return self.u64_integer_promotion_target
        return _SIGNED[max(doubled, signed.bits)]
