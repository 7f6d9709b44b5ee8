"""Interpolate along many dimensions, as one Interpolate after the other along a few.

Dimensions are independent of each other, and so the numbers are the same.

    x -> Interpolate(cubic, axes 1, 2, 3)      becomes      x -> Interpolate(axis 1) -> Interpolate(axes 2, 3)

The plug-in resizes these dimensions at once; with others it is wrong or refuses them:

- cubic: any two dimensions of four, the last two of three, and any of five or more;
- linear: any two, any three of five or more, and the last three of four.

What depends on constants and shapes alone is folded while the plug-in compiles. That fails with "Axes are not
correct!" for most axes of mode linear_onnx, but not of mode linear, which gives the same numbers:

    ShapeOf -> ... -> Interpolate(linear_onnx)      becomes      ShapeOf -> ... -> Interpolate(linear)
"""

from __future__ import annotations

from collections.abc import Sequence

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output
from ir_runtime.operations.generation import ShapeOf
from ir_runtime.operations.interpolate import Interpolate11
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("interpolate_many_axes", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def interpolate_many_axes(builder: Builder, node: Node) -> Replacement:
    """Resize a few dimensions after the other."""
    op = node.op
    if not isinstance(op, Interpolate11) or len(node.inputs) < 3 or any((*op.pads_begin, *op.pads_end)):
        return fail("it pads, or has no axes")
    resized, target, axes = node.inputs
    constant = axes.type.constant
    if constant is None or not resized.shape.has_rank:
        return fail("the axes come at run time, or the rank is dynamic")
    rank = resized.shape.rank
    places = [int(axis) % rank for axis in constant.reshape(-1)]
    if op.mode == "linear_onnx" and not op.antialias and _is_folded(resized):
        return builder.emit(op.with_attributes(mode="linear"), *node.inputs)
    step = _at_once(op.mode, rank, places)
    if step >= len(places):
        return fail("the plug-in resizes these dimensions at once")
    # The last dimensions, those of images, stay together: the plug-in is fast for these.
    for end in range(len(places) % step or step, len(places) + 1, step):
        some = list(range(max(end - step, 0), end))
        part = layers.gather(builder, target, builder.constant(some), builder.constant(0))
        resized = builder.emit(op, resized, part, builder.constant([places[index] for index in some]))
    return resized


def _is_folded(value: Output) -> bool:
    """True if a value depends on constants and shapes alone."""
    pending, seen = [value.node], set()
    while pending:
        node = pending.pop()
        if node in seen or isinstance(node.op, ShapeOf):
            continue
        if not node.inputs and node.op.data is None:
            return False
        if not node.op.deterministic:
            return False
        seen.add(node)
        pending += [source.node for source in node.inputs]
    return True


def _at_once(mode: str, rank: int, axes: Sequence[int]) -> int:
    """Return the number of these dimensions that the plug-in resizes at once."""
    if mode == "cubic" and rank == 3:
        return 1 if 0 in axes else 2
    if mode == "cubic" and rank == 4:
        return 2
    if mode == "linear_onnx":
        return 3 if len(axes) == 3 and (rank != 4 or 0 not in axes) else 2
    return len(axes)
