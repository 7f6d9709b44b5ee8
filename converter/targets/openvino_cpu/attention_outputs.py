"""What turns attention's output, between two extents that may be equal: heads and queries.

The plug-in computes attention of stated shapes and the Transpose behind it in one step, which writes in place
where the queries have the output's shape. Then heads overwrite queries of others before these are read.

    attention -> Transpose      becomes      attention -> Maximum(a, a) -> Transpose

The importer's IR is as wrong. A model may be given as many queries as heads after it is converted, and so the rule
acts wherever the extents may be equal. Seen in OpenVINO 2026.4.
"""

from __future__ import annotations

from converter.targets.openvino_cpu.opaque_identity import keep_apart
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Model, Node
from ir_runtime.operations.activation import SoftMax1, SoftMax8
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.elementwise import Binary
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Transpose1
from ir_runtime.rewrite import UniqueNames


@openvino_cpu.register("attention_outputs")
def attention_outputs(model: Model) -> int:
    """Keep attention and what turns its output apart where both have one shape."""
    acted = 0
    for part in model.parts():
        turned = [node for node in part.nodes_of((Transpose1,)) if _is_attention(node) and _may_swap_equals(node)]
        if not turned:
            continue
        unique = UniqueNames(part)
        for node in turned:
            keep_apart(node.inputs[0], [node], unique)
        acted += len(turned)
    return acted


def _may_swap_equals(node: Node) -> bool:
    """Whether dimensions change places whose extents may be the same."""
    shape, order = node.inputs[0].shape, node.inputs[1].type.constant
    if order is None or not shape.has_rank:
        return False
    return list(order) != sorted(order) and all(shape[to].merge(shape[int(at)]) for to, at in enumerate(order))


def _is_attention(node: Node) -> bool:
    """Whether it turns what attention made of queries that are not turned themselves.

    A Transpose in front of the queries becomes part of the same step, which then reads and writes alike.
    """
    made = node.inputs[0].node
    if isinstance(made.op, MatMul1):
        shares = made.inputs[0].node
        if not isinstance(shares.op, (SoftMax1, SoftMax8)):
            return False
        scores = shares.inputs[0].node
        while isinstance(scores.op, Binary):  # a scale, and what is added for what may not be attended to
            scores = scores.inputs[0].node
        return not (isinstance(scores.op, MatMul1) and isinstance(scores.inputs[0].node.op, Transpose1))
    return isinstance(made.op, ScaledDotProductAttention13) and not isinstance(made.inputs[0].node.op, Transpose1)
