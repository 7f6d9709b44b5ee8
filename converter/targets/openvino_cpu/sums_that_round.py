"""Sums of float32 with a large constant that is taken away again, which round to whole numbers.

OpenVINO adds constants in a row first, and nothing is left that rounds.

    x -> Add(12582912) -> Subtract(12582912)      becomes      x -> Add -> Maximum(y, y) -> Subtract

Maximum changes nothing, and prevents the fusion. Constants that add up stay.
"""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Array, Node, Output
from ir_runtime.graph.element_types import finfo
from ir_runtime.operations.elementwise import Add1, Subtract1
from ir_runtime.rewriting import Builder, Replacement, fail

from .opaque_identity import opaque_identity

_MOST = 64
"""The largest number of elements of a constant that is looked at."""


@openvino_cpu.replaces("sums_that_round", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def sum_that_rounds(builder: Builder, node: Node) -> Replacement:
    """Keep both sums apart."""
    last = _summand(node)
    first = None if last is None else _summand(last[0].node)
    if last is None or first is None:
        return fail("not two constants are added to floats")
    between, second = last
    largest = np.maximum(np.abs(first[1]), np.abs(second))
    usual = 2.0 ** (finfo(between.element_type).nmant / 3)
    if ((np.abs(first[1] + second) >= largest / 2) | (largest <= usual)).all():
        return fail("the constants add up, or are too small to round")
    kept = builder.emit(opaque_identity(between.element_type), between, between)
    return builder.emit(node.op, *(kept if source is between else source for source in node.inputs))


def _summand(node: Node) -> tuple[Output, Array] | None:
    """The other summand and the constant, which is negative where it is subtracted."""
    if not isinstance(node.op, (Add1, Subtract1)) or not node.outputs[0].element_type.is_real:
        return None
    for x, other in node.orders:
        values = other.type.constant
        if values is not None and 0 < values.size <= _MOST and x.type.constant is None:
            wide = values.astype(np.float64)
            return x, wide if isinstance(node.op, Add1) else -wide
    return None
