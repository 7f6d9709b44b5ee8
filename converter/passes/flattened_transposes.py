"""Transposes of matrices, in front of which all other dimensions are made one, and behind which they come back.

    x [a, b, s, d] -> Reshape [-1, s, d] -> Transpose(0, 2, 1) -> Reshape [a, b, d, s]

becomes

    x -> Transpose(0, 1, 3, 2)

torch writes this since its exporter goes through graphs of its own. Dimensions are constants that are those of ``x``,
or are taken from the shape of ``x``.
"""

from __future__ import annotations

from typing import Union

from ir_runtime.graph.model import Node, Output
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.movement import Concat1, Reshape1, Transpose1
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import NotMatched, anything, constant, fail, layer
from ir_runtime.rewriting.replace_layers import Replacement
from ir_runtime.rewriting.uses import Uses

from .idioms import of_same_shape
from .registry import passes

_FLAT = layer(Reshape1, anything("x"), anything("flat shape"), name="flat")
_PATTERN = layer(Reshape1, layer(Transpose1, _FLAT, constant("order")), anything("shape"))

_Size = Union[int, "_Axis", None]
"""A dimension that a Reshape is told: a number, that of an axis of ``x``, or something else."""


class _Axis(int):
    """An axis of ``x``, whose dimension is meant."""


@passes.replaces("flattened_transposes", Reshape1, after=["equal_layers"], fuses=True)
def flattened_transpose(builder: Builder, node: Node, uses: Uses) -> Replacement:
    """Put one Transpose in the place of the three layers."""
    found = _PATTERN.match(node.outputs[0])
    if isinstance(found, NotMatched):
        return found
    x = found["x"]
    if not x.shape.has_rank or x.shape.rank < 3 or found.array("order").reshape(-1).tolist() != [0, 2, 1]:
        return fail("it does not swap the last two dimensions")
    rank = x.shape.rank
    flat, shape = _sizes(found["flat shape"], x), _sizes(found["shape"], x)
    if len(flat) != 3 or len(shape) != rank:
        return fail("the rank of the result is not that of the input, or dimensions are not made one")
    axes = [*range(rank - 2), rank - 1, rank - 2]
    # A dimension of -1 is what the number of elements leaves.
    kept = [size == -1 or _is_axis(size, x, axis) for size, axis in zip(shape, axes)]
    matrices = [_is_axis(size, x, axis) for size, axis in zip([*flat[1:], *shape[-2:]], axes[:-3:-1] + axes[-2:])]
    if not all(matrices) or not all(kept):
        return fail("dimensions are not known to be those of the input")
    why = found.check_private(uses)
    return why or of_same_shape(layers.transpose(builder, x, builder.constant(axes)), node)


def _is_axis(size: _Size, x: Output, axis: int) -> bool:
    """Whether a Reshape keeps the dimension of an axis."""
    if isinstance(size, _Axis):
        return size == axis
    own = x.shape[axis]
    return size is not None and size > 0 and own.low == own.high == size


def _sizes(target: Output, x: Output) -> list[_Size]:
    """What is known of each element of a shape."""
    node, known = target.node, target.type.constant
    if known is not None:
        return [int(size) for size in known.reshape(-1)]
    if isinstance(node.op, Concat1):
        return [size for part in node.inputs for size in _sizes(part, x)]
    if isinstance(node.op, Convert1):
        return _sizes(node.inputs[0], x)
    if isinstance(node.op, ShapeOf3) and node.inputs[0] is x:
        return [_Axis(axis) for axis in range(x.shape.rank)]
    count = target.shape[0].value if target.shape.is_static and target.shape.rank == 1 else 0
    unknown: list[_Size] = [None] * count
    others = [source.type.constant for source in node.inputs[1:]]
    if not isinstance(node.op, (Slice8, Gather8)) or any(other is None for other in others):
        return unknown
    numbers = [other.reshape(-1).tolist() for other in others if other is not None]
    if isinstance(node.op, Gather8):
        whole = _sizes(node.inputs[0], x)
        return [whole[index] for index in numbers[0]] if whole and target.shape.rank == 1 else unknown
    if len(numbers) == 4 and numbers[3] not in ([0], [-1]):
        return unknown
    start, stop, step = (numbers[index][0] for index in range(3))
    return _sizes(node.inputs[0], x)[start:stop:step]
