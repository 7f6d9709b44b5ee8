"""Interpolate along many dimensions, a few at a time.

As dimensions are independent of each other, one after the other does the same.

    x -> Interpolate(cubic, axes 1, 2, 3)      becomes      x -> Interpolate(axes 1, 2) -> Interpolate(axis 3)

By cubic the plug-in resizes any two dimensions of four and the last two of three; more it gets wrong or refuses,
unless there are five or more. Linearly it takes three, in four dimensions only the last ones, and any two.
Seen in OpenVINO 2023.3, 2024.6 and 2026.4.

What follows from constants and shapes alone is folded while the plug-in compiles, which ends in "Axes are not
correct!" for most axes of mode linear_onnx, but not of mode linear, which gives the same numbers:

    ShapeOf -> ... -> Interpolate(linear_onnx)      becomes      ShapeOf -> ... -> Interpolate(linear)
"""

from __future__ import annotations

from collections.abc import Sequence

from converter.lowering import layers
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.generation import ShapeOf1, ShapeOf3
from ir_runtime.operations.interpolate import Interpolate11
from ir_runtime.rewrite import Uses


@openvino_cpu.register("interpolations")
def interpolations(model: Model) -> int:
    """Resize pairs of dimensions, one after the other, where there are more than can be resized at once."""
    return legalise(model, (Interpolate11,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    op = node.op
    if not isinstance(op, Interpolate11) or len(node.inputs) < 3 or any((*op.pads_begin, *op.pads_end)):
        return None
    made, given, axes = node.inputs
    known = axes.type.constant
    if known is None or not made.shape.has_rank:
        return None
    rank = made.shape.rank
    places = [int(axis) % rank for axis in known.reshape(-1)]
    if op.mode == "linear_onnx" and not op.antialias and _is_folded(made):
        return builder.emit(op.with_attributes(mode="linear"), *node.inputs)
    step = _at_once(op.mode, rank, places)
    if step >= len(places):
        return None
    for start in range(0, len(places), step):
        some = list(range(start, min(start + step, len(places))))
        part = layers.gather(builder, given, builder.constant(some), builder.constant(0))
        made = builder.emit(op, made, part, builder.constant([places[index] for index in some]))
    return made


def _is_folded(value: Output) -> bool:
    """Whether a value follows from constants and shapes alone."""
    pending, seen = [value.node], set()
    while pending:
        node = pending.pop()
        if node in seen or isinstance(node.op, (ShapeOf1, ShapeOf3)):
            continue
        if not node.inputs and node.op.data is None:
            return False
        if not node.op.deterministic:
            return False
        seen.add(node)
        pending += [source.node for source in node.inputs]
    return True


def _at_once(mode: str, rank: int, axes: Sequence[int]) -> int:
    """How many of these dimensions are resized at once."""
    if mode == "cubic" and rank == 3:
        return 1 if 0 in axes else 2
    if mode == "cubic" and rank == 4:
        return 2
    if mode == "linear_onnx":
        return 3 if len(axes) == 3 and (rank != 4 or 0 not in axes) else 2
    return len(axes)
