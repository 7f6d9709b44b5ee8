"""Registry of decompositions by operation.

A decomposition takes the operation with its attributes and an expression for each of the layer's inputs. It returns
what replaces the layer's outputs, or raises :class:`NotExpressible` with the reason why the layer stays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Union

from ir_runtime.graph import Model, Node, Operation, Output
from ir_runtime.graph.invariants import PASSES
from ir_runtime.registry import Registry
from ir_runtime.rewriting import Builder, PassTrace, fail, graph_pass
from ir_runtime.rewriting.contracts import FUSED
from ir_runtime.rewriting.expressions import Expression, NotExpressible
from ir_runtime.rewriting.replace_layers import replace_layers

Decompose = Callable[..., Union[Expression, Sequence[Expression]]]

DECOMPOSITIONS = Registry[type[Operation], Decompose]("decomposition", __package__)
CONTRACT = FUSED
"""The contract of every decomposition."""


def decomposes(*operations: type[Operation]) -> Callable[[Decompose], Decompose]:
    """Decorator: registers the function as the decomposition of these operations.

    Layers with inputs of unknown rank stay.
    """
    return DECOMPOSITIONS.of(operations)


def decompose(builder: Builder, node: Node) -> list[Output]:
    """Emit what replaces a layer of an operation that can be decomposed."""
    function = DECOMPOSITIONS[type(node.op)]
    for value, name in zip(node.inputs, list(inspect.signature(function).parameters)[1:]):
        if not value.shape.has_rank:
            raise fail(f"the number of dimensions of the input '{name}' must be known")
    try:
        result = function(node.op, *(Expression(builder, value) for value in node.inputs))
    except NotExpressible as error:
        raise fail(str(error)) from error
    return [output.value for output in ([result] if isinstance(result, Expression) else result)]


@graph_pass("decomposition", PASSES)
def decompose_layers(model: Model, operations: tuple[type[Operation], ...], trace: PassTrace | None = None) -> int:
    """Decompose the layers of some operations, and those that come out of them; returns how many there were."""
    total = 0
    while count := replace_layers(model, operations, decompose, trace):
        total += count
    return total
