"""Shapes, orders, repetition, pads, and blocks and patches of images."""

from __future__ import annotations

from converter.onnx_file.graph import operator_of
from converter.to_onnx import Context, Value, ir_op, layers
from converter.to_onnx.layers import transpose as turned
from converter.to_onnx.parts_of_lists import halves_of
from converter.to_onnx.registry import write_inline, writes
from ir_runtime.graph import element_types
from ir_runtime.operations import movement as ir
from ir_runtime.operations.blocks import DepthToSpace1, SpaceToDepth1
from ir_runtime.operations.padding import Pad1, Pad12
from ir_runtime.operations.patches import Col2Im15
from ir_runtime.operations.reordering import Reverse1, ReverseSequence1, Roll7


@ir_op(ir.Reshape1)
def reshape_(ctx: Context, op: ir.Reshape1, x: Value, shape: Value) -> Value:
    """Reshape; where a 0 is a dimension of 0 with allowzero=1 (opset 14), or of data that have such dimensions, too"""
    numbers = layers.known_list(ctx, shape)
    if numbers is not None:
        static = ctx.node.outputs[0].shape
        is_empty = static.is_static and 0 in static.static()
        if not is_empty and (op.special_zero or 0 not in numbers):
            return layers.reshape(ctx, x, numbers)
        if is_empty:  # of nothing, -1 and 0 tell nothing
            return layers.reshape_exactly(ctx, x, ctx.constant(list(static.static())), len(static.static()))
    bounds = shape.type.known_bounds
    is_positive = bounds is not None and bool((bounds.lower > 0).all())
    target = ctx.constant(numbers) if numbers is not None else layers.int64_list(ctx, shape)
    if op.special_zero or is_positive:
        return ctx.emit("Reshape", x, target)
    count = shape.shape.element_count()
    if count.is_static and not ctx.at_least(14) and not _keeps_zeros(ctx):
        return layers.reshape_exactly(ctx, x, target, count.value)
    if not count.is_static:
        ctx.opsets.require(14, "a Reshape whose 0 is a dimension of 0 and whose rank is unknown")
    return ctx.emit("Reshape", x, target, allowzero=1 if ctx.at_least(14) else None)


def _keeps_zeros(ctx: Context) -> bool:
    """True if a dimension that the layer makes 0 is 0 in the data, too."""
    data, target = ctx.node.inputs
    dims, elements = ctx.dims(data), ctx.elements(target)
    if dims is None or elements is None:
        return False
    return all(
        ctx.is_never_zero(size) or (index < len(dims) and size == dims[index]) for index, size in enumerate(elements)
    )


@ir_op(ir.Transpose1)
def transpose(ctx: Context, op: ir.Transpose1, x: Value, order: Value) -> Value:
    """Transpose, whose order must be known"""
    numbers = layers.list_of(ctx, order, "the order of the dimensions")
    return turned(ctx, x, numbers) if numbers else ctx.emit("Transpose", x)


@ir_op(ir.Squeeze1, ir.Squeeze15)
def squeeze_(ctx: Context, op: ir.Squeeze1, x: Value, axes: Value | None = None) -> Value:
    """Squeeze; without axes of all dimensions that are 1"""
    numbers = None if axes is None else layers.known_list(ctx, axes)
    if getattr(op, "allow_axis_skip", False) and axes is not None:
        rank = layers.rank_of(ctx, x)
        dims = x.shape.dims
        chosen = layers.known_axes(ctx, axes, rank)
        if chosen is None or any(dims[axis].contains(1) and not dims[axis].is_static for axis in chosen):
            ctx.fail("with allow_axis_skip the axes, and whether their dimensions are 1, must be known")
        return layers.squeeze(ctx, x, [axis for axis in chosen if dims[axis].is_static and dims[axis].value == 1])
    if axes is None or numbers == []:
        return ctx.emit("Squeeze", x)
    before = operator_of(x.node)
    if before.type in ("ArgMax", "ArgMin") and before.values["keepdims"] and numbers:
        (source,), axis = x.node.inputs, before.values["axis"]
        is_same = x.shape.has_rank and numbers[0] % x.shape.rank == axis % x.shape.rank
        if len(numbers) == 1 and is_same and len(ctx.node.inputs[0].uses) == 1:
            return ctx.emit(before.type, source, axis=axis, keepdims=0)
    return ctx.emit("Squeeze", x, layers.int64_list(ctx, axes))


@ir_op(ir.Unsqueeze1)
def unsqueeze_(ctx: Context, op: ir.Unsqueeze1, x: Value, axes: Value) -> Value:
    """Unsqueeze"""
    if layers.known_list(ctx, axes) == []:
        return x
    return ctx.emit("Unsqueeze", x, layers.int64_list(ctx, axes))


writes("Concat", ir.Concat1, axis="axis")


@ir_op(ir.Broadcast1, ir.Broadcast3)
def broadcast(ctx: Context, op: ir.Broadcast3, x: Value, shape: Value, axes: Value | None = None) -> Value:
    """Expand; in the mode explicit the dimensions are moved to their axes first"""
    if op.mode == "explicit":
        assert axes is not None
        placed, target = layers.known_list(ctx, axes), shape.shape
        if placed is None or not target.is_static:
            ctx.fail("in the mode explicit the axes and the rank of the target must be known")
        rank = target.element_count().value
        x = layers.unsqueeze(ctx, x, [axis for axis in range(rank) if axis not in placed])
    return ctx.emit("Expand", x, layers.int64_list(ctx, shape))


