"""The ONNX model for the oracle: whole or in part, with other dimensions and outputs, weights where they are.

Weights of a model given as a path become external data that lies in the model's own file, so that nothing is copied
and the 2 GB that a protobuf message holds are no limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from converter.onnx_file import messages
from converter.onnx_file.model_info import declared_shape
from converter.onnx_file.node_order import in_order, read_names
from converter.onnx_file.reader import ModelSource, OnnxFile, open_model
from converter.onnx_file.skeleton import EMBEDDED
from converter.onnx_file.types import element_type_of, onnx_number
from ir_runtime.graph import Array, PartialShape, Tensor, element_types


class OnnxGraph:
    """The main graph of a model: its inputs, nodes in order, weights; and models made from parts of it."""

    def __init__(self, source: ModelSource) -> None:
        self.file: OnnxFile = open_model(source)
        self.proto = self.file.proto
        graph = self.proto.graph
        self.weights: dict[str, messages.TensorProto] = {tensor.name: tensor for tensor in graph.initializer}
        self.sparse = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
        self.inputs: dict[str, messages.ValueInfoProto] = {
            value.name: value for value in graph.input if value.name not in self.weights
        }
        """Inputs without an initializer."""
        self.defaults: dict[str, messages.ValueInfoProto] = {
            value.name: value for value in graph.input if value.name in self.weights
        }
        self.outputs: list[str] = [value.name for value in graph.output]
        available = {*self.weights, *self.sparse, *self.inputs}
        self.nodes: list[messages.NodeProto] = in_order(graph.node, available)
        self._place = {id(node): index for index, node in enumerate(graph.node)}
        self.reads: list[set[str]] = [read_names(node) for node in self.nodes]
        self.producer: dict[str, int] = {
            name: index for index, node in enumerate(self.nodes) for name in node.output if name
        }

    @cached_property
    def _onnx(self) -> ModelProto:
        """The file as onnx's own messages, to build models from."""
        return self.file.as_onnx()

    @cached_property
    def _tensors(self) -> dict[str, TensorProto]:
        return {tensor.name: tensor for tensor in self._onnx.graph.initializer}

    @cached_property
    def _values(self) -> dict[str, ValueInfoProto]:
        return {value.name: value for value in self._onnx.graph.input}

    def _node(self, index: int) -> NodeProto:
        return self._onnx.graph.node[self._place[id(self.nodes[index])]]

    @property
    def path(self) -> Path | None:
        """The path of the model, if it was given as one."""
        return self.file.path

    @property
    def folder(self) -> Path | None:
        """The folder of external data."""
        return None if self.path is None else self.path.resolve().parent

    def constants(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor that the file declares for the main graph: initializers, sparse ones, Constant nodes."""
        for name, proto in self.weights.items():
            yield name, self.file.tensor(proto)
        for name, sparse in self.sparse.items():
            yield name, self.file.dense(sparse)
        for node in self.nodes:
            if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and node.output:
                for attribute in node.attribute:
                    if attribute.name == "value":
                        yield node.output[0], self.file.tensor(attribute.t)

    def declared(self, name: str) -> PartialShape:
        """The shape that the file declares for an input."""
        return declared_shape(self.inputs[name].type)

    def dim_params(self, name: str) -> list[str]:
        """The names that the file gives to the dimensions of an input; empty where it gives none."""
        return [dim.dim_param for dim in self.inputs[name].type.tensor_type.shape.dim]

    def whole(self, feeds: Mapping[str, object], extra: Sequence[str] = (), *, only: bool = False) -> ModelProto:
        """The model with ``extra`` inner tensors as outputs, whose inputs accept ``feeds``.

        With ``only`` these are all the outputs, and what they do not need is left out.
        """
        model = self._header()
        nodes = self.needed(extra) if only else range(len(self.nodes))
        model.graph.node.extend(self._node(index) for index in nodes)
        read = set().union(*(self.reads[index] for index in nodes), extra if only else self.outputs)
        for name in self.inputs:
            if only and name not in read:
                continue
            feed = feeds.get(name)
            is_other = self._is_other(name, feed)
            model.graph.input.append(value_info(name, feed, is_dynamic=True) if is_other else self._values[name])
        outputs = self._onnx.graph.output
        kept_outputs = [value for value in outputs if not only or value.name in extra]
        model.graph.output.extend(kept_outputs if not self._is_relaxed(feeds) else map(_without_shape, kept_outputs))
        present = {value.name for value in kept_outputs}
        model.graph.output.extend(ValueInfoProto(name=name) for name in extra if name not in present)
        model.graph.input.extend(self._values[name] for name in self.defaults if name in feeds)
        self._add_weights(model, [name for name in (*self.weights, *self.sparse) if name in read])
        return model

    def part(self, nodes: Sequence[int], feeds: Mapping[str, object], outputs: Sequence[str]) -> ModelProto:
        """A model of ``nodes`` alone, whose inputs are ``feeds`` and which returns ``outputs``."""
        model = self._header()
        model.graph.node.extend(self._node(index) for index in nodes)
        read = set().union(*(self.reads[index] for index in nodes), outputs)
        for name, value in feeds.items():
            if name in read:
                model.graph.input.append(value_info(name, value))
        model.graph.output.extend(ValueInfoProto(name=name) for name in outputs)
        self._add_weights(model, [name for name in (*self.weights, *self.sparse) if name in read and name not in feeds])
        return model

    def needed(self, outputs: Collection[str], boundary_names: Collection[str] = ()) -> list[int]:
        """The nodes that ``outputs`` follow from, in order, where ``boundary_names`` tensors are known."""
        requested, indices = {name for name in outputs if name not in boundary_names}, []
        for index in range(len(self.nodes) - 1, -1, -1):
            if requested.isdisjoint(self.nodes[index].output):
                continue
            indices.append(index)
            requested.update(name for name in self.reads[index] if name not in boundary_names)
        return indices[::-1]

    def relaxed_inputs(self, feeds: Mapping[str, object]) -> tuple[str, ...]:
        """The inputs whose declarations do not accept these ``feeds``; none where the file can be run on them."""
        others = [name for name in self.inputs if self._is_other(name, feeds.get(name))]
        return tuple(others + [name for name in self.defaults if name in feeds])

    def _is_relaxed(self, feeds: Mapping[str, object]) -> bool:
        return any(self._is_other(name, feeds.get(name)) for name in self.inputs)

    def _is_other(self, name: str, feed: object) -> bool:
        shape = getattr(feed, "shape", None)
        return shape is not None and not self.declared(name).accepts(shape)

    def _header(self) -> ModelProto:
        model = ModelProto()
        model.ir_version = max(self.proto.ir_version, 4)  # from there on weights need not be inputs
        model.opset_import.extend(self._onnx.opset_import)
        model.functions.extend(self._onnx.functions)
        model.graph.name = self.proto.graph.name or "graph"
        return model

    def _add_weights(self, model: ModelProto, names: Sequence[str]) -> None:
        for name in names:
            if name in self.sparse:
                sparse_tensors = self._onnx.graph.sparse_initializer
                model.graph.sparse_initializer.append(
                    next(sparse_tensor for sparse_tensor in sparse_tensors if sparse_tensor.values.name == name)
                )
            else:
                model.graph.initializer.append(self._tensors[name])
        for tensor in model.graph.initializer:
            self._locate(tensor)
        for tensor in _inner_tensors(model):
            self._embed(tensor)

    def _locate(self, tensor: TensorProto) -> None:
        """Write the model's file as the location of a tensor that lies in it, as of any external data."""
        if not _is_cut(tensor):
            return
        if self.path is None:
            self._embed(tensor)
            return
        tensor.data_location = TensorProto.EXTERNAL
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = self.path.resolve().name

    def _embed(self, tensor: TensorProto) -> None:
        if not _is_cut(tensor):
            return
        entries = {entry.key: int(entry.value) for entry in tensor.external_data if entry.key != "location"}
        data = self.file.data[entries["offset"] : entries["offset"] + entries["length"]].tobytes()
        del tensor.external_data[:]
        tensor.raw_data = data


def embedded(graph: OnnxGraph, model: ModelProto) -> ModelProto:
    """``model`` with all of its weights in the message, however large."""
    names = {tensor.name for tensor in model.graph.initializer if tensor.external_data}
    for tensor in model.graph.initializer:
        if tensor.name in names:
            data = b"".join(bytes(chunk) for chunk in graph.file.tensor(graph.weights[tensor.name]).chunks())
            del tensor.external_data[:]
            tensor.data_location = TensorProto.DEFAULT
            tensor.raw_data = data
    return model


def value_info(name: str, value: object, *, is_dynamic: bool = False) -> ValueInfoProto:
    """A tensor's or sequence's declaration, with the type and shape (``is_dynamic``: rank alone) of ``value``."""
    if isinstance(value, (list, tuple)):
        first = value[0] if value else None
        number = TensorProto.FLOAT if first is None else _number(first)
        return helper.make_tensor_sequence_value_info(name, number, None)
    shape = list(getattr(value, "shape", ()))
    return helper.make_tensor_value_info(name, _number(value), [None] * len(shape) if is_dynamic else shape)


def _number(value: object) -> int:
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind in "OUST":
        return int(TensorProto.STRING)
    return onnx_number(element_types.from_dtype(dtype))


def _without_shape(value: ValueInfoProto) -> ValueInfoProto:
    if value.type.WhichOneof("value") != "tensor_type":
        return value
    copy = ValueInfoProto()
    copy.CopyFrom(value)
    copy.type.tensor_type.ClearField("shape")
    return copy


def _is_cut(tensor: TensorProto) -> bool:
    return any(entry.key == "location" and entry.value == EMBEDDED for entry in tensor.external_data)


def _inner_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Tensors that no initializer of the main graph holds: of attributes, bodies, functions, sparse ones."""
    for sparse in model.graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    pending: list[Sequence[NodeProto]] = [model.graph.node, *(function.node for function in model.functions)]
    while pending:
        for node in pending.pop():
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors
                for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                    yield from (sparse.values, sparse.indices)
                for graph in (attribute.g, *attribute.graphs):
                    yield from graph.initializer
                    pending.append(graph.node)


def typed(graph: OnnxGraph, name: str, value: object) -> Array:
    """A value for an input in the type that the file declares for it."""
    declared = graph.inputs.get(name, graph.defaults.get(name))
    array = np.asarray(value)
    if declared is None or array.dtype.kind in "OUST":
        return array
    return array.astype(element_type_of(declared.type.tensor_type.elem_type).dtype, copy=False)
