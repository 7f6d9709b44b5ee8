"""Rules for NaN and infinities."""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output
from ir_runtime.operations.activation import Clamp1, ReLU1
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.elementwise import Add1, Greater1, IsFinite10, IsInf10, IsNaN10, Mod1, Multiply1, Subtract1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Reshape1, Squeeze1, Unsqueeze1
from ir_runtime.operations.normalization import BatchNormInference5
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("comparisons_with_nan", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def comparisons_with_nan(builder: Builder, node: Node) -> Replacement:
    """Swap the inputs of Greater and GreaterEqual of floats.

    The plug-in computes them as the opposite of LessEqual and Less, and so NaN is greater than any number. Its Less and
    LessEqual are right.

        Greater(a, b)    becomes   Less(b, a)
    """
    a, b = node.inputs
    if not a.element_type.is_real:
        return fail("it compares integers")
    return (layers.less if isinstance(node.op, Greater1) else layers.less_equal)(builder, b, a)


@openvino_cpu.replaces("extremes_with_nan", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def extremes_with_nan(builder: Builder, node: Node) -> Replacement:
    """Add NaN to a value instead of taking Maximum or Minimum of both.

    The plug-in makes a Clamp of Maximum and Minimum with constants, and refuses the NaN as its end. Minimum of a
    computed NaN and a number would be the number there.

        x -> Maximum(NaN) -> Minimum(3)      becomes      x -> Add(NaN) -> Add(3)
    """
    if not any(_is_nan(source) for source in node.inputs):
        return fail("no input is a constant NaN")
    return layers.add(builder, *node.inputs)


def _is_nan(value: Output, deepest: int = 3) -> bool:
    """True if the value is a constant NaN, or a sum with one, such as this rule emits."""
    constant = value.type.constant
    if constant is None:
        is_sum = isinstance(value.node.op, Add1) and deepest > 0
        return is_sum and any(_is_nan(source, deepest - 1) for source in value.node.inputs)
    return value.element_type.is_real and constant.size == 1 and bool(np.isnan(constant).all())


_WITHOUT_NAN = (ReLU1, Clamp1)
"""Operations of which the plug-in computes 0 for NaN."""
_BETWEEN = (
    Convolution1,
    GroupConvolution1,
    MatMul1,
    Add1,
    Subtract1,
    Multiply1,
    BatchNormInference5,
    Reshape1,
    Squeeze1,
    Unsqueeze1,
)
"""Operations that make no NaN of finite numbers and finite constants."""
_MAX_BETWEEN = 6


@openvino_cpu.replaces("hard_sigmoid_of_nan", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def hard_sigmoid_of_nan(builder: Builder, node: Node) -> Replacement:
    """Select NaN where the input of HardSigmoid is NaN; compute a slope of 0.

    The plug-in returns 1 for NaN, and uses a slope of 0.2 instead of 0.

        x -> HardSigmoid      becomes      x -> HardSigmoid ------------\\
                                           x -> IsNaN -------------> Select <- x

    Where the result is only multiplied by ``x`` itself, NaN stays NaN. The plug-in fuses these layers into one HSwish,
    and so they stay. With a slope of 0 the result is a constant, but NaN where ``x`` is not finite.

        f -> ReLU -> Convolution -> Add -> HardSigmoid      stays

    The plug-in's ReLU and Clamp make 0 of NaN. No NaN of the data comes through them, and a layer that would keep it
    helps nobody. So ends each squeeze-and-excitation block of MobileNet and its kin. (Infinite values come through:
    where a Convolution makes NaN of them, the result is the plug-in's 1.)
    """
    x, slope, offset = node.inputs
    alpha, beta = slope.type.constant, offset.type.constant
    if alpha is not None and beta is not None and not alpha.any():
        nothing = layers.multiply(builder, x, slope)
        value = builder.like(np.clip(beta, 0, 1).reshape(()), x)
        return layers.select(builder, builder.emit(IsNaN10(), nothing), nothing, value)
    readers = node.outputs[0].uses
    if readers and all(isinstance(reader.op, Multiply1) and x in reader.inputs for reader in readers):
        return fail("it is only multiplied by its own input, which keeps NaN")
    if _is_without_nan(x):
        return fail("ReLU or Clamp before it, of which the plug-in makes 0 of NaN")
    return layers.select(builder, builder.emit(IsNaN10(), x), x, builder.emit(node.op, *node.inputs))


def _is_without_nan(value: Output) -> bool:
    """True if NaN of the data has become 0 in a layer that comes before, with nothing but constants added since."""
    for _ in range(_MAX_BETWEEN):
        node = value.node
        if isinstance(node.op, _WITHOUT_NAN):
            return True
        computed = [source for source in node.inputs if source.tensor is None]
        if not isinstance(node.op, _BETWEEN) or len(computed) != 1:
            return False
        (value,) = computed
    return False


@openvino_cpu.replaces("mod_by_infinity", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def mod_by_infinity(builder: Builder, node: Node) -> Replacement:
    """Select the dividend where the divisor of a Mod of floats is infinite.

    The plug-in computes a - trunc(a / b) b, which is NaN. C's fmod, which the IR's Mod is, returns ``a``.

        Mod(a, b)    becomes   Select(b is infinite and a finite, a, Mod(a, b))    where b is not a finite constant
    """
    value, divisor = node.inputs
    constant = divisor.type.constant
    if not value.element_type.is_real or (constant is not None and not np.isinf(constant).any()):
        return fail("the inputs are integers, or the divisor is constant and finite")
    endless = layers.logical_and(builder, builder.emit(IsInf10(), divisor), builder.emit(IsFinite10(), value))
    return layers.select(builder, endless, value, builder.emit(Mod1(), value, divisor))
