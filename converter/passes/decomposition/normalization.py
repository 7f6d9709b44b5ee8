"""Normalization by the root of the sum of squares over the channels."""

from __future__ import annotations

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.normalization import GRN1, NormalizeL21
from ir_runtime.rewriting.expressions import Expression


@decomposes(GRN1)
def grn(op: GRN1, x: Expression) -> Expression:
    """NormalizeL2 over the channels"""
    return x.emit(NormalizeL21(eps=op.bias, eps_mode="add"), x.of([1], "i64"))
