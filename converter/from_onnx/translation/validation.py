"""Checks before and around the translation of nodes: names, operators, arguments, declarations."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from converter.errors import InvalidModelError, Problem
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.functions import has_schema_function
from converter.onnx_file.messages import GraphProto, NodeProto, ValueInfoProto, attribute_value
from converter.onnx_file.node_order import node_name, read_names
from converter.onnx_file.types import element_type_of
from converter.options.input_forms import OptionError
from converter.options.inputs import suggestions
from ir_runtime.errors import AttributeValueError, InternalError, ModelError
from ir_runtime.graph import Output

from .context import Context
from .registry import Translator, domain_of_operator, find_schema, find_translator, only_version, opset_of_operator
from .values import Value, tensor_of

Warn = Callable[[str], None]


def problem_of(
    node: NodeProto, opset: int, reason: str, unsupported: bool, cause: BaseException | None = None
) -> Problem:
    """The reason why one node cannot be translated."""
    return Problem(node_name(node), node.op_type, node.domain, opset, reason, unsupported, cause)


def is_own_fault(error: Exception, node: NodeProto) -> bool:
    """True if the translator of ``node`` is wrong, and not the model.

    A wrong value of an IR layer's attribute is the model's fault if an attribute of the node is or holds that value.
    """
    if not isinstance(error, AttributeValueError):
        return isinstance(error, InternalError) or not isinstance(error, ModelError)
    arguments = [attribute_value(attribute) for attribute in node.attribute]
    arguments += [item for value in arguments if isinstance(value, (list, tuple)) for item in value]
    return error.value is None or not any(_is_same(value, error.value) for value in arguments)


def _is_same(left: object, right: object) -> bool:
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_is_same, left, right))
    # A NaN is not equal to itself.
    return isinstance(left, (int, float, str)) and (left == right or repr(left) == repr(right))


def needed_nodes(graph: GraphProto, names: Sequence[str]) -> list[NodeProto]:
    """The nodes that the named tensors depend on, in the file's order."""
    writers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    available = {*writers, *(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)}
    available |= {sparse.values.name for sparse in graph.sparse_initializer}
    for name in names:
        if name not in available:
            raise OptionError(f"the model has no tensor '{name}'{suggestions(name, available)}")
    needed: set[int] = set()
    pending = list(names)
    while pending:
        index = writers.get(pending.pop())
        if index is not None and index not in needed:
            needed.add(index)
            pending.extend(read_names(graph.node[index]))
    return [node for index, node in enumerate(graph.node) if index in needed]


def constant_inputs(graph: GraphProto) -> set[str]:
    """Inputs that a Constant node computes: like inputs with an initializer they are no inputs of the model."""
    values = {name for node in graph.node if node.op_type == "Constant" and not node.input for name in node.output}
    return {value.name for value in graph.input if value.name} & values


def check_names(graph: GraphProto, initializers: Iterable[str], constants: Container[str] = ()) -> None:
    """Raises :class:`InvalidModelError` where two values of a graph have one name.

    Inputs in ``constants`` are no values of their own.
    """
    written: set[str] = set()
    for name in [value.name for value in graph.input if value.name not in constants]:
        if name and name in written:
            raise InvalidModelError(f"two inputs of the graph are called '{name}'")
        written.add(name)
    written.update(initializers)
    for node in graph.node:
        for name in node.output:
            if name and name in written:
                raise InvalidModelError(
                    f"node '{node_name(node)}' ({node.op_type}) writes the tensor '{name}', "
                    "which already has a value: names must be unique"
                )
            written.add(name)


def imported_opsets(
    nodes: Iterable[NodeProto], opsets: Mapping[str, int], functions: Container[tuple[str, str]], warn: Warn
) -> dict[str, int]:
    """``opsets`` and the domains of a single version that nodes use without an import."""
    complete = dict(opsets)
    for node in nodes:
        if (normalize_domain(node.domain), node.op_type) in functions:
            continue
        domain = domain_of_operator(node.op_type, node.domain)
        if domain not in complete and (only := only_version(domain)) is not None:
            if domain == normalize_domain(node.domain):
                warn(f"the model does not import the domain '{domain}'; its only version, {only}, is taken")
            complete[domain] = only
    return complete


def operator_problems(
    nodes: Iterable[NodeProto], opsets: Mapping[str, int], functions: Container[tuple[str, str]]
) -> list[Problem]:
    """A problem for every node that nothing can translate."""
    problems = []
    for node in nodes:
        if (normalize_domain(node.domain), node.op_type) in functions:
            continue
        domain = domain_of_operator(node.op_type, node.domain)
        if domain not in opsets:
            reason = f"the model does not import the domain '{domain or 'ai.onnx'}'"
            problems.append(problem_of(node, 0, reason, unsupported=False))
            continue
        opset = opsets[domain]
        own_opset = opset_of_operator(node.op_type, domain, opset)
        translator = find_translator(node.op_type, domain, own_opset)
        if isinstance(translator, str) and not has_schema_function(find_schema(node.op_type, domain, own_opset)):
            problems.append(problem_of(node, opset, translator, unsupported=True))
    return problems


def check_declared_type(name: str, declared: ValueInfoProto, output: Output, warn: Warn) -> None:
    """Warn where the file declares another element type than the computed one, which is used."""
    number = declared.type.tensor_type.elem_type
    if number and not output.element_type.is_dynamic and element_type_of(number) is not output.element_type:
        warn(f"the model declares '{name}' as {element_type_of(number)}, but it is {output.element_type}")


def call_translator(
    translator: Translator, context: Context, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
) -> list[Value | None]:
    """The node's outputs; raises :class:`InvalidModelError` for inputs that are missing or too many."""
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
    for name, types in translator.scalar_attributes.items():
        if name in attributes and not isinstance(attributes[name], (*types, type(None))):
            raise InvalidModelError(
                f"the attribute {name} must be of type {types[0].__name__}, but is {attributes[name]!r}"
            )
    for name, choices in translator.choices.items():
        if name in attributes and attributes[name] not in choices:
            *others, last = map(str, choices)
            listed = f"{', '.join(others)} or {last}" if others else last
            raise InvalidModelError(f"{name} must be {listed}, but is {attributes[name]!r}")
    if not translator.takes_values:
        for index, value in enumerate(arguments):
            if value is not None:
                tensor_of(value, f"input {index}")
    if translator.takes_expressions:
        return _call_with_expressions(translator, context, arguments, attributes)
    result = translator.function(context, *arguments, **attributes)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _call_with_expressions(
    translator: Translator, context: Context, arguments: Sequence[Any], attributes: Mapping[str, Any]
) -> list[Value | None]:
    from ir_runtime.rewriting.expressions import Expression  # few models need them

    expressions = [None if value is None else Expression(context, value) for value in arguments]
    result = translator.function(context, *expressions, **attributes)
    results = result if isinstance(result, (tuple, list)) else [result]
    return [returned.value if isinstance(returned, Expression) else returned for returned in results]
