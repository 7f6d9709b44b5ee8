"""Inferring the types of a graph again: for other shapes of its inputs, or after a change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..boundary import boundary
from ..errors import ModelError
from .node import Node, Output
from .operation import Operation, TensorType
from .shape_inference import infer_types
from .shapes import Dimension, PartialShape


class Inferred(NamedTuple):
    """The result of inference for a layer: its operation, and the types of its inputs and outputs."""

    op: Operation
    inputs: Sequence[TensorType]
    outputs: Sequence[TensorType]


def infer_again(
    nodes: Iterable[Node],
    parameters: Mapping[Node, TensorType] | None = None,
    inferred: Mapping[Node, Inferred] | None = None,
) -> None:
    """Infer the type of every output again, bodies included; ``nodes`` are those of a graph in its order.

    ``parameters`` gives parameters other types. ``inferred`` has results of an earlier inference: they are used where
    operation and types of inputs are the very same objects. Raises :class:`InferenceError`, which names the layer,
    and leaves the model as it was.
    """
    types_of_parameters, earlier_types = parameters or {}, inferred or {}
    types: dict[Output, TensorType] = {}
    changed: list[tuple[Node, Operation, Sequence[TensorType]]] = []
    for node in nodes:
        inputs = [types[source] for source in node.inputs]
        if node not in types_of_parameters and _are_same(inputs, [source.type for source in node.inputs]):
            types.update([(output, output.type) for output in node.outputs])  # nothing before it has changed
            continue
        before = earlier_types.get(node)
        op = node.op
        if before is not None and before.op is op and not op.subgraphs and _are_same(before.inputs, inputs):
            outputs = before.outputs
        else:
            try:
                if node in types_of_parameters:
                    op, outputs = op.of_type(types_of_parameters[node]), [types_of_parameters[node]]
                else:
                    op = op.specialized(inputs) if op.subgraphs else op
                    outputs = infer_types(op, inputs)
            except ModelError as error:
                raise type(error)(f"{node.where}: {error}") from error
        changed.append((node, op, outputs))
        types.update(zip(node.outputs, outputs))
    for node, op, outputs in changed:
        node.op = op
        for output, tensor_type in zip(node.outputs, outputs):
            output.type = tensor_type


def _are_same(some: Sequence[TensorType], others: Sequence[TensorType]) -> bool:
    return len(some) == len(others) and False not in [tensor_type is other for tensor_type, other in zip(some, others)]


@boundary("the shapes", reads=ModelError)
def types_for(parameters: Sequence[Node], shapes: Any) -> dict[Node, TensorType]:
    """The types of those ``parameters`` that are given other shapes: see :meth:`Model.reshape`.

    Raises :class:`ModelError` for an unknown input or an unreadable shape.
    """
    types: dict[Node, TensorType] = {}
    for key, shape in _by_input(parameters, shapes).items():
        node = _input(parameters, key)
        if node in types:
            raise ModelError(f"the input {key!r} is given two shapes")
        types[node] = TensorType(node.outputs[0].element_type, _shape(key, shape))
    return types


def _by_input(parameters: Sequence[Node], shapes: Any) -> Mapping[Any, Any]:
    if isinstance(shapes, Mapping):
        return shapes
    if len(parameters) != 1:
        raise ModelError(f"the model has {len(parameters)} inputs: say which of them gets which shape")
    return {0: shapes}


def _input(parameters: Sequence[Node], key: Any) -> Node:
    names = getattr(key, "names", None)
    for index, node in enumerate(parameters):
        output = node.outputs[0]
        if key is output or (not isinstance(key, (str, int)) and names and set(names) & set(output.names)):
            return node
        if isinstance(key, str) and (key in output.names or key == node.name):
            return node
        if isinstance(key, int) and not isinstance(key, bool) and key == index:
            return node
    input_names = [node.outputs[0].names[0] if node.outputs[0].names else node.name for node in parameters]
    raise ModelError(f"the model has no input {key!r}; its inputs are {input_names}")


def _shape(key: Any, shape: Any) -> PartialShape:
    try:
        if isinstance(shape, PartialShape):
            return shape
        if isinstance(shape, str):
            return PartialShape.parse(shape)
        return PartialShape([_dimension(dimension) for dimension in shape])
    except (ModelError, TypeError, ValueError) as error:
        raise ModelError(f"the shape {shape!r} of the input {key!r} cannot be read: {error}") from error


def _dimension(dimension: Any) -> Dimension | int | None:
    if isinstance(dimension, str):
        return PartialShape.parse(dimension)[0]
    if isinstance(dimension, (tuple, list)):
        low, high = dimension
        return Dimension(max(int(low), 0)) if high == -1 else Dimension(int(low), int(high))
    return dimension if dimension is None or isinstance(dimension, Dimension) else int(dimension)
