"""Join layers of one operation in a row, and changes of the shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Array, ElementType, Node, Operation, Output, element_types
from ir_runtime.graph.element_types import finfo
from ir_runtime.operations.elementwise import Add1, Convert1, Multiply1, Subtract1
from ir_runtime.operations.movement import Concat1, Reshape1, Squeeze1, Squeeze15, Transpose1, Unsqueeze1
from ir_runtime.rewriting import (
    Builder,
    Match,
    Pattern,
    Replacement,
    anything,
    constant,
    either,
    fail,
    layer,
)

from .idioms import is_real
from .idle_layers import keeps_shape
from .registry import passes


@passes.replaces("concats_in_a_row")
def concat_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Join Concats in a row along one axis.

        a, b -> Concat(axis 1) -> |                becomes      a, b, c -> Concat(axis 1)
                             c -> | Concat(axis 1)

    The inner one is left out where nothing else reads it.
    """
    behind = node.outputs[0].only_user
    if behind is not None and _axis(behind) is not None and _axis(behind) == _axis(node):
        return fail("the Concat behind it takes its inputs")
    pending, parts = list(node.inputs[::-1]), list[Output]()
    while pending:
        value = pending.pop()
        if _axis(value.node) == _axis(node) and value.only_user is not None:
            pending += value.node.inputs[::-1]
        else:
            parts.append(value)
    if len(parts) == len(node.inputs):
        return fail("no Concat along its axis before it that nothing else reads")
    assert isinstance(node.op, Concat1)
    return builder.emit(Concat1(axis=node.op.axis), *parts)


def _axis(node: Node) -> int | None:
    """The axis of a Concat, counted from the front where the rank is known."""
    if not isinstance(node.op, Concat1):
        return None
    shape = node.outputs[0].shape
    return node.op.axis % shape.rank if shape.has_rank else node.op.axis


_FLOATS = (element_types.f16, element_types.bf16, element_types.f32, element_types.f64)
_WHOLE = tuple(getattr(element_types, f"{sign}{bits}") for bits in (8, 16, 32, 64) for sign in "iu")


