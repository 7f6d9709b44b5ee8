"""An ONNX model that is edited: how its language writes inputs, outputs, weights and nodes, and infers types."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from converter.editing.edits import Editable, check_axis
from converter.editing.operators import OperatorText
from converter.errors import ConversionError, InvalidModelError, UnsupportedModelError
from converter.onnx_file.declared_types import inferred_graph, types_of
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.graph import (
    INPUT,
    NODE,
    OUTPUT,
    GraphReader,
    OnnxGraph,
    OnnxOperator,
    copied,
    function_message,
    named,
    new_operator,
    operator_of,
    value_info,
)
from converter.onnx_file.model import OnnxModel, constant_operator, store
from converter.onnx_file.node_order import all_graphs
from converter.onnx_file.reader import ModelSource
from converter.onnx_file.skeleton import place_of, tensors_in
from converter.onnx_file.types import element_type_of
from converter.options.input_forms import OptionError
from converter.options.inputs import suggestions
from ir_runtime.graph import ElementType, Node, Output, Tensor
from ir_runtime.rewriting.edits import dependents, known_tensors
from ir_runtime.rewriting.unique_names import UniqueNames


class EditedOnnx(OnnxModel, Editable):
    """An ONNX model whose graph, functions and properties are edited."""

    graph: OnnxGraph

    def __init__(self, source: ModelSource, tensors: list[Tensor] | None = None) -> None:
        super().__init__(source, tensors=tensors)
        self.notes: list[str] = []
        self._types: dict[str, onnx.ValueInfoProto] = {}

    def check_target(self, path: Path) -> None:
        """Raise :class:`ConversionError` where writing to a path would replace a file that weights are read from."""
        folder = path.resolve().parent
        names = [file.resolve().name for file in self.files if file.resolve().parent == folder]
        if any(name == path.name or name.startswith(f"{path.name}.data") for name in names):
            raise ConversionError(f"'{path}' belongs to the model that is read: write to another file")

    # --- names ---

    def inputs(self) -> Sequence[Node]:
        defaults = (node for node in self.graph.nodes() if node.op.role == "constant" and -1 in operator_of(node).infos)
        return (*self.graph.parameters, *defaults)

    def tensors(self) -> Mapping[str, Output]:
        return {name: output for node in self.graph.nodes() for output in node.outputs for name in output.names}

    def inner_names(self) -> Mapping[str, str]:
        names, own = dict[str, str](), self.tensors()
        for node in self.graph.nodes():
            operator = operator_of(node)
            pairs = zip(operator.entries, operator.bodies)
            attributes = [entry.name for entry, count in pairs for _ in range(abs(count))]
            for attribute, sub in zip(attributes, operator.subgraphs):
                values = [value for part in sub.body.parts() for inner in part.nodes for value in inner.outputs]
                where = f"the {attribute} of node '{node.name}' ({operator.op_type})"
                names.update((name, where) for value in values for name in value.names)
        return {name: where for name, where in names.items() if name not in own}

    def reserved_names(self) -> set[str]:
        return {*self.tensors(), *self.inner_names()}

    def is_computed(self, value: Output) -> bool:
        return operator_of(value.node).kind == NODE

    # --- types ---

    def prepare(self, values: Iterable[Output]) -> None:
        """Find out the types of tensors; raises :class:`UnsupportedModelError` for one of unknown type or rank."""
        declared = {node.inputs[0] for node in self.graph.results} | {node.outputs[0] for node in self.graph.parameters}
        names = [value.names[0] for value in values if value not in declared]
        self._types = self.types(names)
        for name in names:
            if _lacks(self._types.get(name), shape=True):
                unknown = "type" if _lacks(self._types.get(name)) else "rank"
                raise UnsupportedModelError(f"the {unknown} of the tensor '{name}' is not known: choose another tensor")

    def types(self, names: Sequence[str]) -> dict[str, onnx.ValueInfoProto]:
        """Return the types of tensors: as the file declares them, as onnx infers them, and as the IR has them."""
        message = self.message()
        types = {
            tensor.name: helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            for tensor in message.graph.initializer
        }
        declared = (*message.graph.value_info, *message.graph.input, *message.graph.output)
        types = {**types_of(message), **types, **{value.name: value for value in declared if not _lacks(value)}}
        for name in names:
            if _lacks(types.get(name), shape=True):
                self._type_by_conversion(name, types)
        return types

    def _type_by_conversion(self, name: str, types: dict[str, onnx.ValueInfoProto]) -> None:
        """Add the type that the IR has for a tensor, as of operators that onnx does not know."""
        from converter.conversion.convert import convert
        from converter.options.conversion import ConversionOptions

        options = ConversionOptions(output=[name], target="any", fuse=False)
        try:
            model = convert(self.as_file(), options).model
        except ConversionError:
            return
        value = known_tensors(model).get(name)
        if value is not None:
            types[name] = value_info(name, value.type)

    def element_type_of(self, value: Output) -> ElementType | None:
        types = self.types(value.names)
        number = types[value.names[0]].type.tensor_type.elem_type if value.names[0] in types else 0
        return element_type_of(number) if number else None

    def infer_again(self, values: Iterable[Output]) -> None:
        """Infer the types of outputs that follow from changed values anew; declared inner types of these are gone."""
        affected = dependents(self.graph, values)
        for node in self.graph.nodes():
            stale = {index for index, output in enumerate(node.outputs) if output in affected}
            if stale & operator_of(node).infos.keys():
                kept = {index: entry for index, entry in operator_of(node).infos.items() if index not in stale}
                node.op = operator_of(node).replace(infos=kept)
            for sub in node.op.subgraphs if not affected.isdisjoint(node.inputs) else ():
                for part in sub.body.parts():
                    _forget_types(part)
        ends = [node for node in self.graph.results if node.inputs[0] in affected]
        ends = [node for node in ends if node.inputs[0].node.op.role != "parameter"]
        before = {node: operator_of(node).infos[-1][1] for node in ends}
        for node in ends:
            _declare(node, onnx.ValueInfoProto(name=before[node].name))
        inferred = {value.name: value for value in inferred_graph(self.message()).output} if ends else {}
        for node in ends:
            if _lacks(inferred.get(node.end_names[0]), shape=True):
                self._type_by_conversion(node.end_names[0], inferred)
        for node in ends:
            value, better = copied(before[node]), inferred.get(node.end_names[0])
            if better is not None and not _lacks(better):
                value.type.CopyFrom(better.type)
            if better is not None and _lacks(better, shape=True):
                value.type.CopyFrom(before[node].type)
                for dim in value.type.tensor_type.shape.dim:
                    dim.Clear()
            _declare(node, value)

    # --- inputs, outputs, weights, nodes ---

    def new_input(self, value: Output, name: str) -> Node:
        operator = OnnxOperator(INPUT, infos={-1: (math.inf, named(self._types[name], name))})
        return _node(operator, (), name, name)

    def new_output(self, value: Output, name: str) -> Node:
        for node in self.graph.results:
            if node.inputs[0] is value and node.end_names[0] == name:
                return node
        operator = OnnxOperator(OUTPUT, infos={-1: (0, named(self._types[name], name))}, count=0)
        node = _node(operator, [value], f"{name}/output")
        node.output_names = [name]
        return node

    def clean(self) -> None:
        """Remove the functions that nothing calls any more, and inner types of what is an output now."""
        for value in (node.inputs[0] for node in self.graph.results):
            operator = operator_of(value.node)
            infos = {index: entry for index, entry in operator.infos.items() if index != value.index}
            if infos != operator.infos:
                value.node.op = operator.replace(infos=infos)
        functions = {_key(graph): graph for graph in self.functions}
        called, pending = set[tuple[str, str]](), [self.graph]
        while pending:
            for part in pending.pop().parts():
                for key in {(operator_of(node).domain, operator_of(node).op_type) for node in part.nodes}:
                    if key in functions and key not in called:
                        called.add(key)
                        pending.append(functions[key])
        self.functions = [graph for key, graph in functions.items() if key in called]

    def weights(self) -> Iterator[tuple[str, Node]]:
        for part in self.graph.parts():
            for node in part.nodes:
                if node.op.role == "constant" and isinstance(operator_of(node).proto, onnx.TensorProto):
                    yield from ((name, node) for name in node.outputs[0].names)

    def set_data(self, node: Node, tensor: Tensor) -> None:
        proto = copied(operator_of(node).proto)
        for field in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data"):
            proto.ClearField(field)
        store(proto, tensor, self.tensor_data)
        entries = [copied(entry) for entry in operator_of(node).entries]
        for entry in entries:
            if entry.HasField("t"):
                entry.t.CopyFrom(proto)
        node.op = operator_of(node).replace(proto=proto, entries=entries)

    def opset_of(self, domain: str) -> int:
        return self._opsets().get(domain, 1)

    def _opsets(self) -> dict[str, int]:
        return {normalize_domain(entry.domain): entry.version for entry in self.header.opset_import}

    def insert(
        self,
        value: Output,
        name: str,
        operator: OperatorText,
        attributes: Mapping[str, Any],
        further: Sequence[Output | Tensor],
    ) -> None:
        """Add a node behind a tensor; the result of a computed one has its name, so that an output keeps its own."""
        unique = UniqueNames(self.reserved_names())
        is_computed, before = self.is_computed(value), operator_of(value.node).order
        other = unique(f"{name}/before_{operator.op_type}" if is_computed else f"{name}/{operator.op_type}")
        inputs = [value, *(e if isinstance(e, Output) else self._weight(e, unique(f"{name}/value")) for e in further)]
        added = new_operator(
            operator.op_type,
            inputs,
            attributes,
            domain=operator.domain,
            label=f"{name}/{operator.op_type}",
            opset=self.opset_of(operator.domain),
            order=(before + math.floor(before) + 1) / 2 if is_computed else -1,
            read=self.data_of,
        )
        result = _node(added, inputs, added.label, name if is_computed else other).outputs[0]
        results = () if is_computed else self.graph.results
        value.replace_by(result, keep=[result.node, *results], move_names=False)
        value.names = [other] if is_computed else value.names
        if operator.domain not in self._opsets():
            self.header.opset_import.add(domain=operator.domain, version=1)
        self.infer_again([result])

    def _weight(self, tensor: Tensor, name: str) -> Output:
        return _node(constant_operator(tensor, self.tensor_data), (), name, name).outputs[0]

    # --- dimensions ---

    def set_axis(self, parameter: Node, axis: int, size: int | str | None) -> None:
        value = copied(operator_of(parameter).infos[-1][1])
        dims = value.type.tensor_type.shape.dim
        check_axis(parameter.end_names[0], axis, len(dims))
        _set(dims[axis], size)
        _declare(parameter, value)
        self.infer_again(parameter.outputs)

    def set_named(self, name: str, size: int | str | None) -> None:
        present = {dim.dim_param for _, _, value in self._declared() for dim in value.type.tensor_type.shape.dim} - {""}
        if name not in present:
            is_input = any(name in node.end_names for node in self.graph.parameters)
            more = f": for the input write '{name}:AXIS'" if is_input else suggestions(name, present)
            raise OptionError(f"set_dim: the model has no dimension '{name}'{more}")
        changed = list[Output]()
        for node, index, before in list(self._declared()):
            value = copied(before)
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param == name:
                    _set(dim, size)
            _declare(node, value, index)
            if index < 0 and node.outputs and value != before:
                changed += node.outputs
        if not isinstance(size, str):
            self.infer_again(changed)

    def _declared(self) -> Iterator[tuple[Node, int, onnx.ValueInfoProto]]:
        for node in self.graph.nodes():
            for index, (_, value) in operator_of(node).infos.items():
                yield node, index, value

    # --- another model ---

    def opened(self, source: Any) -> EditedOnnx:
        return EditedOnnx(source, self.tensor_data)

    def check_pair(self, output: Node, other: Editable, parameter: Node) -> None:
        (output_name, *_), (name, *_) = output.end_names, parameter.end_names
        ours, theirs = self.types([output_name])[output_name].type, operator_of(parameter).infos[-1][1].type
        first, second = ours.tensor_type, theirs.tensor_type
        if ours.WhichOneof("value") != theirs.WhichOneof("value") or first.elem_type != second.elem_type:
            kinds = [onnx.TensorProto.DataType.Name(entry.elem_type) for entry in (first, second)]
            raise OptionError(
                f"connect: '{output_name}' is {kinds[0]}, but '{name}' is {kinds[1]}: insert_after has Cast"
            )
        if first.HasField("shape") and second.HasField("shape"):
            shapes = [[dim.dim_value or dim.dim_param or "?" for dim in entry.shape.dim] for entry in (first, second)]
            fits = len(shapes[0]) == len(shapes[1]) and all(
                a == b or isinstance(a, str) or isinstance(b, str) for a, b in zip(*shapes)
            )
            if not fits:
                raise OptionError(f"connect: '{output_name}' has the shape {shapes[0]}, but '{name}' needs {shapes[1]}")

    def adopt(self, other: Editable, prefix: str, fed: Collection[Node]) -> None:
        assert isinstance(other, EditedOnnx)
        self._join_opsets(other)
        operators = list(map(operator_of, self.graph.nodes()))
        labels = {operator.label for operator in operators} - {""}
        end = 1 + max((operator.order for operator in operators if operator.order < math.inf), default=0)
        functions, theirs = _texts(self.functions), _texts(other.functions)
        differing = [key for key, text in theirs.items() if functions.get(key, text) != text]
        new_names = {key: f"{prefix}{key[1]}".replace("/", "_") for key in differing}
        for part in (part for graph in (other.graph, *other.functions) for part in graph.parts()):
            is_main = part.model is other.graph
            for node in part.nodes:
                operator = operator_of(node)
                changes: dict[str, Any] = {
                    "op_type": new_names.get((operator.domain, operator.op_type), operator.op_type)
                }
                if is_main:
                    label = f"{prefix}{operator.label}" if operator.label in labels else operator.label
                    changes |= {"label": label, "order": operator.order + end}
                node.op = operator.replace(**changes)
        for graph in other.functions:
            if _key(graph) not in functions or _key(graph) in new_names:
                graph.name = new_names.get(_key(graph), graph.name)
                self.functions.append(graph)
        self.graph.stray = (*self.graph.stray, *other.graph.stray)
        self.graph.annotations = (*self.graph.annotations, *other.graph.annotations)
        self.graph.is_sorted &= other.graph.is_sorted
        self.has_external_data |= other.has_external_data
        self.files = (*self.files, *other.files)
        self.notes += other.notes
        self.header.ir_version = max(self.header.ir_version, other.header.ir_version)
        present = {entry.key for entry in self.header.metadata_props}
        self.header.metadata_props.extend(entry for entry in other.header.metadata_props if entry.key not in present)

    def _join_opsets(self, other: EditedOnnx) -> None:
        opsets = self._opsets()
        for domain, version in other._opsets().items():
            if domain not in opsets:
                self.header.opset_import.add(domain=domain, version=version)
            elif opsets[domain] != version:
                newest = max(opsets[domain], version)
                raise OptionError(
                    f"merge: the models have the opsets {opsets[domain]} and {version} of {domain or 'ai.onnx'}: "
                    f"bring both to one, such as with 'onnx2ir optimize MODEL --opset {newest}'"
                )

    # --- properties ---

    def strip(self, parts: Collection[str]) -> None:
        message, info = self.message(), self.graph.runtime_info
        fields = {"docs": "doc_string", "metadata": "metadata_props"}
        _clear(message, [field for name, field in fields.items() if name in parts])
        for root in (message.graph, *message.functions) if "names" in parts else ():
            for node in (node for graph in all_graphs(root) for node in graph.node):
                node.ClearField("name")
        self.take_graphs(message, GraphReader(self.data_of, self._opsets(), {}))
        self.graph.runtime_info = info
        if "names" in parts:
            self._strip_names()

    def _strip_names(self) -> None:
        """Number the tensors that are neither inputs nor outputs, those of bodies last."""
        ends = {name for node in (*self.inputs(), *self.graph.results) for name in node.end_names}
        values = [value for part in self.graph.parts() for node in part.nodes for value in node.outputs]
        names, number = dict[str, str](), 0
        for name in (name for value in values for name in value.names):
            if name not in ends and name not in names:
                while f"t{number}" in ends:
                    number += 1
                names[name], number = f"t{number}", number + 1
        for value in values:
            value.names = [names.get(name, name) for name in value.names]
        for part in self.graph.parts():
            for node in part.nodes:
                node.output_names = [names.get(name, name) for name in node.output_names]

    def set_property(self, key: str, value: str) -> None:
        properties = {entry.key: entry.value for entry in self.header.metadata_props}
        if not value and key not in properties:
            raise OptionError(f"metadata: the model has no property '{key}'{suggestions(key, properties)}")
        properties.pop(key, None)
        self.header.ClearField("metadata_props")
        helper.set_model_props(self.header, {**properties, **({key: value} if value else {})})


def check_edited(model: EditedOnnx, before: onnx.ModelProto) -> None:
    """Raise :class:`InvalidModelError` where the model breaks ONNX's rules and the file did not; else note it."""
    problem = _problem(model.message())
    if problem is None:
        return
    if _problem(before) is None:
        raise InvalidModelError(f"the edited model would be invalid: {problem}")
    model.notes.append(f"the file itself is invalid, as onnx.checker says: {problem}")


