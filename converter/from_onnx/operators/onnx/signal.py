"""ONNX's operators of signals: DFT and STFT, windows of cosines and weights of mel bins."""

from __future__ import annotations

import math

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import Output, element_types, normalize_axis
from ir_runtime.operations import generation, movement, padding, signal
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting import layers, shape_layers
from ir_runtime.rewriting.expressions import Expression, positions, where
from ir_runtime.rewriting.layers import in_type, reshape


@onnx_op("DFT", versions=(17,))
def dft_17(
    ctx: Context, data: Output, dft_length: Output | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Output:
    """The transform along ``axis`` of real ``[..., 1]`` or complex ``[..., 2]`` data."""
    return _dft(ctx, data, dft_length, axis, bool(inverse), bool(onesided))


@onnx_op("DFT", versions=(20,))
def dft_20(
    ctx: Context,
    data: Output,
    dft_length: Output | None = None,
    axis: Output | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Output:
    """As before, with the axis from an input."""
    constant = None if axis is None else as_scalar(ctx, axis, "axis").type.constant
    if axis is None or constant is not None:
        return _dft(ctx, data, dft_length, -2 if constant is None else int(constant), bool(inverse), bool(onesided))
    # The dimensions before the axis become one, and so do those behind it.
    rank = ctx.rank(data, "the data", least=2)
    data, parts = _with_parts(ctx, data, bool(onesided) and not inverse)
    at = shape_layers.as_list(
        ctx, shape_layers.normalized_positions(ctx, shape_layers.as_i64(ctx, axis), ctx.constant(rank))
    )
    places, shape = ctx.constant(list(range(rank))), shape_layers.shape_of(ctx, data)
    ahead = layers.select(ctx, layers.less(ctx, places, at), shape, ctx.constant(1))
    before = ctx.constant([1])
    for i in range(rank - 1):
        before = layers.multiply(ctx, before, shape_layers.part_of(ctx, ahead, i, i + 1))
    along = layers.gather(ctx, shape, at, ctx.constant(0))
    four = shape_layers.concat_lists(ctx, [before, along, ctx.constant([-1, parts])])
    folded = ctx.emit(movement.Reshape1(special_zero=False), data, four)
    transformed = _dft(ctx, folded, dft_length, 1, bool(inverse), bool(onesided))
    is_axis = layers.equal(ctx, places, at)
    target = layers.select(ctx, is_axis, shape_layers.dim_of(ctx, transformed, 1), shape)
    last = shape_layers.dim_of(ctx, transformed, 3)
    target = shape_layers.concat_lists(ctx, [shape_layers.part_of(ctx, target, 0, rank - 1), last])
    return ctx.emit(movement.Reshape1(special_zero=False), transformed, target)


def _with_parts(ctx: Context, data: Output, real: bool) -> tuple[Output, int]:
    """The data with 1 part (real) or 2 (complex) in the last dimension, and that number.

    Where it is dynamic, it is the declared one, or else the one that the transform needs; the layers refuse the other.
    """
    declared, rank = ctx.declared(data).shape, data.shape.rank
    parts = declared[-1]
    if not parts.is_static:
        if real:
            return reshape(ctx, data, [*[0] * (rank - 1), 1]), 1
        ends = [*[0] * (rank - 1), 1]
        longer = ctx.emit(padding.Pad12(), data, ctx.constant([0] * rank), ctx.constant(ends), ctx.like(0, data))
        return layers.gather(ctx, longer, ctx.constant([0, 1]), ctx.constant(rank - 1)), 2
    if parts.value not in (1, 2):
        raise ctx.invalid(f"the last dimension must be 1 (real) or 2 (complex), but the shape is {declared}")
    return data, parts.value


def _dft(ctx: Context, data: Output, length: Output | None, axis: int, inverse: bool, onesided: bool) -> Output:
    rank = ctx.rank(data, "the data", least=2)
    last = ctx.declared(data).shape[-1]
    if axis >= 0 and last.low > 2:
        ctx.tolerate(f"real data need a last dimension of 1, but have the shape {ctx.declared(data).shape}")
        data, rank = ctx.emit(movement.Unsqueeze1(), data, ctx.constant([-1])), rank + 1
    at = normalize_axis(axis, rank)
    if at == rank - 1:
        raise ctx.invalid(f"axis {axis} is the last one, which holds the parts of complex numbers")
    element_type = data.element_type
    if element_type in (element_types.f16, element_types.bf16):
        data = in_type(ctx, data, element_types.f32)
    size = (
        None
        if length is None
        else shape_layers.as_i64(ctx, shape_layers.as_list(ctx, as_scalar(ctx, length, "dft_length")))
    )
    data, parts = _with_parts(ctx, data, onesided and not inverse)
    spectrum = _transform(ctx, data, parts, size, at, inverse, onesided)
    return spectrum if element_type.is_dynamic else in_type(ctx, spectrum, element_type)


def _transform(
    ctx: Context, data: Output, parts: int, size: Output | None, axis: int, inverse: bool, onesided: bool
) -> Output:
    """The transform of ``[..., parts]`` along ``axis``, its length being ``size`` (a list of one)."""
    if data.element_type is element_types.f64:
        raise ctx.unsupported("the IR's Fourier transforms take f32 at most, and the data are f64")
    axes = ctx.constant([axis])
    last = ctx.constant([-1])
    sizes = [] if size is None else [size]
    if onesided and not inverse:
        if parts != 1:
            raise ctx.invalid("a one-sided transform wants real data, but the last dimension is 2")
        real = layers.squeeze(ctx, data, last)
        return ctx.emit(signal.RDFT9(), real, axes, *sizes)
    if parts == 1:
        zero = layers.multiply(ctx, data, ctx.like(0, data))
        data = ctx.emit(movement.Concat1(axis=data.shape.rank - 1), data, zero)
    if not onesided:
        return ctx.emit(signal.IDFT7() if inverse else signal.DFT7(), data, axes, *sizes)
    if parts == 1:
        raise ctx.invalid("a one-sided inverse transform wants complex data, but the last dimension is 1")
    return ctx.emit(movement.Unsqueeze1(), ctx.emit(signal.IRDFT9(), data, axes, *sizes), last)


@onnx_op("STFT", versions=(17,))
def stft(
    ctx: Context,
    data: Output,
    frame_step: Output,
    window: Output | None = None,
    frame_length: Output | None = None,
    *,
    onesided: int = 1,
) -> Output:
    """Transforms of the windowed frames of signals ``[batch, length, 1 or 2]``: ``[batch, frames, bins, 2]``.

    Files in use have real signals as ``[batch, length]``, too, and onnxruntime takes them.
    """
    if ctx.rank(data, "the signals", 2, 3) == 2:
        data = layers.unsqueeze(ctx, data, 2)
    data, parts = _with_parts(ctx, data, bool(onesided))
    element_type = data.element_type
    if element_type in (element_types.f16, element_types.bf16):
        data = in_type(ctx, data, element_types.f32)
    step = shape_layers.as_i64(ctx, as_scalar(ctx, frame_step, "frame_step"))
    size = _frame_size(ctx, data, window, frame_length)
    weights = _window(ctx, data, window, size)
    if onesided and parts == 1:
        flat = layers.squeeze(ctx, data, ctx.constant([2]))
        transformed = ctx.emit(signal.STFT15(), flat, weights, size, step)
    elif onesided:
        raise ctx.invalid("a one-sided transform wants real signals, but the last dimension is 2")
    else:
        # Frames may overlap: [batch, frames, size, 2].
        stop = layers.add(ctx, layers.subtract(ctx, shape_layers.dim_of(ctx, data, 1), size), ctx.constant(1))
        starts = ctx.emit(generation.Range4(output_type=element_types.i64), ctx.constant(0), stop, step)
        places = layers.add(ctx, layers.unsqueeze(ctx, starts, 1), shape_layers.arange(ctx, size))
        frames = layers.gather(ctx, data, places, ctx.constant(1))
        shape = shape_layers.concat_lists(ctx, [size, ctx.constant(1)])
        scale = ctx.emit(movement.Reshape1(special_zero=False), weights, shape)
        framed = layers.multiply(ctx, frames, scale)
        transformed = _transform(ctx, framed, parts, None, 2, inverse=False, onesided=False)
    return transformed if element_type.is_dynamic else in_type(ctx, transformed, element_type)


def _frame_size(ctx: Context, data: Output, window: Output | None, frame_length: Output | None) -> Output:
    """The length of a frame, a scalar: as given, or that of the window, or the whole signal."""
    if frame_length is not None:
        size = shape_layers.as_i64(ctx, as_scalar(ctx, frame_length, "frame_length"))
        constant = size.type.constant
        if window is not None and constant is not None and not window.shape.element_count().contains(int(constant)):
            raise ctx.invalid(f"the window has the shape {window.shape}, but frame_length is {int(constant)}")
        return size
    return shape_layers.dim_of(ctx, data, 1) if window is None else shape_layers.dim_of(ctx, window, 0)


def _window(ctx: Context, data: Output, window: Output | None, size: Output) -> Output:
    if window is None:
        return ctx.emit(movement.Broadcast3(mode="numpy"), ctx.like(1, data), shape_layers.as_list(ctx, size))
    if window.shape.has_rank and window.shape.rank != 1:
        raise ctx.invalid(f"the window must be a list, but has the shape {window.shape}")
    return window if data.element_type.is_dynamic else in_type(ctx, window, data.element_type)


def _scalar(ctx: Context, x: Expression, subject: str, element_type: str) -> Expression:
    return Expression(ctx, as_scalar(ctx, x.value, subject)).as_type(element_type)


def _cosine_window(name: str, whole: float, once: float, twice: float) -> None:
    """Registers the window ``whole - once cos(2 pi n / N) + twice cos(4 pi n / N)``."""

    def translate(ctx: Context, size: Expression, *, output_datatype: int = 1, periodic: int = 1) -> Expression:
        count = _scalar(ctx, size, "the size", "i64")
        length = count if periodic else count - 1
        numbers, period = (value.as_type("f64") for value in (positions(count), length))
        angle = numbers * (2 * math.pi / period)
        window = angle.of(whole)
        # The greatest value is 1, which sums in another order miss by the last digit.
        for weight, factor in ((twice, 2.0), (-once, 1.0)):
            if weight:
                window = window + (angle * factor).cos() * weight
        return window.as_type(element_type_of(output_datatype))

    onnx_op(name, versions=(17,))(translate)


_cosine_window("HannWindow", 0.5, 0.5, 0.0)
_cosine_window("HammingWindow", 25 / 46, 21 / 46, 0.0)
_cosine_window("BlackmanWindow", 0.42, 0.5, 0.08)


@onnx_op("MelWeightMatrix", versions=(17,))
def mel_weight_matrix(
    ctx: Context,
    num_mel_bins: Expression,
    dft_length: Expression,
    sample_rate: Expression,
    lower_edge_hertz: Expression,
    upper_edge_hertz: Expression,
    *,
    output_datatype: int = 1,
) -> Expression:
    """Triangles over the bins of a spectrum, evenly spaced on the mel scale; ``[dft_length // 2 + 1, mels]``.

    Every triangle rises from the peak of the one before to 1 at its own and falls to the next peak.
    """
    mels = _scalar(ctx, num_mel_bins, "num_mel_bins", "i64")
    length = _scalar(ctx, dft_length, "dft_length", "i64")
    rate = _scalar(ctx, sample_rate, "sample_rate", "f64")

    def mel(hertz: Expression, subject: str) -> Expression:
        return (_scalar(ctx, hertz, subject, "f64") / 700 + 1).log() * (2595 / math.log(10))

    low, high = mel(lower_edge_hertz, "lower_edge_hertz"), mel(upper_edge_hertz, "upper_edge_hertz")
    points = mels + 2
    step = (high - low) / points.as_type("f64")
    scale = positions(points).as_type("f64") * step + low
    hertz = ((scale * (math.log(10) / 2595)).exp() - 1) * 700
    bins = (hertz * (length + 1).as_type("f64") / rate).floor()

    def peaks(first: int) -> Expression:
        """The bins from the ``first`` on, as many as there are triangles."""
        start = mels.of([first])
        return bins.emit(Slice8(), start, mels.unsqueeze(0) + start, start.of([1]))

    left, centre, right = peaks(0), peaks(1), peaks(2)
    place = positions(length.truncated(2) + 1).as_type("f64").unsqueeze(1)

    def slope(foot: Expression) -> Expression:
        """0 at the foot and 1 at the centre; meaningless where they coincide, and not used there."""
        return (place - foot) / (centre - foot)

    def between(a: Expression, b: Expression) -> Expression:
        return place.greater_equal(a) & (place < b)

    falling = where(between(centre, right), slope(right), 0)
    rising = where(between(left, centre), slope(left), falling)
    return where(place.equal(centre), place.of(1), rising).as_type(element_type_of(output_datatype))
