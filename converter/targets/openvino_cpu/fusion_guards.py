"""Layers between others that the plug-in would fuse wrongly, or remove.

The plug-in fuses elementwise layers with constants into the layer before them. That is wrong in these cases:

- constants of several values after reductions, products and resized channels: values of other rows are read, or
  memory past the end, or the model does not compile;
- arithmetic after reductions and products of integers, which is then computed in floats;
- quotients of float64 after reductions of dimension 1 of three, all but the first of which become 0;
- a Reshape or a Transpose next to a reduction, which is taken for another one and removed or moved;
- a Pad before a convolution or an average whose pads follow from its dimensions, which are those before the Pad then;
- a Reshape and a Transpose as those of shuffled channels, with a dimension that the Reshape computes: the model does
  not compile;
- a Maximum and a Minimum of integers with bounds that float32 does not hold, of which it makes a Clamp.

    ReduceMean -> Add(constants)      becomes      ReduceMean -> Maximum(a, a) -> Add(constants)

Maximum of a value and itself changes nothing, and prevents the fusion.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from converter.targets.openvino_cpu.opaque_identity import prevent_fusion
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, PartialShape, element_types
from ir_runtime.operations.activation import Clamp1, PReLU1
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.elementwise import Binary, Bitwise, Divide1, Maximum1, Minimum1, Unary
from ir_runtime.operations.interpolate import Interpolate11
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Reshape1, Transpose1, Unsqueeze1
from ir_runtime.operations.normalization import BatchNormInference1, BatchNormInference5
from ir_runtime.operations.padding import Pad
from ir_runtime.operations.pooling import AvgPool
from ir_runtime.operations.quantization import FakeQuantize1
from ir_runtime.operations.reduction import Reduction
from ir_runtime.rewriting import NotMatched, UniqueNames, fail

from .intervals import is_small

_OF_CHANNELS = (BatchNormInference1, BatchNormInference5)
"""Operations with a constant for each channel, which never broadcast their data."""
_BY_CHANNEL = (PReLU1, *_OF_CHANNELS)
"""Operations whose constants lie along dimension 1, whatever their shapes."""
_FUSED = (Binary, Unary, Clamp1, FakeQuantize1, *_BY_CHANNEL)


_LIMITS = (Maximum1, Minimum1)
_PADDED = (Convolution1, GroupConvolution1, AvgPool)


@openvino_cpu.edits("fusion_guards", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def fusion_guards(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Prevent wrong fusions; names and values stay."""
    wrong = [reader for reader in node.outputs[0].uses if _goes_wrong(node, reader)]
    if wrong:
        prevent_fusion(node.outputs[0], wrong, unique)
    pulled = _is_pulled_through(node)
    if pulled:
        prevent_fusion(node.inputs[0], [node], unique)
    return bool(wrong) + pulled or fail("no layer before or after it is fused wrongly")


def _is_pulled_through(node: Node) -> bool:
    """True if the plug-in would move a change of the shape after the reduction, with its 1 in another place."""
    before = node.inputs[0].node
    if not isinstance(node.op, Reduction) or not node.inputs[0].shape.has_rank or not before.inputs:
        return False
    if node.op.keep_dims:
        return isinstance(before.op, Unsqueeze1)
    axes = node.inputs[1].type.constant
    rank = node.inputs[0].shape.rank
    reduced = () if axes is None else [int(axis) % rank for axis in axes.reshape(-1)]
    return _moves_only_ones(before) or _moves_only_ones(before, reduced)


def _moves_only_ones(node: Node, reduced: Collection[int] = ()) -> bool:
    """True if a Reshape could do the same as this Transpose, but for the dimensions ``reduced`` after it."""
    order = node.inputs[1].type.constant if isinstance(node.op, Transpose1) else None
    shape = node.inputs[0].shape if node.inputs else PartialShape.dynamic()
    if order is None or not shape.has_rank:
        return False
    left = [int(axis) for place, axis in enumerate(order) if place not in reduced]
    others = [axis for axis in left if not shape[axis].contains(1)]
    return others == sorted(others) and len(others) < len(left)


def _goes_wrong(node: Node, reader: Node) -> bool:
    if isinstance(node.op, _LIMITS):
        return isinstance(reader.op, _LIMITS) and _have_rounded_bounds(node, reader)
    if isinstance(node.op, Pad):
        return isinstance(reader.op, _PADDED) and reader.op.auto_pad.startswith("same")
    if isinstance(node.op, Reshape1):
        return _is_taken_for_shuffle(node, reader)
    after = list(_fused_layers(reader))
    if isinstance(node.op, Interpolate11):
        rank = node.outputs[0].shape.rank if node.outputs[0].shape.has_rank else 0
        return _resizes_channels(node) and any(_varies(follower, rank - 1) for follower in after)
    in_integers = node.outputs[0].element_type.is_integral and not isinstance(reader.op, Bitwise)
    if in_integers and not all(is_small(follower.outputs[0]) for follower in after):
        return True
    shape = node.outputs[0].shape
    # A dynamic dimension may be 1, and then constants of several values broadcast it.
    unknown = [shape.rank - axis for axis in range(shape.rank) if not shape[axis].is_static] if shape.has_rank else []
    widening = [follower for follower in after if not isinstance(follower.op, _OF_CHANNELS)]
    # Products are fused with constants that vary along one dimension only.
    alone = isinstance(node.op, MatMul1)
    if any(_varies(follower, place, alone) for follower in widening for place in unknown):
        return True
    if isinstance(node.op, Reduction):
        if _reduces_the_middle(node) and any(_divides_float64(follower) for follower in after):
            return True
        return _looks_like_keeping(node, reader) or (_is_outer(node) and any(_varies(follower) for follower in after))
    channels = shape.rank - 1 if shape.has_rank and shape.rank >= 4 else None
    return channels is not None and any(_varies(follower, channels, alone) for follower in after)