def _problem(proto: onnx.ModelProto) -> str | None:
    """What onnx's checker and its strict inference of shapes say of a model; None for nothing."""
    try:
        onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
        for tensor in tensors_in(proto):
            if place_of(tensor) is not None:
                tensor.ClearField("external_data")
                tensor.dims[:] = [0]
                tensor.raw_data = b""
        onnx.checker.check_model(proto)
    except Exception as error:  # onnx raises several types
        return str(error).strip().split("\n\n")[0]
    return None


def _lacks(value: onnx.ValueInfoProto | None, *, shape: bool = False) -> bool:
    """True if the element type, or with ``shape`` the shape, of a value is not known."""
    if value is None or not value.type.WhichOneof("value"):
        return True
    if not value.type.HasField("tensor_type"):
        return False
    tensor = value.type.tensor_type
    return not tensor.elem_type or (shape and not tensor.HasField("shape"))


def _forget_types(part: Any) -> None:
    """Remove the shapes that a body declares, which may follow from those around it.

    Scalars stay scalars: they have no dimensions to change, and onnxruntime loads no Loop without the shapes of the
    iteration number and of the condition.
    """
    part.model.stray = ()
    for node in part.nodes:
        declared = {index: entry for index, entry in operator_of(node).infos.items() if index < 0}
        if declared != operator_of(node).infos:
            node.op = operator_of(node).replace(infos=declared)
        if -1 in declared and declared[-1][1].type.tensor_type.shape.dim:
            value = copied(declared[-1][1])
            value.type.tensor_type.ClearField("shape")
            _declare(node, value)


