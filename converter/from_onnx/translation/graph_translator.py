"""Translates the nodes of one graph, its subgraphs and functions, and notes at which node an error occurred."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field

from converter.errors import EXHAUSTED, ConversionError, InvalidModelError, Problem, UnsupportedModelError
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.functions import Expansion, expand, schema_function
from converter.onnx_file.messages import FunctionProto, GraphProto, NodeProto, ValueInfoProto
from converter.onnx_file.model_info import declared_shape
from converter.onnx_file.node_order import in_order, node_name, read_names
from converter.onnx_file.reader import OnnxFile
from converter.stages import warn
from ir_runtime.boundary import fault_of
from ir_runtime.graph import Model, Node, Operation, Origin, Output, PartialShape, TensorType, make_node
from ir_runtime.operations.inputs_outputs import Parameter1, Result1
from ir_runtime.records import record

from .context import Body, Boundary, Context, unchanged
from .declared_types import DeclaredTypes
from .readers_in_branches import DifferentRanks, take_readers_along
from .reading import Reading, early, read_node
from .registry import counts_before_function, domain_of_operator, find_schema, opset_of_operator
from .schema_checks import accepted_inputs
from .scope import Scope
from .validation import (
    call_translator,
    check_declared_type,
    check_names,
    constant_inputs,
    imported_opsets,
    is_own_fault,
    operator_problems,
    problem_of,
)
from .values import Value, name_layers, note_origin, tensor_of

_MAX_NESTING = 60


class SeveralProblems(ConversionError):
    """Raised by a subgraph or function whose problems are in the list already."""


@record
class KeptNodes:
    """Nodes that become layers of their own operators, and are not translated."""

    operators: Mapping[int, tuple[Operation, Sequence[str]]] = field(default_factory=dict)
    """The ``id`` of a node's message -> its operator, and the tensors that its bodies read from around them."""
    constant: Callable[[str], Operation | None] | None = None
    """Returns the operator of an initializer that the IR cannot hold; None where that is an error."""
    input: Operation | None = None
    """The operation of an input that is no tensor; None where that is an error."""


class Shared:
    """Data that all graphs of a model share during translation."""

    def __init__(
        self,
        file: OnnxFile,
        functions: dict[tuple[str, str], FunctionProto],
        reported: set[str],
        *,
        stateful: bool,
        kept: KeptNodes,
    ) -> None:
        self.kept = kept
        self.file = file
        self.functions = functions
        self.is_stateful = stateful
        self.inputs: dict[str, Node] = {}
        """The parameters of the model by name, those that no input of the file stands for included."""
        self._reported = reported
        self.problems: list[Problem] = []
        self.depth = 0
        self.body_depth = 0
        self.declared_types = DeclaredTypes()
        self.declared_shapes: list[tuple[str, PartialShape, Output]] = []
        self.keeps_dimensions = False

    def warn(self, message: str) -> None:
        """Log a warning, unless it was given before."""
        if message not in self._reported:
            self._reported.add(message)
            warn("%s", message)


