"""Layers that compute the same from the same are there once.

    x -> Subtract(mean) -> Power           becomes      x -> Subtract(mean) -> Power
    x -> Subtract(mean) -> Divide                                           -> Divide

Exporters write one expression for each place that uses it. What a Result returns keeps a layer of its own, and so does
a conversion of integers of 8 bits or fewer to floats: each reader of quantised values has its own dequantisation, which
quantised runtimes fuse with it.
"""

from __future__ import annotations

from typing import Any

from ir_runtime.files.weights import digest_of
from ir_runtime.graph import Model, Node, Part, Tensor, element_types
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.rewriting import PassTrace, fail

from .registry import passes

_MAX_CONSTANT_BYTES = 256
"""Larger constants are stored once by the writer, and hardly ever decide whether two layers are equal."""
_TABLES = (element_types.boolean, element_types.i32, element_types.i64)
_MAX_TABLE_BYTES = 1 << 26


@passes.register("equal_layers")
def equal_layers(model: Model, trace: PassTrace) -> int:
    """Let what reads the second of two equal layers read the first."""
    return sum(_merge(part, trace) for part in model.parts())


def _merge(part: Part, trace: PassTrace) -> int:
    first, count = dict[Any, Node](), 0
    for node in part.nodes:
        key = _key(node)
        if key is None:
            continue
        original = first.setdefault(key, node)
        if original is node:
            continue
        if _is_returned(node) and _is_returned(original):
            trace.not_matched(node, fail("a result returns either"))
            continue
        if _is_returned(node):
            first[key], original, node = node, node, original
        for old, new in zip(node.outputs, original.outputs):
            old.replace_by(new)
        trace.matched(node)
        count += 1
    return count


def _is_returned(node: Node) -> bool:
    return any(reader.op.role == "result" for output in node.outputs for reader in output.uses)


def _key(node: Node) -> object:
    """Return the key of layers that compute the same; None where that is unknown."""
    op, data = node.op, node.op.data
    if data is not None:
        if data.element_type.dtype.hasobject:
            return None
        if data.byte_size > _MAX_CONSTANT_BYTES:
            return _key_of_table(data)
        return data.element_type, data.shape, data.array().tobytes()
    if not node.inputs or not op.is_pure or _is_dequantisation(node):
        return None
    return type(op), *op.attributes().values(), *node.inputs


def _key_of_table(data: Tensor) -> object:
    """Masks and positions, which layers hold once for each block of a model; weights are never compared."""
    if data.element_type not in _TABLES or data.byte_size > _MAX_TABLE_BYTES:
        return None
    digest = digest_of(data)
    data.forget()
    return data.element_type, data.shape, digest


def _is_dequantisation(node: Node) -> bool:
    if not isinstance(node.op, Convert1):
        return False
    source = node.inputs[0].element_type
    return source.is_integral and source.bits <= 8 and node.op.destination_type.is_real
