"""The walk over an IR: every layer by its exporter, every problem of the model at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

from converter.errors import ConversionError, InternalError, Problem, UnsupportedModelError, error_of
from converter.onnx_file.graph import OnnxOperator, operator_of
from converter.onnx_file.types import onnx_number
from converter.options.export import ExportOptions
from converter.passes.decomposition.registry import decompose
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Model, Node, Output, Tensor, TensorType
from ir_runtime.rewriting import Builder, NotMatched

from .context import Context
from .functions import Functions
from .graph import Graph, Value, input_value, is_computed, listed_inputs
from .layers import aligned
from .opsets import FORMS, Opsets, OpsetTooLow
from .registry import find_exporter

T = TypeVar("T")
_SHARED_BYTES = 1 << 10
"""Equal constants of at most this many bytes are one initializer."""


def _cast_results(ctx: Context, results: Value | Sequence[Value]) -> list[Value]:
    """Cast the results of an exporter to the types of the layer's outputs; types that ONNX does not have stay wider."""
    return [
        ctx.cast(value, output.element_type) if onnx_number(output.element_type) else value
        for value, output in zip([results] if isinstance(results, Value) else results, ctx.node.outputs)
    ]


def _name_helpers(node: Node, written: Sequence[Node], results: Sequence[Value]) -> None:
    """The node that makes the layer's first output has the layer's name; the others have their operators' as well."""
    for helper in written:
        if helper is not results[0].node and helper.name == node.name and helper.op.data is None:
            helper.name = f"{node.name}/{operator_of(helper).op_type}"


def _write_fused(ctx: Context, op: OnnxOperator, values: Mapping[Output, Value]) -> list[Value]:
    """Write the operator of a fusion before export."""
    sources = [None if source is None else values[source] for source in listed_inputs(ctx.node)]
    outputs = ctx.node.outputs
    return ctx.emit_many(
        op.op_type,
        *sources,
        count=op.count,
        domain=op.domain,
        types=[output.element_type for output in outputs],
        shapes=[output.shape for output in outputs],
        **op.values,
    )


def _is_stored(node: Node) -> bool:
    """Return whether nodes of an ONNX file alone read a constant."""
    uses = node.outputs[0].uses
    return node.op.data is not None and all(
        isinstance(use.op, OnnxOperator) and use.op.place is not None for use in uses
    )


