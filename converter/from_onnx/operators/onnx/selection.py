"""ONNX's Where and Clip."""

from __future__ import annotations

from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import Output
from ir_runtime.graph.element_types import finfo
from ir_runtime.operations import activation, movement
from ir_runtime.rewriting import layers


@onnx_op("Where", versions=(9, 16))
def where(ctx: Context, condition: Output, x: Output, y: Output) -> Output:
    """x where the condition holds, y elsewhere; all three broadcast."""
    return layers.select(ctx, condition, x, y)


def _clamp(ctx: Context, x: Output, low: Output | None, high: Output | None) -> Output:
    """Min(max, Max(x, min)), so that ``max`` wins where they contradict; a missing one is the type's limit."""
    element_type = x.element_type
    for name, bound in (("min", low), ("max", high)):
        if bound is not None and bound.shape.has_rank and bound.shape.element_count().low > 1:
            raise ctx.invalid(f"{name} must be a scalar, but has the shape {bound.shape}")
    if element_type.is_real:
        constants = [None if bound is None else bound.type.constant for bound in (low, high)]
        if all(bound is None or values is not None for bound, values in zip((low, high), constants)):
            lowest, highest = (float(v) for v in (-_greatest(ctx, x), _greatest(ctx, x)))
            least = lowest if constants[0] is None else float(constants[0].reshape(-1)[0])
            most = highest if constants[1] is None else float(constants[1].reshape(-1)[0])
            return ctx.emit(activation.Clamp1(min=min(least, most), max=most), x)
    if low is not None:
        x = layers.maximum(ctx, x, _scalar(ctx, low))
    return x if high is None else layers.minimum(ctx, x, _scalar(ctx, high))


def _greatest(ctx: Context, x: Output) -> float:
    """The greatest finite number of the type."""
    return float(finfo(x.element_type).max)


def _scalar(ctx: Context, bound: Output) -> Output:
    """Return one element as a scalar, so that it does not add dimensions."""
    if bound.shape.has_rank and bound.shape.rank == 0:
        return bound
    return ctx.emit(movement.Reshape1(), bound, ctx.constant([], "i64"))


@onnx_op("Clip", versions=(1,))
def clip_1(ctx: Context, x: Output, *, max: float | None = None, min: float | None = None) -> Output:
    """A bound that is not given does not limit."""
    if min is not None and max is not None:
        return ctx.emit(activation.Clamp1(min=min if min < max else max, max=max), x)
    if min is not None:
        return layers.maximum(ctx, x, ctx.like(min, x))
    return x if max is None else layers.minimum(ctx, x, ctx.like(max, x))


@onnx_op("Clip", versions=(6,))
def clip_6(
    ctx: Context, x: Output, *, max: float = 3.4028234663852886e38, min: float = -3.4028234663852886e38
) -> Output:
    """The bounds are attributes."""
    return ctx.emit(activation.Clamp1(min=min if min < max else max, max=max), x)


@onnx_op("Clip", versions=(11, 12, 13))
def clip(ctx: Context, x: Output, min: Output | None = None, max: Output | None = None) -> Output:
    """The bounds are inputs."""
    return _clamp(ctx, x, min, max)
