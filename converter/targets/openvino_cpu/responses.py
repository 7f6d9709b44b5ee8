"""LRN with a bias that is no whole number.

The plug-in drops the fraction of the bias. It is taken out of the sum, of which the sign alone stays:

    x -> LRN(alpha, beta, bias)      becomes      x -> LRN(alpha / |bias|, beta, 1) -> Multiply(|bias| ^ -beta)

Seen in OpenVINO 2023.3, 2024.6 and 2026.4.
"""

from __future__ import annotations

import math

from converter.lowering import layers
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.normalization import LRN1
from ir_runtime.rewrite import Uses


@openvino_cpu.register("responses")
def responses(model: Model) -> int:
    """Take fractions of the bias out of local response normalisations."""
    return legalise(model, (LRN1,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    op = node.op
    if not isinstance(op, LRN1) or float(op.bias).is_integer():
        return None
    size = abs(op.bias)
    whole = LRN1(alpha=op.alpha / size, beta=op.beta, bias=math.copysign(1.0, op.bias), size=op.size)
    made = builder.emit(whole, *node.inputs)
    return layers.multiply(builder, made, builder.like(math.pow(size, -op.beta), made))
