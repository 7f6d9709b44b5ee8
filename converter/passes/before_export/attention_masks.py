"""Masks with which onnxruntime's Attention computes what the IR's layer does.

A row that sees no key is NaN in the IR, and zeros in ONNX's operator. Besides, onnxruntime (opsets 23 and 24) takes the
lowest finite number for minus infinity: a row of nothing else is zeros there, and the mean of all values in the IR. Its
sums of scores and masks of float16 are float16, in which a row of large numbers loses its scores.

Such rows are changed in the mask, which all layers of a model share, rather than in the output of each layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.analysis.value_ranges import value_range
from ir_runtime.graph import Array, Dimension, ElementType, Output, element_types
from ir_runtime.operations import elementwise as ir
from ir_runtime.operations.reduction import ReduceLogicalOr1, ReduceMax1
from ir_runtime.rewriting import Builder, Match, NotMatched, Pattern, anything, constant, either, layer
from ir_runtime.rewriting.layers import add, equal, maximum, select, subtract

_LOWEST = float(np.finfo(np.float32).min)
"""The number that hides a key in onnxruntime as minus infinity does."""
_LARGE = 64.0
"""From here on float16 keeps less than four binary digits behind the point of what is added."""


def _is_over_keys(seen: Output) -> str | None:
    """Return the reason why a layer does not tell for each row if any key is visible."""
    node = seen.node
    rank, axes = node.inputs[0].shape.rank if node.inputs[0].shape.has_rank else 0, node.inputs[1].type.constant
    is_last = axes is not None and axes.reshape(-1).tolist() in ([-1], [rank - 1])
    return None if is_last and node.op.keep_dims else "is not over the keys of a row"  # type: ignore[attr-defined]


def _all(test: Callable[[Array], Array], expected: str) -> Pattern:
    """A constant whose elements all pass a test."""
    return constant(check=lambda value: None if test(value.type.constant).all() else f"is not {expected}")  # type: ignore[arg-type]


_NUMBERS = anything("numbers")
_GREATEST = layer(ReduceMax1, _NUMBERS)
_EXACT = either(
    layer(ir.Subtract1, _NUMBERS, either(_GREATEST, layer(ir.Maximum1, _GREATEST))),
    layer(ir.Add1, _NUMBERS, layer(ir.Select1, layer(ir.Equal1, _GREATEST))),
)
_WITHOUT_HIDDEN_ROWS = layer(ir.Add1, _NUMBERS, layer(ir.Subtract1, _GREATEST))

_MASK = anything("mask")
_HIDDEN = _all(np.isneginf, "minus infinity")
_ANY = layer(ReduceLogicalOr1, _MASK, name="seen", check=_is_over_keys)
_ANY_FINITE = layer(ReduceLogicalOr1, layer(ir.NotEqual1, _MASK, _HIDDEN), name="seen", check=_is_over_keys)
_GUARDED = either(
    layer(ir.LogicalOr1, _MASK, layer(ir.LogicalNot1, _ANY)),
    layer(ir.Select1, _ANY, _MASK, _all(np.asarray, "true")),
    layer(ir.Select1, _ANY_FINITE, _MASK, _all(np.logical_not, "zero")),
)
"""A mask that shows all keys to the rows that have none."""


def is_broadcast_to_scores(mask: Output, query: Output, key: Output) -> bool:
    """True if the scores of ``query`` and ``key`` keep their shape when the mask is added to them.

    The mask has two or four dimensions, the others have four. A dimension that is unknown on both sides counts as
    equal: onnxruntime refuses another one.
    """
    if not mask.shape.has_rank or mask.shape.rank not in (2, 4):
        return False
    indices = range(4 - mask.shape.rank, 4)
    scores = [query.shape[0], query.shape[1], query.shape[2], key.shape[2]]
    symbols = [symbolic_shapes().dims(source) for source in (mask, query, key)]
    if None in symbols:
        return all(_fits(mask.shape[index - 4], scores[index]) for index in indices)
    sizes, (batch, heads, rows, _), (_, _, columns, _) = (dims for dims in symbols if dims is not None)
    equal = (batch, heads, rows, columns)
    return all(sizes[index - 4] == equal[index] or _fits(mask.shape[index - 4], scores[index]) for index in indices)


def _fits(size: Dimension, scores: Dimension) -> bool:
    """True if a dimension of the mask is 1 or equal to that of the scores, as far as both are known."""
    if size.is_static and size.value == 1:
        return True
    if size.is_static and scores.is_static:
        return size.value == scores.value
    # A single row of scores would be repeated for each row of the mask.
    return not scores.contains(1) or (not size.is_static and not scores.is_static)


def exact_mask(
    builder: Builder, mask: Output, element_type: ElementType, *, hidden_rows_are_zero: bool = False
) -> Output:
    """Return the mask of scores of this type, with other numbers in the rows that Attention computes differently.

    ``hidden_rows_are_zero`` is for layers of the IR that make rows without keys zero, as ONNX's operator does.
    """
    may_hide_rows = not hidden_rows_are_zero and not _sees_some_key(mask)
    if mask.element_type is element_types.boolean:
        if not may_hide_rows:
            return mask
        return _with_other_rows(builder, additive(builder, mask, element_type), False, True)
    least = value_range(mask).low
    if element_type is element_types.f16:
        if least >= -_LARGE or _is_constant_above(mask, -_LARGE) or _is_exact(mask):
            return mask
        return _relative(builder, mask, may_hide_rows)
    # Numbers of bfloat16 are computed as float32; none of them is the lowest one there.
    has_lowest = element_type is element_types.f32 and least <= _LOWEST and _may_be_lowest(mask)
    if not has_lowest and (least > -math.inf or not may_hide_rows):
        return mask
    if _is_constant_above(mask, _LOWEST) or _is_exact(mask):
        return mask
    if least > -math.inf:  # the last number but one in place of the lowest number
        return maximum(builder, mask, builder.like(np.nextafter(np.float32(_LOWEST), np.float32(0)), mask))
    return _with_other_rows(builder, mask, has_lowest, may_hide_rows)


def additive(builder: Builder, mask: Output, element_type: ElementType) -> Output:
    """Return the zeros and minus infinities that a boolean mask stands for; any other mask as it is."""
    if mask.element_type is not element_types.boolean:
        return mask
    return select(builder, mask, builder.constant(0.0, element_type), builder.constant(-math.inf, element_type))


def _greatest(builder: Builder, mask: Output) -> Output:
    return builder.emit(ReduceMax1(keep_dims=True), mask, builder.constant([-1]))


def _relative(builder: Builder, mask: Output, may_hide_rows: bool) -> Output:
    """Return the mask less the greatest number of each row, which Softmax does not see; NaN in rows of -inf."""
    greatest = _greatest(builder, mask)
    if not may_hide_rows:
        greatest = maximum(builder, greatest, builder.like(np.finfo(np.float16).min, mask))
    return subtract(builder, mask, greatest)


def _with_other_rows(builder: Builder, mask: Output, has_lowest: bool, may_hide_rows: bool) -> Output:
    """Return the mask; NaN in rows of minus infinity, and the last number but one in rows of the lowest number."""
    greatest = _greatest(builder, mask)
    # The difference of infinities is NaN.
    change = subtract(builder, greatest, greatest) if may_hide_rows else builder.like(0, mask)
    if has_lowest:
        lowest = np.float32(_LOWEST)
        step = builder.like(np.nextafter(lowest, np.float32(0)) - lowest, mask)
        change = select(builder, equal(builder, greatest, builder.like(_LOWEST, mask)), step, change)
    return add(builder, mask, change)


def _is_exact(mask: Output) -> bool:
    """True for what :func:`_relative` and :func:`_with_other_rows` write, in an IR that was made from such a model."""
    return isinstance(_EXACT.match(mask), Match)


def _may_be_lowest(mask: Output) -> bool:
    """False if no number of the mask is the lowest one, as far as its last layers tell."""
    constant = mask.type.constant
    if constant is not None:
        return bool((constant == _LOWEST).any())
    node = mask.node
    if isinstance(node.op, ir.Select1):
        return any(_may_be_lowest(choice) for choice in node.inputs[1:])
    # What is added otherwise is 0 or NaN.
    return isinstance(_WITHOUT_HIDDEN_ROWS.match(mask), NotMatched) or _may_be_lowest(node.inputs[0])


def _is_constant_above(mask: Output, limit: float) -> bool:
    """True for a constant whose rows all have a number above the limit, or NaN."""
    constant = mask.type.constant
    return constant is not None and not (constant.max(axis=-1, initial=-math.inf) <= limit).any()


def _sees_some_key(mask: Output) -> bool:
    """True if each row of a mask is known to see a key."""
    constant = mask.type.constant
    if constant is not None:
        is_seen = constant if constant.dtype == np.bool_ else constant > -math.inf
        return bool(is_seen.any(axis=-1).all())
    return guarded_mask(mask) is not None


def guarded_mask(guarded: Output, is_seen: Output | None = None) -> Output | None:
    """The mask that a layer shows all keys of to rows without any; ``is_seen`` tells which rows have one."""
    match = _GUARDED.match(guarded)
    return None if isinstance(match, NotMatched) or is_seen not in (None, match["seen"]) else match["mask"]


def is_zero(output: Output) -> bool:
    values = output.type.constant
    return values is not None and not values.any()
