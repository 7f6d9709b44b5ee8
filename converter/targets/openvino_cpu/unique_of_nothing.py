"""Unique of data that may have no elements, and Unique in order of appearance whose inverse indices nothing reads.

Of no elements the plug-in returns what it found in the last inference, or fails in the first one. In order of
appearance it puts values in the wrong places, unless something reads the indices that each element has among them.

    x -> Unique -> y      becomes      x -> Pad to one element at least -> Unique -> Slice(y, [0], [number of elements])

There are no more values than elements, so that the Slice takes all of them, or none. In order of appearance it ends
after the greatest index. That is not so of slices along an axis, which another kernel compares.
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output, element_types, normalize_axis
from ir_runtime.operations.padding import Pad, Pad12
from ir_runtime.operations.reduction import ReduceMax1
from ir_runtime.operations.slicing import Slice8
from ir_runtime.operations.sorting import Unique10
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.shape_layers import shape_of


@openvino_cpu.replaces("unique_of_nothing", seen_in=("2026.4",))
def unique_of_nothing(builder: Builder, node: Node) -> Replacement:
    """Find values among one element at least, and return as many as there are elements."""
    (data, *axes), op = node.inputs, node.op
    assert isinstance(op, Unique10)
    may_be_nothing = data.shape.element_count().low == 0 and not isinstance(data.node.op, Pad)
    is_unread = not (op.sorted or axes or node.outputs[2].is_used)
    if not may_be_nothing and not is_unread:
        return fail("there always is an element, and values are sorted or their inverse indices are read")
    if not axes:
        data = layers.reshape(builder, data, [-1])
    constant = axes[0].type.constant if axes else 0
    if constant is None or not data.shape.has_rank:
        return fail("the axis is not constant, or the rank is dynamic")
    axis = normalize_axis(int(constant), data.shape.rank)
    count = layers.gather(builder, shape_of(builder, data), builder.constant([axis]), builder.constant(0))
    outputs = builder.emit_all(op, _pad(builder, data, count, axis) if may_be_nothing else data, *axes)
    if is_unread:
        greatest = builder.emit(ReduceMax1(keep_dims=True), outputs[2], builder.constant([0]))
        distinct = layers.add(builder, greatest, builder.like(1, greatest))
        count = layers.minimum(builder, count, layers.in_type(builder, distinct, element_types.i64))
    return [_slice(builder, output, count, axis if index == 0 else 0) for index, output in enumerate(outputs)]


def _pad(builder: Builder, data: Output, count: Output, axis: int) -> Output:
    """The data with one element more along the axis where there is none."""
    rank = data.shape.rank
    is_missing = layers.in_type(builder, layers.equal(builder, count, builder.constant(0)), element_types.i64)
    after = layers.multiply(builder, is_missing, builder.constant([int(index == axis) for index in range(rank)]))
    return builder.emit(Pad12(), data, builder.constant([0] * rank), after, builder.like(0, data))


def _slice(builder: Builder, output: Output, count: Output, axis: int) -> Output:
    first, step = builder.constant([0]), builder.constant([1])
    return builder.emit(Slice8(), output, first, count, step, builder.constant([axis]))
