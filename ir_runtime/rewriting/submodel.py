"""Parts of a model as models of their own, and bodies of Loop, TensorIterator and If that are emitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..graph import Model, Node, Output, PartialShape, TensorType, make_node
from ..graph.element_types import ElementType
from ..graph.node import copy_node
from ..operations.inputs_outputs import Parameter1, Result1


def extract(model: Model, inputs: Mapping[Output, str], outputs: Mapping[Output, str]) -> Model:
    """Return a model of the layers of ``model`` between ``inputs`` and ``outputs``.

    The mappings give the tensor names of its parameters and results. Layers keep their names, types and ``rt_info``.
    Parameters of ``model`` that ``outputs`` depend on beside ``inputs`` become parameters as well.
    """
    values: dict[Output, Output] = {}
    parameters: list[Node] = []
    for source, name in inputs.items():
        tensor_type = TensorType(source.element_type, source.shape)
        node = Node(Parameter1(element_type=tensor_type.element_type, shape=tensor_type.shape), (), [tensor_type], name)
        node.outputs[0].names = [name]
        parameters.append(node)
        values[source] = node.outputs[0]
    required = _find_required_layers(inputs, outputs)
    for node in model.nodes():
        if node not in required:
            continue
        copied = copy_node(node, [values[source] for source in node.inputs])
        if not node.inputs and node.op.data is None and node in model.parameters:
            parameters.append(copied)
        for old, new in zip(node.outputs, copied.outputs):
            values.setdefault(old, new)
    results = []
    for source, name in outputs.items():
        result = make_node(Result1(), [values[source]], f"{name}/result")
        result.output_names = [name]
        results.append(result)
    return Model(model.name, parameters, results, [], model.runtime_info, model.version)


def _find_required_layers(inputs: Mapping[Output, str], outputs: Mapping[Output, str]) -> set[Node]:
    """Return the layers that ``outputs`` depend on, up to ``inputs``."""
    required: set[Node] = set()
    pending = [output for output in outputs if output not in inputs]
    while pending:
        node = pending.pop().node
        if node not in required:
            required.add(node)
            pending.extend(source for source in node.inputs if source not in inputs)
    return required


def parameter(element_type: ElementType, shape: PartialShape, name: str = "") -> Node:
    """Return an input of a body, or of a model."""
    return make_node(Parameter1(shape=shape, element_type=element_type), (), name)


def parameters_of(types: Iterable[TensorType]) -> list[Node]:
    """Return an input for each of these types."""
    return [parameter(type.element_type, type.shape) for type in types]


def body_of(parameters: Sequence[Node], results: Iterable[Output]) -> Model:
    """Return a body, whose layers are called by type and number: nothing else gives them a name."""
    body = Model("body", parameters, [make_node(Result1(), [value]) for value in results])
    for number, node in enumerate(body.nodes()):
        node.name = f"{node.op.type}_{number}"
    return body
