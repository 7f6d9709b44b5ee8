"""The walk over an ONNX graph: scopes, order, dispatch, names, and where an error happened."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import FunctionProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto

from converter import operators as _operators
from converter.errors import ConversionError, InvalidModelError, Problem, UnsupportedModelError
from converter.onnx_file.functions import Expansion, expand, has_schema_function, model_functions, schema_function
from converter.onnx_file.model_info import declared_shape, model_info, model_opsets
from converter.onnx_file.node_order import in_order, node_name, read_names
from converter.onnx_file.reader import OnnxFile
from converter.onnx_file.schemas import accepted_inputs, attribute_value, check_node
from converter.onnx_file.types import element_type_of
from converter.options import OptionError, Options, suggestions
from converter.translation.context import Body, Context, Doorway, pass_on
from converter.translation.registry import Translator, find_schema, find_translator, normalize_domain, only_version
from converter.translation.values import Value, tensor_of
from ir_runtime import ModelError
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operation import TensorType
from ir_runtime.operations.inputs_outputs import Const1, Identity16, Parameter1, Result1
from ir_runtime.rewrite import UniqueNames
from ir_runtime.shape_inference import make_node
from ir_runtime.shapes import PartialShape
from ir_runtime.tensor import Tensor

from .open_extents import Opens, Translation, opened
from .stated_types import StatedTypes

assert _operators  # importing it registers the translators

_logger = logging.getLogger("converter")

_DEEPEST = 60

_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What a translator raises where it is wrong itself."""
_EXHAUSTED = (MemoryError, RecursionError)


def translate_model(file: OnnxFile, options: Options, opens: Opens, said: set[str]) -> Translation:
    """Translate a whole ONNX model, or the part of it that ``options`` ask for.

    ``opens`` decides which extents of the inputs are left open while translating, whatever the file
    states; ``said`` holds the warnings that need not be given again.
    """
    proto = file.proto
    opsets = model_opsets(file)
    if not proto.HasField("graph"):
        raise InvalidModelError("the model has no graph")
    walk = GraphTranslation(_Shared(file, model_functions(proto), said=said), opsets)
    model = walk.run(proto.graph, options, opens)
    model.name = proto.graph.name or "model"
    model.runtime_info = model_info(file, opsets)
    return Translation(model, walk.stated, walk.declared_shapes, walk.problems)


class _SeveralProblems(ConversionError):
    """Raised where the causes inside a subgraph are listed already."""


@dataclass
class _Shared:
    """What the translations of a model's graphs have in common."""

    file: OnnxFile
    functions: dict[tuple[str, str], FunctionProto]
    problems: list[Problem] = field(default_factory=list)
    depth: int = 0
    said: set[str] = field(default_factory=set)
    stated: StatedTypes = field(default_factory=StatedTypes)

    def warn(self, message: str) -> None:
        """Log a warning, unless it was given before."""
        if message not in self.said:
            self.said.add(message)
            _logger.warning("%s", message)


