"""Of two type conversions the first is left out where it loses nothing, and one to the own type always.

    x [i32] -> Convert(i64) -> Convert(f32)         becomes      x -> Convert(f32)
    x [bool] -> Convert(f32) -> Convert(bool)       becomes      x
    x [f32] -> Convert(f32)                         becomes      x

Whole numbers of 8 bits or fewer keep their conversions to floats: runtimes look for dequantisation. A conversion to
floats or integers of fewer bits keeps the float it starts from: OpenVINO has those from floats alone.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import ElementType, Node, element_types
from ir_runtime.graph.element_types import finfo
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.rewriting import Builder, Replacement, fail

from .registry import passes

_FLOATS = (element_types.f16, element_types.bf16, element_types.f32, element_types.f64)
_WHOLE = tuple(getattr(element_types, f"{sign}{bits}") for bits in (8, 16, 32, 64) for sign in "iu")


@passes.replaces("converts_in_a_row")
def convert_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Let the last conversion read what the first one reads."""
    value, last = node.inputs[0], node.outputs[0].element_type
    if value.element_type is last:
        return value
    if not isinstance(value.node.op, Convert1):
        return fail(f"what it converts is made by {value.node.op.type}, not by Convert")
    x = value.node.inputs[0]
    first, between = x.element_type, value.element_type
    if x.tensor is not None or not _holds(between, first):
        return fail(f"{between} does not hold every {first}, or the value is constant")
    if not (last in _FLOATS or _is_whole(last) or last is element_types.boolean):
        return fail(f"{last} is converted to from floats alone")
    if _is_whole(first) and first.bits <= 8 and last.is_real:
        return fail("it may be the dequantisation of small whole numbers")
    if between.is_real and not last.is_real and last is not element_types.boolean and not _holds(last, first):
        return fail(f"{last} does not hold every {first}")
    return x if first is last else builder.emit(Convert1(destination_type=last), x)


def _is_whole(element_type: ElementType) -> bool:
    return element_type in _WHOLE


def _holds(wide: ElementType, narrow: ElementType) -> bool:
    """True if a type holds every value of another one."""
    if narrow is element_types.boolean:
        return wide in _FLOATS or _is_whole(wide)
    if _is_whole(narrow):
        low, high = np.iinfo(narrow.dtype).min, np.iinfo(narrow.dtype).max
        if _is_whole(wide):
            return bool(np.iinfo(wide.dtype).min <= low and high <= np.iinfo(wide.dtype).max)
        return wide in _FLOATS and 2 ** (int(finfo(wide).nmant) + 1) >= high
    return narrow in _FLOATS and wide in _FLOATS and wide.bits > narrow.bits
