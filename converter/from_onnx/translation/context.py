"""The first argument of every translator: it emits layers and constants, and makes errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from converter.errors import InvalidModelError, Problem, UnsupportedModelError
from converter.from_onnx.translation.values import Value
from converter.onnx_file.messages import GraphProto, NodeProto, SparseTensorProto, TensorProto
from converter.onnx_file.reader import OnnxFile
from ir_runtime.graph import Array, Model, Node, Operation, Output, TensorType
from ir_runtime.records import record
from ir_runtime.rewriting import Builder


@record
class Body:
    """A translated subgraph.

    The model's first parameters are the graph's own inputs; after them comes one for every output of
    ``captures``, which the graph takes from outside.
    """

    model: Model
    captures: tuple[Output, ...]


Boundary = Callable[["Context", int, Output], Output]
"""Emits, inside a body, the layers between the graph and its parameter or result of a number; returns the end."""


def unary(cls: type[Operation]) -> Callable[[Context, Output], Output]:
    """Return the translation of an operator of one input that a layer without attributes computes."""

    def translate(ctx: Context, x: Output) -> Output:
        return ctx.emit(cls(), x)

    return translate


def unchanged(ctx: Context, index: int, value: Output) -> Output:
    """The boundary that emits nothing."""
    return value


class SubgraphTranslator(Protocol):
    """Interface of a graph's translator for translators of operators that hold graphs."""

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
        """As :meth:`body`, for a graph without inputs that may contradict the values around it.

        Then the problems are returned; they do not become problems of the model.
        """
        ...

    def readers(self, name: str) -> list[NodeProto]:
        """The nodes of the graph that read a value, themselves or in a graph that they hold."""
        ...

    def captured(self, parameter: Node) -> Output | None:
        """The value outside of a body that its parameter receives; None for an input of the model."""
        ...

    def declared_type(self, value: Output) -> TensorType:
        """The type of a value when the inputs have their declared dimensions."""
        ...

    def keep_dimensions(self) -> None:
        """Mark the translation as right for the declared dimensions only: they become static."""
        ...

    @property
    def is_stateful(self) -> bool:
        """True if caches become variables: positions and the keys that count then follow from inputs alone."""
        ...

    def model_input(self, name: str, tensor_type: TensorType) -> Output:
        """The model's input of that name; where the file has none, the model gets it. Unsupported inside a body."""
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

    def stored(self, proto: TensorProto | SparseTensorProto) -> Output:
        """A constant layer over the data of a tensor that an attribute of the node holds."""
        tensor = self.file.dense(proto) if isinstance(proto, SparseTensorProto) else self.file.tensor(proto)
        tensor.provenance = self.output_names[0] if self.output_names else None
        return self.tensor(tensor)

    def wants(self, index: int) -> bool:
        """True if the model uses the node's output ``index``."""
        return index < len(self.output_names) and self.output_names[index] != ""

    def required(self, value: Output | None, name: str) -> Output:
        """An input that ONNX's schema calls optional, but that this node needs; invalid where it is missing."""
        if value is None:
            raise self.invalid(f"input '{name}' is required, but missing")
        return value

    def known(self, output: Output, what: str) -> Array:
        """The values of ``output``; unsupported where they are only known at run time."""
        values = output.type.constant
        if values is None:
            raise UnsupportedModelError(f"{what} must be known while converting, but is computed at run time")
        return values

    def declared(self, output: Output) -> TensorType:
        """The type of ``output`` when the inputs have their declared dimensions; :attr:`Output.type` has dynamic ones.

        A translator may choose plainer layers by it if these are right for other dimensions as well, or refuse them.
        """
        return self.graphs.declared_type(output)

    def rank(self, output: Output, what: str, *allowed: int, least: int = 0) -> int:
        """The number of dimensions: one that is ``allowed``. Unsupported where it is only known at run time."""
        if not output.shape.has_rank:
            raise UnsupportedModelError(f"the rank of {what} must be known while converting, but is not")
        rank = output.shape.rank
        if rank < least or (allowed and rank not in allowed):
            expected = " or ".join(map(str, allowed)) or f"at least {least}"
            raise InvalidModelError(f"{what} must have {expected} dimensions, but has the shape {output.shape}")
        return rank

    def tolerate(self, message: str) -> None:
        """Accept a node that breaks its schema but has only one possible meaning; ``message`` becomes a warning."""
        self.remarks.append(message)

    def invalid(self, message: str) -> InvalidModelError:
        """An error to raise: the model contradicts ONNX."""
        return InvalidModelError(message)

    def unsupported(self, message: str) -> UnsupportedModelError:
        """An error to raise: the model is valid, but the IR cannot express it."""
        return UnsupportedModelError(message)
