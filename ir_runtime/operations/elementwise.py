"""Elementwise operations: arithmetic, comparison, logic, bits, unary mathematics, Convert and Select.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/broadcast-rules.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, ElementType, PartialShape, broadcast, element_types
from ir_runtime.graph.operation import (
    Operation,
    TensorType,
    boolean,
    enum,
    operation,
    type_of_elements,
)
from ir_runtime.graph.shapes import broadcast_to
from ir_runtime.graph.value_ranges import Range, corners, hull

Kernel = Callable[..., Array]


def computed_in_float32(kernel: Kernel) -> Kernel:
    """The kernel with floats of 16 bits and fewer computed in float32 and rounded once."""

    def widened(*values: Array) -> Array:
        dtype = values[0].dtype
        if dtype.itemsize >= 4 or dtype.kind in "iub":
            return kernel(*values)
        return kernel(*[v.astype(np.float32) for v in values]).astype(dtype)

    return widened


def merge_types(inputs: Sequence[TensorType]) -> ElementType:
    """Return the common element type of all inputs; raises :class:`InferenceError` where they differ."""
    element_types_present = [value.element_type for value in inputs if not value.element_type.is_dynamic]
    if any(element_type is not element_types_present[0] for element_type in element_types_present):
        raise InferenceError(
            f"the inputs must have one element type, but have {', '.join(str(v.element_type) for v in inputs)}"
        )
    return element_types_present[0] if element_types_present else element_types.dynamic


def merge_real_types(inputs: Sequence[TensorType]) -> ElementType:
    """Return the common element type of all inputs, which has to be a floating-point type."""
    element_type = merge_types(inputs)
    if not (element_type.is_real or element_type.is_dynamic):
        raise InferenceError(f"the input must be of a floating-point type, but is {element_type}")
    return element_type


def broadcast_shapes(a: PartialShape, b: PartialShape, rule: str) -> PartialShape:
    """The common shape under ``auto_broadcast``: none, numpy or pdpd."""
    if rule == "numpy":
        return broadcast(a, b)
    if rule == "pdpd":
        # b is aligned with the first dimensions of a.
        if a.has_rank and b.has_rank and b.rank <= a.rank:
            fitted = broadcast_to(a, PartialShape([*b, *[1] * (a.rank - b.rank)]))
            if fitted is None:
                raise InferenceError(f"{b} does not fit the first dimensions of {a}")
            return fitted
        return a
    merged = a.merge(b)
    if merged is None:
        raise InferenceError(f"without broadcasting the shapes must be equal, but are {a} and {b}")
    return merged


class Binary(Operation):
    """Two inputs of one type; ``auto_broadcast`` is the rule by which their shapes broadcast."""

    inputs = (2, 2)
    elementwise = True
    kernel: ClassVar[Kernel]
    auto_broadcast: str = enum("none", "numpy", "pdpd", default="numpy")

    def result_type(self, element_type: ElementType) -> ElementType:
        return element_type

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        element_type = self.result_type(merge_types(inputs))
        return [TensorType(element_type, broadcast_shapes(inputs[0].shape, inputs[1].shape, self.auto_broadcast))]

    def evaluate(self, *inputs: Array) -> Array:
        a, b = inputs
        if self.auto_broadcast == "pdpd" and b.ndim < a.ndim:
            b = b.reshape(b.shape + (1,) * (a.ndim - b.ndim))
        result: Array = type(self).kernel(a, b)
        return result


class Arithmetic(Binary):
    """The output has the inputs' type; integers wrap."""

    def evaluate(self, *inputs: Array) -> Array:
        result = super().evaluate(*inputs)
        return result if result.dtype == inputs[0].dtype else result.astype(inputs[0].dtype)


class Monotone(Arithmetic):
    """Monotonic in each operand."""

    monotone = True


