"""Weights that are stored twice, once transposed, are stored once.

Language models use one matrix to look tokens up and to score them; exporters and constant folding leave two:

    Const [v, h] -> Gather ...      Const [h, v] -> MatMul
    Const [v, h] -> Gather ...      the same Const -> Transpose -> MatMul
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ir_runtime.graph import Array, Model, Node, Output, Tensor, make_node
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Transpose1
from ir_runtime.rewriting import PassTrace, UniqueNames, fail

from .registry import passes

_LEAST_BYTES = 1 << 16
"""Smaller constants are not worth a layer."""
_DIAGONAL = 8
"""Elements of it that are looked at first; each lies in another page of the file."""
_ROWS = 256


@passes.register("shared_weights")
def shared_weights(model: Model, trace: PassTrace) -> int:
    """Replace constants that are the transpose of another constant by that and a Transpose."""
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
