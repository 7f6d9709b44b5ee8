"""Dropout, which passes everything on unless the model trains.

https://onnx.ai/onnx/operators/onnx__Dropout.html
"""

from __future__ import annotations

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.operators.onnx.randomness import unit
from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import ElementType, Output, element_types
from ir_runtime.operations import movement
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import shape_of


def _undropped(ctx: Context, x: Output, mask_type: ElementType) -> tuple[Output, Output | None]:
    """The input, and a mask that is true everywhere."""
    if not ctx.wants(1):
        return x, None
    shape = shape_of(ctx, x)
    return x, ctx.emit(movement.Broadcast3(mode="numpy"), ctx.constant(1, mask_type), shape)


@onnx_op("Dropout", versions=(1, 6))
def dropout_1(ctx: Context, x: Output, *, is_test: int = 0, ratio: float = 0.5) -> tuple[Output, Output | None]:
    """Inference, with ``is_test`` set; training is refused."""
    if not is_test and ratio != 0:
        raise ctx.unsupported("is_test=0 asks for training, whose result is random")
    return _undropped(ctx, x, x.element_type)


@onnx_op("Dropout", versions=(7, 10))
def dropout_7(ctx: Context, x: Output, *, ratio: float = 0.5) -> tuple[Output, Output | None]:
    """Always inference; the mask has the type of the input in version 7, and is boolean in version 10."""
    return _undropped(ctx, x, x.element_type if ctx.version < 10 else element_types.boolean)


@onnx_op("Dropout", versions=(12, 13, 22))
def dropout(
    ctx: Context,
    x: Output,
    ratio: Output | None = None,
    training_mode: Output | None = None,
    *,
    seed: int | None = None,
) -> tuple[Output, Output | None]:
    """Inference unless ``training_mode`` is true.

    In training the share ``ratio`` of the numbers is dropped at random, and the others grow so that the mean stays.
    """
    training = None if training_mode is None else training_mode.type.constant
    share = ctx.constant(0.5, "f32") if ratio is None else in_type(ctx, ratio, element_types.f32)
    share = as_scalar(ctx, share, "the ratio")
    constant = share.type.constant
    inference = training_mode is None or (training is not None and not training.any())
    if training_mode is None or inference or (constant is not None and not constant.any()):
        return _undropped(ctx, x, element_types.boolean)
    if constant is not None and not 0 <= float(constant) < 1:
        raise ctx.invalid(f"the ratio must be from 0 to below 1, but is {float(constant)}")
    trains = as_scalar(ctx, training_mode, "training_mode")
    # Nothing is less than 0, so without training everything is kept, and nothing grows.
    dropped = layers.select(ctx, trains, share, ctx.constant(0, "f32"))
    mask = layers.greater_equal(ctx, unit(ctx, shape_of(ctx, x), seed), dropped)
    scalar_one = ctx.constant(1, "f32")
    growth = layers.divide(ctx, scalar_one, layers.subtract(ctx, scalar_one, dropped))
    grown = layers.multiply(ctx, x, in_type(ctx, growth, x.element_type))
    return layers.select(ctx, mask, grown, ctx.like(0, x)), mask
