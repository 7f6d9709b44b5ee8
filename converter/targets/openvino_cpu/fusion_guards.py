"""Layers between others that OpenVINO's CPU plug-in would fuse wrongly, or leave out.

The plug-in computes what follows a layer element by element with constants in the same step. What it then
does with constants of several values is wrong in the cases below: values of other rows, or of nobody, are
read, or the model does not compile, such as where channels were resized before. What follows a reduction of
integers it computes as floats. It also leaves out a Reshape that it takes for something else. A layer that
computes, the greater of a value and itself, keeps the two apart and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from converter.targets.openvino_cpu.opaque_identity import keep_apart
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Model, Node
from ir_runtime.operations.activation import Clamp1, PReLU1
from ir_runtime.operations.elementwise import Binary, Bitwise, Unary
from ir_runtime.operations.interpolate import Interpolate11
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Reshape1, Transpose1, Unsqueeze1
from ir_runtime.operations.normalization import BatchNormInference1, BatchNormInference5
from ir_runtime.operations.quantization import FakeQuantize1
from ir_runtime.operations.reduction import Reduction
from ir_runtime.rewrite import UniqueNames, Uses
from ir_runtime.shapes import PartialShape

from .intervals import is_small

_OF_CHANNELS = (BatchNormInference1, BatchNormInference5)
"""What has as many constants as there are channels, and so never widens anything."""
_BY_CHANNEL = (PReLU1, *_OF_CHANNELS)
"""What has its constants along dimension 1, whatever their shapes are."""
_FUSED = (Binary, Unary, Clamp1, FakeQuantize1, *_BY_CHANNEL)


@openvino_cpu.register(
    "fusion_guards", after=["fake_quantize", "integer_products", "integer_reductions", "interpolations"]
)
def guard_fusions(model: Model) -> int:
    """Put a layer that changes nothing where two others would be fused wrongly; names and values stay."""
    acted = 0
    for part in model.parts():
        guarded = part.nodes_of((Reduction, MatMul1, Interpolate11))
        if not guarded:
            continue
        uses, unique = part.uses, UniqueNames(part)
        for node in guarded:
            wrong = [reader for reader in uses[node.outputs[0]] if _goes_wrong(node, reader, uses)]
            if wrong:
                keep_apart(node.outputs[0], wrong, unique)
            pulled = _is_pulled_through(node)
            if pulled:
                keep_apart(node.inputs[0], [node], unique)
            acted += bool(wrong) + pulled
    return acted


def _is_pulled_through(node: Node) -> bool:
    """Whether the plug-in would move a change of the shape behind the reduction, and put extents of 1 elsewhere."""
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
    """Whether a Transpose does what a Reshape could do as well, at least where nothing is reduced after it."""
    order = node.inputs[1].type.constant if isinstance(node.op, Transpose1) else None
    shape = node.inputs[0].shape if node.inputs else PartialShape.dynamic()
    if order is None or not shape.has_rank:
        return False
    left = [int(axis) for place, axis in enumerate(order) if place not in reduced]
    others = [axis for axis in left if not shape[axis].contains(1)]
    return others == sorted(others) and len(others) < len(left)


def _goes_wrong(node: Node, reader: Node, uses: Uses) -> bool:
    after = list(_fused(reader, uses))
    if isinstance(node.op, Interpolate11):
        rank = node.outputs[0].shape.rank if node.outputs[0].shape.has_rank else 0
        return _resizes_channels(node) and any(_varies(one, rank - 1) for one in after)
    in_integers = node.outputs[0].element_type.is_integral and not isinstance(reader.op, Bitwise)
    if in_integers and not all(is_small(one.outputs[0]) for one in after):
        return True
    shape = node.outputs[0].shape
    # An extent that is not known may be 1, which a constant of several values widens.
    unknown = [shape.rank - axis for axis in range(shape.rank) if not shape[axis].is_static] if shape.has_rank else []
    widening = [one for one in after if not isinstance(one.op, _OF_CHANNELS)]
    # Into a product only a number for each channel is fused: constants that vary along several dimensions are not.
    alone = isinstance(node.op, MatMul1)
    if any(_varies(one, place, alone) for one in widening for place in unknown):
        return True
    if isinstance(node.op, Reduction):
        return _looks_like_keeping(node, reader) or (_is_outer(node) and any(_varies(one) for one in after))
    channels = shape.rank - 1 if shape.has_rank and shape.rank >= 4 else None
    return channels is not None and any(_varies(one, channels, alone) for one in after)


def _resizes_channels(node: Node) -> bool:
    """Whether an Interpolate may change dimension 1, of which the plug-in keeps the number of channels."""
    before, after = node.inputs[0].shape, node.outputs[0].shape
    if not before.has_rank or not after.has_rank or after.rank < 2:
        return False
    axes = node.inputs[2].type.constant if len(node.inputs) > 2 else None
    if axes is not None and 1 not in [int(axis) % after.rank for axis in axes.reshape(-1)]:
        return False
    return not before[1].is_static or before[1] != after[1]


def _fused(reader: Node, uses: Uses) -> Iterator[Node]:
    """What works element by element, with constants if with anything else, from ``reader`` on."""
    pending, seen = [reader], set()
    while pending:
        node = pending.pop()
        if node not in seen and isinstance(node.op, _FUSED) and _computed_inputs(node) <= 1:
            seen.add(node)
            yield node
            pending += uses[node.outputs[0]]


def _computed_inputs(node: Node) -> int:
    return sum(source.type.constant is None for source in node.inputs)


def _varies(node: Node, from_right: int | None = None, alone: bool = False) -> bool:
    """Whether a constant has several values, along the dimension that is so many from the right if that is given.

    ``alone``: along that dimension only.
    """
    constants = [source.shape for source in node.inputs if source.type.constant is not None]
    data = node.inputs[0].shape
    if isinstance(node.op, _BY_CHANNEL) and data.has_rank and from_right not in (None, data.rank - 1):
        return False
    if from_right is None or isinstance(node.op, _BY_CHANNEL):
        return any(not shape.element_count().contains(1) for shape in constants)
    varying = [shape for shape in constants if _extent(shape, from_right) != 1]
    return any(not alone or shape.element_count().contains(_extent(shape, from_right)) for shape in varying)


def _extent(shape: PartialShape, from_right: int) -> int:
    return shape[-from_right].value if shape.rank >= from_right else 1


def _is_outer(node: Node) -> bool:
    """Whether just the first or the last of three dimensions is reduced."""
    shape, axes = node.inputs[0].shape, node.inputs[1].type.constant
    if not shape.has_rank or shape.rank != 3 or axes is None or axes.size != 1:
        return False
    return int(axes.reshape(-1)[0]) % 3 != 1


def _looks_like_keeping(node: Node, reader: Node) -> bool:
    """Whether a Reshape, or a Transpose that becomes one, might be taken for one that brings dimensions back.

    That is where the wanted shape has as many dimensions as the reduction left, and a 1 where one was
    reduced; the plug-in does not look at the other extents.
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
