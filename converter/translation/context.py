"""What a translator is handed: ways to emit layers and constants, and to fail with a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from converter.errors import InvalidModelError, Problem, UnsupportedModelError
from converter.onnx_file.messages import GraphProto, TensorProto
from converter.onnx_file.reader import OnnxFile
from converter.translation.values import Value
from ir_runtime.builder import Builder
from ir_runtime.element_types import Array
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operation import TensorType
from ir_runtime.records import record


@record
class Body:
    """A translated subgraph.

    The model's first parameters are the graph's own inputs; after them comes one for every output of
    ``captures``, which the graph takes from outside.
    """

    model: Model
    captures: tuple[Output, ...]


Boundary = Callable[["Context", int, Output], Output]
"""Emits, inside a body, what stands between a parameter or result (by its number) and the graph."""


def unchanged(ctx: Context, index: int, value: Output) -> Output:
    """The boundary that changes nothing."""
    return value


class SubgraphTranslator(Protocol):
    """What a graph's translator offers to translators of operators that hold graphs."""

    def inline(self, graph: GraphProto, inputs: Sequence[Value], prefix: str = "") -> list[Value]:
        """Translate ``graph`` in place, its inputs being ``inputs``; returns its outputs.

        A ``prefix`` for the layers' names is needed where one graph is translated several times.
        """
        ...

    def body(
        self, graph: GraphProto, inputs: Sequence[TensorType], enter: Boundary = unchanged, leave: Boundary = unchanged
    ) -> Body:
        """Translate ``graph`` as a body whose parameters have these types.

        ``enter`` makes the graph's inputs from the parameters, ``leave`` the results from its outputs.
        """
        ...

    def body_or_contradictions(self, graph: GraphProto) -> Body | list[Problem]:
        """As :meth:`body`, for a graph without inputs that may be in vain.

        Where what surrounds the graph contradicts it, why; that is no problem of the model yet.
        """
        ...

    def captured(self, parameter: Node) -> Output | None:
        """What a parameter stands for outside the body it belongs to; None for an input of the model."""
        ...

    def stated_type(self, value: Output) -> TensorType:
        """What is known of a value for the extents that the file states."""
        ...

    def keep_extents(self) -> None:
        """Say that what was translated holds for the stated extents alone."""
        ...


class Context(Builder):
    """Emits IR for one ONNX node.

    ``opset`` is the model's version of the node's domain, ``version`` the operator version that the
    translator was chosen for, ``output_names`` the node's outputs with ``""`` for those left out.
    """

    def __init__(
        self, file: OnnxFile, graphs: SubgraphTranslator, opset: int, version: int, output_names: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self.file = file
        self.graphs = graphs
        self.opset = opset
        self.version = version
        self.output_names = tuple(output_names)
        self.remarks: list[str] = []

    def stored(self, proto: TensorProto) -> Output:
        """A constant layer over the data of an ONNX tensor."""
        return self.tensor(self.file.tensor(proto))

    def wants(self, index: int) -> bool:
        """Whether the model uses the node's output ``index``."""
        return index < len(self.output_names) and self.output_names[index] != ""

    def known(self, output: Output, what: str) -> Array:
        """The values of ``output``; unsupported where they are only known at run time."""
        values = output.type.constant
        if values is None:
            raise UnsupportedModelError(f"{what} must be known while converting, but is computed at run time")
        return values

    def stated(self, output: Output) -> TensorType:
        """What ``output`` is for the extents that the file states, which stay open while translating.

        To be looked at where the plainest layers are right for these, and refuse others or are right, too.
        """
        return self.graphs.stated_type(output)

    def rank(self, output: Output, what: str) -> int:
        """The number of dimensions; unsupported where it is only known at run time."""
        if not output.shape.has_rank:
            raise UnsupportedModelError(f"the rank of {what} must be known while converting, but is not")
        return output.shape.rank

    def tolerate(self, message: str) -> None:
        """Say what the node breaks of its schema, where its meaning is beyond doubt; a warning names it."""
        self.remarks.append(message)

    def invalid(self, message: str) -> InvalidModelError:
        """An error to raise: the model contradicts ONNX."""
        return InvalidModelError(message)

    def unsupported(self, message: str) -> UnsupportedModelError:
        """An error to raise: valid, but the IR cannot say it."""
        return UnsupportedModelError(message)