class GraphTranslator:
    """Translates one graph, collecting problems; a value that depends on a failed node is skipped.

    A graph inside another sees that one's values: directly where it is translated in place, through
    parameters where it becomes a body.
    """

    def __init__(self, shared: Shared, opsets: Mapping[str, int], scope: Scope | None = None, prefix: str = "") -> None:
        self.shared = shared
        self.scope = Scope(shared.file) if scope is None else scope
        self._opsets = opsets
        self._is_outermost = scope is None
        self._prefix = prefix
        self._declared: dict[str, ValueInfoProto] = {}
        self._failed: set[str] = set()
        self._nodes: Sequence[NodeProto] = ()

    # --- for translators of operators with graphs as attributes ---

    def inline(self, graph: GraphProto, inputs: Sequence[Value], prefix: str = "") -> list[Value]:
        """Translate ``graph`` in place; it sees all values of this graph."""
        inner = self._inner(is_body=False, prefix=prefix)
        with inner._deeper():
            inner.open(graph, graph.node)
            for value, source in zip(inner._inputs_of(graph, len(inputs)), inputs):
                inner.scope.define(value.name, source)
            names = [value.name for value in graph.output]
            inner.translate_nodes(graph.node, names)
            return inner.outputs(names)

    def body(
        self, graph: GraphProto, inputs: Sequence[TensorType], enter: Boundary = unchanged, leave: Boundary = unchanged
    ) -> Body:
        """Translate ``graph`` as a body; values that it reads from outside become further parameters."""
        inner = self._inner(is_body=True)
        scope = inner.scope
        with inner._deeper(), inner._in_body():
            inner.open(graph, graph.node)
            parameters, results = list[Node](), list[Node]()
            for index, (value, tensor_type) in enumerate(zip(inner._inputs_of(graph, len(inputs)), inputs)):
                node = scope.parameter(value.name, tensor_type)
                parameters.append(node)
                scope.define(value.name, inner._across(enter, index, node.outputs[0]))
            names = [value.name for value in graph.output]
            inner.translate_nodes(graph.node, names)
            for index, output in enumerate(inner.outputs(names)):
                source = inner._across(leave, index, tensor_of(output, f"'{names[index]}'"))
                results.append(make_node(Result1(), [source], scope.unique("result")))
            scope.sort_captures()
            model = Model(graph.name, [*parameters, *scope.captures.values()], results)
            return Body(model, tuple(scope.captures))

    def body_or_contradictions(self, graph: GraphProto) -> Body | list[Problem]:
        """Translate ``graph`` as a body, or return how it contradicts the values around it.

        What the IR cannot express stays a problem of the model.
        """
        problems = self.shared.problems
        earlier_count = len(problems)
        try:
            return self.body(graph, [])
        except SeveralProblems:
            new_problems = problems[earlier_count:]
            if not new_problems or any(problem.unsupported for problem in new_problems):
                raise
            del problems[earlier_count:]
            return new_problems

    def readers(self, name: str) -> list[NodeProto]:
        """The nodes of the graph that read a value, themselves or in a graph that they hold."""
        return [node for node in self._nodes if name in read_names(node)]

    def captured(self, parameter: Node) -> Output | None:
        """The value outside of a body that its parameter receives; None for an input of the model."""
        return self.scope.stands_for(parameter)

    def declared_type(self, value: Output) -> TensorType:
        """The type of a value when the inputs have their declared dimensions."""
        return self.shared.declared_types.of(value, self.captured)

    def keep_dimensions(self) -> None:
        """Mark the translation as right for the declared dimensions only."""
        self.shared.keeps_dimensions = True

    @property
    def is_stateful(self) -> bool:
        """True if caches become variables."""
        return self.shared.is_stateful

    def model_input(self, name: str, tensor_type: TensorType) -> Output:
        """The model's input of that name; where the file has none, the model gets it."""
        if self.shared.body_depth:
            raise UnsupportedModelError(f"a body cannot read '{name}', which would become an input of the model")
        node = self.shared.inputs.get(name)
        if node is None:
            op = Parameter1(shape=tensor_type.shape, element_type=tensor_type.element_type)
            node = self.shared.inputs[name] = make_node(op, (), self.scope.unique(name))
            node.outputs[0].add_name(name)
            dynamic = PartialShape.of_rank(tensor_type.shape.rank)
            self.shared.declared_types.declare(node, TensorType(tensor_type.element_type, dynamic))
        return node.outputs[0]

    def _inner(self, *, is_body: bool, prefix: str = "") -> GraphTranslator:
        if self.shared.depth > _MAX_NESTING:
            raise UnsupportedModelError(f"graphs or functions are nested more than {_MAX_NESTING} deep")
        scope = Scope(self.shared.file, self.scope, is_body=is_body)
        return GraphTranslator(self.shared, self._opsets, scope, self._prefix + prefix)

    def _inputs_of(self, graph: GraphProto, count: int) -> Sequence[ValueInfoProto]:
        """The first ``count`` inputs of a subgraph; further ones may only name values that it sees without them."""
        more = [value.name for value in graph.input[count:]]
        seen = all(name in self.scope.initializers or self.scope.outer_value(name) is not None for name in more)
        if len(graph.input) < count or not seen:
            raise InvalidModelError(f"its graph has {len(graph.input)} inputs, but {count} are given")
        if more:
            self.shared.warn(f"the graph '{graph.name}' declares as inputs what it sees around it: {', '.join(more)}")
        return graph.input[:count]

    def _across(self, boundary: Boundary, index: int, value: Output) -> Output:
        context = Context(self.shared.file, self, 0, 0)
        outside = boundary(context, index, value)
        name_layers(context, self.scope.unique, f"{value.node.name}/through", [])
        return outside

    @contextlib.contextmanager
    def _in_body(self) -> Iterator[None]:
        self.shared.body_depth += 1
        try:
            yield
        finally:
            self.shared.body_depth -= 1

    @contextlib.contextmanager
    def _deeper(self) -> Iterator[None]:
        self.shared.depth += 1
        earlier_count = len(self.shared.problems)
        try:
            yield
        finally:
            self.shared.depth -= 1
        if len(self.shared.problems) > earlier_count:
            raise SeveralProblems("see the problems inside")

    # --- before and after the nodes ---

    def open(self, graph: GraphProto, nodes: Sequence[NodeProto]) -> None:
        """Take in initializers and declarations, and check all names and operators."""
        self.scope.take_initializers(graph)
        self._declared = {value.name: value for value in [*graph.value_info, *graph.output]}
        self._check_operators(nodes)
        check_names(graph, self.scope.initializers, constant_inputs(graph) if self._is_outermost else ())

    def _check_operators(self, nodes: Sequence[NodeProto]) -> None:
        nodes = [node for node in nodes if id(node) not in self.shared.kept.operators]
        self._opsets = imported_opsets(nodes, self._opsets, self.shared.functions, self.shared.warn)
        self.shared.problems += operator_problems(nodes, self._opsets, self.shared.functions)
        if self.shared.problems and not self._is_outermost:
            raise SeveralProblems("see the problems inside")

    def outputs(self, names: Sequence[str]) -> list[Value]:
        """The values that a graph returns; raises :class:`InvalidModelError` for one that nothing computes."""
        if self.shared.problems:
            return []
        outputs_by_name = [(name, self.scope.value(name)) for name in names]
        missing = [name for name, output in outputs_by_name if output is None]
        if missing:
            raise InvalidModelError(f"the graph's output '{missing[0]}' is computed by no node")
        return [output for _, output in outputs_by_name if output is not None]

    def check_declared(self, name: str, output: Output) -> None:
        """Warn if the file declares another element type; keep the declared shape for a later comparison."""
        declared = self._declared.get(name)
        if declared is None or not declared.type.HasField("tensor_type"):
            return
        check_declared_type(name, declared, output, self.shared.warn)
        if self._is_outermost:
            self.shared.declared_shapes.append((name, declared_shape(declared.type), output))

    # --- the nodes ---

    def translate_nodes(self, nodes: Sequence[NodeProto], results: Collection[str]) -> None:
        """Translate nodes, each after those that it reads from; the graph returns the tensors ``results``."""
        self._nodes = nodes
        pending = in_order(nodes, self.scope.names)[::-1]
        while pending:
            node = pending.pop()
            try:
                is_translated = not any(name in self._failed for name in node.input) and self._translate(node)
            except DifferentRanks as error:
                extended = take_readers_along(node, error.outputs, pending[::-1], results)
                if extended is not None and not self._kept(pending) - self._kept(extended):
                    pending = in_order(extended, self.scope.names)[::-1]
                    continue
                is_translated = False
                self.shared.problems.append(problem_of(node, self._opsets.get("", 0), str(error), unsupported=True))
            if not is_translated:
                self._failed.update(node.output)

    def _kept(self, nodes: Sequence[NodeProto]) -> set[int]:
        return {id(node) for node in nodes} & self.shared.kept.operators.keys()

    def _domain_of(self, node: NodeProto) -> str:
        domain = normalize_domain(node.domain)
        return domain if (domain, node.op_type) in self.shared.functions else domain_of_operator(node.op_type, domain)

    def opset_of(self, node: NodeProto) -> int:
        """Return the version of the domain that a node's operator is of."""
        return self._opsets.get(self._domain_of(node), 0)

    def _translate(self, node: NodeProto) -> bool:
        """Translate a node; returns False where that fails, and adds the reason to the problems."""
        domain, opset = self._domain_of(node), self.opset_of(node)
        problems = self.shared.problems
        try:
            self._emit(node, domain, opset)
        except SeveralProblems:
            return False
        except DifferentRanks:
            raise
        except EXHAUSTED as error:
            reason = f"translating it takes more memory than there is ({type(error).__name__})"
            problems.append(problem_of(node, opset, reason, unsupported=True, cause=error.with_traceback(None)))
            return False
        except OSError:
            raise
        except Exception as error:
            if is_own_fault(error, node):
                reason = str(fault_of("translating it", error, " with the model"))
                problems.append(problem_of(node, opset, reason, unsupported=False, cause=error))
            else:
                problems.append(problem_of(node, opset, str(error), isinstance(error, UnsupportedModelError)))
            return False
        return True

    def _emit(self, node: NodeProto, domain: str, opset: int) -> None:
        if id(node) in self.shared.kept.operators:
            self._keep(node, self._as_it_is(node, *self.shared.kept.operators[id(node)]))
            return
        inputs = [self._input(name) for name in node.input]
        is_opaque = [isinstance(value, Output) and value.element_type.is_dynamic for value in inputs]
        if any(is_opaque) and self.shared.kept.input is not None:
            raise UnsupportedModelError("the type of a tensor that it reads is not known")
        function = self.shared.functions.get((domain, node.op_type))
        if function is not None:
            outputs = self._by_kernel(node, domain, opset, inputs)
            self._keep(node, self._call_function(function, node, inputs) if outputs is None else outputs)
            return
        reading = read_node(node, domain, opset)
        if isinstance(reading, str):
            own_opset = opset_of_operator(node.op_type, domain, opset)
            types = [value.type if isinstance(value, Output) else None for value in inputs]
            definition = schema_function(node, find_schema(node.op_type, domain, own_opset), own_opset, types)
            if definition is None:
                raise UnsupportedModelError(reading)
            self._remark(node, opset, [] if own_opset == opset else [early(own_opset)])
            self._keep(node, self._call_function(definition, node, inputs))
            return
        self._keep(node, self._by_translator(node, domain, opset, reading, inputs))

    def _as_it_is(self, node: NodeProto, operator: Operation, captured: Sequence[str]) -> list[Output]:
        """Add a layer that is the node itself."""
        inputs = []
        for name in (*filter(None, node.input), *captured):
            try:
                value = self._input(name)
            except UnsupportedModelError:
                if name not in self.scope.initializers or self.shared.kept.constant is None:
                    raise
                constant = self.shared.kept.constant(name)
                if constant is None:
                    raise
                value = Node(constant, (), constant.infer(()), self.scope.unique(name)).outputs[0]
                value.add_name(name)
                self.scope.define(name, value)
            writer = next((other for other in self._nodes if name in other.output), node)
            if not isinstance(value, Output):
                reason = f"'{name}' is no tensor, and '{node_name(node)}', which reads it, stays as it is"
                self.shared.problems.append(problem_of(writer, 0, reason, unsupported=True))
                raise SeveralProblems(reason)
            inputs.append(value)
        added = Node(
            operator, inputs, operator.infer([value.type for value in inputs]), self.scope.unique(node_name(node))
        )
        added.origin = Origin(node_name(node), node.op_type)
        return added.outputs

    def _by_kernel(
        self, node: NodeProto, domain: str, opset: int, inputs: Sequence[Value | None]
    ) -> Sequence[Value | None] | None:
        """Translate a call of a function of the model as the operator of that name; None where the function counts."""
        if not counts_before_function(node.op_type, domain, opset):
            return None
        try:
            reading = read_node(node, domain, opset)
            return None if isinstance(reading, str) else self._by_translator(node, domain, opset, reading, inputs)
        except (UnsupportedModelError, InvalidModelError):
            return None

    def _by_translator(
        self, node: NodeProto, domain: str, opset: int, reading: Reading, inputs: Sequence[Value | None]
    ) -> Sequence[Value | None]:
        """Translate an operator, and name its layers."""
        context = Context(self.shared.file, self, reading.opset, reading.version, node.output)
        if domain != normalize_domain(node.domain):
            context.tolerate(f"ONNX has no operator of that name; it is read as that of the domain '{domain}'")
        context.remarks += reading.remarks
        if reading.schema is not None:
            inputs = accepted_inputs(context, reading.schema, reading.translator, inputs)
        outputs = call_translator(reading.translator, context, inputs, reading.attributes)
        self._remark(node, opset, context.remarks)
        if len(outputs) < len([name for name in node.output if name]):
            raise UnsupportedModelError(f"its output {len(outputs)} is not supported")
        note_origin(context, node_name(node), node.op_type)
        name_layers(context, self.scope.unique, self._prefix + node_name(node), outputs)
        return outputs

    def _remark(self, node: NodeProto, opset: int, remarks: Sequence[str]) -> None:
        """Give all remarks on a node in one warning."""
        if remarks:
            remark = "; ".join(dict.fromkeys(remarks))
            self.shared.warn(str(problem_of(node, opset, remark, unsupported=False)))

    def _call_function(
        self, function: FunctionProto, node: NodeProto, inputs: Sequence[Value | None]
    ) -> list[Value | None]:
        if self.shared.depth > _MAX_NESTING:
            raise UnsupportedModelError(f"functions call each other more than {_MAX_NESTING} deep")
        expansion = expand(function, node, self._opsets)
        scope = Scope(self.shared.file)
        scope.unique = self.scope.unique
        inner = GraphTranslator(self.shared, expansion.opsets, scope, f"{self._prefix}{node_name(node)}/")
        return inner._in_function(expansion, inputs)

    def _in_function(self, expansion: Expansion, inputs: Sequence[Value | None]) -> list[Value | None]:
        with self._deeper():
            self._check_operators(expansion.nodes)
            for name, source in zip(expansion.inputs, inputs):
                if source is not None:
                    self.scope.define(name, source)
            self.translate_nodes(expansion.nodes, expansion.outputs)
            if self.shared.problems:
                return []
            # An output that the caller does not use may be computed by no node.
            return [self.scope.value(name) for name in expansion.outputs]

    def _keep(self, node: NodeProto, outputs: Sequence[Value | None]) -> None:
        """Remember the node's outputs by their names."""
        for name, output in zip(node.output, outputs):
            if name and isinstance(output, Output):
                self.check_declared(name, output)
                if not self._prefix:  # a function's tensors have no names in the model
                    output.add_name(name)
            if name and output is not None:
                self.scope.define(name, output)

    def _input(self, name: str) -> Value | None:
        if not name:
            return None
        output = self.scope.value(name)
        if output is None:
            raise InvalidModelError(f"its input '{name}' is computed by no node before it")
        return output
