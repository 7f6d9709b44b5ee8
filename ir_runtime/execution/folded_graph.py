"""Constant folding before a graph is run: which layers remain, and over which constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ..errors import ExecutionError, InternalError, ModelError
from ..graph import Array, Model, Node, Output, PartialShape, Tensor, infer_types
from ..graph.operation import TensorType
from ..rewriting.constant_folding import fold


def folded_graph(model: Model, *, refine_types: bool = False) -> tuple[list[Node], dict[Output, Array]]:
    """Return the layers that depend on more than constants and static dimensions, in order, and their constants.

    The constants are those that the layers, or the results, read.

    With ``refine_types`` the types of ``model`` become those that follow from these constants, which are tighter than
    types that follow from bounds. Raises :class:`ExecutionError` where the constants contradict a layer.
    """
    parameters = set(model.parameters)
    types: dict[Output, TensorType] = {node.outputs[0]: node.outputs[0].type for node in model.parameters}
    constants: dict[Output, Tensor] = {}
    remaining: list[Node] = []
    refined: set[Output] = set()
    nodes = model.nodes()
    uses_left = Counter(source for node in nodes for source in node.inputs)
    for node in nodes:
        if node in parameters or not node.outputs:
            continue
        inputs = [types[source] for source in node.inputs]
        if refine_types and not refined.isdisjoint(node.inputs):
            _refine(node, inputs)
            refined.update(node.outputs)
        tensors = _constant_outputs(node, inputs)
        types.update([(output, output.type) for output in node.outputs])
        if tensors is None:
            remaining.append(node)
            continue
        for output, tensor in zip(node.outputs, tensors):
            # The values are tighter than the bounds that inference found.
            types[output] = replace(output.type, shape=PartialShape(tensor.shape), tensor=tensor, bounds=None)
            constants[output] = tensor
            refined.add(output)
        # A constant is released after its last use: weights can pass through several layers that fold.
        for source in node.inputs:
            uses_left[source] -= 1
            if uses_left[source]:
                continue
            data = source.node.op.data
            span = None if data is None else data.span()
            if span is not None:
                span.forget()
            elif data is not None:
                data.forget()
            elif constants.pop(source, None) is not None:
                types[source] = replace(types[source], tensor=None)
    read = {source for node in [*remaining, *model.results] for source in node.inputs}
    return remaining, {output: tensor.array() for output, tensor in constants.items() if output in read}


def _refine(node: Node, inputs: Sequence[TensorType]) -> None:
    """Infer the node's types from these types of its inputs."""
    if node.op.subgraphs or node.op.data is not None:
        return
    try:
        types = infer_types(node.op, inputs)
    except ModelError:
        return  # the run raises the error, if it gets here
    for output, type in zip(node.outputs, types):
        output.type = type


def _constant_outputs(node: Node, inputs: Sequence[TensorType]) -> list[Tensor] | None:
    """The node's outputs where they follow from constants and static dimensions, else None."""
    if node.op.data is not None:
        return [node.op.data]
    try:
        return fold(node.op, inputs, [output.type for output in node.outputs], limited=False)
    except InternalError:
        raise
    except (ModelError, MemoryError) as error:
        raise ExecutionError(f"layer '{node.name}' ({node.op.type}): {error}") from error