def _is_taken_for_shuffle(node: Node, reader: Node) -> bool:
    """True where the plug-in asks for the length of a dimension that may be dynamic, as the batch is divided."""
    before, after, target = node.inputs[0].shape, node.outputs[0].shape, node.inputs[1].type.constant
    if not isinstance(reader.op, Transpose1) or target is None or after.is_static:
        return False
    if not before.has_rank or (before.rank, target.size) != (4, 5) or target[0] < 1:
        return False
    return any(isinstance(follower.op, Reshape1) for follower in reader.outputs[0].uses)


def _have_rounded_bounds(*limits: Node) -> bool:
    """True for single constants, one of which float32 rounds."""
    bounds = [bound for bound in map(_bound, limits) if bound is not None]
    return len(bounds) == len(limits) and any(bound != int(np.float32(bound)) for bound in bounds)


def _bound(node: Node) -> int | None:
    """The integer that a Maximum or a Minimum compares its data with; None where it is not a single constant."""
    constants = [value.type.constant for value in node.inputs if value.element_type.is_integral]
    return next((int(value.item()) for value in constants if value is not None and value.size == 1), None)


def _resizes_channels(node: Node) -> bool:
    """True if an Interpolate may resize dimension 1, where the plug-in expects the number of channels before."""
    before, after = node.inputs[0].shape, node.outputs[0].shape
    if not before.has_rank or not after.has_rank or after.rank < 2:
        return False
    axes = node.inputs[2].type.constant if len(node.inputs) > 2 else None
    if axes is not None and 1 not in [int(axis) % after.rank for axis in axes.reshape(-1)]:
        return False
    return not before[1].is_static or before[1] != after[1]


def _fused_layers(reader: Node) -> Iterator[Node]:
    """The elementwise layers from ``reader`` on whose other inputs are constants."""
    pending, seen = [reader], set()
    while pending:
        node = pending.pop()
        if node not in seen and isinstance(node.op, _FUSED) and _computed_inputs(node) <= 1:
            seen.add(node)
            yield node
            pending += node.outputs[0].uses


def _computed_inputs(node: Node) -> int:
    return sum(source.type.constant is None for source in node.inputs)


def _varies(node: Node, from_right: int | None = None, alone: bool = False) -> bool:
    """True if a constant has several values; with ``from_right`` along that dimension, counted from the right.

    ``alone``: along no other dimension.
    """
    constants = [source.shape for source in node.inputs if source.type.constant is not None]
    data = node.inputs[0].shape
    if isinstance(node.op, _BY_CHANNEL) and data.has_rank and from_right not in (None, data.rank - 1):
        return False
    if from_right is None or isinstance(node.op, _BY_CHANNEL):
        return any(not shape.element_count().contains(1) for shape in constants)
    varying = [shape for shape in constants if _dimension(shape, from_right) != 1]
    return any(not alone or shape.element_count().contains(_dimension(shape, from_right)) for shape in varying)


def _dimension(shape: PartialShape, from_right: int) -> int:
    return shape[-from_right].value if shape.rank >= from_right else 1


def _is_outer(node: Node) -> bool:
    """True if only the first or only the last of three dimensions is reduced."""
    shape, axes = node.inputs[0].shape, node.inputs[1].type.constant
    if not shape.has_rank or shape.rank != 3 or axes is None or axes.size != 1:
        return False
    return int(axes.reshape(-1)[0]) % 3 != 1


def _reduces_the_middle(node: Node) -> bool:
    """True if the second of three dimensions is reduced, or may be."""
    shape, axes = node.inputs[0].shape, node.inputs[1].type.constant
    if not shape.has_rank or axes is None:
        return True
    return shape.rank == 3 and 1 in [int(axis) % 3 for axis in axes.reshape(-1)]


def _divides_float64(node: Node) -> bool:
    """True for a quotient of float64, which the plug-in does not change to a product as it does others."""
    return isinstance(node.op, Divide1) and node.outputs[0].element_type is element_types.f64


def _looks_like_keeping(node: Node, reader: Node) -> bool:
    """True if the plug-in may take a Reshape, or a Transpose that becomes one, for one that restores ``keep_dims``.

    That is so where the target shape has as many dimensions as the reduction leaves, and a 1 where one was reduced.
    The plug-in does not compare the other dimensions.
    """
    if isinstance(node.op, Reduction) and node.op.keep_dims:
        return False
    if not isinstance(reader.op, Reshape1):
        return _moves_only_ones(reader)
    axes, target, shape = node.inputs[1].type.constant, reader.inputs[1].type, node.inputs[0].shape
    count = target.shape.element_count()
    if axes is None or not shape.has_rank or not count.contains(shape.rank - axes.size):
        return False
    at = {int(axis) % shape.rank for axis in axes.reshape(-1)}
    bounds = target.known_bounds
    if bounds is None:
        return any(axis < shape.rank - axes.size for axis in at)
    ends = zip(bounds.lower.reshape(-1).tolist(), bounds.upper.reshape(-1).tolist())
    return any(low <= 1 <= high for index, (low, high) in enumerate(ends) if index in at)
