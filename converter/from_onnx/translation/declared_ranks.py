"""Squeezes of all dimensions that are 1, where the file declares the rank of what follows.

    x [n, 4, 1, 1] -> Squeeze -> MatMul -> y, declared as [n, 3]      becomes      x -> Squeeze([2, 3]) -> MatMul -> y

A dimension of any length may be 1, too, and then the rank of the result is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ir_runtime.errors import ModelError
from ir_runtime.graph import Dimension, Model, Node, Output, PartialShape, Tensor, TensorType, infer_types, make_node
from ir_runtime.graph.invariants import PASSES
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.movement import Squeeze1
from ir_runtime.rewriting import UniqueNames, graph_pass

Types = dict[Output, TensorType]


@graph_pass("declared_ranks", PASSES)
def take_declared_ranks(
    model: Model, parameters: Mapping[Node, TensorType], declared: Sequence[tuple[str, PartialShape, Output]]
) -> None:
    """Give Squeezes the axes with which values are of the rank that the file declares, for inputs of these types."""
    unique = UniqueNames(model)
    for node in [node for node in model.nodes() if isinstance(node.op, Squeeze1) and len(node.inputs) == 1]:
        types = _types(model, parameters)
        ranks = {output: shape.rank for _, shape, output in declared if shape.has_rank}
        if types is None or not (types[node.inputs[0]].shape.has_rank and not types[node.outputs[0]].shape.has_rank):
            continue
        open_ranks = {output: rank for output, rank in ranks.items() if not types[output].shape.has_rank}
        (data,) = node.inputs
        for axes in _candidates(types[data].shape):
            constant = make_node(Const1(value=Tensor.from_array(np.array(axes))), (), unique(f"{node.name}/axes"))
            node.replace_inputs([data, constant.outputs[0]])
            if _are_of_ranks(open_ranks, _types(model, parameters)):
                break
            node.replace_inputs([data])


def _candidates(shape: PartialShape) -> list[list[int]]:
    """The dimensions that are 1, and those that may be 1."""
    ones = [axis for axis, dimension in enumerate(shape) if dimension == Dimension(1, 1)]
    return [axes for axes in (ones, [axis for axis, dimension in enumerate(shape) if dimension.contains(1)]) if axes]


def _are_of_ranks(ranks: Mapping[Output, int], types: Types | None) -> bool:
    """True if of the values whose rank was open some have one now, which is that of the declaration."""
    shapes = [(types[output].shape, rank) for output, rank in ranks.items()] if types else []
    resolved = [shape.rank == rank for shape, rank in shapes if shape.has_rank]
    return bool(resolved) and all(resolved)


def _types(model: Model, parameters: Mapping[Node, TensorType]) -> Types | None:
    """The types of the graph's values; None where the layers contradict those of the parameters."""
    types: Types = {}
    for node in model.nodes():
        try:
            inputs = [types[source] for source in node.inputs]
            outputs = [parameters[node]] if node in parameters else infer_types(node.op, inputs)
        except ModelError:
            return None
        types.update(zip(node.outputs, outputs))
    return types
