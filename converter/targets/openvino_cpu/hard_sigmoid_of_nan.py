"""HardSigmoid of NaN, and with a slope of 0.

The plug-in makes 1 of NaN, and takes a slope of 0 for one of 0.2.

    x -> HardSigmoid      becomes      x -> HardSigmoid ------------\\
                                       x -> IsNaN -------------> Select <- x

What multiplies it with ``x`` itself gives NaN anyway, and becomes one HSwish in the plug-in: that stays.
With a slope of 0 it is a constant, but NaN where ``x`` is not finite.
Seen in OpenVINO 2023.3, 2024.6 and 2026.4.
"""

from __future__ import annotations

import numpy as np

from converter.lowering import layers
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.activation import HardSigmoid1
from ir_runtime.operations.elementwise import IsNaN10, Multiply1
from ir_runtime.rewrite import Uses


@openvino_cpu.register("hard_sigmoid_of_nan")
def hard_sigmoid_of_nan(model: Model) -> int:
    """Select NaN where it is given."""
    return legalise(model, (HardSigmoid1,), _with_nan)


def _with_nan(builder: Builder, node: Node, uses: Uses) -> Output | None:
    x, slope, offset = node.inputs
    alpha, beta = slope.type.constant, offset.type.constant
    if alpha is not None and beta is not None and not alpha.any():
        nothing = layers.multiply(builder, x, slope)
        value = builder.like(np.clip(beta, 0, 1).reshape(()), x)
        return layers.select(builder, builder.emit(IsNaN10(), nothing), nothing, value)
    readers = uses[node.outputs[0]]
    if readers and all(isinstance(reader.op, Multiply1) and x in reader.inputs for reader in readers):
        return None
    return layers.select(builder, builder.emit(IsNaN10(), x), x, builder.emit(node.op, *node.inputs))
