"""Registry of exporters, the functions that write IR operations as ONNX operators.

An exporter takes the context, the operation with its attributes, and one value for each of the layer's inputs; it
returns one value for each of its outputs, or the value alone where there is one output.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from converter.passes.decomposition.registry import DECOMPOSITIONS, Decompose
from ir_runtime.graph.operation import Operation
from ir_runtime.records import record
from ir_runtime.registry import Registry

Export = Callable[..., Any]
F = TypeVar("F", bound=Export)

PACKAGE = "converter.to_onnx.operations"


@record
class Exporter:
    """The function that writes an operation."""

    operation: type[Operation]
    function: Export
    is_local_function: bool = False
    """True if the nodes become a function of the model: what has no counterpart in ONNX stays one node."""

    def input_names(self, count: int) -> list[str]:
        """Return what the function calls the ``count`` inputs of a layer."""
        parameters = list(inspect.signature(self.function).parameters.values())
        names: list[str] = []
        for parameter in parameters[[entry.name for entry in parameters].index("op") + 1 :]:
            if parameter.kind is parameter.VAR_POSITIONAL:
                names += [f"{parameter.name}_{index}" for index in range(count - len(names))]
            else:
                names.append(parameter.name)
        return names[:count]


EXPORTERS = Registry[type[Operation], Exporter]("exporter", PACKAGE)
REFUSALS = Registry[type[Operation], str]("refusal", PACKAGE)
"""Why operations cannot be written as ONNX operators; it ends the sentence of the error."""


def ir_op(*operations: type[Operation], local_function: bool = False) -> Callable[[F], F]:
    """Decorator: the function writes these operations, each of them one revision of one IR operation.

    With ``local_function`` the nodes become a model-local function: the way of operations that have no counterpart in
    ONNX.
    """

    def register(function: F) -> F:
        for operation in operations:
            EXPORTERS.add(operation, Exporter(operation, function, local_function))
        return function

    return register


def writes(op_type: str, *operations: type[Operation], **attributes: Any) -> None:
    """Register operations that are written as one operator of their inputs.

    ``attributes`` are those of the operator; a string is the name of the operation's attribute that has the value.
    """

    def export(ctx: Any, op: Operation, *inputs: Any) -> Any:
        values = {key: getattr(op, value) if isinstance(value, str) else value for key, value in attributes.items()}
        return ctx.emit(op_type, *inputs, **values)

    fixed = ", ".join(f"{key} = {value:.4g}" for key, value in attributes.items() if not isinstance(value, str))
    export.__doc__ = f"{op_type} with {fixed}" if fixed else op_type
    ir_op(*operations)(export)


def write_inline(*operations: type[Operation]) -> None:
    """Register that the decompositions of these operations, which are few layers, do not become functions."""
    for operation in operations:
        EXPORTERS.add(operation, _by_decomposition(operation, DECOMPOSITIONS[operation], is_local_function=False))


def find_exporter(operation: type[Operation]) -> Exporter | str:
    """Find the exporter of an operation; where there is none, the reason."""
    function = DECOMPOSITIONS.get(operation)
    exporter = EXPORTERS.get(operation) or (function and _by_decomposition(operation, function))
    return (
        exporter or REFUSALS.get(operation) or "there is no ONNX operator for it, and nobody has written it by others"
    )


def all_exporters() -> Iterator[Exporter]:
    """Every exporter, by type and opset of its operation."""
    operations = {**DECOMPOSITIONS.entries(), **EXPORTERS.entries()}
    for operation in sorted(operations, key=lambda entry: (entry.type, entry.opset)):
        exporter = find_exporter(operation)
        assert isinstance(exporter, Exporter)
        yield exporter


def _by_decomposition(operation: type[Operation], function: Decompose, *, is_local_function: bool = True) -> Exporter:
    """The exporter that writes the layers of the IR that a layer is decomposed into."""

    @functools.wraps(function)
    def export(ctx: Any, op: Operation, *inputs: Any) -> Any:
        return ctx.decompose()

    return Exporter(operation, export, is_local_function)
