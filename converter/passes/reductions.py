"""Reductions of three dimensions to one of the outer ones, in the form that OpenVINO's CPU plug-in gets right.

The plug-in fuses what follows a reduction with constants into it. Where it reduces just the first or the
last of three dimensions, and such a constant has several values along the middle one, it reads values
that belong to other rows, or to nobody. With a dimension of extent 1 that is reduced as well it does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.activation import Clamp1, PReLU1
from ir_runtime.operations.elementwise import Binary, Unary
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.movement import Squeeze1, Unsqueeze1
from ir_runtime.operations.quantization import FakeQuantize1
from ir_runtime.operations.reduction import Reduction
from ir_runtime.shape_inference import make_node
from ir_runtime.tensor import Tensor

_FUSED = (Binary, Unary, Clamp1, PReLU1, FakeQuantize1)


def separate_outer_reductions(model: Model) -> Model:
    """``model``, changed in place where it has such reductions; names and values stay."""
    for part in model.all_models():
        nodes = part.nodes()
        reductions = [(node, axis) for node in nodes if (axis := _outer_axis(node)) is not None]
        if not reductions:
            continue
        taken = {node.name for node in nodes}
        readers: dict[Output, list[Node]] = defaultdict(list)
        for node in nodes:
            for source in node.inputs:
                readers[source].append(node)
        for node, axis in reductions:
            if any(_has_several_constants(reader) for reader in _fused_after(node, readers)):
                _separate(node, axis, taken)
    return model


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


def _separate(node: Node, axis: int, taken: set[str]) -> None:
    def named(suffix: str) -> str:
        name = f"{node.name}/{suffix}"
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    def numbers(values: list[int], suffix: str) -> Output:
        kind = old_axes.element_type
        tensor = Tensor.from_array(np.asarray(values, kind.dtype), kind)
        return make_node(Const1(value=tensor), (), named(suffix)).outputs[0]

    data, old_axes = node.inputs
    at, both = numbers([axis], "inserted"), numbers([axis, axis + 1], "axes")
    apart = make_node(Unsqueeze1(), [data, at], named("unsqueezed"))
    inputs = [apart.outputs[0], both]
    if isinstance(node.op, Reduction) and node.op.keep_dims:
        reduced = make_node(node.op, inputs, node.name)
        node.op, node.inputs, node.name = Squeeze1(), [reduced.outputs[0], at], named("squeezed")
    else:
        node.inputs = inputs
