"""onnxruntime's products with weights that are stored in a few bits each, in blocks with a scale of their own.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.from_onnx.translation.context import Context
from converter.from_onnx.translation.registry import onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import ElementType, Output, Tensor, element_types
from ir_runtime.operations import matmul, movement, slicing
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type

_KINDS = {2: element_types.u2, 4: element_types.u4, 8: element_types.u8}


def _packed(ctx: Context, value: Output, kind: ElementType, shape: tuple[int, ...], name: str) -> Output:
    """Bytes that hold several numbers each as a constant of those; the data stay where they are."""
    tensor = value.tensor
    if tensor is None:
        raise ctx.unsupported(f"{name} must be known while converting, but is computed at run time")
    if value.element_type is not element_types.u8:
        raise ctx.invalid(f"{name} must be u8, but is {value.element_type}")
    count = int(np.prod(shape, dtype=np.int64))
    if kind.byte_size(count) != tensor.size:
        raise ctx.invalid(f"{name} must have {kind.byte_size(count)} bytes, but has {tensor.size}")
    packed = np.ascontiguousarray(tensor.array()).reshape(-1)
    return ctx.tensor(Tensor.from_packed(packed, kind, shape).derived("unpacked", tensor))


def _shaped(ctx: Context, value: Output, shape: Sequence[int]) -> Output:
    return ctx.emit(movement.Reshape1(special_zero=False), value, ctx.constant(list(shape)))


def _zero_points(
    ctx: Context, zero: Output | None, kind: ElementType, rows: int, blocks: int, like: Output, lists: int
) -> Output:
    """One zero point a block, ``[rows, blocks, 1]``; packed ones are ``lists``, each of which begins at a byte."""
    if zero is None:
        # A list, which stays stored in the weights' own type.
        return in_type(ctx, ctx.constant([1 << (kind.bits - 1)], kind), like.element_type)
    if zero.element_type.is_real:
        return in_type(ctx, _shaped(ctx, zero, (rows, blocks, 1)), like.element_type)
    count = rows * blocks // lists
    held = kind.byte_size(count) * 8 // kind.bits
    points = _packed(ctx, zero, kind, (lists, held), "zero_points")
    if held != count:
        points = ctx.computed("Slice", ctx.known(points, "zero_points")[:, :count], kind, [points])
    points = ctx.tensor(_reshaped(points, (rows, blocks, 1)))
    return in_type(ctx, points, like.element_type)


def _reshaped(value: Output, shape: tuple[int, ...]) -> Tensor:
    assert value.tensor is not None
    return Tensor.from_array(value.tensor.array().reshape(shape), value.element_type).derived("Reshape", value.tensor)


def unpacked_weights(
    ctx: Context,
    packed: Output,
    scales: Output,
    zero_points: Output | None,
    bits: int,
    shape: tuple[int, int],
    block_size: int,
    element_type: ElementType,
    name: str = "B",
    zero_point_lists: int | None = None,
) -> Output:
    """Weights of that shape, each block of a row with its scale and its zero point.

    Packed zero points are as many lists as there are rows, or ``zero_point_lists``; each list begins at a byte.
    """
    if bits not in _KINDS:
        raise ctx.unsupported(f"weights may have 2, 4 or 8 bits, but have {bits}")
    rows, width = shape
    if block_size < 1 or width < 1:
        raise ctx.invalid(f"K and block_size must be positive, but are {width} and {block_size}")
    kind, blocks = _KINDS[bits], -(-width // block_size)
    weights = in_type(ctx, _packed(ctx, packed, kind, (rows, blocks, block_size), name), element_type)
    zero = _zero_points(ctx, zero_points, kind, rows, blocks, weights, zero_point_lists or rows)
    weights = layers.subtract(ctx, weights, zero)
    factor = _shaped(ctx, in_type(ctx, scales, element_type), (rows, blocks, 1))
    weights = _shaped(ctx, layers.multiply(ctx, weights, factor), (rows, blocks * block_size))
    if blocks * block_size != width:
        ends = (ctx.constant([value]) for value in (0, width, 1, 1))
        weights = ctx.emit(slicing.Slice8(), weights, *ends)
    return weights


@onnx_op("MatMulNBits", domain=MICROSOFT, versions=(1,))
def mat_mul_n_bits(
    ctx: Context,
    a: Output,
    b: Output,
    scales: Output,
    zero_points: Output | None = None,
    g_idx: Output | None = None,
    bias: Output | None = None,
    *,
    K: int,  # noqa: N803
    N: int,  # noqa: N803
    accuracy_level: int = 0,
    bits: int = 4,
    block_size: int,
    weight_prepacked: int = 0,
) -> Output:
    """``[..., K]`` times the transpose of weights ``[N, K]`` that are stored in ``bits`` bits each.

    A row's blocks of ``block_size`` weights have a scale and a zero point of their own. The weights stay
    packed: they are a constant of u2, u4 or u8, from which a zero point is taken and which is scaled.
    ``accuracy_level`` allows for rounding A, which is not done here.
    """
    if weight_prepacked:
        raise ctx.unsupported("weights that are packed for one kind of processor are not supported")
    if g_idx is not None:
        raise ctx.unsupported("the input g_idx is not supported, which onnxruntime has given up, too")
    if N < 1:
        raise ctx.invalid(f"N must be positive, but is {N}")
    weights = unpacked_weights(ctx, b, scales, zero_points, bits, (N, K), block_size, a.element_type)
    y = ctx.emit(matmul.MatMul1(transpose_b=True), a, weights)
    return y if bias is None else layers.add(ctx, y, bias)
