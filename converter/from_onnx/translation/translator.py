"""Translates a whole ONNX model, or the part of it that the options ask for, into an IR graph."""

from __future__ import annotations

from collections.abc import Sequence

from converter.errors import InvalidModelError, UnsupportedModelError, error_of
from converter.onnx_file.functions import model_functions
from converter.onnx_file.messages import NodeProto, ValueInfoProto
from converter.onnx_file.model_info import declared_shape, dimension_names, model_info, model_opsets
from converter.onnx_file.reader import OnnxFile
from converter.onnx_file.types import element_type_of
from converter.options.inputs import Bindings
from ir_runtime.graph import Dimension, ElementType, Model, Node, Output, PartialShape, TensorType, make_node
from ir_runtime.graph.shapes import NamedDimension
from ir_runtime.operations.inputs_outputs import Result1
from ir_runtime.rewriting.output_tensors import copied

from .dynamic_dimensions import IsDynamic, Translation, shape_while_translating
from .graph_translator import GraphTranslator, KeptNodes, Shared
from .validation import constant_inputs, needed_nodes, problem_of
from .values import tensor_of


def translate_model(
    file: OnnxFile, options: Bindings, is_dynamic: IsDynamic, reported: set[str], kept: KeptNodes
) -> Translation:
    """Translate a whole ONNX model, or the part of it that ``options`` ask for.

    ``is_dynamic`` decides which dimensions of the inputs are dynamic while translating, whatever the file
    declares; ``reported`` holds the warnings that were given before and are not given again. ``kept`` nodes are not
    translated.
    """
    proto = file.proto
    opsets = model_opsets(file)
    if not proto.HasField("graph"):
        raise InvalidModelError("the model has no graph")
    shared = Shared(file, model_functions(proto), reported, stateful=options.stateful, kept=kept)
    declared: dict[str, PartialShape] = {}
    model = _ModelGraph(GraphTranslator(shared, opsets), options, is_dynamic, declared).translate()
    model.name = proto.graph.name or "model"
    model.runtime_info = model_info(file, opsets)
    return Translation(
        model, declared, shared.declared_shapes, shared.problems, shared.keeps_dimensions, shared.declared_types
    )


class _ModelGraph:
    """The outermost graph, whose inputs and outputs are those of the model."""

    def __init__(
        self, translator: GraphTranslator, options: Bindings, is_dynamic: IsDynamic, declared: dict[str, PartialShape]
    ) -> None:
        self._translator = translator
        self._scope = translator.scope
        self._shared = translator.shared
        self._options = options
        self._is_dynamic = is_dynamic
        self._declared = declared
        self._returned: set[Output] = set()
        self._returned_names: dict[str, Output] = {}

    def translate(self) -> Model:
        """The graph; of no use where there are problems."""
        graph = self._shared.file.proto.graph
        names = [value.name for value in graph.output]
        nodes: Sequence[NodeProto] = graph.node
        if self._options.outputs is not None:
            names = list(self._options.outputs)
            nodes = needed_nodes(graph, names)
        self._translator.open(graph, nodes)
        if self._shared.problems:
            return Model()
        constants = constant_inputs(graph)
        for name in sorted(constants):
            self._shared.warn(f"'{name}' is declared as an input, but a Constant node gives its value, which counts")
        names_with_values = {*self._scope.initializers, *constants}
        inputs = [value for value in graph.input if value.name not in names_with_values]
        self._options = self._options.bound([value.name for value in inputs])
        parameters = [self._parameter(value) for value in inputs]
        self._shared.inputs = {node.outputs[0].names[0]: node for node in parameters if node is not None}
        self._translator.translate_nodes(nodes, names)
        for name, node in self._shared.inputs.items():
            if name not in self._declared:  # an input that a translator has added
                self._declared[name] = PartialShape.of_rank(node.outputs[0].shape.rank)
        model = Model(parameters=self._shared.inputs.values())
        if self._shared.problems:
            return Model()
        model.results = [self._result(name) for name in names]
        if self._options.outputs is not None:
            used = set(model.nodes())
            model.parameters = [p for p in model.parameters if any(p.outputs[0] in node.inputs for node in used)]
        return model

    def _parameter(self, value: ValueInfoProto) -> Node | None:
        """The parameter for an input of the model; None where the input is frozen."""
        if not value.name:
            raise InvalidModelError("an input of the graph has no name")
        try:
            if not value.type.HasField("tensor_type"):
                raise UnsupportedModelError(
                    f"input '{value.name}' is not a tensor, and the IR carries nothing but tensors"
                )
            element_type = self._options.element_types.get(value.name) or element_type_of(
                value.type.tensor_type.elem_type
            )
            shape = declared_shape(value.type)
        except (UnsupportedModelError, InvalidModelError) as error:
            opaque = self._shared.kept.input
            if opaque is None or isinstance(error, InvalidModelError):
                prefix = f"input '{value.name}': " if value.type.HasField("tensor_type") else ""
                raise type(error)(f"{prefix}{error}") from error
            self._declared[value.name] = PartialShape.dynamic()
            node = Node(opaque, (), opaque.infer(()), value.name)
            node.outputs[0].add_name(value.name)
            self._scope.define(value.name, node.outputs[0])
            return node
        if value.name in self._options.frozen:
            self._scope.constant(value.name, self._options.frozen_tensor(value.name, element_type, shape))
            return None
        declared = self._declared[value.name] = self._options.shape_of(value.name, shape)
        assumed = shape_while_translating(value.name, declared, self._is_dynamic)
        if self._options.stateful:
            assumed = _of_language_model(assumed, dimension_names(value.type), element_type)
        node = self._scope.parameter(value.name, TensorType(element_type, assumed))
        self._shared.declared_types.declare(node, TensorType(element_type, declared))
        return node

    def _result(self, name: str) -> Node:
        (value,) = self._translator.outputs([name])
        try:
            output = tensor_of(value, f"the output '{name}'")
        except UnsupportedModelError as error:
            writers = [node for node in self._shared.file.proto.graph.node if name in node.output]
            problems = [problem_of(node, self._translator.opset_of(node), str(error), True) for node in writers]
            raise error_of(problems) if writers else error from error
        self._translator.check_declared(name, output)
        an_input = output.node.op.role == "parameter" and name != output.names[0]
        if name in self._returned_names:
            output = self._returned_names[name]  # a file may list an output twice: both return one tensor
        elif an_input or output in self._returned:
            # The reader gives a tensor the names of its Result alone, so each result needs its own tensor.
            output.names = [other_name for other_name in output.names if other_name != name]
            output = copied(output, self._scope.unique(name))
            output.add_name(name)
        self._returned.add(output)
        self._returned_names[name] = output
        node = make_node(Result1(), [output], self._scope.unique(f"{name}/result"))
        node.output_names = [name]
        return node


def _of_language_model(shape: PartialShape, names: Sequence[Sequence[str]], element_type: ElementType) -> PartialShape:
    """Share dimensions between the inputs of a language model: batch and lengths of one name are equal.

    There is a token, or a batch of them, at each step; caches may be empty.
    """
    if not shape.has_rank or len(names) != shape.rank:
        return shape
    dims = []
    for dim, own in zip(shape, names):
        low = max(dim.low, 1) if element_type.is_integral and dim.high else dim.low
        dims.append(NamedDimension(own, low, dim.high) if own else Dimension(low, dim.high))
    return PartialShape(dims)
