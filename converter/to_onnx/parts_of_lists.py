"""Lists of numbers that an IR takes apart, and ONNX has whole.

Where Gather or Slice takes neighbouring dimensions from a shape, Shape itself takes them from opset 15 on.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Node, Output
from ir_runtime.operations.generation import ShapeOf
from ir_runtime.operations.indexing import Gather
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting import Match, Pattern, anything, layer, number

from .context import Context
from .graph import Value
from .layers import squeeze

_OPSET_OF_PARTS = 15


def part_of_shape(ctx: Context) -> Value | None:
    """Shape of neighbouring dimensions (opset 15) where that leaves no more nodes; Squeeze for a number"""
    shape = ctx.node.inputs[0]
    interval = _interval(ctx.node)
    if interval is None or ctx.opset < _OPSET_OF_PARTS:  # which is no reason for a later opset
        return None
    gathers = {(_interval(use), _is_scalar(use)) for use in shape.uses}
    intervals, scalars = {part for part, _ in gathers}, [part for part, is_scalar in gathers if is_scalar]
    if None in intervals or len(intervals) + len(scalars) > len(gathers):
        return None
    start, end = interval
    x = ctx.value(shape.node.inputs[0])
    sizes = ctx.once(("Shape", x, interval), lambda: ctx.emit("Shape", x, start=start or None, end=end))
    sizes = sizes if not _is_scalar(ctx.node) else ctx.once(("Squeeze", x, start), lambda: squeeze(ctx, sizes, [0]))
    return ctx.cast(sizes, ctx.node.outputs[0].element_type)


def _is_scalar(gather: Node) -> bool:
    return isinstance(gather.op, Gather) and gather.inputs[1].shape.rank == 0


def _interval(node: Node) -> tuple[int, int] | None:
    """The first dimension and the end of those that a layer takes from a shape, if it takes neighbours."""
    if not isinstance(node.op, (Gather, Slice8)) or not isinstance(node.inputs[0].node.op, ShapeOf):
        return None
    shape, bounds = node.inputs[0].node.inputs[0].shape, [source.type.constant for source in node.inputs[1:4]]
    indices = bounds[0]
    if not shape.has_rank or indices is None or indices.ndim > 1 or not indices.size:
        return None
    if isinstance(node.op, Slice8):
        if any(bound is None for bound in bounds):
            return None
        indices = np.arange(shape.rank)[slice(*(bound.item() for bound in bounds if bound is not None))]
    taken = (indices.reshape(-1) + (indices.reshape(-1) < 0) * shape.rank).tolist()
    if not taken or taken != list(range(taken[0], taken[0] + len(taken))) or taken[0] < 0 or taken[-1] >= shape.rank:
        return None
    return taken[0], taken[-1] + 1


def halves_of(first: Output, second: Output, size: int) -> Output | None:
    """The list of twice ``size`` numbers of which ``first`` and ``second`` are the halves."""
    halves = [layer(Slice8, anything("whole"), number(at), number(at + size), number(1)) for at in (0, size)]
    return _common_list(halves, (first, second), 2 * size)


def pair_of(first: Output, second: Output) -> Output | None:
    """The list of two elements of which ``first`` is the first and ``second`` is the second."""
    return _common_list([layer(Gather, anything("whole"), number(at)) for at in (0, 1)], (first, second), 2)


def _common_list(patterns: list[Pattern], parts: tuple[Output, Output], length: int) -> Output | None:
    """The list of ``length`` numbers of which the patterns take both parts."""
    first, second = (pattern.match(part) for pattern, part in zip(patterns, parts))
    if not isinstance(first, Match) or not isinstance(second, Match) or first["whole"] is not second["whole"]:
        return None
    shape = first["whole"].shape
    return first["whole"] if shape.is_static and shape.static() == (length,) else None
