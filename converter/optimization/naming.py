"""The names and the order of the nodes of an optimized model: those of the file where these still exist."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from converter.onnx_file.node_order import node_name, subgraphs
from converter.onnx_file.types import onnx_number
from converter.to_onnx.graph import Graph, Value
from converter.to_onnx.names import bodies_of, calls_of, read_by, sort_calls
from ir_runtime.graph import Tensor
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

    def name(self, graph: Graph) -> None:
        """Name what a graph and its bodies hold and compute."""
        self.done.update(ends_of(graph))
        counts = Counter(call.origin for call in calls_of(graph))
        for call in calls_of(graph):
            if counts[call.origin] == 1 and call.origin:
                call.name = call.origin
        self._name_values(graph, "")

    def _name_values(self, graph: Graph, around: str) -> None:
        for value, tensor in graph.constants:
            self._name_constant(value, tensor)
        for call in graph.calls:
            call.name = self._nodes(call.name)
            for body in bodies_of(call):
                for value in body.inputs:
                    self._name(value, f"{call.name}/")
                self._name_values(body, f"{call.name}/")
            for value in call.outputs:
                self._name(value, around)

    def _name(self, value: Value, around: str) -> None:
        """Give a value its name; in the bodies of a node the IR puts the node's name, ``around``, before it."""
        if value in self.done or not value.name:
            return
        self.done.add(value)
        for name in (value.name, value.name.removeprefix(around)):
            if name in self._free:
                self._free.remove(name)
                value.name = name
                return
        value.name = self._names(value.name)

    def _name_constant(self, value: Value, tensor: Tensor) -> None:
        """Give a constant its name in the file, or else that of an equal constant that is not written any more."""
        if value not in self.done and value.name not in self._free and tensor.byte_size <= SMALL_BYTES:
            equal = [name for name in self._constants.get(_contents(tensor), ()) if name in self._free]
            value.name = equal[0] if equal else value.name
        self._name(value, "")

    def sort(self, graph: Graph) -> None:
        """Sort the nodes as in the file, those of bodies too, and the constants as they are read."""
        places, latest = list[int](), len(self._order)
        for call in reversed(graph.calls):  # one without origin stands before its reader
            latest = self._order.get(call.origin, latest)
            places.append(latest)
            for body in bodies_of(call):
                self.sort(body)
        graph.calls = sort_calls(graph.calls, places[::-1])
        first = {value: place for place, call in reversed([*enumerate(graph.calls)]) for value in read_by(call)}
        graph.constants.sort(key=lambda pair: first.get(pair[0], len(first)))


def ends_of(graph: Graph) -> Iterator[Value]:
    """The inputs and outputs of a graph."""
    yield from graph.inputs
    yield from graph.outputs


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