class Remainder(Arithmetic):
    """The remainder of a division, which is nearer to 0 than the divisor."""

    of_divisor: ClassVar[bool]
    """True if the remainder has the sign of the divisor and not that of the dividend."""

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        (low, high), (least, divisor) = inputs
        if not np.all(least > 0):
            return None
        most = divisor - 1 if divisor.dtype == np.object_ else divisor
        ends = np.frompyfunc(self._ends, 3, 2)(low, high, most)
        return np.asarray(ends[0], low.dtype), np.asarray(ends[1], low.dtype)

    def _ends(self, low: float, high: float, most: float) -> tuple[float, float]:
        """The result's range for a dividend's range and the greatest remainder."""
        if self.of_divisor and low < 0:
            return 0, most
        return max(min(low, 0), -most), min(max(high, 0), most)


class Comparison(Binary):
    """The output is boolean."""

    def result_type(self, element_type: ElementType) -> ElementType:
        return element_types.boolean


class Logical(Binary):
    """Booleans in, booleans out."""

    def result_type(self, element_type: ElementType) -> ElementType:
        if element_type not in (element_types.boolean, element_types.dynamic):
            raise InferenceError(f"the inputs must be boolean, but are {element_type}")
        return element_types.boolean


class Bitwise(Arithmetic):
    """Integers or booleans, bit by bit."""

    def result_type(self, element_type: ElementType) -> ElementType:
        if element_type.is_real or element_type is element_types.string:
            raise InferenceError(f"the inputs must be integers or booleans, but are {element_type}")
        return element_type


class DownShift(Bitwise):
    """A shift that divides by a power of two."""

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        low, high = inputs[1]
        return corners(np.right_shift, inputs) if np.all(low >= 0) and np.all(high < 64) else None


class Conjunction(Bitwise):
    """The bits that both have."""

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        """Numbers without a sign bit only lose bits."""
        (a, a_most), (b, b_most) = inputs
        if not (np.all(a >= 0) and np.all(b >= 0)):
            return None
        least = np.zeros(np.broadcast_shapes(a.shape, b.shape), np.object_)
        return least, np.asarray(np.minimum(a_most, b_most), np.object_)


class Squared(Arithmetic):
    """The square of a difference."""

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        """Only of floating-point values: squares of integers that are not known may be negative, as they wrap."""
        if inputs[0][0].dtype == np.object_:
            return None
        return corners(lambda x: x * x, [corners(np.subtract, inputs)], turning_points=[0])


_bit_length = np.frompyfunc(int.bit_length, 1, 1)


class Powers(Arithmetic):
    """a raised to the power b."""

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        """Monotonic where a is positive. Powers of integers that have more than 64 bits are not computed."""
        (least, greatest), (b, most) = inputs
        if not np.all(least > 0):
            return None
        if b.dtype == np.object_ and (np.any(b < 0) or np.any(_bit_length(greatest) * most > 64)):
            return None
        return corners(np.power, inputs)


def _binary(name: str, opset: int, kernel: Kernel, base: type[Binary], doc: str, **options: Any) -> type[Binary]:
    body = {"kernel": staticmethod(kernel), "__doc__": doc, "__module__": __name__}
    return operation(name, opset=opset, **options)(type(f"{name}{opset}", (base,), body))


def _commutative(name: str, opset: int, kernel: Kernel, base: type[Binary], doc: str, **options: Any) -> type[Binary]:
    cls = _binary(name, opset, kernel, base, doc, **options)
    cls.commutative = True
    return cls


def _remainder(name: str, kernel: Kernel, doc: str, *, of_divisor: bool) -> type[Binary]:
    body = {"kernel": staticmethod(kernel), "of_divisor": of_divisor, "__doc__": doc, "__module__": __name__}
    return operation(name, opset=1)(type(f"{name}1", (Remainder,), body))


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu" and b.dtype.kind == "i" and (b < 0).any():
        return np.trunc(np.power(a.astype(np.float64), b)).astype(a.dtype)
    return np.power(a, b)


def _modulo(a: Array, b: Array) -> Array:
    """The remainder of division rounded towards zero; it has the sign of ``a``."""
    return np.fmod(a, b)


def _difference_squared(a: Array, b: Array) -> Array:
    difference = a - b
    return difference * difference


