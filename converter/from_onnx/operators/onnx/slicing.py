"""ONNX's Slice, Pad, and cutting or padding to a given size around the centre (CenterCropPad)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.from_onnx.lowering.shapes import as_scalar, given_list, known_axes
from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import Array, Output, element_types, normalize_axes
from ir_runtime.operations import elementwise, generation, movement, padding, scatter, slicing
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.shape_layers import as_i64, as_list, dim_of, normalized_positions, part_of, shape_of

_MAX_POSITIONS = 1 << 31
"""A dimension's positions are stored as a constant; more of them than that are an error of the model."""


@onnx_op("Pad", versions=(1,))
def pad_1(ctx: Context, data: Output, *, paddings: Sequence[int], mode: str = "constant", value: float = 0.0) -> Output:
    """Adds elements in front of and behind every dimension; their numbers are an attribute."""
    return pad_2(ctx, data, pads=paddings, mode=mode, value=value)


@onnx_op("Pad", versions=(2,))
def pad_2(ctx: Context, data: Output, *, pads: Sequence[int], mode: str = "constant", value: float = 0.0) -> Output:
    """As before; negative pads leave elements out."""
    return _pad(ctx, data, ctx.constant(np.asarray(pads, np.int64)), ctx.like(value, data), None, mode, _OLD_MODES)


@onnx_op("Pad", versions=(11, 13), without=("axes",))
@onnx_op("Pad", versions=(18, 19, 21, 23, 24, 25))
def pad(
    ctx: Context,
    data: Output,
    pads: Output,
    constant_value: Output | None = None,
    axes: Output | None = None,
    *,
    mode: str = "constant",
) -> Output:
    """As before, with the pads (of all dimensions, or of ``axes``) and the value from inputs.

    Mode wrap, which continues with the elements of the other end, is there from version 19 on.
    """
    return _pad(ctx, data, pads, constant_value, axes, mode, _MODES if ctx.version >= 19 else _OLD_MODES)


_OLD_MODES = ("constant", "reflect", "edge")
_MODES = (*_OLD_MODES, "wrap")


def _pad(
    ctx: Context,
    data: Output,
    pads: Output,
    value: Output | None,
    axes: Output | None,
    mode: str,
    modes: Sequence[str],
) -> Output:
    if mode not in modes:
        raise ctx.invalid(f"mode must be one of {', '.join(modes)}, but is {mode!r}")
    before, after = _both_sides(ctx, data, as_i64(ctx, as_list(ctx, pads)), axes)
    return _in_mode(ctx, data, before, after, value, mode)


def _in_mode(ctx: Context, data: Output, before: Output, after: Output, value: Output | None, mode: str) -> Output:
    if mode == "wrap":
        return _wrap(ctx, data, before, after)
    if mode == "constant":
        fill = ctx.like(_zero(data), data) if value is None else as_scalar(ctx, value, "the value to pad with")
        return ctx.emit(padding.Pad12(pad_mode="constant"), data, before, after, fill)
    if mode == "reflect" and _is_reflected_twice(data, before, after):
        return _reflected_far(ctx, data, before, after)
    return ctx.emit(padding.Pad12(pad_mode=mode), data, before, after)


def _zero(data: Output) -> object:
    return "" if data.element_type.category == "string" else 0


def _both_sides(ctx: Context, data: Output, pads: Output, axes: Output | None) -> tuple[Output, Output]:
    """Return the pads in front of and behind every dimension, two lists."""
    number = pads.shape.element_count()
    if axes is None:
        count = data.shape.rank if data.shape.has_rank or not number.is_static else number.value // 2
    else:
        axes = as_i64(ctx, as_list(ctx, axes))
        sides = axes.shape.element_count()
        if not sides.is_static and not number.is_static:
            raise ctx.unsupported("the number of pads must be known while converting, but is not")
        count = sides.value if sides.is_static else number.value // 2
    if not number.contains(2 * count):
        raise ctx.invalid(f"pads must hold {2 * count} numbers, but hold {number}")
    before, after = part_of(ctx, pads, 0, count), part_of(ctx, pads, count, 2 * count)
    if axes is None:
        return before, after
    rank = ctx.rank(data, "the data")
    constant_axes = known_axes(ctx, axes) if axes.type.constant is not None else None
    if constant_axes is not None:
        places = ctx.constant(np.asarray(normalize_axes(constant_axes, rank), np.int64))
    else:
        places = normalized_positions(ctx, axes, ctx.constant(rank))
    zeros = ctx.constant(np.zeros(rank, np.int64))
    first, last = (ctx.emit(scatter.ScatterUpdate3(), zeros, places, side, ctx.constant(0)) for side in (before, after))
    return first, last


