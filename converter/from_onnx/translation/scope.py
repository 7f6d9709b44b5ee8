"""The values of one graph by name, and the values of the graphs around it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from converter.errors import InvalidModelError, UnsupportedModelError
from converter.onnx_file.messages import GraphProto, SparseTensorProto, TensorProto
from converter.onnx_file.reader import OnnxFile
from ir_runtime.graph import Node, Output, Tensor, TensorType, make_node
from ir_runtime.operations.inputs_outputs import Const1, Parameter1
from ir_runtime.rewriting import UniqueNames

from .values import Value, tensor_of


class Scope:
    """Values by name: computed ones, initializers (made when they are first read), then those of the scope around.

    A body has copies of the constants of the scope around. Other values from outside come through parameters;
    ``captures`` maps each such value to its parameter.
    """

    def __init__(self, file: OnnxFile, parent: Scope | None = None, *, is_body: bool = False) -> None:
        self._file = file
        self._parent = parent
        self._is_body = is_body
        self._values: dict[str, Value] = {}
        self._count: Iterator[int] = itertools.count() if parent is None else parent._count
        self._places: dict[str, int] = {}
        """For each name when it was defined, counted over all scopes."""
        self._initializers: dict[str, TensorProto | SparseTensorProto] = {}
        self.captures: dict[Output, Node] = {}
        self._captured_names: dict[Output, str] = {}
        self._stands_for: dict[Node, Output] = {}
        self.unique: UniqueNames = UniqueNames() if parent is None or is_body else parent.unique

    def take_initializers(self, graph: GraphProto) -> None:
        """Register the graph's initializers; raises :class:`InvalidModelError` for a name given twice."""
        named: list[tuple[str, TensorProto | SparseTensorProto]] = [
            (tensor.name, tensor) for tensor in graph.initializer
        ]
        named += [(sparse.values.name, sparse) for sparse in graph.sparse_initializer]
        for name, tensor in named:
            if name in self._initializers:
                raise InvalidModelError(f"two initializers are called '{name}'")
            self._initializers[name] = tensor

    @property
    def initializers(self) -> frozenset[str]:
        """The names of the graph's own initializers."""
        return frozenset(self._initializers)

    @property
    def names(self) -> set[str]:
        """The names of everything that is known here without the scopes around."""
        return {*self._values, *self._initializers}

    def define(self, name: str, value: Value) -> None:
        """Give a value its name."""
        self._values[name] = value
        self._places[name] = next(self._count)

    def parameter(self, name: str, tensor_type: TensorType) -> Node:
        """A new parameter of that name and type."""
        op = Parameter1(shape=tensor_type.shape, element_type=tensor_type.element_type)
        node = make_node(op, (), self.unique(name))
        node.outputs[0].add_name(name)
        self.define(name, node.outputs[0])
        return node

    def constant(self, name: str, tensor: Tensor) -> Output:
        """A new constant of that name."""
        node = make_node(Const1(value=tensor), (), self.unique(name))
        node.outputs[0].add_name(name)
        self._values[name] = node.outputs[0]
        return node.outputs[0]

    def value(self, name: str) -> Value | None:
        """The value of that name; None where there is none here or around."""
        output = self._values.get(name)
        if output is None and name in self._initializers:
            output = self.constant(name, self._stored_tensor(name))
        if output is None:
            outer = self.outer_value(name)
            output = (
                self._capture(name, tensor_of(outer, f"'{name}'")) if outer is not None and self._is_body else outer
            )
        return output

    def outer_value(self, name: str) -> Value | None:
        """Return the value of that name in the enclosing scopes."""
        return None if self._parent is None else self._parent.value(name)

    def stands_for(self, parameter: Node) -> Output | None:
        """The outer value of a parameter of this body or of one around it; None for an input of the model."""
        scope: Scope | None = self
        while scope is not None:
            outer = scope._stands_for.get(parameter)
            if outer is not None:
                return outer
            scope = scope._parent
        return None

    def sort_captures(self) -> None:
        """Bring the captures into the order in which their values were defined outside, whatever reads them first."""

        def place(outer: Output) -> int:
            name, scope = self._captured_names[outer], self._parent
            while scope is not None and name not in scope._places:
                scope = scope._parent
            return -1 if scope is None else scope._places[name]

        self.captures = {outer: self.captures[outer] for outer in sorted(self.captures, key=place)}

    def _stored_tensor(self, name: str) -> Tensor:
        stored = self._initializers[name]
        try:
            tensor = self._file.dense(stored) if isinstance(stored, SparseTensorProto) else self._file.tensor(stored)
        except (UnsupportedModelError, InvalidModelError) as error:
            raise type(error)(f"initializer '{name}': {error}") from error
        tensor.provenance = name
        return tensor

    def _capture(self, name: str, outer: Output) -> Output:
        if outer.tensor is not None:
            return self.constant(name, outer.tensor)
        if outer not in self.captures:
            tensor_type = TensorType(outer.element_type, outer.shape, bounds=outer.type.bounds)
            node = self.captures[outer] = self.parameter(name, tensor_type)
            self._stands_for[node] = outer
            self._captured_names[outer] = name
        return self.captures[outer].outputs[0]