Add1 = _commutative("Add", 1, np.add, Monotone, "a + b")
Multiply1 = _commutative("Multiply", 1, np.multiply, Monotone, "a * b")
Subtract1 = _binary("Subtract", 1, np.subtract, Monotone, "a - b")
Maximum1 = _commutative("Maximum", 1, np.maximum, Monotone, "The greater of a and b.")
Minimum1 = _commutative("Minimum", 1, np.minimum, Monotone, "The lesser of a and b.")
Power1 = _binary("Power", 1, computed_in_float32(_power), Powers, "a raised to the power b")
Mod1 = _remainder("Mod", _modulo, "The remainder with the sign of a.", of_divisor=False)
FloorMod1 = _remainder("FloorMod", np.mod, "The remainder with the sign of b.", of_divisor=True)
SquaredDifference1 = _commutative("SquaredDifference", 1, _difference_squared, Squared, "(a - b) squared")
Equal1 = _commutative("Equal", 1, np.equal, Comparison, "a = b")
NotEqual1 = _commutative("NotEqual", 1, np.not_equal, Comparison, "a differs from b")
Greater1 = _binary("Greater", 1, np.greater, Comparison, "a > b")
GreaterEqual1 = _binary("GreaterEqual", 1, np.greater_equal, Comparison, "a >= b")
Less1 = _binary("Less", 1, np.less, Comparison, "a < b")
LessEqual1 = _binary("LessEqual", 1, np.less_equal, Comparison, "a <= b")
LogicalAnd1 = _commutative("LogicalAnd", 1, np.logical_and, Logical, "a and b")
LogicalOr1 = _commutative("LogicalOr", 1, np.logical_or, Logical, "a or b")
LogicalXor2 = _commutative("LogicalXor", 2, np.logical_xor, Logical, "either a or b")
Xor1 = _commutative("Xor", 1, np.logical_xor, Logical, "either a or b", last_opset=1)
BitwiseAnd13 = _commutative("BitwiseAnd", 13, np.bitwise_and, Conjunction, "The bits that both have.")
BitwiseOr13 = _commutative("BitwiseOr", 13, np.bitwise_or, Bitwise, "The bits that either has.")
BitwiseXor13 = _commutative("BitwiseXor", 13, np.bitwise_xor, Bitwise, "The bits that just one has.")
BitwiseLeftShift15 = _binary("BitwiseLeftShift", 15, np.left_shift, Bitwise, "a shifted up by b bits")
BitwiseRightShift15 = _binary("BitwiseRightShift", 15, np.right_shift, DownShift, "a shifted down by b bits")


_towards_zero = np.frompyfunc(lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), 2, 1)
"""The quotient of Python's integers, rounded towards zero."""


@operation("Divide", opset=1)
class Divide1(Monotone):
    """a / b. Integers are rounded down, or towards zero where ``m_pythondiv`` is false."""

    m_pythondiv: bool = boolean(default=True)

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        """Monotonic where the divisor is not 0."""
        least, most = inputs[1]
        if not (np.all(least > 0) or np.all(most < 0)):
            return None
        if least.dtype != np.object_:
            return corners(np.divide, inputs)
        return corners(np.floor_divide if self.m_pythondiv else _towards_zero, inputs)

    def evaluate(self, *inputs: Array) -> Array:
        a, b = inputs
        if self.auto_broadcast == "pdpd" and b.ndim < a.ndim:
            b = b.reshape(b.shape + (1,) * (a.ndim - b.ndim))
        if a.dtype.kind not in "iu":
            return computed_in_float32(np.divide)(a, b)
        quotient = np.floor_divide(a, b)
        if self.m_pythondiv or a.dtype.kind == "u":
            return quotient
        inexact = (quotient * b != a) & ((a < 0) != (b < 0))
        return quotient + inexact.astype(a.dtype)

    kernel = staticmethod(np.divide)


class Unary(Operation):
    """One input; the output has its shape and type."""

    inputs = (1, 1)
    elementwise = True
    kernel: ClassVar[Kernel]

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(inputs[0].element_type, inputs[0].shape)]

    def evaluate(self, *inputs: Array) -> Array:
        result: Array = type(self).kernel(inputs[0])
        return result if result.dtype == inputs[0].dtype else result.astype(inputs[0].dtype)


