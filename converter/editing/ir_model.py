"""An IR that is edited: how its language writes inputs, outputs, constants and layers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from converter.conversion.convert import convert_model
from converter.conversion.from_ir import apply_options, is_ir, read_ir
from converter.editing.edits import Editable, check_axis
from converter.editing.operators import OperatorText
from converter.onnx_file.graph import value_info
from converter.onnx_file.types import onnx_number
from converter.options.conversion import ConversionOptions
from converter.options.input_forms import OptionError
from converter.options.inputs import suggestions
from converter.passes.derivation import TAG
from ir_runtime.graph import ElementType, Model, Node, Output, PartialShape, RuntimeInfo, Tensor, make_node
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1
from ir_runtime.rewriting import UniqueNames
from ir_runtime.rewriting.edits import known_tensors

_OPSET = 21
"""The opset of ONNX's operators that are inserted."""


class EditedIr(Editable):
    """An IR whose layers are edited."""

    keeps_unread = True

    def __init__(self, graph: Model) -> None:
        self.graph = graph
        self.notes: list[str] = []

    def tensors(self) -> Mapping[str, Output]:
        return known_tensors(self.graph)

    def inner_names(self) -> Mapping[str, str]:
        bodies = [(node, sub.body) for node in self.graph.nodes() for sub in node.op.subgraphs]
        return {name: f"a body of layer '{node.name}'" for node, body in bodies for name in known_tensors(body)}

    def reserved_names(self) -> set[str]:
        return {*self.tensors(), *(node.name for node in self.graph.nodes())}

    def aliases(self, node: Node) -> Sequence[str]:
        return [node.name]

    def is_computed(self, value: Output) -> bool:
        return bool(value.node.inputs)

    def prepare(self, values: Iterable[Output]) -> None:
        """The types of an IR are known."""

    def new_input(self, value: Output, name: str) -> Node:
        op = Parameter1(shape=value.shape, element_type=value.element_type)
        parameter = make_node(op, (), UniqueNames(self.graph)(name))
        parameter.outputs[0].add_name(name)
        return parameter

    def new_output(self, value: Output, name: str) -> Node:
        result = make_node(Result1(), [value], UniqueNames(self.graph)(f"{name}/result"))
        result.output_names = [name]
        return result

    def clean(self) -> None:
        """An IR has nothing besides its graph."""

    def weights(self) -> Iterator[tuple[str, Node]]:
        for part in self.graph.parts():
            for node in part.nodes:
                if node.op.data is not None:
                    yield from ((label, node) for label in {node.name, *node.outputs[0].names})

    def set_data(self, node: Node, tensor: Tensor) -> None:
        new = make_node(Const1(value=tensor), (), node.name)
        node.name = f"{node.name}/before"
        new.runtime_info = node.runtime_info
        node.outputs[0].replace_by(new.outputs[0])

    def opset_of(self, domain: str) -> int:
        return 1 if domain else _OPSET

    def element_type_of(self, value: Output) -> ElementType | None:
        return value.element_type

    def insert(
        self,
        value: Output,
        name: str,
        operator: OperatorText,
        attributes: Mapping[str, Any],
        further: Sequence[Output | Tensor],
    ) -> None:
        """Convert the operator alone, and let its layers read the tensors."""
        sources = {"x": value, **{f"input{index}": entry for index, entry in enumerate(further)}}
        inputs = {label: entry for label, entry in sources.items() if isinstance(entry, Output)}
        part = convert_model(_model_of(operator, sources, attributes), target="any")
        unique, readers = UniqueNames(self.graph), list(value.uses)
        for node in part.nodes():
            label = f"{name}/{operator.op_type}/constant" if node.op.data is not None else f"{name}/{node.name}"
            node.name = unique(label)
            for output in node.outputs if node.op.role != "parameter" else ():
                output.names = []
        for node in part.parameters:
            node.outputs[0].replace_by(inputs[node.end_names[0]], move_names=False)
        (result,) = part.outputs
        value.replace_by(result, keep=set(value.uses).difference(readers), move_names=False)
        part.results = ()

    def set_axis(self, parameter: Node, axis: int, size: int | str | None) -> None:
        shape, (label, *_) = parameter.outputs[0].shape, [*parameter.end_names, parameter.name]
        check_axis(label, axis, shape.rank if shape.has_rank else 0)
        dims: list[Any] = list(shape)
        dims[axis] = size if isinstance(size, int) else "?"
        options = ConversionOptions(input={label: PartialShape(dims) if "?" not in dims else dims})
        apply_options(self.graph, options.bindings, static=False)

    def set_named(self, name: str, size: int | str | None) -> None:
        raise OptionError(f"set_dim: dimensions of an IR have no names: write INPUT:AXIS={size} instead of {name}")

    def opened(self, source: Any) -> EditedIr:
        if not is_ir(source):
            raise OptionError(f"merge: the model is an IR, and {source} is none: convert it first")
        return EditedIr(read_ir(source))

    def check_pair(self, output: Node, other: Editable, parameter: Node) -> None:
        value, start = output.inputs[0], parameter.outputs[0]
        if value.element_type is not start.element_type or value.shape.merge(start.shape) is None:
            first, second = output.end_names[0], parameter.end_names[0]
            raise OptionError(f"connect: '{first}' is {value.type}, but '{second}' is {start.type}")

    def adopt(self, other: Editable, prefix: str, fed: Collection[Node]) -> None:
        unique = UniqueNames(self.graph)
        for node in other.graph.nodes():
            node.name = unique(node.name)

    def infer_again(self, values: Iterable[Output]) -> None:
        """Types are inferred after each pass."""

    def strip(self, parts: Collection[str]) -> None:
        ends = {*self.graph.parameters, *self.graph.results}
        kept = {name for node in ends for name in (node.end_names if node.inputs else [*node.end_names, node.name])}
        for part in self.graph.parts():
            for number, node in enumerate(part.nodes):
                if "names" in parts:
                    node.name = node.name if node in ends or node.name in kept else f"layer{number}"
                    for output in node.outputs:
                        output.names = [name for name in output.names if name in kept]
                if "metadata" in parts:
                    node.runtime_info = ()
                    for output in node.outputs:
                        output.runtime_info = ()
        if "metadata" in parts:
            self.graph.runtime_info = ()

    def set_property(self, key: str, value: str) -> None:
        graph = self.graph
        if not re.fullmatch(r"[A-Za-z_][\w.-]*", key) or key == TAG:
            raise OptionError(f"metadata: '{key}' cannot be an element of rt_info: letters, digits, '_', '-' and '.'")
        others = tuple(info for info in graph.runtime_info if info.tag != key)
        if not value and len(others) == len(graph.runtime_info):
            tags = [info.tag for info in graph.runtime_info]
            raise OptionError(f"metadata: the model has no property '{key}'{suggestions(key, tags)}")
        graph.runtime_info = (*others, RuntimeInfo(key, (("value", value),))) if value else others


def _model_of(
    operator: OperatorText, sources: Mapping[str, Output | Tensor], attributes: Mapping[str, Any]
) -> onnx.ModelProto:
    """Return a model of one node."""
    inputs, weights = [], []
    for label, entry in sources.items():
        if isinstance(entry, Tensor):
            number, data = onnx_number(entry.element_type), b"".join(entry.chunks())
            weights.append(onnx.TensorProto(name=label, data_type=number, dims=entry.shape, raw_data=data))
        else:
            inputs.append(value_info(label, entry.type))
    node = helper.make_node(operator.op_type, list(sources), ["y"], domain=operator.domain, **attributes)
    opsets = [helper.make_opsetid("", _OPSET)]
    opsets += [helper.make_opsetid(operator.domain, 1)] if operator.domain else []
    graph = helper.make_graph([node], operator.op_type, inputs, [onnx.ValueInfoProto(name="y")], weights)
    return helper.make_model(graph, opset_imports=opsets)
