"""Masks of attention with a sliding window, beside a cache: in the form that paged attention knows.

OpenVINO's paged attention (the backend ``PA`` of openvino-genai) drops the mask and computes which keys are seen
itself. It finds the window in one form of the mask alone; in any other form the window silently becomes 0, and every
key is seen (issue 36737 of openvino).

    keys > queries - window -> LogicalAnd(others) -> Select(0, lowest) -> attention

becomes

    keys > queries + (-window) -> BitwiseAnd four times -> Broadcast -> Select(0, lowest) -> Slice -> attention

What the form has beyond the mask (the other operands of BitwiseAnd, Broadcast, Slice) changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.elementwise import Add1, BitwiseAnd13, Greater1, LogicalAnd1, Select1, Subtract1
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting import Builder, Match, Replacement, anything, constant, either, fail, layer
from ir_runtime.rewriting.caches import variable_behind

_WINDOW = layer(
    Greater1,
    anything("keys"),
    either(layer(Subtract1, anything("queries"), constant("window")), layer(Add1, anything("queries"), constant("-"))),
)


@openvino_cpu.replaces("sliding_windows", seen_in=("2026.4",))
def sliding_window(builder: Builder, node: Node) -> Replacement:
    """Write the condition as four BitwiseAnd, of which the first takes the window."""
    readers = node.outputs[0].uses
    if not any(
        isinstance(reader.op, ScaledDotProductAttention13) and variable_behind(reader.inputs[1]) for reader in readers
    ):
        return fail("no attention with a cache reads it")
    parts = list(_operands(node.inputs[0]))
    windows = [(part, window) for part in parts if isinstance(window := _WINDOW.match(part), Match)]
    if not windows:
        return fail("its condition has no keys > queries - window")
    if any(source.tensor is None for source in node.inputs[1:]):
        return fail("it does not choose between two numbers")
    greater, match = windows[0]
    offset = match.array("-") if "-" in match else -match.array("window")
    if offset.size != 1 or offset.reshape(-1)[0] > 0:
        return fail("the window is not one positive number")
    first = match["queries"]
    limit = builder.emit(Add1(), first, builder.constant(int(offset.reshape(-1)[0]), first.element_type))
    near = builder.emit(Greater1(), match["keys"], limit)
    others = [part for part in parts if part is not greater]
    while len(others) > 2:
        others[-2:] = [builder.emit(BitwiseAnd13(), *others[-2:])]
    true = builder.constant(True, "boolean")
    a, b = [*others, true, true][:2]
    # Paged attention looks for these operands on these sides.
    seen = builder.emit(BitwiseAnd13(), a, near)
    seen = builder.emit(BitwiseAnd13(), seen, b)
    seen = builder.emit(BitwiseAnd13(), true, seen)
    seen = builder.emit(BitwiseAnd13(), seen, true)
    rank = node.outputs[0].shape.rank
    wide = builder.emit(Broadcast3(mode="bidirectional"), seen, builder.constant([1] * rank))
    mask = builder.emit(Select1(), wide, *node.inputs[1:])
    bounds = (builder.constant([number]) for number in (0, np.iinfo(np.int64).max, 1, rank - 1))
    return builder.emit(Slice8(), mask, *bounds)


def _operands(condition: Output) -> Iterator[Output]:
    """Return the operands that LogicalAnd joins."""
    pending = [condition]
    while pending:
        value = pending.pop()
        if isinstance(value.node.op, (LogicalAnd1, BitwiseAnd13)):
            pending.extend(value.node.inputs[::-1])
        else:
            yield value
