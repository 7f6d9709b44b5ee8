"""Slice along axes that come at run time, as a Slice along all dimensions.

The plug-in crashes with such axes.

    x -> Slice(start, stop, step, axes)      becomes      x -> Slice(ScatterUpdate([0, 0, 0], axes, start), ...)
"""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.scatter import ScatterUpdate3
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import as_i64, normalized_positions


@openvino_cpu.replaces("slice_axes_at_run_time", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def slice_axes_at_run_time(builder: Builder, node: Node) -> Replacement:
    """Give every dimension a start, an end and a step."""
    data, *parts = node.inputs
    if len(parts) < 4 or parts[3].type.constant is not None or not data.shape.has_rank:
        return fail("the axes are left out or constant, or the rank is dynamic")
    rank, element_type = data.shape.rank, parts[0].element_type
    places = normalized_positions(builder, as_i64(builder, parts.pop()), builder.constant(rank))
    end = np.iinfo(element_type.dtype).max
    spread = [
        builder.emit(
            ScatterUpdate3(), builder.constant([whole] * rank, element_type), places, part, builder.constant(0)
        )
        for whole, part in zip((0, end, 1), (in_type(builder, part, element_type) for part in parts))
    ]
    return builder.emit(node.op, data, *spread, builder.constant(list(range(rank))))
