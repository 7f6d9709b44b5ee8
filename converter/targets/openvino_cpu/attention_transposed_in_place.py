"""Transpose of an attention's output, where heads and queries may have the same number.

The plug-in computes attention of static shapes and the Transpose after it in one step. Where the queries have the
shape of the output, that step writes the output into the memory of the queries. Heads then overwrite queries of
others before these are read.

    attention -> Transpose      becomes      attention -> Maximum(a, a) -> Transpose

The IR of OpenVINO's importer is as wrong. A converted model may be reshaped to as many queries as heads, and so the
rule applies wherever the two dimensions may be equal. Attention with a cache is another step, which has no such fault.
"""

from __future__ import annotations

from converter.targets.openvino_cpu.opaque_identity import opaque_identity
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.activation import SoftMax
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.elementwise import Binary
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Transpose1
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.caches import variable_behind


@openvino_cpu.replaces("attention_transposed_in_place", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def attention_transposed_in_place(builder: Builder, node: Node) -> Replacement:
    """Prevent the fusion of attention with the Transpose after it."""
    if not _is_attention(node):
        return fail("its input is not the output of attention, or the queries are transposed, too")
    if _has_cache(node.inputs[0].node):
        return fail("the attention has a cache, with which it is a step that writes elsewhere")
    if not _may_swap_equals(node):
        return fail("order or rank come at run time, nothing is swapped, or what is swapped is never equal")
    value, order = node.inputs
    return builder.emit(node.op, builder.emit(opaque_identity(value.element_type), value, value), order)


def _may_swap_equals(node: Node) -> bool:
    """True if the Transpose swaps dimensions that may be equal."""
    shape, order = node.inputs[0].shape, node.inputs[1].type.constant
    if order is None or not shape.has_rank:
        return False
    return list(order) != sorted(order) and all(shape[to].merge(shape[int(at)]) for to, at in enumerate(order))


def _is_attention(node: Node) -> bool:
    """True if the input is the output of attention whose queries are not transposed themselves.

    A Transpose before the queries becomes part of the same step, which then reads and writes in the same order.
    """
    attended = node.inputs[0].node
    if isinstance(attended.op, MatMul1):
        shares = attended.inputs[0].node
        if not isinstance(shares.op, SoftMax):
            return False
        scores = shares.inputs[0].node
        while isinstance(scores.op, Binary):  # a scale or an attention mask
            scores = scores.inputs[0].node
        return not (isinstance(scores.op, MatMul1) and isinstance(scores.inputs[0].node.op, Transpose1))
    return isinstance(attended.op, ScaledDotProductAttention13) and not isinstance(
        attended.inputs[0].node.op, Transpose1
    )


def _has_cache(attention: Node) -> bool:
    """True if keys and values are variables with new ones behind them."""
    is_layer = isinstance(attention.op, ScaledDotProductAttention13)
    return is_layer and all(variable_behind(source) is not None for source in attention.inputs[1:3])
