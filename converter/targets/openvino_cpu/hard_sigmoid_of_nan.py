"""HardSigmoid of NaN, and with a slope of 0.

The plug-in returns 1 for NaN, and uses a slope of 0.2 instead of 0.

    x -> HardSigmoid      becomes      x -> HardSigmoid ------------\\
                                       x -> IsNaN -------------> Select <- x

Where the result is only multiplied by ``x`` itself, NaN stays NaN. The plug-in fuses these layers into one HSwish,
and so they stay. With a slope of 0 the result is a constant, but NaN where ``x`` is not finite.
"""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph.model import Node
from ir_runtime.operations.activation import HardSigmoid1
from ir_runtime.operations.elementwise import IsNaN10, Multiply1
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import fail
from ir_runtime.rewriting.replace_layers import Replacement
from ir_runtime.rewriting.uses import Uses


@openvino_cpu.replaces("hard_sigmoid_of_nan", HardSigmoid1, seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def hard_sigmoid_of_nan(builder: Builder, node: Node, uses: Uses) -> Replacement:
    """Select NaN where the input is NaN."""
    x, slope, offset = node.inputs
    alpha, beta = slope.type.constant, offset.type.constant
    if alpha is not None and beta is not None and not alpha.any():
        nothing = layers.multiply(builder, x, slope)
        value = builder.like(np.clip(beta, 0, 1).reshape(()), x)
        return layers.select(builder, builder.emit(IsNaN10(), nothing), nothing, value)
    readers = uses[node.outputs[0]]
    if readers and all(isinstance(reader.op, Multiply1) and x in reader.inputs for reader in readers):
        return fail("it is only multiplied by its own input, which keeps NaN")
    return layers.select(builder, builder.emit(IsNaN10(), x), x, builder.emit(node.op, *node.inputs))
