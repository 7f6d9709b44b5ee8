"""Slice along axes that come at run time, as a Slice along all dimensions.

The plug-in crashes with such axes.

    x -> Slice(start, stop, step, axes)      becomes      x -> Slice(ScatterUpdate([0, 0, 0], axes, start), ...)

Seen in OpenVINO 2023.3, 2024.6 and 2026.4.
"""

from __future__ import annotations

import numpy as np

from converter.lowering.layers import in_type
from converter.lowering.shapes import as_i64, normalized_positions
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.scatter import ScatterUpdate3
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewrite import Uses


@openvino_cpu.register("slices")
def slices(model: Model) -> int:
    """Give every dimension a start, an end and a step."""
    return legalise(model, (Slice8,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    data, *parts = node.inputs
    if len(parts) < 4 or parts[3].type.constant is not None or not data.shape.has_rank:
        return None
    rank, kind = data.shape.rank, parts[0].element_type
    places = normalized_positions(builder, as_i64(builder, parts.pop()), builder.constant(rank))
    end = np.iinfo(kind.dtype).max
    spread = [
        builder.emit(ScatterUpdate3(), builder.constant([whole] * rank, kind), places, part, builder.constant(0))
        for whole, part in zip((0, end, 1), (in_type(builder, part, kind) for part in parts))
    ]
    return builder.emit(node.op, data, *spread, builder.constant(list(range(rank))))