class Wave(Unary):
    """A function with values from -1 to 1."""

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        unit = np.ones_like(inputs[0][0])
        return -unit, unit


class Predicate(Unary):
    """One input; the output has its shape, and booleans."""

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(element_types.boolean, inputs[0].shape)]

    def evaluate(self, *inputs: Array) -> Array:
        result: Array = type(self).kernel(inputs[0])
        return result.astype(np.bool_, copy=False)


def unary(
    name: str, opset: int, kernel: Kernel, doc: str, base: type[Unary] = Unary, **facts: bool | tuple[float, ...]
) -> type[Unary]:
    """Register an operation of one input that needs no attributes; ``facts`` are those that it states of itself."""
    body = {"kernel": staticmethod(kernel), "__doc__": doc, "__module__": __name__, **facts}
    return operation(name, opset=opset)(type(f"{name}{opset}", (base,), body))


def _through_float(kernel: Kernel) -> Kernel:
    """For integers the kernel is computed in float64; small floats in float32."""

    def wrapped(x: Array) -> Array:
        if x.dtype.kind in "iuO":  # objects are Python's integers
            return kernel(x.astype(np.float64))
        return computed_in_float32(kernel)(x)

    return wrapped


_erf_of_number = np.frompyfunc(math.erf, 1, 1)


def erf(x: Array) -> Array:
    """The error function, in the type of ``x`` (float32 or float64)."""
    if x.dtype != np.float64:
        return erf_float32(x)
    return np.asarray(_erf_of_number(x), np.float64)


def erf_float32(x: Array) -> Array:
    """The error function in float32, exact to its last digits.

    Abramowitz and Stegun, formula 7.1.26, is too coarse; this is the rational approximation of
    W. J. Cody, "Rational Chebyshev approximation for the error function" (1969), in float64.
    """
    z = np.abs(x.astype(np.float64))
    small = z <= 0.5
    z2 = np.where(small, z * z, 0.0)
    near = z * _ratio(z2, _CODY_P1, _CODY_Q1)
    zm = np.clip(z, 0.46875, 4.0)
    middle = 1.0 - np.exp(-zm * zm) * _ratio(zm, _CODY_P2, _CODY_Q2)
    result = np.where(small, near, np.where(z > 4.0, 1.0, middle))
    return np.copysign(result, x).astype(x.dtype)


def _ratio(x: Array, numerator: Sequence[float], denominator: Sequence[float]) -> Array:
    return np.polyval(numerator, x) / np.polyval(denominator, x)


