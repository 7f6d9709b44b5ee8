"""onnxruntime's products with weights that are stored in a few bits each, in blocks with a scale of their own.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import ElementType, Output, Tensor, element_types
from ir_runtime.operations import matmul, movement, slicing
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type

_TYPES = {2: element_types.u2, 4: element_types.u4, 8: element_types.u8}


def _packed(ctx: Context, value: Output, element_type: ElementType, shape: tuple[int, ...], name: str) -> Output:
    """Bytes that hold several numbers each as a constant of those; the data stay where they are."""
    tensor = value.tensor
    if tensor is None:
        raise ctx.unsupported(f"{name} must be known while converting, but is computed at run time")
    if value.element_type is not element_types.u8:
        raise ctx.invalid(f"{name} must be u8, but is {value.element_type}")
    count = int(np.prod(shape, dtype=np.int64))
    if element_type.byte_size(count) != tensor.size:
        raise ctx.invalid(f"{name} must have {element_type.byte_size(count)} bytes, but has {tensor.size}")
    packed = np.ascontiguousarray(tensor.array()).reshape(-1)
    return ctx.tensor(Tensor.from_packed(packed, element_type, shape).derived("unpacked", tensor))


def _shaped(ctx: Context, value: Output, shape: Sequence[int]) -> Output:
    return ctx.emit(movement.Reshape1(special_zero=False), value, ctx.constant(list(shape)))


def _zero_points(
    ctx: Context, zero: Output | None, element_type: ElementType, rows: int, blocks: int, like: Output, lists: int
) -> Output:
    """Return one zero point per block, ``[rows, blocks, 1]``; packed ones are ``lists`` that each begin at a byte."""
    if zero is None:
        # A list, which stays stored in the weights' own type.
        return in_type(ctx, ctx.constant([1 << (element_type.bits - 1)], element_type), like.element_type)
    if zero.element_type.is_real:
        return in_type(ctx, _shaped(ctx, zero, (rows, blocks, 1)), like.element_type)
    count = rows * blocks // lists
    held = element_type.byte_size(count) * 8 // element_type.bits
    points = _packed(ctx, zero, element_type, (lists, held), "zero_points")
    if held != count:
        points = ctx.computed("Slice", ctx.known(points, "zero_points")[:, :count], element_type, [points])
    points = ctx.tensor(_reshape(points, (rows, blocks, 1)))
    return in_type(ctx, points, like.element_type)


def _reshape(value: Output, shape: tuple[int, ...]) -> Tensor:
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
    if bits not in _TYPES:
        raise ctx.unsupported(f"weights may have 2, 4 or 8 bits, but have {bits}")
    rows, width = shape
    if block_size < 1 or width < 1:
        raise ctx.invalid(f"K and block_size must be positive, but are {width} and {block_size}")
    packed_type, blocks = _TYPES[bits], -(-width // block_size)
    weights = in_type(ctx, _packed(ctx, packed, packed_type, (rows, blocks, block_size), name), element_type)
    zero = _zero_points(ctx, zero_points, packed_type, rows, blocks, weights, zero_point_lists or rows)
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


_FP4 = (0.0, 0.0052083333, 0.6666667, 1.0, 0.33333334, 0.5, 0.16666667, 0.25)
"""The numbers of bitsandbytes' FP4 (https://arxiv.org/abs/2305.14314); the fourth bit is the sign."""


