"""Attention by matrix multiplications and Softmax."""

from __future__ import annotations

import numpy as np

from converter.passes.decomposition.registry import decomposes
from ir_runtime.graph import element_types
from ir_runtime.operations.activation import SoftMax8
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.rewriting.expressions import Expression, concat, positions, where


@decomposes(ScaledDotProductAttention13)
def attention(
    op: ScaledDotProductAttention13,
    query: Expression,
    key: Expression,
    value: Expression,
    mask: Expression | None = None,
    scale: Expression | None = None,
    sink: Expression | None = None,
) -> Expression:
    """Softmax of the scaled products of queries and keys, with masked ones hidden, times the values"""
    width = query.size(query.rank - 1).as_type(query.element_type)
    factor = 1 / width.sqrt() if scale is None else scale.reshape()
    scores = (query * factor).matmul(key.transpose(*range(key.rank - 2), key.rank - 1, key.rank - 2))
    *lead, rows, columns = scores.sizes()
    if op.causal:
        mask = positions(columns) <= positions(rows).unsqueeze(1)
    if mask is not None and mask.element_type is element_types.boolean:
        scores = where(mask, scores, -np.inf)
    elif mask is not None and mask.rank:  # a scalar that is no boolean means no mask
        scores = scores + mask
    if sink is not None:
        scores = concat([scores, sink.broadcast(*lead, rows, 1)], scores.rank - 1)
    shares = scores.emit(SoftMax8(axis=-1))
    return (shares if sink is None else shares.cut(-1, 0, columns)).matmul(value)
