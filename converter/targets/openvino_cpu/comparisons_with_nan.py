"""Greater and GreaterEqual of floats.

The plug-in computes them as the opposite of LessEqual and Less, and so NaN is greater than any number. Its Less and
LessEqual are right.

    Greater(a, b)    becomes   Less(b, a)
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.elementwise import Greater1
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("comparisons_with_nan", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def comparisons_with_nan(builder: Builder, node: Node) -> Replacement:
    """Swap the inputs."""
    a, b = node.inputs
    if not a.element_type.is_real:
        return fail("it compares integers")
    return (layers.less if isinstance(node.op, Greater1) else layers.less_equal)(builder, b, a)