# Coefficients from the highest power down.
_CODY_P1 = (
    1.85777706184603153e-1,
    3.16112374387056560e0,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
_CODY_Q1 = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_CODY_P2 = (
    2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1, 2.98635138197400131e2,
    8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3,
)  # fmt: skip
_CODY_Q2 = (
    1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
    3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
)  # fmt: skip


Abs1 = unary("Abs", 1, np.abs, "The absolute value.", monotone=True, turning_points=(0,))
Negative1 = unary("Negative", 1, np.negative, "-x", monotone=True)
Sign1 = unary("Sign", 1, np.sign, "-1, 0 or 1.", monotone=True)
Ceiling1 = unary("Ceiling", 1, np.ceil, "Rounded up.", monotone=True)
Floor1 = unary("Floor", 1, np.floor, "Rounded down.", monotone=True)
Sqrt1 = unary("Sqrt", 1, _through_float(np.sqrt), "The square root.", monotone=True)
Exp1 = unary("Exp", 1, _through_float(np.exp), "e to the power x.", monotone=True)
Log1 = unary("Log", 1, _through_float(np.log), "The natural logarithm.", monotone=True)
Sin1 = unary("Sin", 1, _through_float(np.sin), "The sine of an angle in radians.", Wave)
Cos1 = unary("Cos", 1, _through_float(np.cos), "The cosine of an angle in radians.", Wave)
Tan1 = unary("Tan", 1, _through_float(np.tan), "The tangent of an angle in radians.")
Asin1 = unary("Asin", 1, _through_float(np.arcsin), "The angle in radians with that sine.", monotone=True)
Acos1 = unary("Acos", 1, _through_float(np.arccos), "The angle in radians with that cosine.", monotone=True)
Atan1 = unary("Atan", 1, _through_float(np.arctan), "The angle in radians with that tangent.", monotone=True)
Sinh1 = unary("Sinh", 1, _through_float(np.sinh), "The hyperbolic sine.", monotone=True)
Cosh1 = unary("Cosh", 1, _through_float(np.cosh), "The hyperbolic cosine.", monotone=True, turning_points=(0,))
Tanh1 = unary("Tanh", 1, _through_float(np.tanh), "The hyperbolic tangent.", monotone=True)
Asinh4 = unary("Asinh", 4, _through_float(np.arcsinh), "The inverse of the hyperbolic sine.", monotone=True)
Acosh4 = unary("Acosh", 4, _through_float(np.arccosh), "The inverse of the hyperbolic cosine.", monotone=True)
Atanh4 = unary("Atanh", 4, _through_float(np.arctanh), "The inverse of the hyperbolic tangent.", monotone=True)
Erf1 = unary("Erf", 1, _through_float(erf), "The error function.", monotone=True)
LogicalNot1 = unary("LogicalNot", 1, np.logical_not, "true becomes false.", Predicate)
BitwiseNot13 = unary("BitwiseNot", 13, np.invert, "Every bit flipped; booleans negated.", monotone=True)
IsNaN10 = unary("IsNaN", 10, np.isnan, "Where x is not a number.", Predicate)
IsFinite10 = unary("IsFinite", 10, np.isfinite, "Where x is neither infinite nor NaN.", Predicate)


@operation("IsInf", opset=10)
class IsInf10(Predicate):
    """True where x is infinite with a sign that the attributes select."""

    detect_negative: bool = boolean(default=True)
    detect_positive: bool = boolean(default=True)

    def evaluate(self, *inputs: Array) -> Array:
        x = inputs[0]
        infinite = np.isinf(x)
        if self.detect_negative and self.detect_positive:
            return infinite
        if self.detect_positive:
            return infinite & (x > 0)
        return infinite & (x < 0) if self.detect_negative else np.zeros_like(infinite)


@operation("Round", opset=5)
class Round5(Unary):
    """To the nearest whole number; halves to the even one, or away from zero."""

    monotone = True
    mode: str = enum("half_to_even", "half_away_from_zero", default="half_to_even")

    def evaluate(self, *inputs: Array) -> Array:
        x = inputs[0]
        if x.dtype.kind in "iubO":  # objects are Python's integers
            return x
        if self.mode == "half_to_even":
            return np.rint(x).astype(x.dtype, copy=False)
        # The sum x + 0.5 may be rounded up, so the fraction decides.
        whole = np.trunc(x)
        return (whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0)).astype(x.dtype)


def convert(x: Array, target: ElementType) -> Array:
    """``x`` in another element type, as C converts: towards zero, wrapping, nonzero is true."""
    dtype = target.dtype
    if x.dtype == dtype:
        return x
    if target is element_types.boolean:
        return x != 0
    if target is element_types.string:
        out = np.empty(x.shape, np.object_)
        out.reshape(-1)[:] = [str(item) for item in x.reshape(-1).tolist()]
        return out
    if target is element_types.f8e8m0:
        return _to_exponents(x.astype(np.float32)).view(dtype)
    if target.is_integral and x.dtype.kind not in "iub":
        wide = x.astype(np.float64) if x.dtype.itemsize < 4 or x.dtype.kind not in "f" else x
        return _to_integers(wide, target)
    if x.dtype.kind not in "iufb" and dtype.kind not in "f" and x.dtype.itemsize == 1:
        return x.astype(np.float32).astype(dtype) if target.is_real else _to_integers(x.astype(np.int64), target)
    if target.is_packed and target.is_integral:
        return _to_integers(x, target)
    return x.astype(dtype)


