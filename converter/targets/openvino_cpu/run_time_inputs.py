"""Rules for inputs of layers that come at run time."""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Array, Node, Output, element_types, normalize_axes
from ir_runtime.operations import movement, reduction
from ir_runtime.operations.movement import Broadcast3, Reshape1, Tile1
from ir_runtime.operations.padding import Pad12
from ir_runtime.operations.scatter import ScatterUpdate3
from ir_runtime.operations.signal import IRDFT9
from ir_runtime.rewriting import Builder, Replacement, fail, layers, shape_layers
from ir_runtime.rewriting.layers import concat, in_type


@openvino_cpu.replaces("dft_of_short_signals", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def dft_of_short_signals(builder: Builder, node: Node) -> Replacement:
    """Pad a signal that is shorter than the ``signal_size`` of RDFT and IRDFT.

    The plug-in cuts a longer signal. It should fill up a shorter one with zeros: RDFT refuses it, and IRDFT reads past
    the end.

        x -> RDFT(size)           becomes      x -> Pad(max(size - dimension, 0)) -> RDFT(size)
        x -> IRDFT(size)          becomes      x -> Pad(max(size / 2 + 1 - dimension, 0)) -> IRDFT(size)

    Signals that are known to be long enough stay as they are.
    """
    if len(node.inputs) < 3:
        return fail("it has no signal_size, and so transforms the whole signal")
    data, axes, size = node.inputs
    constant = axes.type.constant
    if constant is None or constant.size != 1 or not data.shape.has_rank:
        return fail("it has no single constant axis, or the rank is dynamic")
    parts = isinstance(node.op, IRDFT9)  # complex numbers: the last dimension has their two parts
    axis = int(constant.reshape(-1)[0]) % (data.shape.rank - parts)
    size_value = shape_layers.as_i64(builder, size)
    if parts:
        half = layers.divide(builder, size_value, builder.constant([2]))
        size_value = layers.add(builder, half, builder.constant([1]))
    least = size_value.type.constant
    if least is not None and data.shape[axis].low >= int(least.reshape(-1)[0]):
        return fail("the signal is known to be long enough")
    missing = layers.subtract(builder, size_value, shape_layers.dim_of(builder, data, axis))
    missing = layers.maximum(builder, missing, builder.constant([0]))
    rank = data.shape.rank
    counts = (axis, rank - axis - 1)
    before, behind = ([builder.constant([0] * count)] if count else [] for count in counts)
    ends = [*before, missing, *behind]
    begins = builder.constant([0] * rank)
    filled = builder.emit(Pad12(), data, begins, shape_layers.concat_lists(builder, ends), builder.like(0, data))
    return builder.emit(node.op, filled, axes, size)


@openvino_cpu.replaces("dynamic_reductions", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def dynamic_reductions(builder: Builder, node: Node) -> Replacement:
    """Reduce over axes, or over numbers of elements, that come at run time.

    The plug-in is wrong in these cases, or refuses them:

    - an empty list of axes that comes at run time fails. A new first dimension is reduced as well, and so the list is
      not empty;
    - logical reductions need constant axes. Booleans become i32 numbers;
    - some reductions of 16 bits need constant axes. The data becomes f32;
    - the mean of no elements is 0. The rule adds 0 / count, which is NaN for a count of 0. ONNX leaves that mean open;
      onnxruntime returns NaN. Means over all of an image stay: these have pixels, and models use them often.

        ReduceMax(f16 x, axes)     becomes   Convert(ReduceMax(Convert(x, f32), axes), f16)
        ReduceMean(x[?])           becomes   ReduceMean(x) + 0 / count
    """
    data, axes = node.inputs
    op = node.op
    assert isinstance(op, reduction.Reduction)
    if axes.type.constant is not None:
        if isinstance(op, reduction.ReduceMean1) and data.element_type.is_real and _may_be_empty(node):
            return _or_nan(builder, builder.emit(op, data, axes), data, axes)
        return fail("the axes are constant, and it is no mean of floats that may have no elements")
    element_type = data.element_type
    narrow = element_type.is_real and element_type.bits < 32
    may_be_none = axes.shape.element_count().low == 0
    mean = isinstance(op, reduction.ReduceMean1) and element_type.is_real
    if not (narrow or may_be_none or mean or isinstance(op, reduction.LogicalReduction)):
        return fail("the plug-in supports this type and reduction over axes that come at run time")
    if isinstance(op, reduction.LogicalReduction):
        any_of = isinstance(op, reduction.ReduceLogicalOr1)
        cls = reduction.ReduceMax1 if any_of else reduction.ReduceMin1
        op, data = cls(keep_dims=op.keep_dims), layers.in_type(builder, data, element_types.i32)
    elif narrow:
        data = layers.in_type(builder, data, element_types.f32)
    reduced = _of_any_number(builder, op, data, axes) if may_be_none else builder.emit(op, data, axes)
    if mean:
        reduced = _or_nan(builder, reduced, data, axes)
    if element_type is element_types.boolean:
        return layers.greater(builder, reduced, builder.like(0, reduced))
    return layers.in_type(builder, reduced, element_type)


def _may_be_empty(node: Node) -> bool:
    shape, axes = node.inputs[0].shape, node.inputs[1].type.constant
    if not shape.has_rank or axes is None:
        return True
    reduced = normalize_axes(axes.reshape(-1).tolist(), shape.rank)
    if _keeps_dims(node) and shape.rank > 2 and sorted(reduced) == list(range(2, shape.rank)):
        return False
    return any(shape[axis].low == 0 for axis in reduced)


def _keeps_dims(node: Node) -> bool:
    return isinstance(node.op, reduction.Reduction) and node.op.keep_dims


def _or_nan(builder: Builder, mean: Output, data: Output, axes: Output) -> Output:
    count = layers.in_type(builder, shape_layers.element_count(builder, data, axes), data.element_type)
    return layers.add(builder, mean, layers.divide(builder, builder.like(0, data), count))


def _of_any_number(builder: Builder, op: reduction.Reduction, data: Output, axes: Output) -> Output:
    """Reduce a new first dimension of 1, too."""
    axes = layers.in_type(builder, axes, element_types.i64)
    scalar_one = builder.constant([1])
    more = layers.add(
        builder, shape_layers.normalized_positions(builder, axes, shape_layers.rank_of(builder, data)), scalar_one
    )
    more = builder.emit(movement.Concat1(axis=0), builder.constant([0]), more)
    longer = builder.emit(op, layers.unsqueeze(builder, data, 0), more)
    return layers.squeeze(builder, longer, builder.constant([0])) if op.keep_dims else longer


@openvino_cpu.replaces("pad_value_at_run_time", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def pad_value_at_run_time(builder: Builder, node: Node) -> Replacement:
    """Pad with 0, and select a pad value that comes at run time.

    The plug-in pads with 0 instead. Its Select does not support floats of 8 bits, which are converted to f32 and back.

        data -> Pad(fill)      becomes      data -> Pad(0) ---------------------\\
                                            ones -> Pad(0) -> Convert(boolean) -> Select <- fill
    """
    if len(node.inputs) < 4 or node.op.pad_mode != "constant" or node.inputs[3].type.constant is not None:  # type: ignore[attr-defined]
        return fail("the mode is not constant, or the pad value is omitted or constant")
    data, before, after, fill = node.inputs
    padded = builder.emit(
        node.op, data, before, after, builder.like("" if data.element_type is element_types.string else 0, data)
    )
    # A conversion, because a comparison would be fused with Select, which then rounds integers to float32.
    unit = builder.constant(1, element_types.i32)
    ones = builder.emit(Broadcast3(mode="numpy"), unit, shape_layers.shape_of(builder, data))
    mask = builder.emit(node.op, ones, before, after, builder.like(0, ones))
    element_type = data.element_type
    choices = [
        in_type(builder, value, element_types.f32) if element_type.bits == 8 and element_type.is_real else value
        for value in (padded, fill)
    ]
    return in_type(
        builder, layers.select(builder, in_type(builder, mask, element_types.boolean), *choices), element_type
    )


@openvino_cpu.replaces("slice_axes_at_run_time", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def slice_axes_at_run_time(builder: Builder, node: Node) -> Replacement:
    """Slice along all dimensions where the axes come at run time.

    The plug-in crashes with such axes.

        x -> Slice(start, stop, step, axes)      becomes      x -> Slice(ScatterUpdate([0, 0, 0], axes, start), ...)
    """
    data, *parts = node.inputs
    if len(parts) < 4 or parts[3].type.constant is not None or not data.shape.has_rank:
        return fail("the axes are left out or constant, or the rank is dynamic")
    rank, element_type = data.shape.rank, parts[0].element_type
    places = shape_layers.normalized_positions(
        builder, shape_layers.as_i64(builder, parts.pop()), builder.constant(rank)
    )
    end = np.iinfo(element_type.dtype).max
    spread = [
        builder.emit(
            ScatterUpdate3(), builder.constant([whole] * rank, element_type), places, part, builder.constant(0)
        )
        for whole, part in zip((0, end, 1), (in_type(builder, part, element_type) for part in parts))
    ]
    return builder.emit(node.op, data, *spread, builder.constant(list(range(rank))))


_MOST_DIMENSIONS = 6
"""The plug-in's arithmetic is wrong on more dimensions."""


@openvino_cpu.replaces("tile_repeats_at_run_time", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def tile_repeats_at_run_time(builder: Builder, node: Node) -> Replacement:
    """Repeat along every dimension by Broadcast.

    The plug-in's Tile returns elements of other places in these cases; its Broadcast does not:

    - the repeats come at run time;
    - dimensions come at run time, and several of them are repeated.

        [a, b] -> Tile(r0, r1)      becomes      [a, b] -> Unsqueeze [1, a, 1, b] -> Broadcast [r0, a, r1, b]
                                                        -> Reshape [r0 a, r1 b]

    Behind arithmetic with a single number that comes at run time, Unsqueeze and Broadcast of more than six dimensions
    return memory that was never written. The rules therefore repeat a few dimensions, then the next ones:

        [a, b, c, d] -> Tile(r, s, t, 1)      becomes      Unsqueeze [1, a, 1, b, c, d] -> Broadcast -> Reshape
                                                           -> Unsqueeze [ra, sb, 1, c, d] -> Broadcast -> Reshape

    The plug-in may store images and volumes of one channel with the channels last, as the memory is the same. Its Tile
    then repeats along the wrong dimensions. It has no such layout for more than five dimensions:

        [n, 1, h, w] -> Tile(1, 1, r, 1)      becomes      Unsqueeze [n, 1, h, w, 1, 1] -> Tile -> Squeeze

    A Tile of static dimensions by constant repeats stays, and so does one of a single dimension among several channels.
    """
    data, repeats = node.inputs
    if repeats.type.constant is not None:
        return fail("the repeats are constant")
    if not _has_a_count_for_each_dimension(node):
        return fail("the rank is dynamic, or is not the number of repeats")
    counts = in_type(builder, repeats, element_types.i64)
    return _in_steps(builder, data, list(range(data.shape.rank)), counts, None)


@openvino_cpu.replaces("tile_dynamic_dimensions", since="2026.1", seen_in=("2026.4",))
def tile_dynamic_dimensions(builder: Builder, node: Node) -> Replacement:
    """Repeat along several dimensions by Broadcast, and one channel in a layout that the plug-in does not change."""
    data, repeats = node.inputs
    constant = repeats.type.constant
    if constant is None:
        return fail("the repeats come at run time")
    if not _has_a_count_for_each_dimension(node):
        return fail("the rank is dynamic, or is not the number of repeats")
    times = constant.reshape(-1).astype(np.int64)
    if data.shape.is_static or np.sum(times != 1) < 2:
        replacement = _beside_one_channel(builder, data, times)
        return replacement or fail(
            "every dimension is static, or only one is repeated, and not beside a single channel"
        )
    if not times.all():
        final = layers.multiply(builder, repeats, shape_layers.shape_of(builder, data))
        return builder.emit(Broadcast3(mode="numpy"), builder.like(_nothing(data), data), final)
    return _in_steps(builder, data, np.flatnonzero(times != 1).tolist(), repeats, times)


def _has_a_count_for_each_dimension(node: Node) -> bool:
    data, repeats = node.inputs
    return data.shape.has_rank and repeats.shape.element_count().contains(data.shape.rank)


def _nothing(data: Output) -> object:
    """An element that is repeated no times."""
    return "" if data.element_type.category == "string" else 0


def _in_steps(builder: Builder, data: Output, axes: list[int], repeats: Output, values: Array | None) -> Output:
    """``data`` repeated along some axes, as many at once as do not make more dimensions than the plug-in takes."""
    at_once = max(_MOST_DIMENSIONS - data.shape.rank, 1)
    for start in range(0, len(axes), at_once):
        some = axes[start : start + at_once]
        data = _repeat(builder, data, some, repeats, values)
    return data


def _repeat(builder: Builder, data: Output, axes: list[int], repeats: Output, values: Array | None) -> Output:
    rank = data.shape.rank
    shape = shape_layers.shape_of(builder, data)
    if values is None:
        pieces = [_entry(builder, repeats, axis) if axis in axes else builder.constant([1]) for axis in range(rank)]
        some = concat(builder, 0, *pieces)
    else:
        some = builder.constant([int(times) if axis in axes else 1 for axis, times in enumerate(values)])
    final = layers.multiply(builder, some, shape)
    if rank >= _MOST_DIMENSIONS and values is not None:  # one dimension, which Tile repeats as it should
        return builder.emit(Tile1(), data, some)
    single = layers.unsqueeze(builder, data, *(axis + index for index, axis in enumerate(axes)))
    if values is None:
        wide = []
        for axis in range(rank):
            wide += [_entry(builder, repeats, axis)] if axis in axes else []
            wide.append(_entry(builder, shape, axis))
        spread = builder.emit(Broadcast3(mode="numpy"), single, concat(builder, 0, *wide))
    else:
        target = np.insert(np.ones(rank, np.int64), axes, values[axes])
        spread = builder.emit(Broadcast3(mode="bidirectional"), single, builder.constant(target))
    return builder.emit(Reshape1(special_zero=False), spread, final)


def _entry(builder: Builder, values: Output, index: int) -> Output:
    return layers.gather(builder, values, builder.constant([index]), builder.constant(0))


def _beside_one_channel(builder: Builder, data: Output, times: Array) -> Output | None:
    """Return layers that keep data of one channel from being stored with channels last; None if not needed."""
    rank = data.shape.rank
    if rank not in (4, 5) or not data.shape[1].contains(1) or data.shape.is_static:
        return None
    repeated = [(n, dimension) for n, dimension in zip(times.tolist(), data.shape) if n != 1]
    if all(n > 1 and dimension.is_static and dimension.value == 1 for n, dimension in repeated):
        return builder.emit(Broadcast3(mode="bidirectional"), data, builder.constant(times))
    more = list(range(rank, 6))
    wide = layers.unsqueeze(builder, data, *more)
    tiled = builder.emit(Tile1(), wide, builder.constant([*times.tolist(), *[1] * len(more)]))
    return layers.squeeze(builder, tiled, builder.constant(more))
