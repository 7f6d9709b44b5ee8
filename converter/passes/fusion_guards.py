"""Layers between others that OpenVINO's CPU plug-in would fuse wrongly, or leave out.

The plug-in computes what follows a layer element by element with constants in the same step. What it then
does with constants of several values is wrong in the cases below; values of other rows, or of nobody, are
read, or the model does not compile. It also leaves out a Reshape that it takes for something else. A layer
that computes, the greater of a value and itself, keeps the two apart and changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from converter.lowering.barrier import barrier
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.activation import Clamp1, PReLU1
from ir_runtime.operations.elementwise import Binary, Unary
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Reshape1, Transpose1, Unsqueeze1
from ir_runtime.operations.normalization import BatchNormInference1, BatchNormInference5
from ir_runtime.operations.quantization import FakeQuantize1
from ir_runtime.operations.reduction import Reduction
from ir_runtime.shape_inference import make_node
from ir_runtime.shapes import PartialShape

_BY_CHANNEL = (PReLU1, BatchNormInference1, BatchNormInference5)
"""What has its constants along dimension 1, whatever their shapes are."""
_FUSED = (Binary, Unary, Clamp1, FakeQuantize1, *_BY_CHANNEL)

Readers = dict[Output, list[Node]]


def guard_fusions(model: Model) -> Model:
    """``model``, changed in place where it needs such layers; names and values stay."""
    for part in model.all_models():
        nodes = part.nodes()
        guarded = [node for node in nodes if isinstance(node.op, (Reduction, MatMul1))]
        if not guarded:
            continue
        readers: Readers = defaultdict(list)
        for node in nodes:
            for source in node.inputs:
                readers[source].append(node)
        taken = {node.name for node in nodes}
        for node in guarded:
            wrong = [reader for reader in readers[node.outputs[0]] if _goes_wrong(node, reader, readers)]
            if wrong:
                _keep_apart(node.outputs[0], wrong, taken)
            if _is_pulled_through(node):
                _keep_apart(node.inputs[0], [node], taken)
    return model


def _keep_apart(source: Output, readers: Iterable[Node], taken: set[str]) -> None:
    name = f"{source.node.name}/as_it_is"
    while name in taken:
        name += "_"
    taken.add(name)
    between = make_node(barrier(source.element_type), [source, source], name).outputs[0]
    for reader in readers:
        reader.inputs = [between if value is source else value for value in reader.inputs]


def _is_pulled_through(node: Node) -> bool:
    """Whether the plug-in would move a change of the shape behind the reduction, and put extents of 1 elsewhere."""
    before = node.inputs[0].node
    if not isinstance(node.op, Reduction) or not node.inputs[0].shape.is_static or not before.inputs:
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
    if order is None or not shape.is_static:
        return False
    left = [int(axis) for place, axis in enumerate(order) if place not in reduced]
    others = [axis for axis in left if shape[axis].value != 1]
    return others == sorted(others) and len(others) < len(left)


def _goes_wrong(node: Node, reader: Node, readers: Readers) -> bool:
    after = list(_fused(reader, readers))
    shape = node.outputs[0].shape
    # An extent that is not known may be 1, which a constant of several values widens.
    unknown = [shape.rank - axis for axis in range(shape.rank) if not shape[axis].is_static] if shape.has_rank else []
    if any(_varies(one, place) for one in after for place in unknown):
        return True
    if isinstance(node.op, Reduction):
        return _looks_like_keeping(node, reader) or (_is_outer(node) and any(_varies(one) for one in after))
    channels = shape.rank - 1 if shape.has_rank and shape.rank >= 4 else None
    return channels is not None and any(_varies(one, channels) for one in after)


def _fused(reader: Node, readers: Readers) -> Iterator[Node]:
    """What works element by element, with constants if with anything else, from ``reader`` on."""
    pending, seen = [reader], set()
    while pending:
        node = pending.pop()
        if node not in seen and isinstance(node.op, _FUSED) and _computed_inputs(node) <= 1:
            seen.add(node)
            yield node
            pending += readers[node.outputs[0]]


def _computed_inputs(node: Node) -> int:
    return sum(source.type.constant is None for source in node.inputs)


def _varies(node: Node, from_right: int | None = None) -> bool:
    """Whether a constant has several values, along the dimension that is so many from the right if that is given."""
    constants = [source.shape for source in node.inputs if source.type.constant is not None]
    data = node.inputs[0].shape
    if isinstance(node.op, _BY_CHANNEL) and data.has_rank and from_right not in (None, data.rank - 1):
        return False
    if from_right is None or isinstance(node.op, _BY_CHANNEL):
        return any(not shape.element_count().contains(1) for shape in constants)
    return any(_extent(shape, from_right) != 1 for shape in constants)


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
    axes, target, shape = node.inputs[1].type.constant, reader.inputs[1].type.constant, node.inputs[0].shape
    if axes is None or target is None or not shape.has_rank or target.size != shape.rank - axes.size:
        return False
    at = {int(axis) % shape.rank for axis in axes.reshape(-1)}
    return any(int(extent) == 1 for index, extent in enumerate(target.reshape(-1)) if index in at)
