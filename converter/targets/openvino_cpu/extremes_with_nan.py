"""Maximum and Minimum of a value and NaN, which are NaN.

The plug-in makes a Clamp of Maximum and Minimum with constants, and refuses the NaN as its end. Minimum of a computed
NaN and a number would be the number there.

    x -> Maximum(NaN) -> Minimum(3)      becomes      x -> Add(NaN) -> Add(3)
"""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output
from ir_runtime.operations.elementwise import Add1
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("extremes_with_nan", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def extremes_with_nan(builder: Builder, node: Node) -> Replacement:
    """Add the NaN."""
    if not any(_is_nan(source) for source in node.inputs):
        return fail("no input is a constant NaN")
    return layers.add(builder, *node.inputs)


def _is_nan(value: Output, deepest: int = 3) -> bool:
    """True if the value is a constant NaN, or a sum with one, such as this rule emits."""
    constant = value.type.constant
    if constant is None:
        is_sum = isinstance(value.node.op, Add1) and deepest > 0
        return is_sum and any(_is_nan(source, deepest - 1) for source in value.node.inputs)
    return value.element_type.is_real and constant.size == 1 and bool(np.isnan(constant).all())
