"""The names and the order of the nodes of an optimized model: those of the file where these still exist."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from converter.onnx_file.graph import INPUT, operator_of
from converter.onnx_file.node_order import node_name, stable_order, subgraphs
from converter.onnx_file.types import onnx_number
from converter.to_onnx.graph import (
    Value,
    constants_of,
    operators_of,
    origin_of,
    rename,
    value_name,
    written_operators,
)
from converter.to_onnx.names import label
from ir_runtime.graph import Model, Node, Tensor
from ir_runtime.rewriting import UniqueNames

if TYPE_CHECKING:
    from converter.onnx_file.messages import GraphProto, TensorProto
    from converter.optimization.source import Source

SMALL_BYTES = 1 << 10
"""Constants of up to this size are recognised by their contents; larger ones that are equal are written once."""


class Naming:
    """Names for the tensors and nodes of exported graphs, in place; the nodes in the order of the file.

    ``free`` are names of the file that nothing has yet: they belong to the tensors of the same name. Values in ``done``
    have their names.
    """

    def __init__(self, source: Source, names: UniqueNames, nodes: UniqueNames, free: set[str]) -> None:
        self._source = source
        self._names = names
        self._nodes = nodes
        self._free = free
        in_file = sorted(range(len(source.nodes)), key=source.places_in_file.__getitem__)
        names_in_file = dict.fromkeys(node_name(node) for place in in_file for node in source.within(place))
        self._order = {name: number for number, name in enumerate(names_in_file)}
        self._constants = _small_constants(source) if free else {}
        self.done: set[Value] = set()

    def name(self, graph: Model) -> None:
        """Name what a graph and its bodies hold and compute."""
        self.done.update((*graph.inputs, *graph.outputs))
        counts = Counter(map(origin_of, written_operators(graph)))
        for node in written_operators(graph):
            if counts[origin_of(node)] == 1 and origin_of(node):
                node.name = origin_of(node)
        self._name_values(graph, "")

    def _name_values(self, graph: Model, around: str) -> None:
        for node in constants_of(graph):
            self._name_constant(node)
        for node in operators_of(graph):
            label(node, self._nodes(node.name))
            for sub in node.op.subgraphs if operator_of(node).place is None else ():
                for parameter in sub.body.parameters:
                    if operator_of(parameter).kind == INPUT:
                        self._name(parameter.outputs[0], f"{node.name}/")
                self._name_values(sub.body, f"{node.name}/")
            for value in node.outputs:
                self._name(value, around)

    def _name(self, value: Value, around: str) -> None:
        """Give a value its name; in the bodies of a node the IR puts the node's name, ``around``, before it."""
        if value in self.done or not value.names:
            return
        self.done.add(value)
        for name in (value_name(value), value_name(value).removeprefix(around)):
            if name in self._free:
                self._free.remove(name)
                rename(value, name)
                return
        rename(value, self._names(value_name(value)))

    def _name_constant(self, node: Node) -> None:
        """Give a constant its name in the file, or else that of an equal constant that is not written any more."""
        (value,), tensor = node.outputs, node.op.data
        assert tensor is not None
        if value not in self.done and value_name(value) not in self._free and tensor.byte_size <= SMALL_BYTES:
            equal = [name for name in self._constants.get(_contents(tensor), ()) if name in self._free]
            rename(value, equal[0] if equal else value_name(value))
        self._name(value, "")

    def sort(self, graph: Model) -> None:
        """Sort the nodes as in the file, those of bodies too, and the constants as they are read."""
        nodes, places, latest = operators_of(graph), list[int](), len(self._order)
        for node in reversed(nodes):  # one without origin stands before its reader
            latest = self._order.get(origin_of(node), latest)
            places.append(latest)
            for sub in node.op.subgraphs if operator_of(node).place is None else ():
                self.sort(sub.body)
        edges = [(place, node.inputs, node.outputs) for place, node in zip(places[::-1], nodes)]
        ordered = [nodes[index] for index in stable_order(edges)]
        first = {value: index for index, node in reversed([*enumerate(ordered)]) for value in node.inputs}
        constants = sorted(constants_of(graph), key=lambda node: first.get(node.outputs[0], len(first)))
        for nodes_in_order in (ordered, constants):
            for index, node in enumerate(nodes_in_order):
                node.op = operator_of(node).replace(order=index)


def _small_constants(source: Source) -> Mapping[tuple[object, ...], list[str]]:
    """The names of the file's small constants by their contents."""
    names_by_contents: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
    for name, proto in _tensors(source.file.proto.graph):
        tensor = source.small_constant(proto)
        if tensor is not None and tensor.byte_size <= SMALL_BYTES:
            names_by_contents[_contents(tensor)].append(name)
    return names_by_contents


def _tensors(graph: GraphProto) -> Iterator[tuple[str, TensorProto]]:
    yield from ((tensor.name, tensor) for tensor in graph.initializer)
    for node in graph.node:
        if node.op_type == "Constant":
            yield from ((node.output[0], attribute.t) for attribute in node.attribute if attribute.HasField("t"))
        for body in subgraphs(node):
            yield from _tensors(body)


def _contents(tensor: Tensor) -> tuple[object, ...]:
    return onnx_number(tensor.element_type), tensor.shape, b"".join(map(bytes, tensor.chunks()))
