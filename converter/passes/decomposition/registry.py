"""Which function decomposes which operation.

A decomposition takes the operation with its attributes and an expression for each of the layer's inputs. It returns
what replaces the layer's outputs, or raises :class:`NotExpressible` with the reason why the layer stays.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import TypeVar, Union

from ir_runtime.graph import Model, Node, Output
from ir_runtime.graph.operation import Operation
from ir_runtime.rewriting import Builder, NotMatched, Replacement, fail
from ir_runtime.rewriting.expressions import Expression, NotExpressible
from ir_runtime.rewriting.pipeline import Pipeline
from ir_runtime.rewriting.trace import Trace

from .order import ORDER

Decompose = Callable[..., Union[Expression, Sequence[Expression]]]
F = TypeVar("F", bound=Decompose)

decompositions = Pipeline("converter.passes.decomposition", ORDER)
_FUNCTIONS: dict[type[Operation], Decompose] = {}


def decomposes(*operations: type[Operation]) -> Callable[[F], F]:
    """Decorator: registers the function as the decomposition of these operations, under its own name.

    Layers with inputs of unknown rank stay.
    """

    def register(function: F) -> F:
        def replace(builder: Builder, node: Node) -> Replacement:
            return _decompose(function, builder, node)

        replace.__module__, replace.__doc__ = function.__module__, function.__doc__
        decompositions.replaces(function.__name__, *operations)(replace)
        _FUNCTIONS.update(dict.fromkeys(operations, function))
        return function

    return register


def decompose(builder: Builder, node: Node) -> list[Output] | NotMatched:
    """Emit what replaces a layer of an operation that can be decomposed."""
    function = find_decomposition(type(node.op))
    assert function is not None
    return _decompose(function, builder, node)


def _decompose(function: Decompose, builder: Builder, node: Node) -> list[Output] | NotMatched:
    for value, name in zip(node.inputs, list(inspect.signature(function).parameters)[1:]):
        if not value.shape.has_rank:
            return fail(f"the number of dimensions of the input '{name}' must be known")
    try:
        made = function(node.op, *(Expression(builder, value) for value in node.inputs))
    except NotExpressible as error:
        return fail(str(error))
    return [one.value for one in ([made] if isinstance(made, Expression) else made)]


def find_decomposition(operation: type[Operation]) -> Decompose | None:
    """Return the function that decomposes an operation; None where there is none."""
    for entry in ORDER:
        if operation.__name__ in (entry.operations or ()):
            importlib.import_module(f"{__package__}.{entry.module or entry.name}")
            return _FUNCTIONS[operation]
    return None


def all_decompositions() -> dict[type[Operation], Decompose]:
    """Return the function of every operation that can be decomposed."""
    decompositions.all()
    return dict(_FUNCTIONS)


def decompose_newer(model: Model, last_opset: int, trace: Trace | None = None) -> dict[str, int]:
    """Decompose the operations of later opsets than ``last_opset``; returns how many layers of each there were."""
    newer = {type(node.op) for part in model.parts() for node in part.nodes if node.op.opset > last_opset}
    if not any(map(find_decomposition, newer)):
        return {}
    steps = [
        step
        for step in decompositions.all()
        if any(one.opset > last_opset for one, function in _FUNCTIONS.items() if function.__name__ == step.name)
    ]
    return decompositions.run(model, steps, trace=trace)
