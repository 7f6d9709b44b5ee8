"""An ONNX graph while it is built: values without final names, and the nodes between them.

Values get their names when the model is written, so that a node's result can still take the name of the tensor in the
IR that it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ir_runtime.graph import ElementType, PartialShape, Tensor, TensorType

if TYPE_CHECKING:
    from converter.onnx_file.graph import OnnxOperator


class Value:
    """A tensor of the ONNX graph: its type, and the name that it has or is to have."""

    __slots__ = ("made_by", "name", "type")

    def __init__(self, type: TensorType, name: str = "", made_by: Call | None = None) -> None:
        self.type = type
        self.name = name
        """Empty until the tensor has its final name."""
        self.made_by = made_by
        """None for inputs and constants."""

    @property
    def element_type(self) -> ElementType:
        return self.type.element_type

    @property
    def shape(self) -> PartialShape:
        """The shape, dynamic where it was not computed."""
        return self.type.shape

    def __repr__(self) -> str:
        return f"<Value {self.name!r}: {self.type}>"


class Call:
    """A node: an operator, its inputs, its outputs and its attributes. Graphs among the attributes are its bodies."""

    __slots__ = ("attributes", "captured", "domain", "inputs", "name", "op_type", "operator", "origin", "outputs")

    def __init__(
        self,
        op_type: str,
        domain: str,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, Any],
        name: str,
        origin: str = "",
    ) -> None:
        self.op_type = op_type
        self.domain = domain
        self.inputs = list(inputs)
        self.outputs: list[Value] = []
        self.attributes = dict(attributes)
        self.name = name
        self.origin = origin
        """The name of the ONNX node that the layer was made from; empty where it was made from none."""
        self.operator: OnnxOperator | None = None
        """The operator of a node of an ONNX file that is written as it was."""
        self.captured: list[Value] = []
        """What the bodies of such a node read."""


class Function:
    """A model-local function: what its graph computes."""

    __slots__ = ("description", "graph", "name")

    def __init__(self, name: str, graph: Graph, description: str) -> None:
        self.name = name
        self.graph = graph
        self.description = description


class Graph:
    """Nodes in the order of their evaluation, with the constants that they read."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.calls: list[Call] = []
        self.constants: list[tuple[Value, Tensor]] = []