# --- what the IR's Pad has no mode for: every place is gathered from its source ---


def _is_reflected_twice(data: Output, before: Output, after: Output) -> bool:
    first, last = before.type.constant, after.type.constant
    if first is None or last is None or not data.shape.has_rank:
        return False
    pads = zip(data.shape, first.tolist(), last.tolist())
    return any(dimension.is_static and 0 < dimension.value <= max(a, b) for dimension, a, b in pads)


def _kept_positions(dimension: int, before: int, after: int) -> Array:
    """The positions that negative pads leave."""
    return np.arange(max(0, -before), dimension - max(0, -after))


def _positions(ctx: Context, before: int, count: int, after: int) -> Array:
    """The positions of a padded dimension, counted from the first of ``count`` elements on; negative pads are none."""
    total = max(0, before) + count + max(0, after)
    if total > _MAX_POSITIONS:
        raise ctx.unsupported(f"a dimension padded to {total} elements does not fit into memory")
    return np.arange(-max(0, before), count + max(0, after))


def _reflected_far(ctx: Context, data: Output, before: Output, after: Output) -> Output:
    """Reflection at both ends, back and forth; the dimensions that are reflected so must be known."""
    first, last = ctx.known(before, "pads").tolist(), ctx.known(after, "pads").tolist()
    far = []
    for axis, dimension_ in enumerate(data.shape):
        if not dimension_.is_static or not 0 < dimension_.value <= max(first[axis], last[axis]):
            continue
        far.append(axis)
        positions_left = _kept_positions(dimension_.value, first[axis], last[axis])
        if not positions_left.size:
            raise ctx.invalid(f"nothing is left of dimension {axis} to be reflected")
        period = max(1, 2 * (len(positions_left) - 1))
        places = _positions(ctx, first[axis], len(positions_left), last[axis]) % period
        mirrored = positions_left[np.minimum(places, period - places)]
        data = layers.gather(ctx, data, ctx.constant(mirrored), ctx.constant(axis))
    rest = [[0 if axis in far else pad for axis, pad in enumerate(side)] for side in (first, last)]
    if not any(rest[0] + rest[1]):
        return data
    return ctx.emit(padding.Pad12(pad_mode="reflect"), data, ctx.constant(rest[0]), ctx.constant(rest[1]))


def _wrap(ctx: Context, data: Output, before: Output, after: Output) -> Output:
    """Each dimension gathered at its positions modulo its length, after negative pads have cut it."""
    first, last = before.type.constant, after.type.constant
    result = data
    for axis in range(ctx.rank(data, "the data")):
        length = data.shape[axis]
        if first is not None and last is not None:
            a, b = int(first[axis]), int(last[axis])
            if not (a or b):
                continue
            if length.is_static:
                positions_left = _kept_positions(length.value, a, b)
                if not positions_left.size:
                    raise ctx.invalid(f"nothing is left of dimension {axis} to be repeated")
                places = positions_left[_positions(ctx, a, len(positions_left), b) % len(positions_left)]
                result = layers.gather(ctx, result, ctx.constant(places), ctx.constant(axis))
                continue
        result = _wrapped_dynamic(
            ctx, result, axis, part_of(ctx, before, axis, axis + 1), part_of(ctx, after, axis, axis + 1)
        )
    if result is data:
        return ctx.emit(movement.Reshape1(special_zero=False), data, shape_of(ctx, data))
    return result


def _wrapped_dynamic(ctx: Context, data: Output, axis: int, before: Output, after: Output) -> Output:
    zero = ctx.constant([0])
    cut = [layers.minimum(ctx, side, zero) for side in (before, after)]
    data = ctx.emit(padding.Pad12(pad_mode="constant"), data, *[_at(ctx, side, axis, data) for side in cut])
    count = dim_of(ctx, data, axis)
    grow = [as_scalar(ctx, layers.maximum(ctx, side, zero), "a pad") for side in (before, after)]
    start = layers.subtract(ctx, ctx.constant(0), grow[0])
    stop = layers.add(ctx, count, grow[1])
    places = ctx.emit(generation.Range4(output_type=element_types.i64), start, stop, ctx.constant(1))
    return layers.gather(ctx, data, ctx.emit(elementwise.FloorMod1(), places, count), ctx.constant(axis))


def _at(ctx: Context, pad: Output, axis: int, data: Output) -> Output:
    """A list with ``pad`` for one dimension and 0 for the others."""
    rank = data.shape.rank
    zeros = ctx.constant(np.zeros(rank, np.int64))
    return ctx.emit(scatter.ScatterUpdate3(), zeros, ctx.constant([axis]), pad, ctx.constant(0))


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
