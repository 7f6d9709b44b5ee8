"""Changes of the shape in a row become one.

    x -> Unsqueeze -> Reshape [2, -1]            becomes      x -> Reshape [2, -1]
    x -> Reshape -> Reshape [2, -1]              becomes      x -> Reshape [2, -1]
    x -> Reshape [0, -1, 6] -> Unsqueeze(2)      becomes      x -> Reshape [0, -1, 1, 6]
    x -> Reshape [0, -1, 1] -> Squeeze(2)        becomes      x -> Reshape [0, -1]
    x -> Unsqueeze(1) -> Unsqueeze(2)            becomes      x -> Unsqueeze(1, 2), also where several read the first
    x -> Reshape [2, -1, 1, 6] -> Transpose(0, 2, 1, 3)      becomes      x -> Reshape [2, 1, -1, 6]

    x [b, s, 4, 32] -> Reshape [0, 0, 128] -> Reshape [0, 0, 4, 32]      becomes      x
    x [b, 1, 1, 64] -> Transpose(0, 3, 1, 2) -> Reshape [0, 64]          becomes      x -> Reshape [0, 64]

A Reshape that takes dimensions of its input over (a 0 in the shape) stays where ``x`` has others there, or may have.
Shapes and axes are constant. A Transpose that moves nothing but dimensions of 1 is a change of the shape, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Node, Output
from ir_runtime.operations.movement import Reshape1, Squeeze1, Squeeze15, Transpose1, Unsqueeze1
from ir_runtime.rewriting import Builder, Replacement, fail

from .registry import passes

_RESHAPING = (Reshape1, Squeeze1, Squeeze15, Unsqueeze1)


@passes.replaces("reshapes_in_a_row")
def reshape_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Let the last Reshape read what the first one reads."""
    value, target = node.inputs
    assert isinstance(node.op, Reshape1)
    shape = target.type.constant
    if shape is None:
        return fail("its shape is not constant")
    taken_over = [axis for axis, size in enumerate(shape.reshape(-1)) if not size] if node.op.special_zero else []
    first = before = value
    while _changes_shape(before.node) and before.only_user is not None:
        before = before.node.inputs[0]
        if _agree(before, value, taken_over):
            first = before
    if first is value:
        return fail("no change of the shape before it that nothing else reads, or it takes a dimension over from that")
    if symbolic_shapes().dims(first) == symbolic_shapes().dims(node.outputs[0]) is not None:
        return first
    return builder.emit(node.op, first, target)


def _reads_nothing_else(node: Node) -> bool:
    """True if a layer alone reads its input, or Unsqueezes alone read one: all of them go on without it."""
    source = node.inputs[0]
    if source.only_user is not None or not isinstance(source.node.op, Unsqueeze1):
        return source.only_user is not None
    return all(isinstance(use.op, Unsqueeze1) and use.inputs[1].tensor is not None for use in source.uses)


def _changes_shape(node: Node) -> bool:
    """True if a layer leaves all numbers in their order."""
    if not isinstance(node.op, Transpose1):
        return isinstance(node.op, _RESHAPING)
    shape, order = node.inputs[0].shape, node.inputs[1].type.constant
    if order is None or not order.size or not shape.has_rank:
        return False
    ones = [dimension.is_static and dimension.value == 1 for dimension in shape]
    longer = [axis for axis in order.reshape(-1).tolist() if not ones[axis]]
    return longer == sorted(longer)


def _agree(output: Output, other: Output, axes: Sequence[int]) -> bool:
    """True if two values have the same dimensions at these axes."""
    if not axes:
        return True
    dims, others = symbolic_shapes().dims(output), symbolic_shapes().dims(other)
    if dims is None or others is None or max(axes) >= len(dims):
        return False
    return all(dims[axis] == others[axis] for axis in axes)


@passes.replaces("ones_in_transposes")
def ones_in_transpose(builder: Builder, node: Node) -> Replacement:
    """Let the Reshape before it put dimensions of 1 where the Transpose moves them."""
    before, order = node.inputs[0].node, node.inputs[1].type.constant
    if not _changes_shape(node) or order is None:
        return fail("it moves other dimensions than those of 1")
    if not isinstance(before.op, Reshape1) or node.inputs[0].only_user is None:
        return fail("no Reshape before it that nothing else reads")
    target = before.inputs[1].type.constant
    if target is None:
        return fail("the shape before it is not constant")
    old, axes = target.reshape(-1).tolist(), order.reshape(-1).tolist()
    sizes = [old[axis] for axis in axes]
    if before.op.special_zero and any(not old[axis] and axis != place for place, axis in enumerate(axes)):
        # A 0 would mean another dimension there: sizes take its place.
        sizes = [size.value if size.is_static else -1 for size in node.outputs[0].shape]
        if sizes.count(-1) > 1 or 0 in sizes:
            return fail("the Reshape before it takes over a dimension that moves")
    return builder.emit(before.op, before.inputs[0], builder.constant(sizes, before.inputs[1].element_type))


def _reshape(builder: Builder, reshape: Node, target: Sequence[int]) -> Replacement:
    """A Reshape to another target, in which as many dimensions are taken over in the same places."""
    op, (x, old) = reshape.op, reshape.inputs
    assert isinstance(op, Reshape1)
    earlier_shape = old.type.constant
    assert earlier_shape is not None
    taken_over = [
        [axis for axis, size in enumerate(sizes) if not size] for sizes in (earlier_shape.reshape(-1), target)
    ]
    if op.special_zero and taken_over[0] != taken_over[1]:
        return fail("the Reshape before it takes over a dimension that would stand elsewhere")
    return builder.emit(op, x, builder.constant(target, old.element_type))


@passes.replaces("ones_in_reshapes")
def ones_in_reshape(builder: Builder, node: Node) -> Replacement:
    """Put dimensions of 1 into the shape of the Reshape before them, or take them out of it."""
    before, axes = node.inputs[0].node, node.inputs[1].type.constant if len(node.inputs) > 1 else None
    if not isinstance(before.op, (Reshape1, Unsqueeze1)) or not _reads_nothing_else(node):
        return fail("no change of the shape before it that nothing else reads")
    earlier_axes, shape = before.inputs[1].type.constant, node.inputs[0].shape
    if axes is None or not axes.size or earlier_axes is None or not shape.has_rank:
        return fail("axes or the shape before it are not constant")
    is_added = isinstance(node.op, Unsqueeze1)
    rank = shape.rank + axes.size if is_added else shape.rank
    named = {int(axis) % rank for axis in axes.reshape(-1)}
    if isinstance(before.op, Unsqueeze1):
        if not is_added:
            return fail("it takes dimensions away")
        # The axes of the first one are those of what the second one does not add.
        left = [axis for axis in range(rank) if axis not in named]
        earlier = {left[int(axis) % shape.rank] for axis in earlier_axes.reshape(-1)}
        return builder.emit(Unsqueeze1(), before.inputs[0], builder.constant(sorted(named | earlier)))
    old = [int(size) for size in earlier_axes.reshape(-1)]
    if is_added:
        rest = iter(old)
        new = [1 if axis in named else next(rest) for axis in range(rank)]
    else:
        if any(old[axis] != 1 for axis in named):
            return fail("a dimension that it takes away may be another than 1")
        new = [size for axis, size in enumerate(old) if axis not in named]
    if not new:
        return fail("no dimension would be left")
    return _reshape(builder, before, new)