@onnx_op("MatMulBnb4", domain=MICROSOFT, versions=(1,))
def mat_mul_bnb_4(
    ctx: Context,
    a: Output,
    b: Output,
    absmax: Output,
    *,
    K: int,  # noqa: N803
    N: int,  # noqa: N803
    block_size: int,
    quant_type: int,
    training_mode: int = 0,
    transB: int = 1,  # noqa: N803
) -> Output:
    """``[..., K]`` times the transpose of weights ``[N, K]`` of 4 bits, numbers of NF4 (1) or FP4 (0) in blocks.

    A block goes on from row to row, and has one scale.
    """
    if quant_type not in (0, 1):
        raise ctx.invalid(f"quant_type must be 0 (FP4) or 1 (NF4), but is {quant_type}")
    if min(K, N, block_size) < 1:
        raise ctx.invalid(f"N, K and block_size must be positive, but are {N}, {K} and {block_size}")
    count, blocks = N * K, -(-N * K // block_size)
    if b.tensor is None:
        raise ctx.unsupported("B must be known while converting, but is computed at run time")
    if b.element_type is not element_types.u8 or b.tensor.size != -(-count // 2):
        raise ctx.invalid(f"B must have {-(-count // 2)} bytes, but has {b.tensor.size} of the type {b.element_type}")
    # The IR has the first number of a byte in its lower half.
    swapped = b.tensor.array().reshape(-1)
    swapped = (swapped >> 4) | (swapped << 4)
    held = np.zeros(-(-blocks * block_size // 2), np.uint8)
    held[: swapped.size] = swapped
    if quant_type:
        stored = ctx.tensor(
            Tensor.from_packed(held, element_types.nf4, (blocks, block_size)).derived("unpacked", b.tensor)
        )
        weights = in_type(ctx, stored, a.element_type)
    else:
        codes = np.stack([held & 15, held >> 4], 1).reshape(-1)[: blocks * block_size]
        table = np.array([*_FP4, *(-number for number in _FP4)], a.element_type.dtype)
        numbers = table[codes].reshape(blocks, block_size)
        weights = ctx.tensor(Tensor.from_array(numbers, a.element_type).derived("unpacked", b.tensor))
    factor = _shaped(ctx, in_type(ctx, absmax, a.element_type), (blocks, 1))
    weights = layers.multiply(ctx, weights, factor)
    if blocks * block_size != count:
        ends = (ctx.constant([value]) for value in (0, count, 1, 0))
        weights = ctx.emit(slicing.Slice8(), _shaped(ctx, weights, (-1,)), *ends)
    return ctx.emit(matmul.MatMul1(transpose_b=bool(transB)), a, _shaped(ctx, weights, (N, K)))


_BLOCK = 32
"""Weights of a block of MatMulFpQ4."""


@onnx_op("MatMulFpQ4", domain=MICROSOFT, versions=(1,))
def mat_mul_fp_q4(ctx: Context, a: Output, b: Output, b_shape: Output, *, blk_quant_type: int = 1) -> Output:
    """``[..., K]`` times weights ``[K, N]`` of 4 bits, which are bytes: column by column, blocks of 32.

    A block is a float32 scale, a zero point of one byte (none in type 0, where it is 8), and 16 bytes, which have the
    first half of the block in their lower bits and the second half in the upper ones.
    """
    rows, columns = (int(size) for size in ctx.known(b_shape, "B_shape").reshape(-1))
    blocks, head = -(-rows // _BLOCK), 4 + bool(blk_quant_type)
    held = ctx.known(b, "B").reshape(-1)
    if held.size != columns * blocks * (head + _BLOCK // 2):
        raise ctx.invalid(
            f"B must have {columns * blocks * (head + _BLOCK // 2)} bytes for weights [{rows},{columns}], but has "
            f"{held.size}"
        )
    stored = held.reshape(columns, blocks, head + _BLOCK // 2)
    codes = np.concatenate([stored[:, :, head:] & 15, stored[:, :, head:] >> 4], 2)
    scales = np.ascontiguousarray(stored[:, :, :4]).view("<f4")
    zero = stored[:, :, 4:head].astype(np.float32) if blk_quant_type else np.full((1, 1, 1), 8, np.float32)
    parts = [
        ctx.computed("unpacked", array, element_type, [b])
        for array, element_type in ((codes, element_types.u4), (scales, element_types.f32), (zero, element_types.f32))
    ]
    weights, factor, point = (in_type(ctx, part, a.element_type) for part in parts)
    weights = layers.multiply(ctx, layers.subtract(ctx, weights, point), factor)
    weights = _shaped(ctx, weights, (columns, blocks * _BLOCK))
    if blocks * _BLOCK != rows:
        weights = layers.cut(ctx, weights, 0, rows, 1)
    return ctx.emit(matmul.MatMul1(transpose_b=True), a, weights)
