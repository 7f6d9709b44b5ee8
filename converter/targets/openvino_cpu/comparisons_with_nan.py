"""Greater and GreaterEqual of floats, which the plug-in takes for the opposite of LessEqual and Less.

Seen from 2023.3 to 2026.4: of NaN, which is neither, it says that it is greater. Less and LessEqual are right.

    Greater(a, b)    becomes   Less(b, a)
"""

from __future__ import annotations

from converter.lowering import layers
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.elementwise import Greater1, GreaterEqual1
from ir_runtime.rewrite import Uses


@openvino_cpu.register("comparisons_with_nan")
def comparisons_with_nan(model: Model) -> int:
    """Turn comparisons round that say of NaN that it is greater."""
    return legalise(model, (Greater1, GreaterEqual1), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    a, b = node.inputs
    if not a.element_type.is_real:
        return None
    return (layers.less if isinstance(node.op, Greater1) else layers.less_equal)(builder, b, a)