@passes.replaces("converts_in_a_row")
def convert_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Leave out the first of two type conversions where it loses nothing, and one to the own type.

        x [i32] -> Convert(i64) -> Convert(f32)         becomes      x -> Convert(f32)
        x [bool] -> Convert(f32) -> Convert(bool)       becomes      x
        x [f32] -> Convert(f32)                         becomes      x

    Whole numbers of 8 bits or fewer keep their conversions to floats: runtimes look for dequantisation. A conversion to
    floats or integers of fewer bits keeps the float it starts from: OpenVINO has those from floats alone.
    """
    value, last = node.inputs[0], node.outputs[0].element_type
    if value.element_type is last:
        return value
    if not isinstance(value.node.op, Convert1):
        return fail(f"what it converts is made by {value.node.op.type}, not by Convert")
    x = value.node.inputs[0]
    first, between = x.element_type, value.element_type
    if x.tensor is not None or not _holds(between, first):
        return fail(f"{between} does not hold every {first}, or the value is constant")
    if not (last in _FLOATS or _is_whole(last) or last is element_types.boolean):
        return fail(f"{last} is converted to from floats alone")
    if _is_whole(first) and first.bits <= 8 and last.is_real:
        return fail("it may be the dequantisation of small whole numbers")
    if between.is_real and not last.is_real and last is not element_types.boolean and not _holds(last, first):
        return fail(f"{last} does not hold every {first}")
    return x if first is last else builder.emit(Convert1(destination_type=last), x)


def _is_whole(element_type: ElementType) -> bool:
    return element_type in _WHOLE


def _holds(wide: ElementType, narrow: ElementType) -> bool:
    """True if a type holds every value of another one."""
    if narrow is element_types.boolean:
        return wide in _FLOATS or _is_whole(wide)
    if _is_whole(narrow):
        low, high = np.iinfo(narrow.dtype).min, np.iinfo(narrow.dtype).max
        if _is_whole(wide):
            return bool(np.iinfo(wide.dtype).min <= low and high <= np.iinfo(wide.dtype).max)
        return wide in _FLOATS and 2 ** (int(finfo(wide).nmant) + 1) >= high
    return narrow in _FLOATS and wide in _FLOATS and wide.bits > narrow.bits


_MAX_BYTES = 1 << 16
"""Larger constants are not read: they are weights."""


def _twice(operation: type[Operation]) -> Pattern:
    inner = layer(operation, anything("x", is_real), constant("a"))
    return layer(operation, inner, constant("b"))


@passes.fuses("factors_in_a_row", either(_twice(Multiply1), _twice(Add1)))
def factor_in_a_row(builder: Builder, node: Node, match: Match) -> Replacement:
    """Join constant factors in a row, and constant summands.

        x -> Multiply(a) -> Multiply(b)      becomes      x -> Multiply(a * b)
        x -> Add(a) -> Add(b)                becomes      x -> Add(a + b)

    Only floats, and only where the result differs by rounding alone: factors of ordinary size, summands that do not
    round what is in between. The constant in between is computed in float64 and rounded once.
    """
    operation: type[Operation] = Multiply1 if isinstance(node.op, Multiply1) else Add1
    element_type = match["x"].element_type
    tensors = [match[name].tensor for name in "ab"]
    if any(tensor is None or tensor.byte_size > _MAX_BYTES for tensor in tensors) or element_type.bits < 16:
        return fail("a constant is too large to be looked at, or of a narrow type")
    a, b = (match.array(name).astype(np.float64) for name in "ab")
    largest = max(a.size, b.size)
    with np.errstate(all="ignore"):
        joined = a * b if operation is Multiply1 else a + b
    if joined.size > largest:
        return fail("the constants would become larger")
    info = finfo(element_type)
    usual = _are_usual(info.maxexp, a, b, joined) if operation is Multiply1 else _add_up(info.nmant, a, b, joined)
    if not usual:
        return fail("the constants are not of ordinary size, or round what is in between")
    factor = builder.computed(operation.type, joined, element_type, [match["a"], match["b"]])
    return builder.emit(operation(), match["x"], factor)


def _are_usual(exponent: int, *factors: Array) -> bool:
    """True if no product of a usual number and the factors leaves the range of the type on the way."""
    most = 2.0 ** (exponent / 6)
    return all(bool(((1 / most <= np.abs(each)) & (np.abs(each) <= most)).all()) for each in factors)


def _add_up(digits: int, a: Array, b: Array, total: Array) -> bool:
    """True if the summands add up, or are so small that nobody uses them to round what is in between.

    Adding a large number and taking it away again rounds to whole numbers. Otherwise the sum of constants is as exact
    as the two sums are, or more so.
    """
    largest = np.maximum(np.abs(a), np.abs(b))
    return bool((np.isfinite(total) & ((np.abs(total) >= largest) | (largest <= 2.0 ** (digits / 3)))).all())


_MAX_BYTES_OF_INTEGERS = 1 << 10


@passes.replaces("integer_sums_in_a_row")
def integer_sum_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Join constants that are added to integers, or taken from them, one after the other.

        x -> Add(441) -> Subtract(1)      becomes      x -> Add(440)
        x -> Add(1) -> Subtract(1)        becomes      x

    Integers wrap, in the constants as in ``x``: the result is the same for every ``x``. Exporters write quotients that
    are rounded up this way.
    """
    if not node.outputs[0].element_type.is_integral:
        return fail("it does not add integers")
    last = _summand(node)
    first = _summand(last[0].node)
    if last[0].only_user is None:
        return fail("something else reads the sum before it")
    x, element_type = first[0], node.outputs[0].element_type
    with np.errstate(over="ignore"):
        total = np.asarray(first[1] + last[1], element_type.dtype)
    if total.size > max(first[1].size, last[1].size):
        return fail("the constants would become larger")
    constant = builder.constant(total, element_type)
    if not total.any() and keeps_shape(x, constant, node.outputs[0]):
        return x
    return builder.emit(Add1(), x, constant)


