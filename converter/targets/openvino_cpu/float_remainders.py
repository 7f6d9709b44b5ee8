"""Remainders of floats by infinity, of which the plug-in makes NaN.

Seen from 2023.3 to 2026.4: it computes a - trunc(a / b) b. C's fmod, which the IR's Mod is, gives ``a`` back.

    Mod(a, b)    becomes   Select(b is infinite and a finite, a, Mod(a, b))    where b is not known to be finite
"""

from __future__ import annotations

import numpy as np

from converter.lowering import layers
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.elementwise import IsFinite10, IsInf10, Mod1
from ir_runtime.rewrite import Uses


@openvino_cpu.register("float_remainders")
def float_remainders(model: Model) -> int:
    """Let a remainder by infinity be the number itself."""
    return legalise(model, (Mod1,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    value, divisor = node.inputs
    known = divisor.type.constant
    if not value.element_type.is_real or (known is not None and not np.isinf(known).any()):
        return None
    endless = layers.logical_and(builder, builder.emit(IsInf10(), divisor), builder.emit(IsFinite10(), value))
    return layers.select(builder, endless, value, builder.emit(Mod1(), value, divisor))
