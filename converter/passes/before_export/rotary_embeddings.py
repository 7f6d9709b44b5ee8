"""Fuse rotations of the numbers of heads, in pairs, by angles that depend on their position.

    x cos + [-second half, first half] sin
    [first cos - second sin, second cos + first sin], with numbers of the same heads behind it that stay
    the same with pairs of neighbours, which are interleaved by Unsqueeze, Concat and Reshape

become RotaryEmbedding. Letters in shapes: b batches, n heads, s positions, d numbers a head; half of the rotated
numbers are the angles. https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ir_runtime.analysis.polynomials import Polynomial
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Array, Dimension, Node, Output, element_types
from ir_runtime.operations.elementwise import Add1, Binary, Multiply1, Negative1, Subtract1
from ir_runtime.operations.indexing import Gather
from ir_runtime.operations.movement import Broadcast3, Concat1, Reshape1, Unsqueeze1
from ir_runtime.operations.slicing import Slice8, Split1, StridedSlice1, VariadicSplit1
from ir_runtime.rewriting import (
    Builder,
    Match,
    NotMatched,
    Pattern,
    Replacement,
    anything,
    constant,
    either,
    fail,
    layer,
    number,
)
from ir_runtime.rewriting.layers import concat, cut, reshape, squeeze, unsqueeze
from ir_runtime.rewriting.shape_layers import dimension_list

from .operators import emit_operator, may_use
from .registry import before_export

_TYPES = (element_types.f32, element_types.f16)
_RANK = 4
_SELECTIONS = (Slice8, Split1, StridedSlice1, VariadicSplit1)

_X, _FIRST, _SECOND, _COS, _SIN = (anything(name) for name in ("x", "first", "second", "cos", "sin"))


def _product(a: Pattern, b: Pattern) -> Pattern:
    return layer(Multiply1, a, b)


def _concat(*parts: Pattern, most: int = 2) -> Pattern:
    """Concat along the last dimension of the parts, and of up to ``most`` values in all."""

    def mismatch(value: Output) -> str | None:
        is_last = value.shape.has_rank and value.node.op.axis in (-1, value.shape.rank - 1)  # type: ignore[attr-defined]
        return None if is_last and len(value.node.inputs) <= most else "is no Concat of halves"

    return layer(Concat1, *parts, check=mismatch)


def _neighbours(part: Pattern) -> Pattern:
    axes = constant(check=lambda value: None if numbers(value) in ([-1], [_RANK]) else "is not the last dimension")
    return layer(Unsqueeze1, part, axes)


_REAL = layer(Subtract1, _product(_FIRST, _COS), _product(_SECOND, _SIN))
_IMAGINARY = layer(Add1, _product(_SECOND, _COS), _product(_FIRST, _SIN))
_PARTS = _concat(_REAL, _IMAGINARY, most=3)
_PAIRS = _concat(_neighbours(_REAL), _neighbours(_IMAGINARY))
_WITH_REST = _concat(_X, anything())
_TWICE = _concat(_X, _X)
_NEGATED = either(layer(Negative1, _SECOND), _product(_SECOND, number(-1)))
_HALVES = layer(Add1, _product(_X, _COS), _product(_concat(_NEGATED, _FIRST), _SIN))


class _Rotation(NamedTuple):
    """The rotated values: ``start`` to ``stop`` of each head of ``source``, the first 2 ``half`` of them."""

    source: Output
    start: int
    stop: int
    half: int
    cos: Output
    sin: Output
    are_whole: bool
    """True if ``cos`` and ``sin`` have every angle twice: for the numbers of the first half and for their partners."""
    interleaved: bool = False


@before_export.replaces("rotary_embeddings_of_merged_heads")
def of_merged_heads(builder: Builder, node: Node) -> Replacement:
    """Replace the Reshape by RotaryEmbedding of ``[b, s, n d]``, where heads are split for it and merged behind it."""
    value, merged = node.inputs[0], node.outputs[0]
    rotation = _of_parts(value) or _of_halves(value) or _of_pairs(value) or _of_neighbours(value) or _with_rest(value)
    if rotation is None or _axis_of_heads(rotation) != 2:
        return fail("it merges no heads that are rotated")
    heads = rotation.source.shape[2]
    before, after = _dims(rotation.source), _dims(merged)
    if not heads.is_static or _width(merged) != heads.value * (rotation.stop - rotation.start):
        return fail("it does not merge the heads with their numbers")
    if before is None or after is None or len(after) != _RANK - 1 or before[:2] != after[:2]:
        return fail("the batches and positions are not those of the heads")
    return _fuse(builder, node, rotation, are_heads_merged=True)


@before_export.replaces("rotary_embeddings")
def of_split_heads(builder: Builder, node: Node) -> Replacement:
    """Replace the layer that gives the rotated heads by RotaryEmbedding."""
    value = node.outputs[0]
    if isinstance(node.op, Add1):
        rotation = _of_halves(value)
    elif isinstance(node.op, Concat1):
        rotation = _of_parts(value) or _with_rest(value)
    else:
        rotation = _of_neighbours(value)
    return fail("no pairs of numbers are rotated") if rotation is None else _fuse(builder, node, rotation)


def _dims(value: Output) -> list[Polynomial] | None:
    return symbolic_shapes().dims(value)


def numbers(value: Output) -> list[float] | None:
    """Return the values of a constant, flat."""
    constant = value.type.constant
    return None if constant is None else constant.reshape(-1).tolist()


# --- what is rotated ---


def _of_halves(value: Output) -> _Rotation | None:
    match = _HALVES.match(value)
    if isinstance(match, NotMatched):
        return None
    first, second = match["first"], match["second"]
    for x, cos in ((match["x"], match["cos"]), (match["cos"], match["x"])):
        width = _width(x)
        if width is not None and _width(first) == _width(second) and _is_joined(x, [first, second]):
            return _Rotation(x, 0, width, width // 2, cos, match["sin"], are_whole=True)
    return None


def _of_parts(value: Output, pattern: Pattern = _PARTS, *, interleaved: bool = False) -> _Rotation | None:
    match = pattern.match(value)
    if isinstance(match, NotMatched):
        return None
    roles = [match[name] for name in ("first", "second", "cos", "sin")]
    # The formula stays the same where the numbers and the angles change their roles.
    for first, second, cos, sin in (roles, [*roles[2:], *roles[:2]]):
        joined, half = _find_joined([first, second, *value.node.inputs[2:]], interleaved), _width(first)
        if joined is not None and half is not None and half == _width(second):
            return _Rotation(*joined, half, cos, sin, are_whole=False, interleaved=interleaved)
    return None


def _of_neighbours(value: Output) -> _Rotation | None:
    joined = _of_pairs(value.node.inputs[0]) if isinstance(value.node.op, Reshape1) else None
    if joined is None or _width(value) != joined.stop - joined.start:
        return None
    before, after = _dims(joined.source), _dims(value)
    return joined if before is not None and after is not None and before[:-1] == after[:-1] else None


def _of_pairs(value: Output) -> _Rotation | None:
    """Match values rotated to ``[..., half, 2]``: neighbours stand in the last dimension."""
    has_pairs = value.shape.has_rank and value.shape.rank == _RANK + 1
    return _of_parts(value, _PAIRS, interleaved=True) if has_pairs else None


def _with_rest(value: Output) -> _Rotation | None:
    """Match values that are rotated as a whole, and behind them values of the same heads that stay."""
    match = _WITH_REST.match(value)
    inner = None if isinstance(match, NotMatched) else _of_halves(match["x"]) or _of_neighbours(match["x"])
    if inner is None:
        return None
    around, behind = dict(_sources(inner.source)), dict(_sources(value.node.inputs[1]))
    for source, indices in around.items():
        if source in behind:
            start, rest = int(indices[inner.start]), behind[source]
            stop = start + inner.stop - inner.start
            if np.array_equal(rest, np.arange(stop, stop + rest.size)):
                return inner._replace(source=source, start=start, stop=stop + rest.size)
    return None


# --- parts of the last dimension ---


def _sources(value: Output) -> Iterator[tuple[Output, Array]]:
    """The tensors of which a value is a part along the last dimension, itself first, and the places of that part."""
    width = _width(value)
    if width is None:
        return
    indices = np.arange(width)
    while True:
        yield value, indices
        node = value.node
        width = _width(node.inputs[0]) if isinstance(node.op, _SELECTIONS) else None
        if width is None or not _is_along_the_last(node):
            return
        rank = node.inputs[0].shape.rank
        probe = np.arange(width).reshape([1] * (rank - 1) + [width])
        constants = [source.type.constant for source in node.inputs[1:]]
        evaluated = node.op.evaluate(probe, *(stored for stored in constants if stored is not None))
        outputs = evaluated if isinstance(evaluated, (list, tuple)) else [evaluated]
        indices = np.asarray(outputs[node.outputs.index(value)]).reshape(-1)[indices]
        value = node.inputs[0]


def _is_along_the_last(node: Node) -> bool:
    """True if a layer selects along the last dimension alone, by constants."""
    op, rank = node.op, node.inputs[0].shape.rank
    lists = [elements for source in node.inputs[1:] if (elements := numbers(source)) is not None]
    if len(lists) < len(node.inputs) - 1:
        return False
    if isinstance(op, StridedSlice1):
        for part_type, axis, index in op.plan(rank, len(lists[0])):
            is_open = op.is_set(op.begin_mask, index) and op.is_set(op.end_mask, index)
            is_whole = part_type == "whole" or (
                part_type == "part" and is_open and (len(lists) < 3 or lists[2][index] == 1)
            )
            if part_type in ("new", "one") or (axis < rank - 1 and not is_whole):
                return False
        return True
    axes = lists[0] if not isinstance(op, Slice8) else lists[3] if len(lists) > 3 else range(len(lists[0]))
    return all(axis in (-1, rank - 1) for axis in axes)


def _find_joined(parts: Sequence[Output], interleaved: bool = False) -> tuple[Output, int, int] | None:
    """The nearest tensor of which the parts, one behind the other, are the numbers from a start to a stop."""
    places_by_source = [dict(_sources(part)) for part in parts]
    for source in places_by_source[0]:
        if all(source in entry for entry in places_by_source):
            indices = [entry[source] for entry in places_by_source]
            if interleaved and len({index.size for index in indices}) > 1:
                return None
            joined = np.stack(indices, -1).reshape(-1) if interleaved else np.concatenate(indices)
            if joined.size and np.array_equal(joined, np.arange(joined[0], joined[0] + joined.size)):
                return source, int(joined[0]), int(joined[0]) + joined.size
            return None
    return None


def _is_joined(value: Output, parts: Sequence[Output]) -> bool:
    """True if a value has the numbers of the parts, one behind the other."""
    places_by_source = [dict(_sources(part)) for part in (value, *parts)]
    for source, indices in places_by_source[0].items():
        if all(source in entry for entry in places_by_source):
            return np.array_equal(indices, np.concatenate([entry[source] for entry in places_by_source[1:]]))
    return False


def _width(value: Output) -> int | None:
    shape = value.shape
    return shape[-1].value if shape.has_rank and shape.rank and shape[-1].is_static else None


# --- angles ---


def _has_equal_halves(value: Output) -> bool:
    """True if the second half of the last dimension has the numbers of the first."""
    values = value.type.constant
    if values is not None:
        width = values.shape[-1] // 2 if values.ndim else 0
        return bool(width) and np.array_equal(values[..., :width], values[..., width:])
    node, rank = value.node, value.shape.rank if value.shape.has_rank else 0
    if isinstance(_TWICE.match(value), Match):
        return True
    if node.op.elementwise and len(node.inputs) == 1:
        return _has_equal_halves(node.inputs[0])
    if isinstance(node.op, Unsqueeze1):
        axes = numbers(node.inputs[1])
        keeps_last = axes is not None and all(axis not in (-1, rank - 1) for axis in axes)
        return keeps_last and _has_equal_halves(node.inputs[0])
    if isinstance(node.op, Binary) and node.op.auto_broadcast == "numpy":
        return all(_is_one_number_a_row(parent) or _has_equal_halves(parent) for parent in node.inputs)
    if isinstance(node.op, Gather):
        axis, data = numbers(node.inputs[2]), node.inputs[0]
        return axis == [0] and data.shape.has_rank and data.shape.rank > 1 and _has_equal_halves(data)
    return False


def _is_one_number_a_row(value: Output) -> bool:
    return value.shape.has_rank and (value.shape.rank == 0 or _width(value) == 1)


def _axis_of_heads(rotation: _Rotation) -> int | None:
    """The dimension in which the angles do not differ: that of the heads; None where the angles do not fit."""
    width = 2 * rotation.half if rotation.are_whole else rotation.half
    both = rotation.cos, rotation.sin
    if any(_width(part) != width or part.shape.rank > _RANK for part in both):
        return None
    for axis in (1, 2):
        if all(part.shape.rank < _RANK - axis or part.shape[axis - _RANK] == Dimension(1, 1) for part in both):
            return axis
    return None


def _angles(builder: Builder, angles: Output, rotation: _Rotation, heads_at: int) -> Callable[[], Output] | None:
    """Return a function that emits the angles ``[b, s, half]``, once for all tensors of this batch and length.

    None where they may have another batch or length than the tensor that is rotated.
    """
    dims, angle_dims = _dims(rotation.source), _dims(angles)
    if dims is None or angle_dims is None:
        return None
    ones = [Polynomial.constant(1)] * (_RANK - len(angle_dims))
    pairs = [(dims[axis], [*ones, *angle_dims][axis]) for axis in (0, 3 - heads_at)]
    if any(own not in (data_dimension, Polynomial.constant(1)) for data_dimension, own in pairs):
        return None

    is_double = rotation.are_whole and isinstance(_TWICE.match(angles), Match)

    def emit() -> Output:
        values, rank = angles.node.inputs[0] if is_double else angles, len(angle_dims)
        node = values.node
        if isinstance(node.op, Unsqueeze1) and rank == _RANK and numbers(node.inputs[1]) == [heads_at]:
            values, rank = node.inputs[0], rank - 1
        elif rank == _RANK or (rank, heads_at) == (3, 2):
            values, rank = squeeze(builder, values, builder.constant([heads_at - _RANK + rank])), rank - 1
        if rank < 3:
            values = unsqueeze(builder, values, *range(3 - rank))
        if rotation.are_whole and not is_double:
            values = cut(builder, values, 0, rotation.half, -1)
        if all(own == data_dimension for data_dimension, own in pairs):
            return values
        sizes = dimension_list(builder, rotation.source, 0, 3 - heads_at)
        target = concat(builder, 0, sizes, builder.constant([1]))
        return builder.emit(Broadcast3(mode="bidirectional"), values, target)

    key = angles, heads_at, rotation.are_whole, *(data_dimension for data_dimension, _ in pairs)
    return lambda: builder.once(key, emit)


# --- the operator ---


def _fuse(builder: Builder, node: Node, rotation: _Rotation, are_heads_merged: bool = False) -> Replacement:
    if not may_use(23):
        return fail("RotaryEmbedding needs opset 23")
    if rotation.source.shape.rank != _RANK or rotation.source.element_type not in _TYPES:
        return fail("the data is not of four dimensions, or not of float32 or float16")
    heads_at, width = _axis_of_heads(rotation), rotation.stop - rotation.start
    if heads_at is None or (rotation.are_whole and not all(map(_has_equal_halves, (rotation.cos, rotation.sin)))):
        return fail("the angles differ between heads, or between the halves")
    heads = rotation.source.shape[heads_at]
    emitters = [_angles(builder, angles, rotation, heads_at) for angles in (rotation.cos, rotation.sin)]
    if None in emitters or (heads_at == 2 and not heads.is_static):
        return fail("the batch or length of the angles, or the number of heads, is not known to fit")
    cos, sin = (emit() for emit in emitters if emit is not None)
    source = _before_idle_reshape(rotation.source)
    x = source
    if width != _width(source):
        x = cut(builder, x, rotation.start, rotation.stop, -1)
    elif heads_at == 2:
        x = _with_merged_heads(source) or x
    if heads_at == 2 and x.shape.rank != _RANK - 1:
        x = reshape(builder, x, [0, 0, heads.value * width])
    is_split_again = heads_at == 2 and not are_heads_merged
    rotated = emit_operator(
        builder,
        "RotaryEmbedding",
        [x, cos, sin],
        [x] if is_split_again else node.outputs,
        interleaved=int(rotation.interleaved),
        rotary_embedding_dim=None if width == 2 * rotation.half else 2 * rotation.half,
        num_heads=heads.value if heads_at == 2 else None,
    )
    return reshape(builder, rotated[0], [0, 0, heads.value, width]) if is_split_again else rotated


def _before_idle_reshape(value: Output) -> Output:
    """Return the tensor in front of reshapes that change no dimension: heads that were merged and are split again."""
    while isinstance(value.node.op, Reshape1) and _dims(value.node.inputs[0]) == _dims(value) is not None:
        value = value.node.inputs[0]
    return value


def _with_merged_heads(value: Output) -> Output | None:
    """Return the tensor ``[b, s, n d]`` whose numbers a layer in front has split into heads."""
    merged = value.node.inputs[0] if isinstance(value.node.op, Reshape1) else None
    if merged is None or not merged.shape.has_rank or merged.shape.rank != _RANK - 1:
        return None
    before, after = _dims(merged), _dims(value)
    return merged if before is not None and after is not None and before[:2] == after[:2] else None
