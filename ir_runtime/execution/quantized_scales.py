"""The scales of quantized values as factors of the weights beside them, so that FakeQuantize rounds and clips alone.

A scale is divided out of the weights and the bias whose products are quantized, and multiplied into all weights that
meet the quantized values. Only weights that are computed anyway change: those that are stored stay views of their file.
"""

from __future__ import annotations

import numpy as np

from ..graph import Model, Node, Output, Tensor, element_types, make_node
from ..graph.operation import Operation
from ..operations.convolution import Convolution1, GroupConvolution1
from ..operations.elementwise import Add1, Divide1, Multiply1
from ..operations.inputs_outputs import Const1
from ..operations.matmul import MatMul1
from ..operations.quantization import FakeQuantize1
from .kernels.formulas import levels_of

_WITH_WEIGHTS = (Convolution1, GroupConvolution1, MatMul1)
_MAX_EXPONENT = 30
"""Scales beyond this power of two, either way, stay: weights could overflow."""


def fold_scales(model: Model) -> None:
    """Change the layers of ``model``, in place."""
    for node in model.nodes():
        if isinstance(node.op, FakeQuantize1):
            _fold(node)


def _fold(node: Node) -> None:
    data = [source.node.op.data for source in node.inputs[1:]]
    limits = [tensor.array() for tensor in data if tensor is not None and tensor.size == 1]
    quantized = levels_of(node.op, limits) if len(limits) == len(data) else None
    if quantized is None or node.outputs[0].element_type is not element_types.f32:
        return
    scale, out_scale, first, last = map(float, quantized)
    products = _products(node.inputs[0], node) if _is_foldable(scale) else []
    users = list(node.outputs[0].counted_uses()) if _is_foldable(out_scale) else []
    inputs = list(node.inputs)
    if products:
        for user, index in products:
            user.replace_input(index, _changed(Divide1(), user.inputs[index], scale))
        inputs[1:3] = [_constant(first), _constant(last)]
    if users and all(count == 1 and _has_computed_weights(user, node.outputs[0]) for user, count in users):
        for user, _ in users:
            user.replace_input(1, _changed(Multiply1(), user.inputs[1], out_scale))
        inputs[3:5] = [_constant(first), _constant(last)]
    node.replace_inputs(inputs)


def _is_foldable(scale: float) -> bool:
    return scale != 1 and 2.0**-_MAX_EXPONENT < scale < 2.0**_MAX_EXPONENT


def _products(value: Output, user: Node) -> list[tuple[Node, int]]:
    """The nodes, and their inputs, that are divided so that ``value``, which only ``user`` reads, is."""
    node = value.node
    if value.uses != [user]:
        return []
    if isinstance(node.op, Add1) and node.inputs[1].node.op.data is not None:
        before = _products(node.inputs[0], node)
        return [*before, (node, 1)] if before else []
    return [(node, 1)] if _has_computed_weights(node, node.inputs[0] if node.inputs else value) else []


def _has_computed_weights(node: Node, data: Output) -> bool:
    """True if the layer multiplies ``data`` by weights that are computed from constants."""
    if not isinstance(node.op, _WITH_WEIGHTS) or node.inputs[0] is not data:
        return False
    weights = node.inputs[1]
    return weights.node.op.data is None and weights.element_type is element_types.f32 and _is_constant(weights)


def _is_constant(value: Output) -> bool:
    node = value.node
    if node.op.data is not None:
        return True
    return bool(node.inputs) and node.op.is_pure and all(map(_is_constant, node.inputs))


def _changed(op: Operation, value: Output, scale: float) -> Output:
    return make_node(op, [value, _constant(scale)], f"{value.node.name}/scaled").outputs[0]


def _constant(value: float) -> Output:
    return make_node(Const1(value=Tensor.from_array(np.array(value, np.float32), element_types.f32)), ()).outputs[0]
