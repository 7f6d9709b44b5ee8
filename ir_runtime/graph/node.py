"""Nodes and their outputs. Nothing here knows an operation by name."""

from __future__ import annotations

from collections.abc import Iterable

from ..records import record
from .element_types import ElementType
from .operation import Operation, TensorType
from .shapes import PartialShape
from .tensor import Tensor


@record
class RuntimeInfo:
    """One element below ``<rt_info>``: a tag, its attributes and its children."""

    tag: str
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple[RuntimeInfo, ...] = ()


@record
class Origin:
    """The ONNX node that a layer was made from: its name and operator."""

    node: str
    op_type: str

    def __str__(self) -> str:
        return f"node '{self.node}' of {self.op_type}"


class Output:
    """One output of a node: its type, and the tensor names by which users know it."""

    __slots__ = ("index", "names", "node", "runtime_info", "type")

    def __init__(self, node: Node, index: int, type: TensorType) -> None:
        self.node = node
        self.index = index
        self.type = type
        self.names: list[str] = []
        self.runtime_info: tuple[RuntimeInfo, ...] = ()

    @property
    def element_type(self) -> ElementType:
        """The type of the numbers."""
        return self.type.element_type

    @property
    def shape(self) -> PartialShape:
        """The dimensions, as far as they are known."""
        return self.type.shape

    @property
    def tensor(self) -> Tensor | None:
        """The constant that this output always holds, if it does."""
        return self.type.tensor

    def add_name(self, name: str) -> None:
        """Give the tensor one more name, unless it has that."""
        if name not in self.names:
            self.names.append(name)

    def __repr__(self) -> str:
        names = f" {', '.join(map(repr, self.names))}" if self.names else ""
        return f"<Output {self.index} of layer {self.node.name!r} ({self.node.op.type}):{names} {self.type}>"


class Node:
    """An operation with its inputs (outputs of other nodes) and its outputs."""

    __slots__ = ("inputs", "name", "op", "origin", "output_names", "outputs", "runtime_info")

    def __init__(
        self,
        op: Operation,
        inputs: Iterable[Output] = (),
        types: Iterable[TensorType] = (),
        name: str = "",
    ) -> None:
        self.op = op
        self.inputs = list(inputs)
        self.outputs = [Output(self, i, type) for i, type in enumerate(types)]
        self.name = name
        self.output_names: list[str] = []
        """On a result: the names of the model's output."""
        self.runtime_info: tuple[RuntimeInfo, ...] = ()
        self.origin: Origin | None = None
        """The ONNX node that the layer was made from; None where there is none. Not part of the file."""

    @property
    def end_names(self) -> list[str]:
        """On a parameter or a result: the tensor names by which callers know the model's input or output."""
        return list(self.output_names or (self.inputs or self.outputs)[0].names)

    @property
    def where(self) -> str:
        """The layer's name, type and origin, for messages."""
        made_from = "" if self.origin is None else f", made from {self.origin}"
        return f"layer '{self.name}' ({self.op.type}{made_from})"

    def __repr__(self) -> str:
        inputs = ", ".join(str(source.type) for source in self.inputs)
        outputs = ", ".join(str(output.type) for output in self.outputs)
        return f"<Node {self.name!r}: {self.op.type}-{self.op.opset}({inputs}) -> ({outputs})>"
