"""ONNX's normalisations: Batch-, Instance-, Layer-, Group-, RMS-, MeanVariance-, LpNormalization and LRN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import ElementType, Output, element_types, normalize_axes, normalize_axis
from ir_runtime.operations import movement, pooling, reduction
from ir_runtime.operations import normalization as ir
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import add, in_type, multiply, reshape
from ir_runtime.rewriting.shape_layers import shape_of

# --- shared by several operators ---


def _mean(ctx: Context, x: Output, axes: Output, keep: bool = True) -> Output:
    return ctx.emit(reduction.ReduceMean1(keep_dims=keep), x, axes)


def _root(ctx: Context, x: Output, epsilon: float) -> Output:
    """The square root of x + epsilon."""
    return layers.square_root(ctx, add(ctx, x, ctx.like(epsilon, x)))


def _wide(element_type: ElementType) -> ElementType:
    """The type in which squares and sums are computed: float32 at least, since smaller floats overflow."""
    return element_type if element_type.bits >= 32 else element_types.f32


def _by_channel(ctx: Context, values: Output, rank: int) -> Output:
    """A list of one value for each channel, with dimensions added so that it broadcasts along dimension 1."""
    if rank <= 2:
        return values
    return ctx.emit(movement.Unsqueeze1(), values, ctx.constant(np.arange(1, rank - 1)))


def _unflatten(ctx: Context, flat: Output, x: Output) -> Output:
    """What was computed with all dimensions behind the channels as one, in the shape of ``x`` again."""
    return ctx.emit(movement.Reshape1(special_zero=False), flat, shape_of(ctx, x))


def _from_axis(ctx: Context, x: Output, axis: int) -> Output:
    """The dimensions from ``axis`` on."""
    if axis == -1 and not x.shape.has_rank:
        return ctx.constant([axis])
    rank = ctx.rank(x, "the input")
    return ctx.constant(np.arange(normalize_axis(axis, rank), rank))


def _standardize(ctx: Context, x: Output, axes: Output, epsilon: float, mode: str = "INSIDE_SQRT") -> Output:
    return ctx.emit(ir.MVN6(eps=epsilon, normalize_variance=True, eps_mode=mode), x, axes)


# --- BatchNormalization ---


def _in_one_type(ctx: Context, x: Output, parameters: Sequence[Output]) -> tuple[Output, list[Output]]:
    """The data and the parameters in the widest type among them."""
    input_types = [value.element_type for value in (x, *parameters)]
    widest = max(input_types, key=lambda element_type: element_type.bits)
    if any(element_type.bits == widest.bits and element_type is not widest for element_type in input_types):
        widest = element_types.f32  # float16 and bfloat16 hold different numbers
    return in_type(ctx, x, widest), [in_type(ctx, value, widest) for value in parameters]


def _inference(ctx: Context, x: Output, parameters: Sequence[Output], epsilon: float) -> Output:
    wide, (scale, bias, mean, variance) = _in_one_type(ctx, x, parameters)
    normalized = ctx.emit(ir.BatchNormInference5(epsilon=epsilon), wide, scale, bias, mean, variance)
    return in_type(ctx, normalized, x.element_type)


def _of_each_activation(ctx: Context, x: Output, parameters: Sequence[Output], epsilon: float) -> Output:
    """For parameters that have a value for every element behind the batch dimension (``spatial=0``)."""
    scale, bias, mean, variance = parameters
    factor = layers.divide(ctx, scale, _root(ctx, variance, epsilon))
    centered = layers.subtract(ctx, x, mean)
    return add(ctx, multiply(ctx, centered, factor), bias)


def _training(
    ctx: Context, x: Output, parameters: Sequence[Output], epsilon: float, momentum: float
) -> tuple[Output, Output, Output]:
    """Normalise by the mean and variance of the batch; also the updated running mean and variance."""
    if not x.shape.has_rank:
        normalized, *running = _training(ctx, reshape(ctx, x, [0, 0, -1]), parameters, epsilon, momentum)
        return _unflatten(ctx, normalized, x), running[0], running[1]
    rank = ctx.rank(x, "the input", least=2)
    wide, (scale, bias, running_mean, running_variance) = _in_one_type(ctx, x, parameters)
    element_type = _wide(wide.element_type)
    data = in_type(ctx, wide, element_type)
    axes = ctx.constant([axis for axis in range(rank) if axis != 1])
    mean = _mean(ctx, data, axes)
    centered = layers.subtract(ctx, data, mean)
    variance = _mean(ctx, multiply(ctx, centered, centered), axes)
    normalized = layers.divide(ctx, centered, _root(ctx, variance, epsilon))
    scale, bias = (_by_channel(ctx, in_type(ctx, value, element_type), rank) for value in (scale, bias))
    normalized = add(ctx, multiply(ctx, normalized, scale), bias)

    def updated(running: Output, current: Output, like: Output) -> Output:
        flat = layers.squeeze(ctx, current, axes)
        old = multiply(ctx, in_type(ctx, running, element_type), ctx.constant(momentum, element_type))
        return in_type(
            ctx, add(ctx, old, multiply(ctx, flat, ctx.constant(1 - momentum, element_type))), like.element_type
        )

    return (
        in_type(ctx, normalized, x.element_type),
        updated(running_mean, mean, parameters[2]),
        updated(running_variance, variance, parameters[3]),
    )


@onnx_op("BatchNormalization", versions=(1,))
@onnx_op("BatchNormalization", versions=(6,), without=("consumed_inputs",))
@onnx_op("BatchNormalization", versions=(7,), without=("consumed_inputs", "is_test"))
@onnx_op("BatchNormalization", versions=(9,), without=("consumed_inputs", "is_test", "spatial"))
def batch_normalization_1(
    ctx: Context,
    x: Output,
    scale: Output,
    bias: Output,
    mean: Output,
    variance: Output,
    *,
    consumed_inputs: Sequence[int] | None = None,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
) -> Output:
    """Inference, whatever ``is_test`` is: one output is the schemas' "output case #2: Y (test mode)"."""
    if ctx.version == 1 and consumed_inputs is None:
        ctx.tolerate("attribute 'consumed_inputs' is required, but missing")
    if any(ctx.wants(index) for index in range(1, 5)):
        raise ctx.unsupported("training is not supported before opset 14, where the running variance is not defined")
    parameters = (scale, bias, mean, variance)
    return (_inference if spatial else _of_each_activation)(ctx, x, parameters, epsilon)


