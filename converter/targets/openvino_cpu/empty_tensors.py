"""Rules for layers that return no elements, or may do so."""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Array, Dimension, Node, Output, element_types, normalize_axis
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.operations.indexing import Gather7
from ir_runtime.operations.movement import Broadcast, Broadcast3, Reshape1
from ir_runtime.operations.padding import Pad, Pad12
from ir_runtime.operations.reduction import ReduceMax1
from ir_runtime.operations.slicing import Slice8
from ir_runtime.operations.sorting import TopK11, Unique10
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.layers import cut, in_type, transpose
from ir_runtime.rewriting.shape_layers import concat_lists, part_of, shape_of


@openvino_cpu.replaces("broadcast_to_empty_shape", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def broadcast_to_empty_shape(builder: Builder, node: Node) -> Replacement:
    """Replace a Broadcast in both directions to a constant shape with a 0 by one to a computed shape.

    The plug-in takes the greater of 0 and 1, and so returns elements where there are none.

        x -> Broadcast(bidirectional, [0, 3])      becomes      x -> Broadcast(numpy, shape of x * [0, 0] + [0, 3])
    """
    data, shape = node.inputs[:2]
    constant = shape.type.constant
    if node.op.mode != "bidirectional" or constant is None or constant.all():  # type: ignore[attr-defined]
        return fail("the mode is not bidirectional, or the target shape is not constant or has no 0")
    if not data.shape.has_rank:
        return fail("the rank is dynamic")
    rank = max(data.shape.rank, constant.size)
    target_shape = np.concatenate([np.ones(rank - constant.size, np.int64), constant.reshape(-1).astype(np.int64)])
    present = shape_of(builder, data)
    if data.shape.rank < rank:
        present = concat_lists(builder, [builder.constant(np.ones(rank - data.shape.rank, np.int64)), present])
    is_one = target_shape == 1
    from_data = layers.multiply(builder, present, builder.constant(is_one.astype(np.int64)))
    target = layers.add(builder, from_data, builder.constant(np.where(is_one, 0, target_shape)))
    return builder.emit(Broadcast3(mode="numpy"), data, target)


@openvino_cpu.replaces("broadcasts_of_dynamic_length", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def broadcasts_of_dynamic_length(builder: Builder, node: Node) -> Replacement:
    """Compute elementwise layers before a Broadcast whose dimensions may be 0.

    The plug-in moves such a Broadcast behind the layer itself (BroadcastTransition), with the greater of both
    dimensions as its target: where these are 0 and 1, so that the result is empty, it returns one element.

        x, shape -> Broadcast -> Multiply(k)      becomes      x -> Multiply(k), shape -> Broadcast(bidirectional)
    """
    if node.op.auto_broadcast != "numpy":  # type: ignore[attr-defined]
        return fail("the shapes do not broadcast as in NumPy")
    for index, operand in enumerate(node.inputs):
        if _may_be_empty(operand, node.inputs[1 - index]):
            inputs = list(node.inputs)
            inputs[index], target = operand.node.inputs[:2]
            return builder.emit(Broadcast3(mode="bidirectional"), builder.emit(node.op, *inputs), target)
    return fail(
        "no operand is a Broadcast with one reader and a dimension that may be 0 where that of the other operand is 1"
    )


def _may_be_empty(operand: Output, other: Output) -> bool:
    """True if the plug-in moves the Broadcast ``operand``, and a dimension may be 0 where that of ``other`` is 1."""
    op = operand.node.op
    if not isinstance(op, Broadcast) or op.mode == "explicit" or len(operand.uses) != 1:
        return False
    if operand.node.inputs[1].tensor is not None:
        return False
    if not (operand.shape.has_rank and other.shape.has_rank):
        return True
    dims, other_dims = list(operand.shape)[::-1], list(other.shape)[::-1]
    other_dims += [Dimension(1, 1)] * (len(dims) - len(other_dims))
    return any(dimension.low == 0 and length.contains(1) for dimension, length in zip(dims, other_dims))


@openvino_cpu.replaces("gather_of_nothing", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def gather_of_nothing(builder: Builder, node: Node) -> Replacement:
    """Replace a Gather of no elements by an empty Slice.

    When it compiles a Gather of data with static dimensions, the plug-in divides by the number of elements of the
    result: where that is 0, the process ends.

        x, no indices -> Gather      becomes      x -> Slice(0, 0) (-> Reshape)
    """
    data, indices = node.inputs[:2]
    axis_values = node.inputs[2].type.constant
    if indices.shape.greatest_count or axis_values is None or not data.shape.has_rank:
        return fail("there may be indices, or the axis or the rank is dynamic")
    if isinstance(node.op, Gather7) and node.op.batch_dims:
        return fail("it has batch_dims")
    axis = int(axis_values.reshape(-1)[0]) % data.shape.rank
    empty = cut(builder, data, 0, 0, axis)
    if indices.shape.rank == 1:
        return empty
    shape = shape_of(builder, data)
    before, behind = part_of(builder, shape, 0, axis), part_of(builder, shape, axis + 1, data.shape.rank)
    target = concat_lists(builder, [before, shape_of(builder, indices), behind])
    return builder.emit(Reshape1(special_zero=False), empty, target)


@openvino_cpu.replaces("range_backwards", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def range_backwards(builder: Builder, node: Node) -> Replacement:
    """Move a limit of Range that lies on the other side of the start to the start.

    Such a range is empty. The plug-in takes the distance between start and limit for the number of elements, whatever
    its sign.

        Range(start, limit, 1)      becomes      Range(start, Maximum(start, limit), 1)

    Where bounds of start and limit rule the case out, as those of dimensions do, the layer stays, also where dimensions
    are converted to floats.
    """
    start, limit, step = node.inputs
    if len({value.element_type for value in node.inputs}) > 1:
        return fail("start, limit and step have different types")
    constant = step.type.constant
    low, high = _ends(start), _ends(limit)
    if constant is not None and low is not None and high is not None:
        ahead = low[1] <= high[0] if constant > 0 else low[0] >= high[1]
        if ahead.all():
            return fail("the limit never lies before the start")
    if constant is not None:
        last = (layers.maximum if constant > 0 else layers.minimum)(builder, start, limit)
    else:
        ends = layers.maximum(builder, start, limit), layers.minimum(builder, start, limit)
        last = layers.select(builder, layers.greater(builder, step, builder.like(0, step)), *ends)
    return builder.emit(node.op, start, last, step)


def _ends(value: Output) -> tuple[Array, Array] | None:
    """The least and the most that a number is; of a converted one those before, which rounding keeps in order."""
    constant = value.type.constant
    if constant is not None:
        return constant, constant
    if isinstance(value.node.op, Convert1) and value.element_type.is_real:
        value = value.node.inputs[0]
    bounds = value.type.known_bounds
    return None if bounds is None else (bounds.lower, bounds.upper)


@openvino_cpu.replaces("top_k_of_nothing", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def top_k_of_nothing(builder: Builder, node: Node) -> Replacement:
    """Replace TopK of 0 elements by an empty Slice.

    The plug-in refuses to return no elements, or crashes.

        x -> TopK(0)      becomes      x -> Slice(0, 0) -> values
                                                 -> Convert -> indices
    """
    data, count = node.inputs
    constant = count.type.constant
    if constant is None or constant.any() or not isinstance(node.op, TopK11):
        return fail("K is not 0, or comes at run time")
    nothing = cut(builder, data, 0, 0, node.op.axis)
    return [nothing, in_type(builder, nothing, node.outputs[1].element_type)]


@openvino_cpu.replaces("unique_of_slices", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def unique_of_slices(builder: Builder, node: Node) -> Replacement:
    """Move the dimension of a Unique of slices to the front, and back to its place.

    The plug-in may return equal neighbours more than once: of the columns of [[0, 1, 0, 0], [2, 1, 1, 1]] all four.

        x -> Unique(axis)      becomes      x -> Transpose -> Unique(0) -> Transpose
    """
    data = node.inputs[0]
    axis = node.inputs[1].type.constant if len(node.inputs) > 1 else None
    if axis is None or not data.shape.has_rank:
        return fail("it has no constant axis, or the rank is dynamic")
    at = normalize_axis(int(axis.reshape(-1)[0]), data.shape.rank)
    if at == 0:
        return fail("the axis is the first one")
    # The other dimensions keep their order, in which slices are compared.
    rest = [other for other in range(data.shape.rank) if other != at]
    ahead, back = builder.constant([at, *rest]), builder.constant([*range(1, at + 1), 0, *range(at + 1, len(rest) + 1)])
    values, *others = builder.emit_all(node.op, transpose(builder, data, ahead), builder.constant(0))
    return [transpose(builder, values, back), *others]


@openvino_cpu.replaces("unique_of_nothing", seen_in=("2026.4",))
def unique_of_nothing(builder: Builder, node: Node) -> Replacement:
    """Find unique values among one element at least, and return as many as there are elements.

    Of no elements the plug-in returns what it found in the last inference, or fails in the first one. In order of
    appearance it puts values in the wrong places, unless something reads the indices that each element has among them.

        x -> Unique -> y    becomes    x -> Pad to one element at least -> Unique -> Slice(y, [0], [number of elements])

    There are no more values than elements, so that the Slice takes all of them, or none. In order of appearance it ends
    after the greatest index. That is not so of slices along an axis, which another kernel compares.
    """
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
