"""LRN with a bias that is no integer.

The plug-in drops the fraction of the bias. The rule divides the sum by the bias, whose sign alone stays in it:

    x -> LRN(alpha, beta, bias)      becomes      x -> LRN(alpha / |bias|, beta, 1) -> Multiply(|bias| ^ -beta)
"""

from __future__ import annotations

import math

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.normalization import LRN1
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("lrn_fractional_bias", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def lrn_fractional_bias(builder: Builder, node: Node) -> Replacement:
    """Multiply by a power of the bias instead of adding it."""
    op = node.op
    if not isinstance(op, LRN1) or float(op.bias).is_integer():
        return fail("the bias is an integer")
    size = abs(op.bias)
    whole = LRN1(alpha=op.alpha / size, beta=op.beta, bias=math.copysign(1.0, op.bias), size=op.size)
    normalized = builder.emit(whole, *node.inputs)
    return layers.multiply(builder, normalized, builder.like(math.pow(size, -op.beta), normalized))
