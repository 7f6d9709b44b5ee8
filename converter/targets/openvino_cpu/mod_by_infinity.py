"""Mod of floats by infinity.

The plug-in computes a - trunc(a / b) b, which is NaN. C's fmod, which the IR's Mod is, returns ``a``.

    Mod(a, b)    becomes   Select(b is infinite and a finite, a, Mod(a, b))    where b is not a finite constant
"""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.elementwise import IsFinite10, IsInf10, Mod1
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("mod_by_infinity", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def mod_by_infinity(builder: Builder, node: Node) -> Replacement:
    """Select the dividend where the divisor is infinite."""
    value, divisor = node.inputs
    constant = divisor.type.constant
    if not value.element_type.is_real or (constant is not None and not np.isinf(constant).any()):
        return fail("the inputs are integers, or the divisor is constant and finite")
    endless = layers.logical_and(builder, builder.emit(IsInf10(), divisor), builder.emit(IsFinite10(), value))
    return layers.select(builder, endless, value, builder.emit(Mod1(), value, divisor))
