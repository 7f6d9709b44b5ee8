"""The walk over an ONNX graph: scopes, order, dispatch, names, and where an error happened."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from onnx import GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from ir_runtime import ModelError
from ir_runtime.graph import Model, Node, Output, RuntimeInfo
from ir_runtime.operations.inputs_outputs import Const1, Identity16, Parameter1, Result1
from ir_runtime.shape_inference import make_node
from ir_runtime.shapes import INFINITY, Dimension, PartialShape

from . import operators as _operators
from .context import Context
from .errors import InvalidModelError, Problem, UnsupportedModelError, error_of
from .onnx_file import OnnxFile
from .onnx_types import element_type_of
from .registry import Translator, find_schema, find_translator, normalize_domain
from .schema_check import attribute_value, check_node, check_types

assert _operators  # importing it registers the translators

_logger = logging.getLogger("converter")

NEWEST_OPSET = 28
"""The newest opset of the default domain that the translators were written against."""


def translate_model(file: OnnxFile) -> Model:
    """Translate a whole ONNX model.

    Raises :class:`converter.errors.ConversionError` that lists every root cause.
    """
    proto = file.proto
    opsets = model_opsets(file)
    if not proto.HasField("graph"):
        raise InvalidModelError("the model has no graph")
    walk = GraphTranslation(file, opsets)
    model = walk.run(proto.graph)
    if walk.problems:
        raise error_of(walk.problems)
    model.name = proto.graph.name or "model"
    model.runtime_info = _model_info(file, opsets)
    return model


def model_opsets(file: OnnxFile) -> dict[str, int]:
    """The version of every domain that the model imports; raises :class:`InvalidModelError`."""
    proto = file.proto
    found: dict[str, int] = {}
    for entry in proto.opset_import:
        domain = normalize_domain(entry.domain)
        if found.setdefault(domain, entry.version) != entry.version:
            raise InvalidModelError(f"the model imports two versions of the domain '{domain}'")
    if not found and not proto.graph.node and not proto.HasField("graph"):
        raise InvalidModelError("the file is not an ONNX model: it has neither a graph nor an opset")
    # Files of IR version 1 and 2 name no opset; they are written against the first one.
    if "" not in found and (not proto.opset_import or proto.ir_version < 3):
        found[""] = 1
    default = found.get("", 1)
    if not 1 <= default <= NEWEST_OPSET:
        raise InvalidModelError(f"opset {default} is out of range: 1 to {NEWEST_OPSET} are supported")
    return found


def _model_info(file: OnnxFile, opsets: Mapping[str, int]) -> tuple[RuntimeInfo, ...]:
    proto = file.proto
    entries = [
        ("producer_name", proto.producer_name),
        ("producer_version", proto.producer_version),
        ("model_domain", proto.domain),
        ("model_version", str(proto.model_version) if proto.model_version else ""),
        ("ir_version", str(proto.ir_version)),
    ]
    children = [_info(name, value) for name, value in entries if value]
    imported = [_info(domain or "ai.onnx", str(version)) for domain, version in sorted(opsets.items())]
    children.append(RuntimeInfo("opset_import", (), tuple(imported)))
    metadata = [_info(entry.key, entry.value) for entry in proto.metadata_props]
    if metadata:
        children.append(RuntimeInfo("metadata_props", (), tuple(metadata)))
    return (RuntimeInfo("onnx", (), tuple(children)),)


def _info(name: str, value: str) -> RuntimeInfo:
    return RuntimeInfo("info", (("name", name), ("value", value)))


class GraphTranslation:
    """Translates one graph, collecting problems; a value that depends on a failed node is skipped."""

    def __init__(self, file: OnnxFile, opsets: Mapping[str, int]) -> None:
        self._file = file
        self._opsets = opsets
        self._values: dict[str, Output] = {}
        self._initializers: dict[str, TensorProto] = {}
        self._declared: dict[str, ValueInfoProto] = {}
        self._failed: set[str] = set()
        self._returned: set[Output] = set()
        self._layer_names: set[str] = set()
        self.problems: list[Problem] = []

    def run(self, graph: GraphProto) -> Model:
        """The IR of the graph. Look at :attr:`problems` before using it."""
        if graph.sparse_initializer:
            raise UnsupportedModelError("sparse initializers are not supported")
        for tensor in graph.initializer:
            if tensor.name in self._initializers:
                raise InvalidModelError(f"two initializers are called '{tensor.name}'")
            self._initializers[tensor.name] = tensor
        self._declared = {value.name: value for value in [*graph.value_info, *graph.output]}
        self._check_operators(graph.node)
        if self.problems:
            return Model()
        model = Model()
        for value in graph.input:
            if value.name not in self._initializers:
                model.parameters.append(self._parameter(value))
        self._check_names(graph)
        for node in _in_order(graph.node, self._known_names()):
            self._translate(node)
        if not self.problems:
            model.results = [self._result(value) for value in graph.output]
        return model

    def _known_names(self) -> set[str]:
        return {*self._values, *self._initializers}

    def _check_operators(self, nodes: Iterable[NodeProto]) -> None:
        """Every node without a translator is a problem of its own."""
        for node in nodes:
            domain = normalize_domain(node.domain)
            if domain not in self._opsets:
                reason = f"the model does not import the domain '{domain or 'ai.onnx'}'"
                self.problems.append(_problem(node, 0, reason, unsupported=False))
                continue
            opset = self._opsets[domain]
            found = find_translator(node.op_type, domain, opset)
            if isinstance(found, str):
                self.problems.append(_problem(node, opset, found, unsupported=True))

    def _check_names(self, graph: GraphProto) -> None:
        written = {node.outputs[0].names[0] for node in self._parameters()}
        written |= set(self._initializers)
        for node in graph.node:
            for name in node.output:
                if name and name in written:
                    raise InvalidModelError(
                        f"node '{_node_name(node)}' ({node.op_type}) writes the tensor '{name}', "
                        "which already has a value: names must be unique"
                    )
                written.add(name)

    def _parameters(self) -> list[Node]:
        return [output.node for output in self._values.values()]

    def _parameter(self, value: ValueInfoProto) -> Node:
        if not value.name:
            raise InvalidModelError("an input of the graph has no name")
        if value.name in self._values:
            raise InvalidModelError(f"two inputs of the graph are called '{value.name}'")
        if not value.type.HasField("tensor_type"):
            raise UnsupportedModelError(f"input '{value.name}' is not a tensor, and the IR carries nothing but tensors")
        try:
            kind = element_type_of(value.type.tensor_type.elem_type)
            shape = declared_shape(value.type)
        except (UnsupportedModelError, InvalidModelError) as error:
            raise type(error)(f"input '{value.name}': {error}") from error
        node = make_node(Parameter1(shape=shape, element_type=kind), (), value.name)
        node.outputs[0].add_name(value.name)
        self._values[value.name] = node.outputs[0]
        self._layer_names.add(value.name)
        return node

    def _result(self, value: ValueInfoProto) -> Node:
        output = self._value(value.name)
        if output is None:
            raise InvalidModelError(f"the graph's output '{value.name}' is computed by no node")
        self._check_declared(value.name, output)
        if output.node.op.role == "parameter" or output in self._returned:
            # The reader gives a tensor the names of its Result alone, so each result needs its own tensor.
            output.names = [name for name in output.names if name != value.name]
            output = make_node(Identity16(), [output], self._unique(value.name)).outputs[0]
            output.add_name(value.name)
        self._returned.add(output)
        node = make_node(Result1(), [output], self._unique(f"{value.name}/result"))
        node.output_names = [value.name]
        return node

    def _value(self, name: str) -> Output | None:
        found = self._values.get(name)
        if found is None and name in self._initializers:
            try:
                tensor = self._file.tensor(self._initializers[name])
            except (UnsupportedModelError, InvalidModelError) as error:
                raise type(error)(f"initializer '{name}': {error}") from error
            node = make_node(Const1(value=tensor), (), self._unique(name))
            found = self._values[name] = node.outputs[0]
            found.add_name(name)
        return found

    def _translate(self, node: NodeProto) -> None:
        if any(name in self._failed for name in node.input):
            self._failed.update(node.output)
            return
        domain = normalize_domain(node.domain)
        opset = self._opsets[domain]
        try:
            self._emit(node, domain, opset)
        except (InvalidModelError, UnsupportedModelError, ModelError) as error:
            unsupported = isinstance(error, UnsupportedModelError)
            self.problems.append(_problem(node, opset, str(error), unsupported))
            self._failed.update(node.output)

    def _emit(self, node: NodeProto, domain: str, opset: int) -> None:
        found = find_translator(node.op_type, domain, opset)
        assert not isinstance(found, str)  # _check_operators has seen to it
        translator, version = found
        schema = find_schema(node.op_type, domain, opset)
        check_node(node, schema, translator)
        inputs = [self._input(name) for name in node.input]
        if schema is not None:
            check_types(schema, inputs)
        context = Context(self._file, opset, version, node.output)
        outputs = _call(translator, context, inputs, node)
        if len(outputs) < len([name for name in node.output if name]):
            raise UnsupportedModelError(f"its output {len(outputs)} is not supported")
        self._name_layers(context, _node_name(node), outputs)
        for name, output in zip(node.output, outputs):
            if name and output is not None:
                self._check_declared(name, output)
                output.add_name(name)
                self._values[name] = output

    def _input(self, name: str) -> Output | None:
        if not name:
            return None
        output = self._value(name)
        if output is None:
            raise InvalidModelError(f"its input '{name}' is computed by no node before it")
        return output

    def _check_declared(self, name: str, output: Output) -> None:
        declared = self._declared.get(name)
        if declared is None or not declared.type.HasField("tensor_type"):
            return
        number = declared.type.tensor_type.elem_type
        if number and not output.element_type.is_dynamic and element_type_of(number) is not output.element_type:
            raise InvalidModelError(
                f"the model declares '{name}' as {element_type_of(number)}, but it is {output.element_type}"
            )
        shape = declared_shape(declared.type)
        if shape.merge(output.shape) is None:
            _logger.warning("the model declares '%s' as %s, but its shape is %s", name, shape, output.shape)

    def _name_layers(self, context: Context, name: str, outputs: Sequence[Output | None]) -> None:
        mine = set(context.emitted)
        main = next((o.node for o in outputs if o is not None and o.node in mine), None)
        if main is not None:
            main.name = self._unique(name)
        for node in context.emitted:
            if not node.name:
                node.name = self._unique(f"{name}/{node.op.type}")

    def _unique(self, wanted: str) -> str:
        name, number = wanted, 0
        while name in self._layer_names:
            number += 1
            name = f"{wanted}_{number}"
        self._layer_names.add(name)
        return name


def _call(
    translator: Translator, context: Context, inputs: Sequence[Output | None], node: NodeProto
) -> list[Output | None]:
    attributes = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    arguments = list(inputs)
    if translator.most_inputs is not None:
        while len(arguments) > translator.most_inputs and arguments[-1] is None:
            arguments.pop()
        if len(arguments) > translator.most_inputs:
            raise InvalidModelError(f"takes at most {translator.most_inputs} inputs, but got {len(arguments)}")
    for index in range(translator.least_inputs):
        if index >= len(arguments) or arguments[index] is None:
            raise InvalidModelError(f"input {index} is required, but missing")
    result = translator.function(context, *arguments, **attributes)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def declared_shape(type: TypeProto) -> PartialShape:
    """The shape that a tensor type declares; unknown rank where it declares none."""
    tensor = type.tensor_type
    if not tensor.HasField("shape"):
        return PartialShape.dynamic()
    dims = []
    for dim in tensor.shape.dim:
        # Exporters write -1 and, rarely, other negative numbers where they mean "unknown".
        static = dim.HasField("dim_value") and dim.dim_value >= 0
        dims.append(Dimension(dim.dim_value, dim.dim_value) if static else Dimension(0, INFINITY))
    return PartialShape(dims)


def _node_name(node: NodeProto) -> str:
    return node.name or next((name for name in node.output if name), "") or node.op_type


def _problem(node: NodeProto, opset: int, reason: str, unsupported: bool) -> Problem:
    return Problem(_node_name(node), node.op_type, node.domain, opset, reason, unsupported)


def _in_order(nodes: Sequence[NodeProto], known: set[str]) -> list[NodeProto]:
    """The nodes, each after those it reads from; the file's order where that already holds."""
    writer = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    waiting = [{writer[name] for name in node.input if name in writer and name not in known} for node in nodes]
    if all(max(sources, default=-1) < index for index, sources in enumerate(waiting)):
        return list(nodes)
    readers: dict[int, list[int]] = {}
    for index, sources in enumerate(waiting):
        for source in sources:
            readers.setdefault(source, []).append(index)
    order = [index for index, sources in enumerate(waiting) if not sources]
    for index in order:  # grows while it is walked
        for reader in readers.get(index, ()):
            waiting[reader].discard(index)
            if not waiting[reader]:
                order.append(reader)
    if len(order) < len(nodes):
        stuck = nodes[_on_a_cycle(waiting)]
        raise InvalidModelError(f"node '{_node_name(stuck)}' ({stuck.op_type}) is part of a cycle")
    return [nodes[index] for index in order]


def _on_a_cycle(waiting: Sequence[set[int]]) -> int:
    """A node on a cycle: follow what each stuck node waits for until one comes up twice."""
    current = next(index for index, sources in enumerate(waiting) if sources)
    seen: set[int] = set()
    while current not in seen:
        seen.add(current)
        current = min(waiting[current])
    return current