class GraphTranslation:
    """Translates one graph, collecting problems; a value that depends on a failed node is skipped.

    A graph inside another sees that one's values: directly where it is translated in place, through
    parameters where it becomes a body.
    """

    def __init__(
        self,
        shared: _Shared,
        opsets: Mapping[str, int],
        parent: GraphTranslation | None = None,
        *,
        is_body: bool = False,
        prefix: str = "",
    ) -> None:
        self._shared = shared
        self._opsets = opsets
        self._parent = parent
        self._is_body = is_body
        self._prefix = prefix
        self._values: dict[str, Value] = {}
        self._initializers: dict[str, TensorProto | SparseTensorProto] = {}
        self._declared: dict[str, ValueInfoProto] = {}
        self._failed: set[str] = set()
        self._returned: set[Output] = set()
        self._captures: dict[Output, Node] = {}
        shares_names = parent is not None and not is_body
        self._unique: UniqueNames = parent._unique if parent is not None and shares_names else UniqueNames()
        self.stated: dict[str, PartialShape] = {}
        self.declared_shapes: list[tuple[str, PartialShape, Output]] = []
        self.problems = shared.problems

    # --- the four ways to translate: a whole model, a graph in place, a body, a function ---

    def run(self, graph: GraphProto, options: Options, opens: Opens) -> Model:
        """The IR of the model's graph. Look at :attr:`problems` before using it."""
        names = [value.name for value in graph.output]
        nodes: Sequence[NodeProto] = graph.node
        if options.outputs is not None:
            names = list(options.outputs)
            nodes = self._needed(graph, names)
        self._open(graph, nodes)
        if self.problems:
            return Model()
        inputs = [value for value in graph.input if value.name not in self._initializers]
        options.check_inputs([value.name for value in inputs])
        model = Model()
        for value in inputs:
            node = self._parameter(value, options, opens)
            if node is not None:
                model.parameters.append(node)
        self._walk(nodes)
        if not self.problems:
            model.results = [self._result(name) for name in names]
        if options.outputs is not None:
            used = set(model.nodes()) if not self.problems else set()
            model.parameters = [p for p in model.parameters if _is_read(p, used)]
        return model

    @staticmethod
    def _needed(graph: GraphProto, names: Sequence[str]) -> list[NodeProto]:
        """The nodes that the named tensors depend on, in the file's order."""
        writers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
        known = {*writers, *(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)}
        known |= {sparse.values.name for sparse in graph.sparse_initializer}
        for name in names:
            if name not in known:
                raise OptionError(f"the model has no tensor '{name}'{suggestions(name, known)}")
        needed: set[int] = set()
        pending = list(names)
        while pending:
            index = writers.get(pending.pop())
            if index is not None and index not in needed:
                needed.add(index)
                pending.extend(read_names(graph.node[index]))
        return [node for index, node in enumerate(graph.node) if index in needed]

    def inline(self, graph: GraphProto, inputs: Sequence[Value], prefix: str = "") -> list[Value]:
        """Translate ``graph`` in place; it sees all values of this graph."""
        inner = self._inner(is_body=False)
        inner._prefix += prefix
        return inner._in_place(graph, inputs)

    def body(
        self, graph: GraphProto, inputs: Sequence[TensorType], enter: Doorway = pass_on, leave: Doorway = pass_on
    ) -> Body:
        """Translate ``graph`` as a body; what it takes from outside becomes further parameters."""
        return self._inner(is_body=True)._as_body(graph, inputs, enter, leave)

    def body_or_contradictions(self, graph: GraphProto) -> Body | list[Problem]:
        """Translate ``graph`` as a body, or say what it contradicts; what cannot be said in IR stays a problem."""
        known = len(self.problems)
        try:
            return self.body(graph, [])
        except _SeveralProblems:
            found = self.problems[known:]
            if not found or any(problem.unsupported for problem in found):
                raise
            del self.problems[known:]
            return found

    def captured(self, parameter: Node) -> Output | None:
        """What a parameter stands for outside the body it belongs to; None for an input of the model."""
        walk: GraphTranslation | None = self
        while walk is not None:
            for outer, node in walk._captures.items():
                if node is parameter:
                    return outer
            walk = walk._parent
        return None

    def stated_type(self, value: Output) -> TensorType:
        """What is known of a value for the extents that the file states."""
        return self._shared.stated.of(value, self.captured)

    def _inner(self, *, is_body: bool) -> GraphTranslation:
        if self._shared.depth > _DEEPEST:
            raise UnsupportedModelError(f"graphs or functions are nested more than {_DEEPEST} deep")
        return GraphTranslation(self._shared, self._opsets, self, is_body=is_body, prefix=self._prefix)

    def _in_place(self, graph: GraphProto, inputs: Sequence[Value]) -> list[Value]:
        with self._deeper():
            self._open(graph)
            for value, source in zip(self._inputs_of(graph, len(inputs)), inputs):
                self._values[value.name] = source
            self._walk(graph.node)
            return self._outputs([value.name for value in graph.output])

    def _as_body(self, graph: GraphProto, inputs: Sequence[TensorType], enter: Doorway, leave: Doorway) -> Body:
        with self._deeper():
            self._open(graph)
            model = Model(graph.name)
            for index, (value, kind) in enumerate(zip(self._inputs_of(graph, len(inputs)), inputs)):
                node = self._body_parameter(value.name, kind)
                model.parameters.append(node)
                self._values[value.name] = self._through(enter, index, node.outputs[0])
            self._walk(graph.node)
            names = [value.name for value in graph.output]
            for index, output in enumerate(self._outputs(names)):
                source = self._through(leave, index, tensor_of(output, f"'{names[index]}'"))
                model.results.append(make_node(Result1(), [source], self._unique("result")))
            model.parameters.extend(self._captures.values())
            return Body(model, tuple(self._captures))

    def _inputs_of(self, graph: GraphProto, count: int) -> Sequence[ValueInfoProto]:
        """The inputs that a subgraph is given; those declared behind them may name what it sees anyway."""
        more = [value.name for value in graph.input[count:]]
        seen = all(name in self._initializers or self._outer(name) is not None for name in more)
        if len(graph.input) < count or not seen:
            raise InvalidModelError(f"its graph has {len(graph.input)} inputs, but {count} are given")
        if more:
            self._shared.warn(f"the graph '{graph.name}' declares as inputs what it sees around it: {', '.join(more)}")
        return graph.input[:count]

    def _outer(self, name: str) -> Value | None:
        return None if self._parent is None else self._parent._value(name)

    def _through(self, doorway: Doorway, index: int, value: Output) -> Output:
        context = Context(self._shared.file, self, 0, 0)
        made = doorway(context, index, value)
        self._name_layers(context, f"{value.node.name}/through", [])
        return made

    def _in_function(self, expansion: Expansion, inputs: Sequence[Value | None]) -> list[Value | None]:
        with self._deeper():
            self._check_operators(expansion.nodes)
            self._stop_at_problems()
            for name, source in zip(expansion.inputs, inputs):
                if source is not None:
                    self._values[name] = source
            self._walk(expansion.nodes)
            if self.problems:
                return []
            # An output that this call does not ask for may be computed by no node.
            return [self._value(name) for name in expansion.outputs]

    @contextlib.contextmanager
    def _deeper(self) -> Iterator[None]:
        self._shared.depth += 1
        known = len(self.problems)
        try:
            yield
        finally:
            self._shared.depth -= 1
        if len(self.problems) > known:
            raise _SeveralProblems("see the problems inside")

    def _stop_at_problems(self) -> None:
        if self.problems:
            raise _SeveralProblems("see the problems inside")

    # --- before the nodes ---

    def _open(self, graph: GraphProto, nodes: Sequence[NodeProto] | None = None) -> None:
        """Take in initializers and declarations; look at all names and operators before the first node."""
        named = [(tensor.name, tensor) for tensor in graph.initializer]
        for name, tensor in [*named, *((sparse.values.name, sparse) for sparse in graph.sparse_initializer)]:
            if name in self._initializers:
                raise InvalidModelError(f"two initializers are called '{name}'")
            self._initializers[name] = tensor
        self._declared = {value.name: value for value in [*graph.value_info, *graph.output]}
        self._check_operators(graph.node if nodes is None else nodes)
        if self._parent is not None:
            self._stop_at_problems()
        self._check_names(graph)

    def _check_operators(self, nodes: Iterable[NodeProto]) -> None:
        """Every node that nothing can translate is a problem of its own."""
        for node in nodes:
            domain = normalize_domain(node.domain)
            if (domain, node.op_type) in self._shared.functions:
                continue
            if domain not in self._opsets and (only := only_version(domain)) is not None:
                self._shared.warn(
                    f"the model does not import the domain '{domain}'; its only version, {only}, is taken"
                )
                self._opsets = {**self._opsets, domain: only}
            if domain not in self._opsets:
                reason = f"the model does not import the domain '{domain or 'ai.onnx'}'"
                self.problems.append(_problem(node, 0, reason, unsupported=False))
                continue
            opset = self._opsets[domain]
            found = find_translator(node.op_type, domain, opset)
            if isinstance(found, str) and not has_schema_function(find_schema(node.op_type, domain, opset)):
                self.problems.append(_problem(node, opset, found, unsupported=True))

    def _check_names(self, graph: GraphProto) -> None:
        inputs = [value.name for value in graph.input]
        for name in inputs:
            if inputs.count(name) > 1 and name:
                raise InvalidModelError(f"two inputs of the graph are called '{name}'")
        written = {*inputs, *self._initializers}
        for node in graph.node:
            for name in node.output:
                if name and name in written:
                    raise InvalidModelError(
                        f"node '{node_name(node)}' ({node.op_type}) writes the tensor '{name}', "
                        "which already has a value: names must be unique"
                    )
                written.add(name)

    def _parameter(self, value: ValueInfoProto, options: Options, opens: Opens) -> Node | None:
        """The parameter for an input of the model; None where the input is frozen."""
        if not value.name:
            raise InvalidModelError("an input of the graph has no name")
        if not value.type.HasField("tensor_type"):
            raise UnsupportedModelError(f"input '{value.name}' is not a tensor, and the IR carries nothing but tensors")
        try:
            kind = element_type_of(value.type.tensor_type.elem_type)
            shape = declared_shape(value.type)
        except (UnsupportedModelError, InvalidModelError) as error:
            raise type(error)(f"input '{value.name}': {error}") from error
        if value.name in options.frozen:
            self._constant(value.name, options.frozen_tensor(value.name, kind, shape))
            return None
        stated = self.stated[value.name] = options.shape_of(value.name, shape)
        node = self._body_parameter(value.name, TensorType(kind, opened(value.name, stated, opens)))
        self._shared.stated.state(node, TensorType(kind, stated))
        return node

    def _body_parameter(self, name: str, kind: TensorType) -> Node:
        op = Parameter1(shape=kind.shape, element_type=kind.element_type)
        node = make_node(op, (), self._unique(name))
        node.outputs[0].add_name(name)
        self._values[name] = node.outputs[0]
        return node

    # --- values by name ---

    def _value(self, name: str) -> Value | None:
        found = self._values.get(name)
        if found is None and name in self._initializers:
            try:
                stored = self._initializers[name]
                file = self._shared.file
                tensor = file.dense(stored) if isinstance(stored, SparseTensorProto) else file.tensor(stored)
            except (UnsupportedModelError, InvalidModelError) as error:
                raise type(error)(f"initializer '{name}': {error}") from error
            found = self._constant(name, tensor)
        if found is None and self._parent is not None:
            outer = self._parent._value(name)
            found = outer if outer is None or not self._is_body else self._captured(name, tensor_of(outer, f"'{name}'"))
        return found

    def _constant(self, name: str, tensor: Tensor) -> Output:
        node = make_node(Const1(value=tensor), (), self._unique(name))
        self._values[name] = node.outputs[0]
        node.outputs[0].add_name(name)
        return node.outputs[0]

    def _captured(self, name: str, outer: Output) -> Output:
        """A value from outside this body: a constant is known inside, too; others come as parameters."""
        if outer.tensor is not None:
            return self._constant(name, outer.tensor)
        if outer not in self._captures:
            kind = TensorType(outer.element_type, outer.shape, bounds=outer.type.bounds)
            node = self._body_parameter(name, kind)
            self._captures[outer] = node
        return self._captures[outer].outputs[0]

    def _outputs(self, names: Sequence[str]) -> list[Value]:
        if self.problems:
            return []
        found = [(name, self._value(name)) for name in names]
        missing = [name for name, output in found if output is None]
        if missing:
            raise InvalidModelError(f"the graph's output '{missing[0]}' is computed by no node")
        return [output for _, output in found if output is not None]

    def _result(self, name: str) -> Node:
        (value,) = self._outputs([name])
        output = tensor_of(value, f"the output '{name}'")
        self._check_declared(name, output)
        an_input = output.node.op.role == "parameter" and name != output.names[0]
        if an_input or output in self._returned:
            # The reader gives a tensor the names of its Result alone, so each result needs its own tensor.
            output.names = [known for known in output.names if known != name]
            output = make_node(Identity16(), [output], self._unique(name)).outputs[0]
            output.add_name(name)
        self._returned.add(output)
        node = make_node(Result1(), [output], self._unique(f"{name}/result"))
        node.output_names = [name]
        return node

    # --- node by node ---

    def _walk(self, nodes: Sequence[NodeProto]) -> None:
        for node in in_order(nodes, {*self._values, *self._initializers}):
            self._translate(node)

    def _translate(self, node: NodeProto) -> None:
        if any(name in self._failed for name in node.input):
            self._failed.update(node.output)
            return
        domain = normalize_domain(node.domain)
        opset = self._opsets.get(domain, 0)
        try:
            self._emit(node, domain, opset)
            return
        except _SeveralProblems:
            pass
        except (ConversionError, ModelError) as error:
            unsupported = isinstance(error, UnsupportedModelError)
            self.problems.append(_problem(node, opset, str(error), unsupported))
        except _EXHAUSTED as error:
            reason = f"translating it takes more memory than there is ({type(error).__name__})"
            self.problems.append(_problem(node, opset, reason, unsupported=True))
        except _FAULTS as error:
            reason = f"translating it failed by a fault of this package; please report it with the model: {error!r}"
            self.problems.append(_problem(node, opset, reason, unsupported=False, cause=error))
        self._failed.update(node.output)

    def _emit(self, node: NodeProto, domain: str, opset: int) -> None:
        function = self._shared.functions.get((domain, node.op_type))
        if function is not None:
            self._keep(node, self._call_function(function, node, [self._input(name) for name in node.input]))
            return
        schema = find_schema(node.op_type, domain, opset)
        found = find_translator(node.op_type, domain, opset)
        inputs = [self._input(name) for name in node.input]
        if isinstance(found, str):
            made_of = schema_function(node, schema, opset, inputs)
            if made_of is None:
                raise UnsupportedModelError(found)
            self._keep(node, self._call_function(made_of, node, inputs))
            return
        translator, version = found
        check_node(node, schema, translator)
        context = Context(self._shared.file, self, opset, version, node.output)
        if schema is not None:
            inputs = accepted_inputs(context, schema, translator, inputs)
        outputs = _call(translator, context, inputs, node)
        if context.remarks:
            self._shared.warn(str(_problem(node, opset, "; ".join(dict.fromkeys(context.remarks)), unsupported=False)))
        if len(outputs) < len([name for name in node.output if name]):
            raise UnsupportedModelError(f"its output {len(outputs)} is not supported")
        origin = f"node '{node_name(node)}' of {node.op_type}"
        for layer in context.emitted:
            layer.origin = layer.origin or origin
        self._name_layers(context, self._prefix + node_name(node), outputs)
        self._keep(node, outputs)

    def _call_function(
        self, function: FunctionProto, node: NodeProto, inputs: Sequence[Value | None]
    ) -> list[Value | None]:
        if self._shared.depth > _DEEPEST:
            raise UnsupportedModelError(f"functions call each other more than {_DEEPEST} deep")
        expansion = expand(function, node, self._opsets)
        prefix = f"{self._prefix}{node_name(node)}/"
        inner = GraphTranslation(self._shared, expansion.opsets, prefix=prefix)
        inner._unique = self._unique
        return inner._in_function(expansion, inputs)

    def _keep(self, node: NodeProto, outputs: Sequence[Value | None]) -> None:
        """Remember the node's outputs by their names."""
        for name, output in zip(node.output, outputs):
            if name and isinstance(output, Output):
                self._check_declared(name, output)
                if not self._prefix:  # a function's tensors have no names in the model
                    output.add_name(name)
            if name and output is not None:
                self._values[name] = output

    def _input(self, name: str) -> Value | None:
        if not name:
            return None
        output = self._value(name)
        if output is None:
            raise InvalidModelError(f"its input '{name}' is computed by no node before it")
        return output

    def _check_declared(self, name: str, output: Output) -> None:
        declared = self._declared.get(name)
        if declared is None or not declared.type.HasField("tensor_type"):
            return
        number = declared.type.tensor_type.elem_type
        if number and not output.element_type.is_dynamic and element_type_of(number) is not output.element_type:
            self._shared.warn(
                f"the model declares '{name}' as {element_type_of(number)}, but it is {output.element_type}"
            )
        if self._parent is None:
            self.declared_shapes.append((name, declared_shape(declared.type), output))

    def _name_layers(self, context: Context, name: str, outputs: Sequence[Value | None]) -> None:
        mine = set(context.emitted)
        main = next((o.node for o in outputs if isinstance(o, Output) and o.node in mine), None)
        if main is not None:
            main.name = self._unique(name)
        for node in context.emitted:
            if not node.name:
                node.name = self._unique(f"{name}/{node.op.type}")


def _is_read(parameter: Node, nodes: Iterable[Node]) -> bool:
    return any(parameter.outputs[0] in node.inputs for node in nodes)


def _call(
    translator: Translator, context: Context, inputs: Sequence[Value | None], node: NodeProto
) -> list[Value | None]:
    attributes = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    arguments = list(inputs)
    if translator.most_inputs is not None:
        while len(arguments) > translator.most_inputs and arguments[-1] is None:
            arguments.pop()
        if len(arguments) > translator.most_inputs:
            raise InvalidModelError(f"takes at most {translator.most_inputs} inputs, but got {len(arguments)}")
    required = [*range(translator.least_inputs), *range(translator.named_inputs, len(arguments))]
    for index in required:
        if index >= len(arguments) or arguments[index] is None:
            raise InvalidModelError(f"input {index} is required, but missing")
    if not translator.takes_values:
        for index, value in enumerate(arguments):
            if value is not None:
                tensor_of(value, f"input {index}")
    result = translator.function(context, *arguments, **attributes)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _problem(
    node: NodeProto, opset: int, reason: str, unsupported: bool, cause: BaseException | None = None
) -> Problem:
    return Problem(node_name(node), node.op_type, node.domain, opset, reason, unsupported, cause)