def _to_exponents(x: Array) -> Array:
    """The nearest powers of two as biased exponents, ties to the even one; 255 is NaN.

    Values outside the range saturate: zero and negative numbers to the least power, infinity to the greatest.
    """
    bits = np.ascontiguousarray(x).view(np.uint32).reshape(x.shape)
    exponent, mantissa = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    half = np.uint32(1 << 22)
    up = (mantissa > half) | ((mantissa == half) & (exponent % 2 == 1))
    nearest = np.minimum(exponent + up, 254)
    # The least power, 2**-127, is a subnormal float32 itself.
    nearest = np.where(exponent == 0, mantissa > 3 << 21, nearest)
    nearest = np.where(x < 0, 0, nearest)
    return np.where(np.isnan(x), 255, nearest).astype(np.uint8)


def _to_integers(x: Array, target: ElementType) -> Array:
    with np.errstate(invalid="ignore"):
        if target in (element_types.u64, element_types.i64):
            if target is element_types.u64 and x.dtype.kind == "f":
                return np.where(x < 0, x.astype(np.int64).astype(np.uint64), x.astype(np.uint64))
            return x.astype(target.dtype)
        # From floats by way of int32, as onnxruntime and OpenVINO: what that cannot hold becomes its least value.
        of_floats = np.int64 if target is element_types.u32 else np.int32
        wrapped = x.astype(of_floats if x.dtype.kind == "f" else np.int64).astype(np.int64) & ((1 << target.bits) - 1)
    if target.category == "signed":
        half = 1 << (target.bits - 1)
        wrapped = (wrapped ^ half) - half
    return wrapped.astype(target.dtype)


@operation("Convert", opset=1)
class Convert1(Operation):
    """The same values in another element type."""

    inputs = (1, 1)
    elementwise = True
    destination_type: ElementType = type_of_elements(default=element_types.dynamic)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(self.destination_type, inputs[0].shape)]

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        low, high = inputs[0]
        if self.destination_type.is_real:
            return low.astype(np.float64), high.astype(np.float64)
        if low.dtype == np.object_ or not self.destination_type.is_integral:
            return inputs[0]
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            return None
        whole = np.frompyfunc(int, 1, 1)
        return np.asarray(whole(low), np.object_), np.asarray(whole(high), np.object_)

    def evaluate(self, *inputs: Array) -> Array:
        return convert(inputs[0], self.destination_type)


@operation("ConvertLike", opset=1)
class ConvertLike1(Operation):
    """The first input in the element type of the second."""

    inputs = (2, 2)

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        return inputs[0]

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(inputs[1].element_type, inputs[0].shape)]

    def evaluate(self, *inputs: Array) -> Array:
        return convert(inputs[0], element_types.from_dtype(inputs[1].dtype))


@operation("Select", opset=1)
class Select1(Operation):
    """Where the condition holds, the second input, elsewhere the third."""

    inputs = (3, 3)
    elementwise = True
    auto_broadcast: str = enum("none", "numpy", "pdpd", default="numpy")

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        condition, then, otherwise = inputs
        if condition.element_type not in (element_types.boolean, element_types.dynamic):
            raise InferenceError(f"the condition must be boolean, but is {condition.element_type}")
        element_type = merge_types([then, otherwise])
        if self.auto_broadcast == "pdpd":
            shape = broadcast_shapes(then.shape, otherwise.shape, "pdpd")
            return [TensorType(element_type, broadcast_shapes(shape, condition.shape, "pdpd"))]
        shape = broadcast_shapes(then.shape, otherwise.shape, self.auto_broadcast)
        return [TensorType(element_type, broadcast_shapes(condition.shape, shape, self.auto_broadcast))]

    def moved_inputs(self, count: int) -> Sequence[int]:
        return (1, 2)

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        """Each element is that of either input; the condition only broadcasts."""
        low, high = hull(inputs[1:])
        shape = np.broadcast_shapes(low.shape, inputs[0][0].shape)
        return np.broadcast_to(low, shape), np.broadcast_to(high, shape)

    def evaluate(self, *inputs: Array) -> Array:
        condition, then, otherwise = inputs
        if self.auto_broadcast == "pdpd":
            condition, otherwise = (v.reshape(v.shape + (1,) * (then.ndim - v.ndim)) for v in (condition, otherwise))
        return np.where(condition, then, otherwise)
