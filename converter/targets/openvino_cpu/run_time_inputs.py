"""Rules for inputs of layers that come at run time."""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output, element_types, normalize_axes
from ir_runtime.operations import movement, reduction
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.operations.padding import Pad12
from ir_runtime.operations.scatter import ScatterUpdate3
from ir_runtime.operations.signal import IRDFT9
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import (
    as_i64,
    concat_lists,
    dim_of,
    element_count,
    normalized_positions,
    rank_of,
    shape_of,
)


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
    size_value = as_i64(builder, size)
    if parts:
        half = layers.divide(builder, size_value, builder.constant([2]))
        size_value = layers.add(builder, half, builder.constant([1]))
    least = size_value.type.constant
    if least is not None and data.shape[axis].low >= int(least.reshape(-1)[0]):
        return fail("the signal is known to be long enough")
    missing = layers.subtract(builder, size_value, dim_of(builder, data, axis))
    missing = layers.maximum(builder, missing, builder.constant([0]))
    rank = data.shape.rank
    counts = (axis, rank - axis - 1)
    before, behind = ([builder.constant([0] * count)] if count else [] for count in counts)
    ends = [*before, missing, *behind]
    begins = builder.constant([0] * rank)
    filled = builder.emit(Pad12(), data, begins, concat_lists(builder, ends), builder.like(0, data))
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
    count = layers.in_type(builder, element_count(builder, data, axes), data.element_type)
    return layers.add(builder, mean, layers.divide(builder, builder.like(0, data), count))


def _of_any_number(builder: Builder, op: reduction.Reduction, data: Output, axes: Output) -> Output:
    """Reduce a new first dimension of 1, too."""
    axes = layers.in_type(builder, axes, element_types.i64)
    scalar_one = builder.constant([1])
    more = layers.add(builder, normalized_positions(builder, axes, rank_of(builder, data)), scalar_one)
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
    ones = builder.emit(Broadcast3(mode="numpy"), unit, shape_of(builder, data))
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
    places = normalized_positions(builder, as_i64(builder, parts.pop()), builder.constant(rank))
    end = np.iinfo(element_type.dtype).max
    spread = [
        builder.emit(
            ScatterUpdate3(), builder.constant([whole] * rank, element_type), places, part, builder.constant(0)
        )
        for whole, part in zip((0, end, 1), (in_type(builder, part, element_type) for part in parts))
    ]
    return builder.emit(node.op, data, *spread, builder.constant(list(range(rank))))
