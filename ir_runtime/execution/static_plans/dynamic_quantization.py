"""Values rounded to 8 bits by their own range, as DynamicQuantizeLinear and DynamicQuantizeLSTM do: one function.

Layer by layer it takes 19 calls, 11 of them for single numbers, and twice as many passes over the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from ir_runtime.execution.kernels import Site
from ir_runtime.graph import Array, Node, Output
from ir_runtime.operations import elementwise
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.reduction import ReduceMax1, ReduceMin1
from ir_runtime.rewriting.matching import Match, NotMatched, Pattern, anything, constant, layer, number

from .binding import Binding, Call, is_float32
from .elementwise import order_of

_ZERO, _ONE, _LAST = np.float32(0), np.float32(1), np.float32(255)


def _rounded(value: Pattern) -> Pattern:
    def check(output: Output) -> str | None:
        mode = output.node.op.mode  # type: ignore[attr-defined]
        return None if mode == "half_to_even" else f"rounds {mode}"

    return layer(elementwise.Round5, value, check=check)


def _pattern() -> Pattern:
    """The levels less the zero point, as float32; ``scale`` is read by other layers, too."""
    x = anything("x")
    highest = layer(elementwise.Maximum1, layer(ReduceMax1, x, constant()), number(0))
    lowest = layer(elementwise.Minimum1, layer(ReduceMin1, x, constant()), number(0))
    span = layer(elementwise.Subtract1, highest, lowest)
    is_empty = layer(elementwise.Equal1, span, number(0))
    scale = layer(elementwise.Select1, is_empty, number(1), layer(elementwise.Divide1, span, number(255)), name="scale")
    below = layer(elementwise.Divide1, layer(elementwise.Subtract1, number(0), lowest), scale)
    zero_point = layer(Clamp1, _rounded(below), name="zero point")
    level = layer(elementwise.Add1, _rounded(layer(elementwise.Divide1, x, scale)), zero_point)
    return layer(elementwise.Subtract1, layer(Clamp1, level, name="levels"), zero_point)


_PATTERN = _pattern()


def dynamic_quantization(node: Node, site: Site, position: Mapping[Node, int]) -> Match | None:
    """The layers that end in ``node``, where nothing else reads their inner values but the scale, and that later."""
    match = _PATTERN.match(node.outputs[0]) if isinstance(node.op, elementwise.Subtract1) else None
    if match is None or isinstance(match, NotMatched):
        return None
    scale, inside = match["scale"], set(match.nodes)
    ops: list[Clamp1] = [match.node(name).op for name in ("zero point", "levels")]  # type: ignore[misc]
    if not scale.shape.is_static or scale.shape.rank or any((op.min, op.max) != (0, 255) for op in ops):
        return None
    if not inside <= position.keys():
        return None
    for inner in inside - {node}:
        output = inner.outputs[0]
        others = [user for user in site.users.get(output, []) if user not in inside]
        if output is scale:
            others = [user for user in others if position[user] < position[node]]
        if others or (output in site.results and output is not scale):
            return None
    return match


def bind_dynamic_quantization(node: Node, match: Match, b: Binding) -> list[Call] | None:
    """One call for the layers of ``match``, which end in ``node``."""
    x = b.array(match["x"])
    if x is None or not x.size or not is_float32(x):
        return None
    return [partial(_quantize, x, b.new(match["scale"]), b.new(node.outputs[0], order_of(x)))]


def _quantize(x: Array, scale: Array, out: Array) -> None:
    # Comparisons keep NaN, as those of arrays do, where it comes first.
    lowest = min(x.min(), _ZERO)
    span = max(x.max(), _ZERO) - lowest
    step = span / _LAST if span != 0 else _ONE
    zero_point = min(max(np.rint((_ZERO - lowest) / step), _ZERO), _LAST)
    scale[...] = step
    np.divide(x, step, out=out)
    np.rint(out, out=out)
    # Sums with the zero point, which are limited to [0, 255], are whole numbers, and so are exact.
    out.clip(-zero_point, _LAST - zero_point, out)
