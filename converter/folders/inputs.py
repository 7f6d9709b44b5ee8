"""Inputs in the type and the shape that a pipeline sets, and outputs in the rank that it reads."""

from __future__ import annotations

from converter.errors import UnsupportedModelError
from ir_runtime.graph import ElementType, Model, Output, PartialShape, make_node
from ir_runtime.graph.invariants import OPTIONS, PROCESSING
from ir_runtime.operations.inputs_outputs import Parameter1
from ir_runtime.operations.movement import Unsqueeze1
from ir_runtime.rewriting import Builder, UniqueNames, graph_pass, layers
from ir_runtime.rewriting.submodel import extract


@graph_pass("input_of_pipeline", PROCESSING)
def take_input(model: Model, name: str, element_type: ElementType, shape: PartialShape) -> None:
    """Let the input ``name`` have another type, and ``shape``, whose elements are those of the model's input.

    A model without such an input stays as it is.
    """
    for old in model.parameters:
        value = old.outputs[0]
        if name not in value.names or (value.element_type == element_type and value.shape == shape):
            continue
        node = make_node(Parameter1(shape=shape, element_type=element_type), (), old.name)
        node.outputs[0].names, value.names = value.names, []
        unique = UniqueNames(model)
        builder = Builder(unique)
        builder.begin(old)
        result = layers.in_type(builder, node.outputs[0], value.element_type)
        if value.shape.has_rank and value.shape.rank != shape.rank:
            result = layers.reshape(builder, result, [-1] * value.shape.rank)
        model.parameters = [node if parameter is old else parameter for parameter in model.parameters]
        old.name = unique(old.name)
        value.replace_by(result)


@graph_pass("unread_input_of_pipeline", OPTIONS)
def add_input(model: Model, name: str, element_type: ElementType, shape: PartialShape) -> None:
    """Add an input that a pipeline sets and nothing reads; a model that has it stays as it is."""
    if not any(name in node.end_names for node in model.parameters):
        new_input(model, name, element_type, shape)


def new_input(model: Model, name: str, element_type: ElementType, shape: PartialShape) -> Output:
    """Add an input to the model, and return its value."""
    node = make_node(Parameter1(shape=shape, element_type=element_type), (), UniqueNames(model)(name))
    node.outputs[0].add_name(name)
    model.parameters = (*model.parameters, node)
    return node.outputs[0]


@graph_pass("output_of_pipeline", PROCESSING)
def give_output_rank(model: Model, name: str, rank: int) -> None:
    """Let the output ``name`` have ``rank`` dimensions, by dimensions of 1 in front.

    Raises :class:`UnsupportedModelError` for an output of more dimensions, or of an unknown number of them.
    """
    node = next(node for node in model.results if name in node.end_names)
    value = node.inputs[0]
    own = value.shape.rank if value.shape.has_rank else None
    if own is None or own > rank:
        own_rank = "is not known" if own is None else f"is {own}"
        raise UnsupportedModelError(f"the rank of the output '{name}' must be {rank} or less, but {own_rank}")
    if own < rank:
        builder = Builder(UniqueNames(model))
        builder.begin(node)
        result = builder.emit(Unsqueeze1(), value, builder.constant(list(range(rank - own))))
        if not node.output_names:
            result.names, value.names = value.names, []
        node.replace_input(0, result)


def without_features(model: Model, tokens: str, name: str) -> Model:
    """Return the embeddings of ``tokens`` alone, as output ``name``, of a model that puts others among them.

    Raises :class:`UnsupportedModelError` where not a single value is that.
    """
    alone = {node.outputs[0]: tokens in node.end_names for node in model.parameters}
    values: dict[Output, None] = {}
    for node in model.nodes():
        states = {alone[value] for value in node.inputs if value in alone}
        if states:
            alone.update(dict.fromkeys(node.outputs, states == {True}))
        if False in states:
            values |= dict.fromkeys(value for value in node.inputs if alone.get(value) and value.element_type.is_real)
    if len(values) != 1:
        raise UnsupportedModelError(
            f"the embeddings of '{tokens}' must be one value that those of images replace, but {len(values)} are that"
        )
    value = next(iter(values))
    source = next(node.outputs[0] for node in model.parameters if tokens in node.end_names)
    return extract(model, {source: tokens}, {value: name})
