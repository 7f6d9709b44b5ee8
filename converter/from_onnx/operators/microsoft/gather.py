"""onnxruntime's Gather from a table that is quantised in blocks.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import MICROSOFT
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import Array, ElementType, Output, Tensor, element_types, normalize_axis
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.expressions import Expression, where
from ir_runtime.rewriting.layers import in_type

_PACKED = {2: element_types.u2, 4: element_types.u4}


def _unpack(ctx: Context, value: Output, bits: int, last: int, name: str) -> Output:
    """Bytes that hold several numbers each as a constant of those; a row has ``last`` of them."""
    packed_type = _PACKED[bits]
    held = value.shape.static()
    longer = (*held[:-1], held[-1] * 8 // bits)
    if value.tensor is None:
        raise ctx.unsupported(f"{name} must be known while converting, but is computed at run time")
    if not last <= longer[-1] < last + 8 // bits:
        raise ctx.invalid(f"{name} must hold {last} numbers of {bits} bits in a row, but has the shape {value.shape}")
    packed_tensor = Tensor.from_packed(np.ascontiguousarray(value.tensor.array()).reshape(-1), packed_type, longer)
    unpacked = ctx.tensor(packed_tensor.derived("unpacked", value.tensor))
    return (
        unpacked
        if longer[-1] == last
        else ctx.computed("Slice", packed_tensor.array()[..., :last], packed_type, [unpacked])
    )


def _gather(ctx: Context, value: Output, indices: Output, axis: int) -> Output:
    return layers.gather(ctx, value, indices, ctx.constant(axis))


def _spread(ctx: Context, value: Output, axis: int, dimension: int, block_size: int) -> Output:
    """Each block's value for every element of the block."""
    if value.shape[axis].is_static and value.shape[axis].value == 1:
        return value
    return _gather(ctx, value, ctx.constant(np.arange(dimension) // block_size), axis)


@onnx_op("GatherBlockQuantized", domain=MICROSOFT, versions=(1,))
def gather_block_quantized(
    ctx: Context,
    data: Output,
    indices: Output,
    scales: Output,
    zero_points: Output | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Output:
    """Slices of a table along ``gather_axis``, made real: less the zero point, times the scale of their block.

    A block is ``block_size`` elements along ``quantize_axis``. Bytes hold 2, 4 or 8 bits a number, the
    first in the lowest bits, and have their zero point in the middle where none is given.
    """
    if not data.shape.is_static or not scales.shape.is_static:
        raise ctx.unsupported("the dimensions of data and scales must be known while converting, but are not")
    rank, zero = data.shape.rank, zero_points
    gathered, quantized = normalize_axis(gather_axis, rank), normalize_axis(quantize_axis, rank)
    if gathered == quantized:
        raise ctx.invalid(f"gather_axis and quantize_axis must differ, but are both {gathered}")
    is_bytes = data.element_type is element_types.u8
    if is_bytes:
        if bits not in (2, 4, 8):
            raise ctx.invalid(f"bits must be 2, 4 or 8 where data are bytes, but is {bits}")
        if bits < 8:
            data = _unpack(ctx, data, bits, data.shape.static()[-1] * 8 // bits, "data")
            zero = None if zero is None else _unpack(ctx, zero, bits, scales.shape.static()[-1], "zero_points")
    elif data.element_type.is_real and zero is not None:
        raise ctx.invalid("real data have no zero points")
    dimension = data.shape.static()[quantized]
    size = block_size if block_size or not data.element_type.is_real else dimension
    if size < 1:
        raise ctx.invalid(f"block_size must be positive, but is {block_size}")
    expected_shape = list(data.shape.static())
    expected_shape[quantized] = -(-dimension // size)
    for name, value in (("scales", scales), ("zero_points", zero)):
        if value is not None and not _fits(value, expected_shape, data.element_type.is_real):
            raise ctx.invalid(f"{name} must have the shape {expected_shape}, but have {value.shape}")
    along = quantized if quantized < gathered else quantized + ctx.rank(indices, "the indices") - 1

    def of_blocks(value: Output) -> Output:
        # A value that all slices share is not gathered, but its dimensions are those of the result.
        shared = value.shape.static()[gathered] == 1 and expected_shape[gathered] != 1
        chosen = layers.multiply(ctx, indices, ctx.like(0, indices)) if shared else indices
        taken = in_type(ctx, _gather(ctx, value, chosen, gathered), work)
        return _spread(ctx, taken, along, dimension, size)

    work = element_types.f32 if scales.element_type is element_types.bf16 else scales.element_type
    rows = in_type(ctx, _gather(ctx, data, indices, gathered), work)
    if zero is not None:
        rows = layers.subtract(ctx, rows, of_blocks(zero))
    elif is_bytes:
        rows = layers.subtract(ctx, rows, ctx.like(1 << (bits - 1), rows))
    result = layers.multiply(ctx, rows, of_blocks(scales))
    return in_type(ctx, result, scales.element_type)


def _fits(value: Output, expected: list[int], real: bool) -> bool:
    """True if there is a value for each block; those of real data may be shared along a dimension."""
    if value.shape.rank != len(expected):
        return False
    return all(size == dimension or (real and size == 1) for size, dimension in zip(value.shape.static(), expected))


_BLOCK = 32
_IQ4_NL = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""The values of the codes of IQ4_NL."""
_FLOATS = {0: element_types.f32, 1: element_types.f16, 30: element_types.bf16}
_BYTES_OF_BLOCK = {2: 18, 6: 22, 8: 34, 20: 18}
"""Q4_0, Q5_0, Q8_0 and IQ4_NL of GGML: a float16 scale and the codes of 32 numbers."""


def _codes(stored: Array, packed_type: int) -> tuple[Array, ElementType, int]:
    """The codes ``[rows, blocks, 32]`` of blocks of bytes, their type, and the code of 0."""
    if packed_type == 8:
        return stored[..., 2:].view(np.int8), element_types.i8, 0
    low = stored[..., -_BLOCK // 2 :]
    codes = np.concatenate([low & 15, low >> 4], -1)
    if packed_type == 20:
        return np.array(_IQ4_NL, np.int8)[codes], element_types.i8, 0
    if packed_type == 6:
        fifth = np.unpackbits(np.ascontiguousarray(stored[..., 2:6]), axis=-1, bitorder="little")
        return (codes | fifth << 4).astype(np.int8) - np.int8(16), element_types.i8, 0
    return codes, element_types.u4, 8


@onnx_op("GatherPacked", domain=MICROSOFT, versions=(1,))
def gather_packed(
    ctx: Context,
    data: Expression,
    indices: Expression,
    *,
    K: int,  # noqa: N803
    output_dtype: int = 16,
    packed_type: int,
) -> Expression:
    """Rows of ``K`` numbers of a table ``[rows, bytes]`` in one of GGML's formats; row 0 for indices outside of it.

    ``packed_type`` is F32 (0), F16 (1), BF16 (30), or in blocks of 32 numbers Q4_0 (2), Q5_0 (6), Q8_0 (8) or IQ4_NL
    (20). https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
    """
    block = _BYTES_OF_BLOCK.get(packed_type)
    if block is None and packed_type not in _FLOATS:
        raise ctx.unsupported(f"packed_type may be {sorted({*_FLOATS, *_BYTES_OF_BLOCK})}, but is {packed_type}")
    held = ctx.known(data.value, "data")
    width = K * _FLOATS[packed_type].bits // 8 if block is None else -(-K // _BLOCK) * block
    if K < 1 or (block is not None and K % _BLOCK) or held.ndim != 2 or held.shape[1] != width:
        raise ctx.invalid(f"rows of K = {K} numbers of packed_type {packed_type} do not have the shape {held.shape}")
    rows = len(held)
    places = indices.as_type("i64")
    places = where((places >= 0) & (places < rows), places, 0)

    def gathered(table: Array, element_type: ElementType) -> Expression:
        constant = Expression(ctx, ctx.computed("unpacked", table, element_type, [data.value]))
        return constant.gather(places).as_type("f32")

    if block is None:
        rows_of_codes = gathered(np.ascontiguousarray(held).view(_FLOATS[packed_type].dtype), _FLOATS[packed_type])
    else:
        stored = np.ascontiguousarray(held).reshape(rows, -1, block)
        codes, element_type, zero = _codes(stored, packed_type)
        scales = np.ascontiguousarray(stored[..., :2]).view("<f2")
        rows_of_codes = (gathered(codes, element_type) - zero) * gathered(scales, element_types.f16)
        rows_of_codes = rows_of_codes.reshape(*indices.sizes(), K)
    return rows_of_codes.as_type(element_type_of(output_dtype))
