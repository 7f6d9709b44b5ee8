"""Compute and store once what is there twice."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from ir_runtime.files.weights import digest_of
from ir_runtime.graph import Array, Model, Node, Output, Part, Tensor, element_types, make_node
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Transpose1
from ir_runtime.rewriting import PassTrace, UniqueNames, fail

from .registry import passes

_MAX_CONSTANT_BYTES = 256
"""Larger constants are stored once by the writer, and hardly ever decide whether two layers are equal."""
_TABLES = (element_types.boolean, element_types.i32, element_types.i64)
_MAX_TABLE_BYTES = 1 << 26


@passes.register("equal_layers")
def equal_layers(model: Model, trace: PassTrace) -> int:
    """Let what reads the second of two equal layers read the first.

        x -> Subtract(mean) -> Power           becomes      x -> Subtract(mean) -> Power
        x -> Subtract(mean) -> Divide                                           -> Divide

    Exporters write one expression for each place that uses it. What a Result returns keeps a layer of its own, and so
    does a conversion of integers of 8 bits or fewer to floats: each reader of quantised values has its own
    dequantisation, which quantised runtimes fuse with it.
    """
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


_LEAST_BYTES = 1 << 16
"""Smaller constants are not worth a layer."""
_DIAGONAL = 8
"""Elements of it that are looked at first; each lies in another page of the file."""
_ROWS = 256


@passes.register("shared_weights")
def shared_weights(model: Model, trace: PassTrace) -> int:
    """Store weights once that are stored twice, once transposed.

    Language models use one matrix to look tokens up and to score them; exporters and constant folding leave two:

        Const [v, h] -> Gather ...      Const [h, v] -> MatMul
        Const [v, h] -> Gather ...      the same Const -> Transpose -> MatMul
    """
    count = 0
    for part in model.parts():
        alike: dict[object, list[Node]] = defaultdict(list)
        unique = UniqueNames(part)
        constants = [node for node in part.nodes if node.op.data is not None]
        # A product reads either of both as it is, a lookup does not: its constant is the one that stays.
        for node in sorted(
            constants, key=lambda node: all(isinstance(user.op, MatMul1) for user in node.outputs[0].uses)
        ):
            tensor = node.op.data
            if (
                tensor is None
                or len(tensor.shape) != 2
                or tensor.byte_size < _LEAST_BYTES
                or tensor.element_type.is_packed
            ):
                continue
            values = tensor.array()
            # Both have the same diagonal, whichever way round they stand.
            key = (tensor.element_type, *sorted(tensor.shape), values.diagonal()[:_DIAGONAL].tobytes())
            original = next((other for other in alike[key] if _is_transposed(other, values)), None)
            tensor.forget()
            if original is None:
                trace.not_matched(node, fail("no constant before it is its transpose"))
                alike[key].append(node)
            else:
                trace.matched(node)
                node.outputs[0].replace_by(_transpose(original, node, unique))
                count += 1
    return count


def _is_transposed(other: Node, values: Array) -> bool:
    assert other.op.data is not None
    turned = other.op.data.array().T
    if turned.shape != values.shape or turned[0].tobytes() != values[0].tobytes():
        return False
    return all(
        np.ascontiguousarray(turned[start : start + _ROWS]).tobytes() == values[start : start + _ROWS].tobytes()
        for start in range(0, len(values), _ROWS)
    )


def _transpose(original: Node, node: Node, unique: UniqueNames) -> Output:
    order = make_node(Const1(value=Tensor.from_array(np.array([1, 0]))), (), unique(f"{node.name}/order"))
    transposed = make_node(Transpose1(), [original.outputs[0], order.outputs[0]], node.name)
    transposed.origin = node.origin
    return transposed.outputs[0]