def _declare(node: Node, value: onnx.ValueInfoProto, index: int = -1) -> None:
    """Give an input, an output or the result of a node another declared type."""
    node.op = operator_of(node).replace(
        infos={**operator_of(node).infos, index: (operator_of(node).infos[index][0], value)}
    )


def _node(operator: OnnxOperator, inputs: Iterable[Output], label: str, name: str = "") -> Node:
    node = Node(operator, inputs, operator.infer(()), label)
    for output in node.outputs:
        output.names = [name]
    return node


def _texts(functions: Iterable[OnnxGraph]) -> dict[tuple[str, str], bytes]:
    return {_key(graph): function_message(graph).SerializeToString(deterministic=True) for graph in functions}


def _key(graph: OnnxGraph) -> tuple[str, str]:
    """Return the domain and the name of a function."""
    return onnx.FunctionProto.FromString(graph.rest).domain, graph.name


def _set(dim: Any, value: int | str | None) -> None:
    dim.Clear()
    if isinstance(value, str):
        dim.dim_param = value
    elif value is not None:
        dim.dim_value = value


def _clear(message: Any, fields: Sequence[str]) -> None:
    """Clear fields of a message and of all in it."""
    for field, value in message.ListFields():
        if field.name in fields:
            message.ClearField(field.name)
        elif field.message_type is not None:
            for entry in [value] if hasattr(value, "ListFields") else value:
                _clear(entry, fields)
