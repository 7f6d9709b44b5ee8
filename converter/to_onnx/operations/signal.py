"""Fourier transforms. ONNX's DFT transforms along one axis: several ones follow one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from converter.to_onnx import Context, Value, ir_op, layers
from converter.to_onnx.parts_of_lists import halves_of
from converter.to_onnx.registry import write_inline
from ir_runtime.graph import Output, element_types
from ir_runtime.operations.elementwise import Divide1, Equal1, Select1, Subtract1
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.movement import Concat1, Reshape1, Squeeze1, Unsqueeze1
from ir_runtime.operations.padding import Pad
from ir_runtime.operations.signal import DFT7, IDFT7, IRDFT9, RDFT9, STFT15
from ir_runtime.rewriting import Match, anything, layer, number

_MISSING = layer(Subtract1, anything("size"), layer(ShapeOf3, anything("data")))
_BEFORE = layer(Divide1, _MISSING, number(2))
_PADS_ON_BOTH_SIDES = layer(Concat1, _BEFORE, layer(Subtract1, _MISSING, _BEFORE))
_OTHER_LENGTH = layer(Select1, layer(Equal1, anything("compared"), number(-1)), anything(), anything("length"))

_Fourier = Union[DFT7, IDFT7, RDFT9, IRDFT9]


def _transform(
    ctx: Context, x: Value, axis: int, length: layers.Size | None, *, inverse: bool = False, onesided: bool = False
) -> Value:
    """DFT along one axis; its axis is an input from opset 20 on."""
    count = None if length is None else layers.as_scalar(ctx, length)
    at, attribute = (ctx.constant(axis), None) if ctx.opset >= 20 else (None, axis)
    return ctx.emit("DFT", x, count, at, axis=attribute, inverse=int(inverse) or None, onesided=int(onesided) or None)


def _wide(ctx: Context, x: Value) -> Value:
    """Smaller floats as float32: nothing is rounded between one axis and the next."""
    return ctx.cast(x, element_types.f32) if x.element_type.bits < 32 else x


def _axes(ctx: Context, axes: Value, rank: int) -> list[int]:
    numbers = layers.list_of(ctx, axes, "the axes")
    return [axis % rank for axis in numbers]


def _lengths(ctx: Context, count: int, lengths: Value | None) -> list[layers.Size]:
    """The length of the signal along each axis; -1 as it is."""
    if lengths is None:
        return [-1] * count
    numbers = layers.known_list(ctx, lengths)
    if numbers is not None:
        return list(numbers)
    length_list = layers.reshape(ctx, ctx.cast(lengths, element_types.i64), [-1])
    return [ctx.emit("Gather", length_list, ctx.constant([index]), axis=0) for index in range(count)]


def _length(ctx: Context, length: layers.Size, natural: layers.Size) -> layers.Size:
    """The length that is given, or that of the signal itself."""
    if isinstance(length, int):
        return natural if length == -1 else length
    lengths = ctx.node.inputs[2]
    if _is_replaced(lengths) or ctx.is_never(lengths, -1):
        return length
    is_natural = ctx.emit("Equal", length, ctx.constant([-1]))
    return ctx.emit("Where", is_natural, layers.as_list(ctx, natural), length)


def _only_number(value: Output) -> Output:
    """The tensor that holds the one number of ``value`` before it was reshaped."""
    while isinstance(value.node.op, (Reshape1, Squeeze1, Unsqueeze1)) and _is_single(value.node.inputs[0]):
        value = value.node.inputs[0]
    return value


def _is_single(value: Output) -> bool:
    return value.shape.is_static and value.shape.static() in ((), (1,))


def _is_replaced(length: Output) -> bool:
    """True if ``length`` has another number in the place of -1: Select(x == -1, other, x)."""
    match = _OTHER_LENGTH.match(_only_number(length))
    return isinstance(match, Match) and _only_number(match["compared"]) is _only_number(match["length"])


def _is_padded_to(padded: Output, size: Output) -> bool:
    """True if a list was padded to ``size`` elements, on both sides by half of what was missing."""
    node = padded.node
    if not isinstance(node.op, Pad):
        return False
    whole = halves_of(node.inputs[1], node.inputs[2], 1)
    match = None if whole is None else _PADS_ON_BOTH_SIDES.match(whole)
    if not isinstance(match, Match) or match["data"] is not node.inputs[0]:
        return False
    return _only_number(match["size"]) is _only_number(size)


def _each(
    ctx: Context, x: Value, signal: Value, axes: Sequence[int], lengths: Sequence[layers.Size], inverse: bool
) -> Value:
    """Complex transforms along several axes."""
    for axis, size in zip(axes, lengths):
        length = None if size == -1 else _length(ctx, size, layers.size_of(ctx, signal, axis))
        x = _transform(ctx, x, axis, length, inverse=inverse)
    return x


@ir_op(DFT7, IDFT7)
def dft(ctx: Context, op: _Fourier, x: Value, axes: Value, lengths: Value | None = None) -> Value:
    """DFT along one axis after the other"""
    chosen = _axes(ctx, axes, layers.rank_of(ctx, x, "the data") - 1)
    return _each(ctx, _wide(ctx, x), x, chosen, _lengths(ctx, len(chosen), lengths), isinstance(op, IDFT7))


@ir_op(RDFT9)
def rdft(ctx: Context, op: RDFT9, x: Value, axes: Value, lengths: Value | None = None) -> Value:
    """DFT with onesided along the last axis, then DFT along the others"""
    chosen = _axes(ctx, axes, layers.rank_of(ctx, x, "the data"))
    if not chosen:
        ctx.fail("there must be an axis")
    *others, last = chosen
    *counts, count = _lengths(ctx, len(chosen), lengths)
    length = None if count == -1 else _length(ctx, count, layers.size_of(ctx, x, last))
    transformed = _transform(ctx, layers.unsqueeze(ctx, _wide(ctx, x), [-1]), last, length, onesided=True)
    return _each(ctx, transformed, x, others, counts, False)


write_inline(IRDFT9)


def _window(ctx: Context, window: Value, size: layers.Size) -> Value:
    """A window in the middle of a frame."""
    length = layers.size_of(ctx, window, 0)
    if length is size or (isinstance(length, int) and length == size) or _is_padded_to(*ctx.node.inputs[1:3]):
        return window
    missing = layers.subtract(ctx, size, length)
    before = layers.divide(ctx, missing, 2)
    return ctx.emit("Pad", window, layers.shape_list(ctx, [before, layers.subtract(ctx, missing, before)]))


@ir_op(STFT15)
def stft(ctx: Context, op: STFT15, x: Value, window: Value, size: Value, step: Value) -> Value:
    """STFT, with a window that is padded to the frames"""
    is_single = layers.rank_of(ctx, x, "the signals") == 1
    signals = layers.unsqueeze(ctx, x, [0, 2] if is_single else [2])
    length = layers.size_from(ctx, size)
    every = layers.as_scalar(ctx, layers.size_from(ctx, step))
    frame = _window(ctx, window, length)
    # onesided is the default, but onnx's shape inference does not know that.
    transformed = ctx.emit("STFT", signals, every, frame, layers.as_scalar(ctx, length), onesided=1)
    if op.transpose_frames:
        transformed = layers.transpose(ctx, transformed, [0, 2, 1, 3])
    return layers.squeeze(ctx, transformed, [0]) if is_single else transformed
