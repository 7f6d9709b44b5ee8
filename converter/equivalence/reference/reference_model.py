"""An ONNX model that is a reference, and models of parts of it, whose weights lie where they lie in files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from converter.equivalence.reference.deviations import deviations_of
from converter.onnx_file.graph import (
    INITIALIZER,
    NODE,
    SPARSE,
    copied,
    function_message,
    named,
    operator_message,
    operator_of,
    ordered_operators,
)
from converter.onnx_file.model import OnnxModel
from converter.onnx_file.model_info import declared_shape, dimension_params
from converter.onnx_file.reader import ModelSource
from converter.onnx_file.skeleton import place_of
from converter.onnx_file.types import element_type_of, onnx_number
from ir_runtime.graph import Array, Node, Output, PartialShape, element_types
from ir_runtime.rewriting.edits import needed_values


class ReferenceModel(OnnxModel):
    """A model by the names of its tensors."""

    def __init__(self, source: ModelSource) -> None:
        super().__init__(source)
        nodes = self.graph.nodes()
        self.tensors: dict[str, Output] = {
            name: value for node in nodes for value in node.outputs for name in value.names
        }
        """The tensors of the main graph."""
        self.operators: list[Node] = ordered_operators(self.graph)
        """The nodes of the file, in an order in which each follows those that it reads."""
        self.computed: dict[str, Output] = {
            name: value for node in self.operators for value in node.outputs for name in value.names
        }
        """The tensors that nodes of the file make."""
        self.inputs: dict[str, ValueInfoProto] = {node.name: _declaration(node) for node in self.graph.parameters}
        """Inputs without an initializer."""
        self.constants: list[Node] = sorted(
            (node for node in nodes if node.op.role == "constant"),
            key=lambda node: (_KINDS.index(operator_of(node).kind), operator_of(node).order),
        )
        """Initializers, sparse ones, and Constant nodes of a tensor."""
        declared = [node for node in self.constants if -1 in operator_of(node).infos]
        self.defaults: dict[str, ValueInfoProto] = {node.name: _declaration(node) for node in declared}
        """Inputs that have an initializer."""
        self.outputs: dict[str, ValueInfoProto] = {node.end_names[0]: _declaration(node) for node in self.graph.results}
        """The outputs of the file."""

    @property
    def path(self) -> Path | None:
        """The path of the model, if it was given as one."""
        return None if self.file is None else self.file.path

    @property
    def folder(self) -> Path | None:
        """The folder of external data."""
        return None if self.path is None else self.path.resolve().parent

    @cached_property
    def deviations(self) -> list[str]:
        """What onnxruntime ignores of its nodes."""
        return deviations_of(map(message_of, self.operators))

    @property
    def is_narrow(self) -> bool:
        """True if nodes, Casts apart, read inputs or weights of 16-bit floats, whose type decides the tolerance."""
        types = {name: value.type.tensor_type.elem_type for name, value in self.inputs.items()}
        narrow = {name for name, number in types.items() if number in (TensorProto.FLOAT16, TensorProto.BFLOAT16)}
        narrow |= {node.name for node in self.constants if node.outputs[0].element_type.name in NARROW}
        return not narrow.isdisjoint(read_by(node for node in self.operators if operator_of(node).op_type != "Cast"))

    def declared(self, name: str) -> PartialShape:
        """The shape that the file declares for an input."""
        return declared_shape(self.inputs[name].type) if name in self.inputs else PartialShape.dynamic()

    def dim_params(self, name: str) -> list[str]:
        """The names that the file gives to the dimensions of an input; empty where it gives none."""
        return dimension_params(self.inputs[name].type) if name in self.inputs else []

    def constant(self, name: str) -> Array | None:
        """The values of an initializer or of a Constant; None for any other tensor."""
        value = self.tensors.get(name)
        data = None if value is None else value.node.op.data
        return None if data is None else data.array()

    def needed(self, names: Iterable[str], starts: Collection[str] = ()) -> list[Node]:
        """The nodes of the file that tensors follow from, in order, where those called ``starts`` are known."""
        known = {self.tensors[name] for name in starts if name in self.tensors}
        values = needed_values([self.tensors[name] for name in names if name in self.tensors], known) - known
        return [node for node in self.operators if not values.isdisjoint(node.outputs)]

    def is_accepted(self, name: str, feed: object) -> bool:
        """True if the declaration of an input accepts a value."""
        shape = getattr(feed, "shape", None)
        return shape is None or self.declared(name).accepts(shape)

    def whole(self, feeds: Mapping[str, object], extra: Sequence[str] = (), *, only: bool = False) -> ModelProto:
        """The model with ``extra`` inner tensors as outputs, whose inputs accept ``feeds``.

        With ``only`` these are all the outputs, and what they do not need is left out.
        """
        nodes = self.needed(extra) if only else self.operators
        read = read_by(nodes).union(extra if only else self.outputs)
        accepted = {name: self.is_accepted(name, feeds.get(name)) for name in self.inputs}
        inputs = [
            value if accepted[name] else value_info(name, feeds[name], is_dynamic=True)
            for name, value in self.inputs.items()
            if name in read or not only
        ]
        inputs += [value for name, value in self.defaults.items() if name in feeds]
        outputs = [value for name, value in self.outputs.items() if not only or name in extra]
        outputs = outputs if all(accepted.values()) else list(map(_without_shape, outputs))
        outputs += [ValueInfoProto(name=name) for name in extra if name not in self.outputs]
        return self._of(nodes, inputs, outputs, read)

    def part(self, nodes: Sequence[Node], feeds: Mapping[str, object], outputs: Sequence[str]) -> ModelProto:
        """A model of ``nodes`` alone, whose inputs are ``feeds`` and which returns ``outputs``."""
        read = read_by(nodes).union(outputs)
        inputs = [value_info(name, value) for name, value in feeds.items() if name in read]
        return self._of(nodes, inputs, [ValueInfoProto(name=name) for name in outputs], read - feeds.keys())

    def _of(
        self,
        nodes: Iterable[Node],
        inputs: Iterable[ValueInfoProto],
        outputs: Iterable[ValueInfoProto],
        read: Collection[str],
    ) -> ModelProto:
        """A model of these nodes, with those of its weights that are ``read``."""
        model = ModelProto()
        model.ir_version = max(self.header.ir_version, 4)  # from there on weights need not be inputs
        model.opset_import.extend(self.header.opset_import)
        model.functions.extend(self._functions)
        graph = model.graph
        graph.name = self.graph.name or "graph"
        graph.node.extend(map(message_of, nodes))
        graph.input.extend(inputs)
        graph.output.extend(outputs)
        for node in self.constants:
            operator = operator_of(node)
            if node.name in read and operator.kind == INITIALIZER:
                graph.initializer.append(named(operator.proto, node.name))
            elif node.name in read and operator.kind == SPARSE:
                graph.sparse_initializer.append(operator.proto)
        self._locate(model)
        return model

    @cached_property
    def _functions(self) -> list[onnx.FunctionProto]:
        return list(map(function_message, self.functions))

    def _locate(self, model: ModelProto) -> None:
        """Let the weights of a model refer to files in the folder of this one; data that is in none is copied."""
        for tensor in model.graph.initializer:
            place, folder = place_of(tensor), self.folder
            data = None if place is None else self.tensor_data[place]
            held = None if data is None else data.place()
            if data is None or held is None or folder is None:
                continue
            path = Path(held[0].path).resolve()
            if path.is_relative_to(folder):
                del tensor.external_data[:]
                tensor.data_location = onnx.TensorProto.EXTERNAL
                entries = {"location": path.relative_to(folder), "offset": held[1], "length": data.byte_size}
                for key, value in entries.items():
                    tensor.external_data.add(key=key, value=str(value))
        self.restore(model)

    def embedded(self, model: ModelProto) -> ModelProto:
        """``model``, a part of this one, with all of its weights in the message, however large."""
        for tensor in model.graph.initializer:
            if tensor.external_data:
                data = self.tensors[tensor.name].node.op.data
                assert data is not None
                tensor.ClearField("external_data")
                tensor.ClearField("data_location")
                tensor.raw_data = b"".join(map(bytes, data.chunks()))
        return model

    def typed(self, name: str, value: object) -> Array:
        """A value for an input in the type that the file declares for it."""
        declared = self.inputs.get(name, self.defaults.get(name))
        array = np.asarray(value)
        if declared is None or array.dtype.kind in "OUST":
            return array
        return array.astype(element_type_of(declared.type.tensor_type.elem_type).dtype, copy=False)


NARROW = ("bf16", "f16")
"""Floats of 16 bits."""
MOVING = frozenset({"Constant", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that only move values, or have them."""
PASSING = MOVING | {"Cast", "Expand", "Slice", "Tile"}
"""Operators whose first input has the values of their output, perhaps in another type, or some of them."""
_KINDS = (INITIALIZER, SPARSE, NODE)


