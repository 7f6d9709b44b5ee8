"""Features, scores and labels of the models of ``ai.onnx.ml``."""

from __future__ import annotations

from collections.abc import Sequence

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import activation, elementwise, reduction, sorting
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type

_F32 = element_types.f32


def real(ctx: Context, x: Output) -> Output:
    """Features as float32, the type of these operators' results; float64 stays until the result is converted."""
    return x if x.element_type is element_types.f64 else in_type(ctx, x, _F32)


def transformed(ctx: Context, scores: Output, kind: str) -> Output:
    """Scores ``[n, c]`` after a ``post_transform``."""
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        return ctx.emit(activation.Sigmoid1(), scores)
    if kind == "SOFTMAX":
        return ctx.emit(activation.SoftMax8(axis=1), scores)
    if kind == "SOFTMAX_ZERO":
        # Softmax of those that are not 0; others stay 0.
        axes = ctx.constant([1])
        highest = ctx.emit(reduction.ReduceMax1(keep_dims=True), scores, axes)
        powers = layers.exponential(ctx, layers.subtract(ctx, scores, highest))
        counts = layers.greater(ctx, layers.absolute(ctx, scores), ctx.like(1e-7, scores))
        powers = layers.select(ctx, counts, powers, ctx.like(0, scores))
        total = ctx.emit(reduction.ReduceSum1(keep_dims=True), powers, axes)
        none = layers.equal(ctx, total, ctx.like(0, total))
        total = layers.select(ctx, none, ctx.like(1, total), total)
        return layers.divide(ctx, powers, total)
    if kind == "PROBIT":
        return _probit(ctx, scores)
    raise ctx.invalid(f"post_transform must be NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT, but is '{kind}'")


def _probit(ctx: Context, shares: Output) -> Output:
    """The quantile of the normal distribution, by the formula that onnxruntime has for it.

    It is S. Winitzki's approximation of the inverse of the error function, of three to four digits;
    0 and 1 give infinities, and what lies outside NaN.
    """
    doubled = layers.add(ctx, shares, shares)
    centred = layers.subtract(ctx, doubled, ctx.like(1, shares))
    left = layers.subtract(ctx, ctx.like(1, shares), centred)
    right = layers.add(ctx, ctx.like(1, shares), centred)
    log = ctx.emit(elementwise.Log1(), layers.multiply(ctx, left, right))
    half = layers.multiply(ctx, log, ctx.like(0.5, shares))
    middle = layers.add(ctx, half, ctx.like(2 / (3.14159 * 0.147), shares))
    square = layers.multiply(ctx, middle, middle)
    square = layers.subtract(ctx, square, layers.divide(ctx, log, ctx.like(0.147, shares)))
    found = layers.subtract(ctx, layers.square_root(ctx, square), middle)
    found = layers.square_root(ctx, layers.add(ctx, found, found))
    return layers.multiply(ctx, ctx.emit(elementwise.Sign1(), centred), found)


def of_two_shares(ctx: Context, transform: str) -> None:
    """Refuses the transform that leaves one of two labels without a score, where they share one."""
    if transform == "PROBIT":
        raise ctx.unsupported(
            "post_transform 'PROBIT' of the one score of two labels: onnxruntime does not write the second one"
        )


def greatest(ctx: Context, scores: Output, labels: Sequence[int]) -> Output:
    """For each row of ``[n, c]`` the label of the first greatest score."""
    op = sorting.TopK11(axis=1, mode="max", sort="value", index_element_type=element_types.i64, stable=True)
    best = layers.squeeze(ctx, ctx.emit_all(op, scores, ctx.constant(1))[1], ctx.constant([1]))
    if list(labels) == list(range(len(labels))):
        return best
    return layers.gather(ctx, ctx.constant(list(labels)), best, ctx.constant(0))


def chosen(ctx: Context, condition: Output, labels: Sequence[int]) -> Output:
    """For each row of ``[n, 1]`` the second label where the condition holds, else the first."""
    made = layers.select(ctx, condition, ctx.constant(labels[1]), ctx.constant(labels[0]))
    return layers.squeeze(ctx, made, ctx.constant([1]))


def no_strings(ctx: Context, **values: object) -> None:
    """Refuses attributes that hold strings."""
    for name, value in values.items():
        if value:
            raise ctx.unsupported(f"'{name}' holds strings, with which the IR's layers do not compute")
