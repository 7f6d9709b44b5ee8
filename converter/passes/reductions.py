"""Reductions and what reads them, in the forms that OpenVINO's CPU plug-in gets right.

It fuses what follows a reduction with constants into it. Where it reduces just the first or the last of
three dimensions, and such a constant has several values along the middle one, it reads values that belong
to other rows, or to nobody. With a dimension of extent 1 that is reduced as well it does not.

It also takes a Reshape for what brings reduced dimensions back if the wanted shape has as many dimensions
as the reduction left and a 1 where one was reduced, and then leaves the Reshape out, whatever the other
extents are. A layer that computes between the two keeps them apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from ir_runtime import element_types
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.activation import Clamp1, PReLU1
from ir_runtime.operations.elementwise import Binary, LogicalOr1, Maximum1, Unary
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.movement import Reshape1, Squeeze1, Unsqueeze1
from ir_runtime.operations.quantization import FakeQuantize1
from ir_runtime.operations.reduction import Reduction
from ir_runtime.shape_inference import make_node
from ir_runtime.tensor import Tensor

_FUSED = (Binary, Unary, Clamp1, PReLU1, FakeQuantize1)


def separate_reductions(model: Model) -> Model:
    """``model``, changed in place where it has such reductions; names and values stay."""
    for part in model.all_models():
        nodes = part.nodes()
        reductions = [node for node in nodes if isinstance(node.op, Reduction)]
        if not reductions:
            continue
        names = _Names(nodes)
        readers: dict[Output, list[Node]] = defaultdict(list)
        for node in nodes:
            for source in node.inputs:
                readers[source].append(node)
        for node in reductions:
            for reader in readers[node.outputs[0]]:
                if _looks_like_keeping(node, reader):
                    _keep_apart(node, reader, names)
            axis = _outer_axis(node)
            after = () if axis is None else _fused_after(node, readers)
            if axis is not None and any(_has_several_constants(reader) for reader in after):
                _add_a_dimension(node, axis, names)
    return model


class _Names:
    """Names for new layers that no other layer has."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._taken = {node.name for node in nodes}

    def beside(self, node: Node, suffix: str) -> str:
        name = f"{node.name}/{suffix}"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


# --- a Reshape after a reduction ---


def _looks_like_keeping(node: Node, reader: Node) -> bool:
    if not isinstance(reader.op, Reshape1) or (isinstance(node.op, Reduction) and node.op.keep_dims):
        return False
    axes, target, shape = node.inputs[1].type.constant, reader.inputs[1].type.constant, node.inputs[0].shape
    if axes is None or target is None or not shape.has_rank or reader.inputs[0] is not node.outputs[0]:
        return False
    if target.size != shape.rank - axes.size:
        return False
    at = {int(axis) % shape.rank for axis in axes.reshape(-1)}
    return any(int(extent) == 1 for index, extent in enumerate(target.reshape(-1)) if index in at)


def _keep_apart(node: Node, reader: Node, names: _Names) -> None:
    source = node.outputs[0]
    same = LogicalOr1() if source.element_type is element_types.boolean else Maximum1()
    reader.inputs[0] = make_node(same, [source, source], names.beside(node, "as_it_is")).outputs[0]


# --- constants after the reduction of an outer dimension ---


def _outer_axis(node: Node) -> int | None:
    """0 or 2 where the node reduces just that one of three dimensions."""
    if not isinstance(node.op, Reduction) or not node.inputs[0].shape.has_rank or node.inputs[0].shape.rank != 3:
        return None
    axes = node.inputs[1].type.constant
    if axes is None or axes.size != 1 or int(axes.reshape(-1)[0]) % 3 == 1:
        return None
    return int(axes.reshape(-1)[0]) % 3


def _fused_after(node: Node, readers: dict[Output, list[Node]]) -> Iterator[Node]:
    """What works element by element on the node's output, and on what that gives."""
    pending, seen = list(readers[node.outputs[0]]), set()
    while pending:
        reader = pending.pop()
        if reader not in seen and isinstance(reader.op, _FUSED):
            seen.add(reader)
            yield reader
            pending += readers[reader.outputs[0]]


def _has_several_constants(node: Node) -> bool:
    sizes = [source.shape.element_count() for source in node.inputs if source.type.constant is not None]
    return any(not size.contains(1) for size in sizes)


def _add_a_dimension(node: Node, axis: int, names: _Names) -> None:
    def numbers(values: list[int], suffix: str) -> Output:
        kind = old_axes.element_type
        tensor = Tensor.from_array(np.asarray(values, kind.dtype), kind)
        return make_node(Const1(value=tensor), (), names.beside(node, suffix)).outputs[0]

    data, old_axes = node.inputs
    at, both = numbers([axis], "inserted"), numbers([axis, axis + 1], "axes")
    apart = make_node(Unsqueeze1(), [data, at], names.beside(node, "unsqueezed"))
    inputs = [apart.outputs[0], both]
    if isinstance(node.op, Reduction) and node.op.keep_dims:
        reduced = make_node(node.op, inputs, node.name)
        node.op, node.inputs, node.name = Squeeze1(), [reduced.outputs[0], at], names.beside(node, "squeezed")
    else:
        node.inputs = inputs
