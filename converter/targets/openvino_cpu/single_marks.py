"""OneHot of a single index among a number of places that comes at run time.

The plug-in refuses a scalar, and takes a list of a single index.

    index -> OneHot(axis 0)      becomes      index -> Unsqueeze(0) -> OneHot(axis 1) -> Squeeze(0)

Seen in OpenVINO 2023.3, 2024.6 and 2026.4.
"""

from __future__ import annotations

from converter.lowering import layers
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.indexing import OneHot1
from ir_runtime.rewrite import Uses


@openvino_cpu.register("single_marks")
def single_marks(model: Model) -> int:
    """Put single indices into lists."""
    return legalise(model, (OneHot1,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    index, *others = node.inputs
    if not index.shape.has_rank or index.shape.rank or others[0].type.constant is not None:
        return None
    rows = builder.emit(OneHot1(axis=1), layers.unsqueeze(builder, index, 0), *others)
    return layers.squeeze(builder, rows, builder.constant([0]))