class Translation:
    """One walk over a model, with what all its graphs share."""

    def __init__(self, opsets: Opsets, options: ExportOptions, tensor_data: list[Tensor]) -> None:
        self.opsets = opsets
        self.options = options
        self.problems: list[Problem] = []
        self.functions = Functions()
        self.shapes = symbolic_shapes()
        """Symbolic shapes of the IR."""
        self.tensor_data = tensor_data
        """The data of large constants."""
        self._main = Graph()
        self._shared: dict[tuple[object, ...], Value] = {}
        self._shared_values: dict[tuple[Graph, Hashable], Any] = {}
        self._noted: set[Value] = set()
        """ONNX values of the outputs of the IR's graphs."""
        self._is_decomposing = False

    def model(self, model: Model) -> Graph:
        """The graph of a model. Raises :class:`ConversionError` with all problems."""
        graph = self._main = Graph(model.name)
        values: dict[Output, Value] = {}
        for node in model.parameters:
            (output,) = node.outputs
            name = (node.end_names or [node.name])[0]
            values[output] = input_value(TensorType(output.element_type, output.shape), name)
            graph.inputs.append(values[output])
        self._walk(model, graph, values)
        for node in model.results:
            graph.outputs.append(values[node.inputs[0]])
        if self.problems:
            raise error_of(self.problems)
        return graph

    def translate(self, model: Model, graph: Graph, inputs: Mapping[Node, Value]) -> Mapping[Output, Value]:
        """As :meth:`Context.translate`."""
        values = {node.outputs[0]: value for node, value in inputs.items()}
        self._walk(model, graph, values)
        return values

    def _walk(self, model: Model, graph: Graph, values: dict[Output, Value]) -> None:
        for node in model.nodes():
            if node.op.role in ("parameter", "result") or _is_stored(node):
                continue
            first = len(graph.nodes)
            results = self._export(node, graph, values)
            _name_helpers(node, graph.nodes[first:], results)
            self._note(node, results, values)

    def _note(self, node: Node, results: Sequence[Value], values: MutableMapping[Output, Value]) -> None:
        """Note what the outputs of a layer became, and what inference knows of them."""
        for output, value in zip(node.outputs, results):
            if is_computed(value) and value not in self._noted:
                # Its shape and, unless another type holds them, its values.
                is_same = value.element_type is output.element_type
                value.type = output.type if is_same else TensorType(value.element_type, output.shape)
                value.names = value.names or output.names[:1]
            self._noted.add(value)
            values[output] = value

    def _export(self, node: Node, graph: Graph, values: Mapping[Output, Value]) -> list[Value]:
        if self._is_decomposing:
            return self._write(node, graph, values)  # what fails is the layer that is decomposed
        try:
            return self._write(node, graph, values)
        except OpsetTooLow as error:
            self._add(node, f"{error}, but opset {self.opsets.version} is asked for")
        except ConversionError as error:
            if error.problems or isinstance(error, InternalError):
                raise
            self._add(node, str(error))
        return [input_value(output.type, "") for output in node.outputs]  # for the problems of other layers

    def _keep(self, operator: OnnxOperator, node: Node, graph: Graph, values: Mapping[Output, Value]) -> list[Value]:
        """Write a node of an ONNX file as it was."""
        inputs = [self._as_stored(source, graph, values) for source in node.inputs]
        types = [output.type for output in node.outputs]
        added = graph.add(operator, inputs, types, node.name, origin=node.origin)
        for output, value in zip(node.outputs, added.outputs):
            value.names = output.names[:1]
        return added.outputs

    def _as_stored(self, source: Output, graph: Graph, values: Mapping[Output, Value]) -> Value:
        """Return a value for a node that stays: constants of any type that the file has, in any opset."""
        data = source.node.op.data
        return values[source] if data is None else self.initializer(graph, data, next(iter(source.names), ""))

    def _write(self, node: Node, graph: Graph, values: Mapping[Output, Value]) -> list[Value]:
        if isinstance(node.op, OnnxOperator) and node.op.place is not None:
            return self._keep(node.op, node, graph, values)
        ctx = Context(self, graph, node, values)
        if isinstance(node.op, OnnxOperator):
            return _cast_results(ctx, _write_fused(ctx, node.op, values))
        exporter = find_exporter(type(node.op))
        if isinstance(exporter, str):
            raise UnsupportedModelError(exporter)
        inputs = aligned(ctx, node.op, [values[source] for source in node.inputs])
        is_inlined = self.options.inline_functions or self.opsets.version < FORMS  # whose readers know no functions
        if self._is_decomposing or is_inlined or not exporter.is_local_function:
            return _cast_results(ctx, exporter.function(ctx, node.op, *inputs))
        ctx = ctx.inside(Graph())
        results = _cast_results(ctx, exporter.function(ctx, node.op, *inputs))
        return self.functions.call(ctx, exporter.input_names(len(inputs)), inputs, results, graph)

    def decompose(self, node: Node, graph: Graph, values: Mapping[Output, Value]) -> list[Value]:
        """As :meth:`Context.decompose`."""
        builder, inner = Builder(), dict(values)
        try:
            results = decompose(builder, node)
        except NotMatched as why:
            raise UnsupportedModelError(why.reason) from why
        is_within, self._is_decomposing = self._is_decomposing, True
        try:
            for emitted in builder.emitted:
                # Constants get names of their own, as those of other exporters.
                emitted.name = "" if emitted.op.data is not None else node.name
                emitted.origin = node.origin
                self._note(emitted, self._write(emitted, graph, inner), inner)
        finally:
            self._is_decomposing = is_within
        return [inner[output] for output in results]

    def _add(self, node: Node, reason: str) -> None:
        self.problems.append(
            Problem(node.name, f"{node.op.type}-{node.op.opset}", "", self.opsets.version, reason, True)
        )

    def once(self, graph: Graph, key: Hashable, make: Callable[[], T]) -> T:
        """As :meth:`Context.once`."""
        if (graph, key) not in self._shared_values:
            self._shared_values[graph, key] = make()
        earlier: T = self._shared_values[graph, key]
        return earlier

    def initializer(self, graph: Graph, tensor: Tensor, name: str) -> Value:
        """As :meth:`Context.initializer`."""
        is_large = tensor.byte_size > _SHARED_BYTES
        graph = self._main if is_large else graph  # bodies read large data from there: it has one place
        contents = tensor.place() if is_large else (b"".join(map(bytes, tensor.chunks())),)
        if contents is None:
            return graph.constant(tensor, name, self.tensor_data)
        key = graph, tensor.element_type.name, tensor.shape, *contents
        if key not in self._shared:
            self._shared[key] = graph.constant(tensor, name, self.tensor_data)
        shared = self._shared[key]
        shared.names = shared.names or ([name] if name else [])
        return shared