def _summand(node: Node) -> tuple[Output, Array]:
    """Return the other summand and the constant, which is negative where it is subtracted."""
    if not isinstance(node.op, (Add1, Subtract1)) or node.op.auto_broadcast != "numpy":
        raise fail(f"layer '{node.name}' is no sum")
    for x, other in node.orders:
        if other.tensor is not None and other.tensor.byte_size <= _MAX_BYTES_OF_INTEGERS and x.element_type.bits >= 8:
            with np.errstate(over="ignore"):
                values = other.tensor.array()
                return x, values if isinstance(node.op, Add1) else np.asarray(0 - values, values.dtype)
    raise fail(f"layer '{node.name}' adds no constant")


_ONE = layer(Transpose1, anything("x"), constant("order"))
_TWO = layer(Transpose1, layer(Transpose1, anything("x"), constant("first")), constant("second"))


@passes.replaces("transposes_in_a_row")
def transposes_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Join Transposes in a row with constant orders, and leave out one that moves no axis.

        x -> Transpose(first) -> Transpose(second) -> y     becomes     x -> Transpose(first[second]) -> y
        x -> Transpose(0, 1, 2, ...) -> y                   becomes     x

    The first of two stays if something else reads it.
    """
    match = _ONE.find(node.outputs[0])
    if _moves_nothing(match["x"], match.array("order").tolist()):
        return match["x"]
    two = _TWO.find(node.outputs[0])
    x, first, second = two["x"], two.array("first").tolist(), two.array("second").tolist()
    if not first and not second:
        return x
    rank = len(first or second)
    first, second = _axes(first, rank), _axes(second, rank)
    if sorted(first) != list(range(rank)) or sorted(second) != list(range(rank)):
        return fail(f"{first} and {second} are not orders of the same dimensions")
    order = [first[axis] for axis in second]
    return x if _moves_nothing(x, order) else builder.emit(Transpose1(), x, builder.constant(order))


def _moves_nothing(x: Output, order: list[int]) -> bool:
    """Tell whether the axes stay; where only the order tells how many there are, it has to."""
    return x.shape.has_rank and _axes(order, x.shape.rank) == list(range(x.shape.rank))


def _axes(order: list[int], rank: int) -> list[int]:
    """Return the axes in their order: an empty order reverses them."""
    return order or list(range(rank))[::-1]


_RESHAPING = (Reshape1, Squeeze1, Squeeze15, Unsqueeze1)


@passes.replaces("reshapes_in_a_row")
def reshape_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Let the last Reshape read what the first one reads.

    Changes of the shape in a row become one.

        x -> Unsqueeze -> Reshape [2, -1]            becomes      x -> Reshape [2, -1]
        x -> Reshape -> Reshape [2, -1]              becomes      x -> Reshape [2, -1]
        x -> Reshape [0, -1, 6] -> Unsqueeze(2)      becomes      x -> Reshape [0, -1, 1, 6]
        x -> Reshape [0, -1, 1] -> Squeeze(2)        becomes      x -> Reshape [0, -1]
        x -> Unsqueeze(1) -> Unsqueeze(2)            becomes      x -> Unsqueeze(1, 2), also if several read the first
        x -> Reshape [2, -1, 1, 6] -> Transpose(0, 2, 1, 3)      becomes      x -> Reshape [2, 1, -1, 6]

        x [b, s, 4, 32] -> Reshape [0, 0, 128] -> Reshape [0, 0, 4, 32]      becomes      x
        x [b, 1, 1, 64] -> Transpose(0, 3, 1, 2) -> Reshape [0, 64]          becomes      x -> Reshape [0, 64]

    A Reshape that takes dimensions of its input over (a 0 in the shape) stays where ``x`` has others there, or may
    have. Shapes and axes are constant. A Transpose that moves nothing but dimensions of 1 is a change of the shape,
    too.
    """
    value, target = node.inputs
    assert isinstance(node.op, Reshape1)
    shape = target.type.constant
    if shape is None:
        return fail("its shape is not constant")
    taken_over = [axis for axis, size in enumerate(shape.reshape(-1)) if not size] if node.op.special_zero else []
    first = before = value
    while _changes_shape(before.node) and before.only_user is not None:
        before = before.node.inputs[0]
        if _have_equal_dimensions(before, value, taken_over):
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


def _have_equal_dimensions(output: Output, other: Output, axes: Sequence[int]) -> bool:
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


def _reshape_to(builder: Builder, reshape: Node, target: Sequence[int]) -> Replacement:
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
    return _reshape_to(builder, before, new)