@ir_op(ir.Tile1)
def tile(ctx: Context, op: ir.Tile1, x: Value, repeats: Value) -> Value:
    """Tile; the shorter of shape and repeats is filled up with ones in front"""
    rank = layers.rank_of(ctx, x, "the data")
    count = repeats.shape.element_count()
    if not repeats.shape.has_rank or not count.is_static:
        ctx.fail("the number of repeats must be known")
    times = layers.int64_list(ctx, repeats)
    if count.value < rank:
        ones = ctx.constant([1] * (rank - count.value), element_types.i64)
        times = layers.concat(ctx, [ones, times], 0)
    return ctx.emit("Tile", layers.unsqueeze(ctx, x, list(range(count.value - rank))), times)


@ir_op(Reverse1)
def reverse(ctx: Context, op: Reverse1, x: Value, axes: Value) -> Value:
    """Slice with steps of -1"""
    numbers = layers.known_list(ctx, axes)
    if numbers is None and op.mode == "mask":
        ctx.fail("the mask of the axes must be known")
    if numbers is not None:
        chosen = [axis for axis, flag in enumerate(numbers) if flag] if op.mode == "mask" else numbers
        if not chosen:
            return x
        at, count = ctx.constant(chosen), len(chosen)
    else:
        size = axes.shape.element_count()
        if not size.is_static:
            ctx.fail("the number of axes must be known")
        at, count = layers.int64_list(ctx, axes), size.value
    first, last, step = ([number] * count for number in (-1, layers.INT64_MIN, -1))
    return ctx.emit("Slice", x, ctx.constant(first), ctx.constant(last), at, ctx.constant(step))


@ir_op(ReverseSequence1)
def reverse_sequence(ctx: Context, op: ReverseSequence1, x: Value, lengths: Value) -> Value:
    """ReverseSequence, whose axes are the first two"""
    rank = layers.rank_of(ctx, x, "the data")
    batch, time = op.batch_axis % rank, op.seq_axis % rank
    counts = layers.int64_list(ctx, lengths)
    if {batch, time} == {0, 1}:
        return ctx.emit("ReverseSequence", x, counts, batch_axis=batch, time_axis=time)
    order = [batch, time, *[i for i in range(rank) if i not in (batch, time)]]
    reversed_batch = ctx.emit("ReverseSequence", turned(ctx, x, order), counts, batch_axis=0, time_axis=1)
    return turned(ctx, reversed_batch, [order.index(i) for i in range(rank)])


write_inline(Roll7)


@ir_op(Pad1, Pad12)
def pad(ctx: Context, op: Pad1, x: Value, begins: Value, ends: Value, value: Value | None = None) -> Value:
    """Pad; for the mode symmetric, Gather by indices that turn back at the edges"""
    if op.pad_mode == "symmetric":
        return ctx.decompose()[0]
    pads_per_end = layers.known_list(ctx, begins), layers.known_list(ctx, ends)
    if pads_per_end[0] is not None and pads_per_end[1] is not None:
        if not any([*pads_per_end[0], *pads_per_end[1]]):
            return x
        pads = ctx.constant([*pads_per_end[0], *pads_per_end[1]])
    elif (whole := halves_of(ctx.node.inputs[1], ctx.node.inputs[2], layers.rank_of(ctx, x, "the data"))) is not None:
        pads = layers.int64_list(ctx, ctx.value(whole))
    else:
        pads = layers.concat(ctx, [layers.int64_list(ctx, begins), layers.int64_list(ctx, ends)], 0)
    if op.pad_mode == "constant":
        filled = value is not None and ctx.constant_values(value) is not None and not ctx.constant_values(value).any()  # type: ignore[union-attr]
        return ctx.emit("Pad", x, pads, None if filled or value is None else layers.scalar(ctx, value))
    return ctx.emit("Pad", x, pads, mode=op.pad_mode)


@ir_op(DepthToSpace1)
def depth_to_space(ctx: Context, op: DepthToSpace1, x: Value) -> Value:
    """DepthToSpace for images, else Reshape and Transpose"""
    rank, block = layers.rank_of(ctx, x, "the data"), op.block_size
    if rank == 4:
        mode = "DCR" if op.mode == "blocks_first" else "CRD"
        return ctx.emit("DepthToSpace", x, blocksize=block, mode=mode)
    return ctx.decompose()[0]


@ir_op(SpaceToDepth1)
def space_to_depth(ctx: Context, op: SpaceToDepth1, x: Value) -> Value:
    """SpaceToDepth for images with the blocks first, else Reshape and Transpose"""
    rank, block = layers.rank_of(ctx, x, "the data"), op.block_size
    if rank == 4 and op.mode == "blocks_first":
        return ctx.emit("SpaceToDepth", x, blocksize=block)
    return ctx.decompose()[0]


_HELD_BY_FLOAT32 = (element_types.f32, element_types.f16, element_types.bf16)
"""Types whose sums float32 holds."""


@ir_op(Col2Im15)
def col2im(ctx: Context, op: Col2Im15, x: Value, image: Value, block: Value) -> Value:
    """Col2Im; ScatterElements of types that onnxruntime's Col2Im would round"""
    is_known = layers.known_list(ctx, image) is not None and layers.known_list(ctx, block) is not None
    if x.element_type not in _HELD_BY_FLOAT32 or (is_known and not ctx.at_least(18)):
        return ctx.decompose()[0]
    is_single = layers.rank_of(ctx, x, "the data") == 2
    image_of_columns = ctx.emit(
        "Col2Im",
        layers.unsqueeze(ctx, x, [0]) if is_single else x,
        *(ctx.cast(dimensions_input, element_types.i64) for dimensions_input in (image, block)),
        strides=list(op.strides),
        dilations=list(op.dilations),
        pads=[*op.pads_begin, *op.pads_end],
    )
    return layers.squeeze(ctx, image_of_columns, [0]) if is_single else image_of_columns
