"""Reductions whose axes, or whose number of elements, come at run time.

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

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output, element_types, normalize_axes
from ir_runtime.operations import movement, reduction
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.shape_layers import element_count, normalized_positions, rank_of


@openvino_cpu.replaces("dynamic_reductions", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def dynamic_reductions(builder: Builder, node: Node) -> Replacement:
    """Reduce in a way that the plug-in supports for any axes and dimensions."""
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
