"""ONNX's Slice, and cutting or padding to a given size around the centre (CenterCropPad)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.from_onnx.lowering.shapes import given_list
from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import Output, normalize_axes
from ir_runtime.operations import elementwise, movement, padding, slicing
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.shape_layers import as_i64, as_list, shape_of


@onnx_op("Slice", versions=(1,))
def slice_1(
    ctx: Context, data: Output, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None
) -> Output:
    """``data[start:end]`` along each of ``axes``, by default the first ones; positions as in Python."""
    if len(starts) != len(ends) or (axes is not None and len(axes) != len(starts)):
        raise ctx.invalid(f"starts, ends and axes must have one length, but have {len(starts)} and {len(ends)}")
    named = range(len(starts)) if axes is None else axes
    return _slice(ctx, data, _constants(ctx, starts), _constants(ctx, ends), _constants(ctx, named), None)


@onnx_op("Slice", versions=(10, 11, 13))
def slice_10(
    ctx: Context,
    data: Output,
    starts: Output,
    ends: Output,
    axes: Output | None = None,
    steps: Output | None = None,
) -> Output:
    """``data[start:end:step]``, everything from inputs; steps may be negative."""
    return _slice(ctx, data, starts, ends, axes, steps)


def _constants(ctx: Context, values: Sequence[int]) -> Output:
    return ctx.constant(np.asarray(values, np.int64))


def _slice(
    ctx: Context, data: Output, starts: Output, ends: Output, axes: Output | None, steps: Output | None
) -> Output:
    starts, ends = given_list(ctx, starts, "starts"), given_list(ctx, ends, "ends")
    axes, steps = given_list(ctx, axes, "axes"), given_list(ctx, steps, "steps")
    constant = None if steps is None else steps.type.constant
    if constant is not None and (constant == 0).any():
        raise ctx.invalid(f"steps must not be 0, but are {constant.tolist()}")
    # Lists of other lengths than today's are refused, for they do not fit the steps or axes.
    count = ctx.declared(starts).shape.element_count()
    if steps is not None:
        by = as_i64(ctx, steps)
    elif count.is_static:
        by = _constants(ctx, [1] * count.value)
    else:
        # As many ones as there are starts.
        zeros = layers.multiply(ctx, as_i64(ctx, starts), ctx.constant([0]))
        by = ctx.emit(elementwise.BitwiseOr13(), zeros, ctx.constant([1]))
    inputs = [as_i64(ctx, starts), as_i64(ctx, ends), by]
    if axes is not None:
        inputs.append(as_i64(ctx, axes))
    elif count.is_static:
        inputs.append(_constants(ctx, range(count.value)))
    if count.is_static and count.value == 0:
        # Nothing is cut. A layer of its own, so that the output's name does not fall on the input.
        rank = ctx.rank(data, "the data")
        whole = [_constants(ctx, [0] * rank), _constants(ctx, [np.iinfo(np.int64).max] * rank)]
        inputs = [*whole, _constants(ctx, [1] * rank), _constants(ctx, range(rank))]
    return ctx.emit(slicing.Slice8(), data, *inputs)


@onnx_op("CenterCropPad", versions=(18,))
def center_crop_pad(ctx: Context, data: Output, shape: Output, *, axes: Sequence[int] | None = None) -> Output:
    """Cuts or pads (with zeros) each of ``axes`` to the dimension in ``shape``, keeping the centre.

    Where an odd number of elements is cut or added, the greater half is cut or added at the end.
    """
    rank = ctx.rank(data, "the data")
    chosen = range(rank) if axes is None else normalize_axes(axes, rank)
    target = as_i64(ctx, as_list(ctx, shape))
    named = _constants(ctx, chosen)
    if not target.shape.element_count().contains(len(chosen)):
        raise ctx.invalid(f"shape must hold {len(chosen)} dimensions, but has the shape {shape.shape}")
    present = layers.gather(ctx, shape_of(ctx, data), named, ctx.constant(0))
    zero, two = ctx.constant([0]), ctx.constant([2])

    def halved(longer: Output, shorter: Output) -> Output:
        return layers.truncated_quotient(ctx, layers.subtract(ctx, longer, shorter), two)

    common = layers.minimum(ctx, present, target)
    start = halved(present, common)
    stop = layers.add(ctx, start, common)
    cut = ctx.emit(slicing.Slice8(), data, start, stop, _constants(ctx, [1] * len(chosen)), named)
    before = halved(target, common)
    missing = layers.subtract(ctx, target, common)
    after = layers.subtract(ctx, missing, before)
    if list(chosen) != list(range(rank)):
        before, after = (_place(ctx, pads, chosen, rank, zero) for pads in (before, after))
    return ctx.emit(padding.Pad12(pad_mode="constant"), cut, before, after, ctx.like(0, data))


def _place(ctx: Context, pads: Output, axes: Sequence[int], rank: int, zero: Output) -> Output:
    """A number for every dimension: those of ``axes`` from ``pads``, the others 0."""
    sources = [axes.index(axis) if axis in axes else len(axes) for axis in range(rank)]
    longer = ctx.emit(movement.Concat1(axis=0), pads, zero)
    return layers.gather(ctx, longer, _constants(ctx, sources), ctx.constant(0))
