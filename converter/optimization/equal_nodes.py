"""Removal of equal nodes from the parts of a model: passes leave them where nodes outside read both results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import Any

import numpy as np

from converter.to_onnx.graph import Call, Graph, Value
from converter.to_onnx.names import Names, bodies_of
from ir_runtime.graph import Tensor

_RANDOM = (
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
"""Operators whose equal nodes return different values."""
_MAX_BYTES = 1 << 10
"""Constants of up to this size are compared by their bytes, larger ones by their place in a file."""


def merge_equal_nodes(graphs: Sequence[Graph], fixed: Collection[str], taken: set[str]) -> dict[str, str]:
    """Replace nodes that an earlier node of any graph equals by its outputs; in place.

    ``graphs`` are in the order of their evaluation. ``fixed`` are names of outputs that have to be written. ``taken``
    are those of all tensors; new names are added to it. Returns the removed outputs and the tensors they equal.
    """
    merging = _Merging(graphs, fixed, taken)
    for graph in graphs:
        merging.run(graph)
    return merging.copies


class _Merging:
    """The calls of all graphs so far, by what they compute."""

    def __init__(self, graphs: Sequence[Graph], fixed: Collection[str], taken: set[str]) -> None:
        self.copies: dict[str, str] = {}
        self._fixed = fixed
        self._calls: dict[Hashable, tuple[Graph, Call]] = {}
        """First call and its graph by operator, attributes and inputs.

        An input that a call computes has the ``id`` of its first equal value as a key, as nested keys would grow with
        the depth of the graph.
        """
        self._counts = Counter(value.name for graph in graphs for call in graph.calls for value in call.outputs)
        self._taken = taken
        self._names = Names({*taken, *self._counts})
        self._keys: dict[Value, Hashable] = {}

    def run(self, graph: Graph) -> None:
        """Remove the calls of a graph that equal earlier ones, its own included."""
        self._keys.update({value: ("tensor", self.copies.get(value.name, value.name)) for value in graph.inputs})
        self._keys.update({value: _key(tensor) for value, tensor in graph.constants})
        replaced: dict[Value, Value] = {}
        calls = []
        for call in graph.calls:
            call.inputs = [None if value is None else replaced.get(value, value) for value in call.inputs]
            key = self._key_of(call)
            earlier = self._calls.get(key)
            if earlier is None or any(value.name in self._fixed for value in call.outputs):
                self._calls.setdefault(key, (graph, call))
                self._keys.update({value: id(value) for value in call.outputs})
                calls.append(call)
                continue
            for value, same in zip(call.outputs, earlier[1].outputs):
                if earlier[0] is not graph:
                    self._share(earlier[0], same)
                    same = self._read(graph, same)
                replaced[value] = same
                if value in graph.outputs:
                    self._share(earlier[0], same)
                    self.copies[value.name] = replaced[value].name
                    graph.outputs.remove(value)
        graph.calls = calls

    def _share(self, graph: Graph, value: Value) -> None:
        """Make a value an output of its graph, with a unique name."""
        if value.made_by is None or value in graph.outputs:
            return
        if not value.name or self._counts[value.name] > 1:
            value.name = self._names.unique(value.name or "shared")
        self._taken.add(value.name)
        graph.outputs.append(value)

    def _read(self, graph: Graph, value: Value) -> Value:
        """Return the input of a graph that reads ``value`` of another; it is added where it is missing."""
        for source in graph.inputs:
            if source.name == value.name:
                return source
        added = Value(value.type, value.name)
        graph.inputs.append(added)
        self._keys[added] = self._keys[value]
        return added

    def _key_of(self, call: Call) -> Hashable:
        """Return a key that equal calls share; random nodes and those with bodies equal no other."""
        if call.op_type in _RANDOM or any(True for _ in bodies_of(call)):
            return id(call)
        attributes = tuple((name, _to_hashable(value)) for name, value in sorted(call.attributes.items()))
        inputs = tuple(None if value is None else self._keys.get(value, id(value)) for value in call.inputs)
        return call.op_type, call.domain, attributes, inputs, len(call.outputs)


def _key(tensor: Tensor) -> Hashable:
    """Return a key that equal constants share."""
    if tensor.byte_size > _MAX_BYTES:
        return tensor.element_type.name, tensor.shape, tensor.place() or id(tensor)
    return tensor.element_type.name, tensor.shape, b"".join(bytes(chunk) for chunk in tensor.chunks())


def _to_hashable(value: Any) -> Hashable:
    """Return an attribute's value in a hashable form."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return tuple(value) if isinstance(value, (list, tuple)) else value
