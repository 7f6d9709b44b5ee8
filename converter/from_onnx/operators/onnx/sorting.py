"""ONNX's TopK and Unique."""

from __future__ import annotations

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import Output, element_types, normalize_axis
from ir_runtime.operations import sorting
from ir_runtime.rewriting.shape_layers import as_i64


@onnx_op("TopK", versions=(1,))
def top_k_1(ctx: Context, data: Output, *, k: int, axis: int = -1) -> list[Output]:
    """The ``k`` greatest elements along ``axis`` in descending order, and their indices."""
    return _top_k(ctx, data, ctx.constant(k), axis, largest=True)


@onnx_op("TopK", versions=(10,), without=("largest", "sorted"))
@onnx_op("TopK", versions=(11, 24))
def top_k(ctx: Context, data: Output, k: Output, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> list[Output]:
    """As before, with k from an input; without ``largest`` the least elements in ascending order.

    Without ``sorted`` any order will do.
    """
    return _top_k(ctx, data, k, axis, bool(largest))


def _top_k(ctx: Context, data: Output, k: Output, axis: int, largest: bool) -> list[Output]:
    at = normalize_axis(axis, ctx.rank(data, "the data"))
    count = as_i64(ctx, as_scalar(ctx, k, "k"))
    mode = "max" if largest else "min"
    op = sorting.TopK11(axis=at, mode=mode, sort="value", index_element_type=element_types.i64, stable=True)
    return ctx.emit_all(op, data, count)


@onnx_op("Unique", versions=(11, 28))
def unique(ctx: Context, data: Output, *, axis: int | None = None, sorted: int = 1) -> list[Output]:
    """The different elements, or slices along ``axis``, in ascending order or as they came.

    Also the place where each stands first, which of them each element is, and how often each occurs.
    """
    op = sorting.Unique10(
        sorted=bool(sorted), index_element_type=element_types.i64, count_element_type=element_types.i64
    )
    if axis is None:
        return ctx.emit_all(op, data)
    return ctx.emit_all(op, data, ctx.constant(normalize_axis(axis, ctx.rank(data, "the data"))))