@onnx_op("BatchNormalization", versions=(14, 15))
def batch_normalization(
    ctx: Context,
    x: Output,
    scale: Output,
    bias: Output,
    mean: Output,
    variance: Output,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Output | tuple[Output, ...]:
    """``training_mode`` decides; the parameters may have other types than the data."""
    parameters = (scale, bias, mean, variance)
    if training_mode:
        return _training(ctx, x, parameters, epsilon, momentum)
    if ctx.wants(1) or ctx.wants(2):
        raise ctx.invalid("without training_mode there is one output")
    return _inference(ctx, x, parameters, epsilon)


# --- InstanceNormalization, GroupNormalization ---


@onnx_op("InstanceNormalization", versions=(1, 6, 22))
def instance_normalization(ctx: Context, x: Output, scale: Output, bias: Output, *, epsilon: float = 1e-5) -> Output:
    """Normalises each channel of each image over its spatial dimensions."""
    if not x.shape.has_rank:
        return _unflatten(
            ctx, instance_normalization(ctx, reshape(ctx, x, [0, 0, -1]), scale, bias, epsilon=epsilon), x
        )
    rank = ctx.rank(x, "the input", least=3)
    for name, values in (("scale", scale), ("B", bias)):
        if values.shape.has_rank and (values.shape.rank != 1 or x.shape[1].merge(values.shape[0]) is None):
            raise ctx.invalid(f"{name} must have one value a channel of {x.shape}, but has the shape {values.shape}")
    normalized = _standardize(ctx, x, ctx.constant(np.arange(2, rank)), epsilon)
    return add(ctx, multiply(ctx, normalized, _by_channel(ctx, scale, rank)), _by_channel(ctx, bias, rank))


def _group(ctx: Context, x: Output, num_groups: int, epsilon: float, scale: Output, bias: Output) -> Output:
    """Normalise each group as one dimension, with one value of scale and bias for each group."""
    normalized = _standardize(ctx, reshape(ctx, x, [0, num_groups, -1]), ctx.constant([2]), epsilon)
    normalized = add(ctx, multiply(ctx, normalized, _by_channel(ctx, scale, 3)), _by_channel(ctx, bias, 3))
    return ctx.emit(movement.Reshape1(), normalized, shape_of(ctx, x))


def _check_groups(ctx: Context, x: Output, num_groups: int) -> None:
    ctx.rank(x, "the input", least=2)
    declared = ctx.declared(x).shape
    if num_groups < 1 or (declared[1].is_static and declared[1].value % num_groups):
        raise ctx.invalid(f"num_groups must divide the channels of {declared}, but is {num_groups}")


@onnx_op("GroupNormalization", versions=(18,))
def group_normalization_18(
    ctx: Context, x: Output, scale: Output, bias: Output, *, num_groups: int, epsilon: float = 1e-5
) -> Output:
    """Scale and bias have a value for each group."""
    _check_groups(ctx, x, num_groups)
    for name, values in (("scale", scale), ("bias", bias)):
        if values.shape.has_rank and (values.shape.rank != 1 or not values.shape[0].contains(num_groups)):
            raise ctx.invalid(f"{name} must have one value a group, of which there are {num_groups}")
    return _group(ctx, x, num_groups, epsilon, scale, bias)


@onnx_op("GroupNormalization", versions=(21,))
def group_normalization(
    ctx: Context,
    x: Output,
    scale: Output,
    bias: Output,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Output:
    """Scale and bias have a value for each channel. Both engines compute in float32 at least."""
    _check_groups(ctx, x, num_groups)
    return ctx.emit(ir.GroupNormalization12(num_groups=num_groups, epsilon=epsilon), x, scale, bias)


# --- LayerNormalization, RMSNormalization, MeanVarianceNormalization ---


@onnx_op("LayerNormalization", versions=(17,))
def layer_normalization(
    ctx: Context,
    x: Output,
    scale: Output,
    bias: Output | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Output, ...]:
    """Over the dimensions from ``axis`` on; also the mean and the inverse of the deviation, where wanted."""
    axes = _from_axis(ctx, x, axis)
    statistics: tuple[Output, ...] = ()
    if ctx.wants(1) or ctx.wants(2):
        stash = element_type_of(stash_type)
        wide = in_type(ctx, x, _wide(x.element_type))
        mean = _mean(ctx, wide, axes)
        centered = layers.subtract(ctx, wide, mean)
        deviation = _root(ctx, _mean(ctx, multiply(ctx, centered, centered), axes), epsilon)
        inverse = layers.divide(ctx, ctx.like(1, wide), deviation)
        normalized = in_type(ctx, multiply(ctx, centered, inverse), x.element_type)
        statistics = (in_type(ctx, mean, stash), in_type(ctx, inverse, stash))
    else:
        normalized = _standardize(ctx, x, axes, epsilon)
    normalized = multiply(ctx, normalized, _fitting(ctx, x, scale, "Scale"))
    if bias is not None:
        normalized = add(ctx, normalized, _fitting(ctx, x, bias, "B"))
    return (normalized, *statistics)


def _fitting(ctx: Context, x: Output, values: Output, name: str) -> Output:
    """``values``, which must not add dimensions to x by broadcasting."""
    declared, actual = ctx.declared(x).shape, ctx.declared(values).shape
    if declared.has_rank and actual.has_rank:
        pairs = zip(reversed(declared.dims), reversed(actual.dims))
        if actual.rank > declared.rank or any(
            mine.merge(other) is None and not other.contains(1) for mine, other in pairs
        ):
            raise ctx.invalid(f"{name}, which is {actual}, cannot be broadcast to X, which is {declared}")
    return values


@onnx_op("RMSNormalization", versions=(23,))
def rms_normalization(
    ctx: Context, x: Output, scale: Output, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Output:
    """x divided by its root mean square over the dimensions from ``axis`` on; the result has the scale's type."""
    axes = _from_axis(ctx, x, axis)
    wide = in_type(ctx, x, _wide(x.element_type))
    mean = _mean(ctx, multiply(ctx, wide, wide), axes)
    normalized = layers.divide(ctx, wide, _root(ctx, mean, epsilon))
    normalized = in_type(ctx, in_type(ctx, normalized, x.element_type), scale.element_type)
    return multiply(ctx, normalized, _fitting(ctx, x, scale, "scale"))


@onnx_op("MeanVarianceNormalization", versions=(1,))
def mean_variance_normalization_1(
    ctx: Context, x: Output, *, across_channels: int = 0, normalize_variance: int = 1
) -> Output:
    """Mean 0, and variance 1 if asked for, of each channel or of all, over the whole batch.

    ONNX does not define the axes of this experimental version; they are those of version 9, as in onnxruntime.
    """
    rank = ctx.rank(x, "the input", least=3)
    axes = ctx.constant([axis for axis in range(rank) if across_channels or axis != 1])
    if not normalize_variance:
        return layers.subtract(ctx, x, _mean(ctx, x, axes))
    return _standardize(ctx, x, axes, 1e-9, "OUTSIDE_SQRT")


@onnx_op("MeanVarianceNormalization", versions=(9, 13))
def mean_variance_normalization(ctx: Context, x: Output, *, axes: Sequence[int] = (0, 2, 3)) -> Output:
    """Mean 0 and variance 1 over the axes; 1e-9 is added to the deviation."""
    if x.shape.has_rank:
        axes = normalize_axes(axes, x.shape.rank)
    return _standardize(ctx, x, ctx.constant(axes), 1e-9, "OUTSIDE_SQRT")


# --- LRN, LpNormalization ---


@onnx_op("LRN", versions=(1, 13))
def lrn(ctx: Context, x: Output, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Output:
    """x / (bias + alpha / size * s)^beta with s, the sum of squares of ``size`` neighbouring channels."""
    ctx.rank(x, "the input", least=2)
    if size < 1:
        raise ctx.invalid(f"size must be positive, but is {size}")
    if size % 2 == 0:
        return _lrn_by_pooling(ctx, x, size, alpha, beta, bias)
    return ctx.emit(ir.LRN1(alpha=alpha, beta=beta, bias=bias, size=size), x, ctx.constant([1]))


def _lrn_by_pooling(ctx: Context, x: Output, size: int, alpha: float, beta: float, bias: float) -> Output:
    """For an even ``size``: the IR's LRN takes one channel less."""
    element_type = _wide(x.element_type)
    wide = in_type(ctx, x, element_type)
    shape = shape_of(ctx, x)
    plane = ctx.emit(movement.Reshape1(special_zero=True), wide, ctx.constant([0, 0, -1]))
    plane = ctx.emit(movement.Unsqueeze1(), multiply(ctx, plane, plane), ctx.constant([1]))
    before = (size - 1) // 2
    mean = ctx.emit(
        pooling.AvgPool1(
            kernel=(size, 1),
            strides=(1, 1),
            pads_begin=(before, 0),
            pads_end=(size - 1 - before, 0),
            exclude_pad=False,
            rounding_type="floor",
            auto_pad="explicit",
        ),
        plane,
    )
    mean = ctx.emit(movement.Reshape1(), mean, shape)
    total = add(ctx, multiply(ctx, mean, ctx.like(alpha, wide)), ctx.like(bias, wide))
    divisor = layers.power(ctx, total, ctx.like(beta, wide))
    return in_type(ctx, layers.divide(ctx, wide, divisor), x.element_type)


@onnx_op("LpNormalization", versions=(1, 22))
def lp_normalization(ctx: Context, x: Output, *, axis: int = -1, p: Literal[1, 2] = 2) -> Output:
    """x divided by its sum of magnitudes, or the root of its sum of squares, along ``axis``; 0 where that is 0."""
    if x.shape.has_rank:
        axis = normalize_axis(axis, x.shape.rank)
    wide = in_type(ctx, x, _wide(x.element_type))
    cls = reduction.ReduceL1_4 if p == 1 else reduction.ReduceL2_4
    norm = ctx.emit(cls(keep_dims=True), wide, ctx.constant([axis]))
    none = layers.equal(ctx, norm, ctx.like(0, wide))
    norm = layers.select(ctx, none, ctx.like(1, wide), norm)
    return in_type(ctx, layers.divide(ctx, wide, norm), x.element_type)
