"""An IR as the source of a conversion: read, changed as the options say, and handed to passes and rules."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from converter.errors import ConversionError
from converter.options.input_forms import OptionError
from converter.options.inputs import Bindings, suggestions
from ir_runtime.errors import ContradictionError, InferenceError
from ir_runtime.files.file_kinds import IR, kind_of_path
from ir_runtime.graph import ElementType, Model, Node, PartialShape, TensorType, make_node
from ir_runtime.graph.invariants import OPTIONS
from ir_runtime.graph.reshaping import infer_again
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1
from ir_runtime.rewriting import UniqueNames, graph_pass
from ir_runtime.rewriting.constant_folding import fold
from ir_runtime.rewriting.edits import known_tensors, replace_parameter
from ir_runtime.rewriting.type_updates import infer_stale


def is_ir(source: Any) -> bool:
    """True if the source of a conversion is an IR: a model, or the path of an ``.xml``."""
    if isinstance(source, Model):
        return True
    return isinstance(source, (str, os.PathLike)) and kind_of_path(source) is IR


def read_ir(source: Any) -> Model:
    """Return a private copy of the model, safe to edit."""
    if isinstance(source, Model):
        return source.clone()
    from ir_runtime.files.xml_reader import read_model

    return read_model(Path(source))


def apply_options(model: Model, bindings: Bindings, *, static: bool) -> Mapping[str, PartialShape]:
    """Give ``model`` the shapes, types, values and outputs of ``bindings``, in place; the shapes of its inputs.

    An input may be called by any of its tensors' names, or by its layer's. With ``static`` what depends on the shapes
    of the inputs becomes constant. Raises :class:`ConversionError` where an option does not fit the model.
    """
    inputs = {(node.end_names or [node.name])[0]: node for node in model.parameters}
    names = {name: first for first, node in inputs.items() for name in (*node.end_names, node.name)}
    bound = bindings.renamed(names).bound(list(inputs))
    _reshape(model, inputs, bound)
    for name in bound.frozen:
        _freeze(model, inputs.pop(name), bound, name)
    for name, element_type in bound.element_types.items():
        _retype(model, inputs[name], element_type)
    if bound.outputs is not None:
        cut_outputs(model, bound.outputs)
    if static:
        _fold_shapes(model)
    return {name: node.outputs[0].shape for name, node in inputs.items()}


@graph_pass("reshape", OPTIONS)
def _reshape(model: Model, inputs: Mapping[str, Node], bindings: Bindings) -> None:
    shapes = {}
    for name, node in inputs.items():
        if name not in bindings.frozen:
            declared = node.outputs[0].shape
            requested = bindings.shape_of(name, declared)
            if requested != declared:
                shapes[node] = TensorType(node.outputs[0].element_type, requested)
    try:
        infer_again(model.nodes(), shapes)
    except InferenceError as error:
        raise ContradictionError(str(error)) from error


@graph_pass("freeze_input", OPTIONS)
def _freeze(model: Model, node: Node, bindings: Bindings, name: str) -> None:
    (output,) = node.outputs
    tensor = bindings.frozen_tensor(name, output.element_type, output.shape)
    constant = make_node(Const1(value=tensor), (), node.name)
    output.replace_by(constant.outputs[0])
    replace_parameter(model, node)
    try:
        infer_stale(model)
    except InferenceError as error:
        raise ConversionError(f"input '{name}' cannot have this value: {error}") from error


@graph_pass("retype_input", OPTIONS)
def _retype(model: Model, node: Node, element_type: ElementType) -> None:
    """Let an input have another element type, converted to the one that the layers want."""
    (output,) = node.outputs
    if output.element_type is element_type:
        return
    parameter = make_node(Parameter1(shape=output.shape, element_type=element_type), (), node.name)
    unique = UniqueNames(model)
    node.name = unique(node.name)
    converted = make_node(
        Convert1(destination_type=output.element_type), [parameter.outputs[0]], unique(f"{parameter.name}/Convert")
    )
    parameter.outputs[0].names, parameter.output_names = list(output.names), list(node.output_names)
    replace_parameter(model, node, parameter)
    output.replace_by(converted.outputs[0], move_names=False)


@graph_pass("cut_outputs", OPTIONS)
def cut_outputs(model: Model, outputs: tuple[str, ...]) -> None:
    """Return these tensors in place of the model's outputs."""
    tensors = known_tensors(model)
    missing = [name for name in outputs if name not in tensors]
    if missing:
        raise OptionError(f"the model has no tensor '{missing[0]}'{suggestions(missing[0], tensors)}")
    unique = UniqueNames(model)
    results = [make_node(Result1(), [tensors[name]], unique(f"{name}/result")) for name in outputs]
    for name, result in zip(outputs, results):
        result.output_names = [name]
    model.results = results
    model.parameters = [node for node in model.parameters if node.outputs[0].is_used]


@graph_pass("fold_shapes", OPTIONS)
def _fold_shapes(model: Model) -> None:
    """Replace values that follow from dimensions by constants, now that these are known."""
    dynamic = [(node.end_names or [node.name])[0] for node in model.parameters if not node.outputs[0].shape.is_static]
    if dynamic:
        raise ConversionError(f"static needs known shapes, but {', '.join(map(repr, dynamic))} have dynamic dimensions")
    for part in model.parts():
        unique = UniqueNames(part)
        for node in part.nodes:
            if node.op.role or not node.inputs or any(output.element_type.is_real for output in node.outputs):
                continue
            try:
                tensors = fold(node.op, [source.type for source in node.inputs], [out.type for out in node.outputs])
            except InferenceError as error:
                raise ContradictionError(f"{node.where}: {error}") from error
            for output, tensor in zip(node.outputs, tensors or ()):
                constant = make_node(Const1(value=tensor), (), unique(f"{node.name}/constant"))
                output.replace_by(constant.outputs[0], move_names=False)