def read_by(nodes: Iterable[Node]) -> set[str]:
    """The names of the tensors that nodes read, those of their bodies included."""
    return {name for node in nodes for value in node.inputs for name in value.names}


def written_by(nodes: Iterable[Node]) -> list[str]:
    """The names of the tensors that nodes compute."""
    return [name for node in nodes for value in node.outputs for name in value.names]


def listed_inputs(node: Node) -> list[Output | None]:
    """The inputs that the message of a node lists; None for one that is left out."""
    values = iter(node.inputs)
    return [next(values) if is_here else None for is_here in operator_of(node).slots]


def message_of(node: Node) -> onnx.NodeProto:
    """The message of a node."""
    names = ([next(iter(value.names), "") for value in values] for values in (node.inputs, node.outputs))
    return operator_message(operator_of(node), *names)


def operator_name(node: Node) -> str:
    """The name that a message calls a node by."""
    return operator_of(node).label or node.name


def _declaration(node: Node) -> ValueInfoProto:
    return named(operator_of(node).infos[-1][1], node.end_names[0])


def value_info(name: str, value: object, *, is_dynamic: bool = False) -> ValueInfoProto:
    """A tensor's or sequence's declaration, with the type and shape (``is_dynamic``: rank alone) of ``value``."""
    if isinstance(value, (list, tuple)):
        number = _number(value[0]) if value else int(onnx.TensorProto.FLOAT)
        return helper.make_tensor_sequence_value_info(name, number, None)
    shape = list(getattr(value, "shape", ()))
    return helper.make_tensor_value_info(name, _number(value), [None] * len(shape) if is_dynamic else shape)


def _number(value: object) -> int:
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind in "OUST":
        return int(onnx.TensorProto.STRING)
    return onnx_number(element_types.from_dtype(dtype))


def _without_shape(value: ValueInfoProto) -> ValueInfoProto:
    copy = copied(value)
    if value.type.WhichOneof("value") == "tensor_type":
        copy.type.tensor_type.ClearField("shape")
    return copy
