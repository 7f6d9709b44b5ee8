"""ONNX's reductions: ReduceMean, ReduceSum, ReduceL1 and the rest of the family, ArgMax, ArgMin.

A reduction whose axes are computed at run time keeps the reduced dimensions; a Reshape to a shape of known length then
drops them. So the rank of the result is known where the number of axes is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from converter.from_onnx.lowering.shapes import drop_dimensions, each_axis_once, given_list, of_declared_length
from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import ElementType, Output, PartialShape, element_types, normalize_axes, normalize_axis
from ir_runtime.operations import elementwise, indexing, movement, reduction, sorting
from ir_runtime.records import record
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import cut, in_type
from ir_runtime.rewriting.shape_layers import arange, axes_mask, dim_of, element_count, of_length, rank_of, shape_of


@record
class Axes:
    """Dimensions to reduce, and the option to keep them."""

    output: Output
    keep: bool
    values: tuple[int, ...] | None
    """Counted from the front, where they are known."""


Body = Callable[[Context, Output, Axes], Output]
"""Emits the reduction of ``data`` over ``axes``."""


def _apply(ctx: Context, cls: type[reduction.Reduction], data: Output, axes: Axes) -> Output:
    return ctx.emit(cls(keep_dims=axes.keep), data, axes.output)


def _wide(element_type: ElementType) -> ElementType:
    """The float type in which sums and logarithms of ``element_type`` neither overflow nor round early."""
    if element_type.is_integral:
        return element_types.f64
    return element_type if element_type.bits >= 32 else element_types.f32


# --- the members of the family ---


def _reduced_by(cls: type[reduction.Reduction]) -> Body:
    def body(ctx: Context, data: Output, axes: Axes) -> Output:
        return _apply(ctx, cls, data, axes)

    return body


def _is_empty(shape: PartialShape, axes: Axes) -> bool:
    """True if a reduced dimension is 0, so that there are no elements to reduce."""
    if not shape.has_rank:
        return False
    return any(dimension.high == 0 for i, dimension in enumerate(shape) if axes.values is None or i in axes.values)


def _absolute(ctx: Context, data: Output) -> Output:
    return layers.absolute(ctx, data) if data.element_type.is_signed else data


def _l2(ctx: Context, data: Output, axes: Axes) -> Output:
    values = in_type(ctx, data, _wide(data.element_type)) if data.element_type.is_integral else data
    return in_type(ctx, _apply(ctx, reduction.ReduceL2_4, values, axes), data.element_type)


def _sum_square(ctx: Context, data: Output, axes: Axes) -> Output:
    values = in_type(ctx, data, _wide(data.element_type)) if data.element_type.is_real else data
    squares = layers.multiply(ctx, values, values)
    return in_type(ctx, _apply(ctx, reduction.ReduceSum1, squares, axes), data.element_type)


def _log_sum(ctx: Context, data: Output, axes: Axes) -> Output:
    values = in_type(ctx, data, _wide(data.element_type))
    total = _apply(ctx, reduction.ReduceSum1, values, axes)
    return in_type(ctx, ctx.emit(elementwise.Log1(), total), data.element_type)


def _log_sum_exp(ctx: Context, data: Output, axes: Axes) -> Output:
    """log(sum(exp(x - m))) + m with the maximum m, so that nothing overflows; m = 0 where infinite."""
    values = in_type(ctx, data, _wide(data.element_type))
    axes_kept = Axes(axes.output, True, axes.values)
    greatest = _apply(ctx, reduction.ReduceMax1, values, axes_kept)
    infinite = ctx.emit(elementwise.IsInf10(), greatest)
    shift = layers.select(ctx, infinite, ctx.like(0, values), greatest)
    powers = layers.exponential(ctx, layers.subtract(ctx, values, shift))
    logs = ctx.emit(elementwise.Log1(), _apply(ctx, reduction.ReduceSum1, powers, axes_kept))
    result = layers.add(ctx, logs, shift)
    if not axes.keep:
        # Every reduced dimension has length 1 now, so any reduction drops it and changes no value.
        result = _apply(ctx, reduction.ReduceMax1, result, axes)
    return in_type(ctx, result, data.element_type)


def _extreme(cls: type[reduction.Reduction], logical: type[reduction.Reduction]) -> Body:
    def body(ctx: Context, data: Output, axes: Axes) -> Output:
        return _apply(ctx, logical if data.element_type is element_types.boolean else cls, data, axes)

    return body


# --- what an operator does to each element where there are no axes (noop_with_empty_axes) ---


def _log(ctx: Context, data: Output) -> Output:
    values = in_type(ctx, data, _wide(data.element_type))
    return in_type(ctx, ctx.emit(elementwise.Log1(), values), data.element_type)


# --- axes, and what all members share ---


def _all_axes(ctx: Context, data: Output) -> Output:
    if data.shape.has_rank:
        return ctx.constant(np.arange(data.shape.rank))
    return arange(ctx, rank_of(ctx, data))


def _identity_value(name: str, element_type: ElementType) -> object:
    """The result of reducing no elements."""
    if element_type is element_types.boolean:
        return name == "ReduceMin"
    lowest, highest, nothing = -np.inf, np.inf, np.nan
    if not element_type.is_real:
        info = np.iinfo(element_type.dtype)
        lowest, highest, nothing = info.min, info.max, 0
    return {
        "ReduceMean": nothing,
        "ReduceProd": 1,
        "ReduceMax": lowest,
        "ReduceMin": highest,
        "ReduceLogSum": lowest,
        "ReduceLogSumExp": lowest,
    }.get(name, 0)


@record
class _Member:
    """One operator of the family: how it reduces, and what it does where nothing is reduced."""

    name: str
    body: Body
    unreduced: Callable[[Context, Output], Output] = lambda ctx, data: data

    def reduce(self, ctx: Context, data: Output, axes: Output | None, keep: bool, noop: bool) -> Output:
        if axes is None or axes.shape.element_count().high == 0:
            if noop:
                return self.unreduced(ctx, data)
            axes = _all_axes(ctx, data)
        axes = each_axis_once(ctx, given_list(ctx, axes, "axes"), data)
        constant = axes.type.constant
        if constant is None and data.shape.has_rank:
            if ctx.declared(axes).shape.element_count().high == 0:
                return self._declared_to_be_empty(ctx, data, in_type(ctx, axes, element_types.i64), keep, noop)
            if not keep or axes.shape.element_count().low == 0:
                axes = of_declared_length(ctx, axes)
        if constant is None:
            return self._at_execution(ctx, data, axes, keep, noop)
        if not data.shape.has_rank:
            return self.body(ctx, data, Axes(axes, keep, None))
        front = tuple(sorted(normalize_axes(constant.reshape(-1).tolist(), data.shape.rank)))
        if not front:
            return self.unreduced(ctx, data)
        plain = constant.shape == (len(front),) and tuple(constant.tolist()) == front
        reduced = Axes(axes if plain else ctx.constant(front), keep, front)
        return self._reduce(ctx, data, reduced)

    def _reduce(self, ctx: Context, data: Output, axes: Axes) -> Output:
        """The body; where there are no elements to reduce ONNX's value, since engines give different ones."""
        value = ctx.like(_identity_value(self.name, data.element_type), data)
        if _is_empty(data.shape, axes):
            shaped = _apply(ctx, reduction.ReduceSum1, in_type(ctx, data, element_types.i32), axes)
            return ctx.emit(movement.Broadcast3(mode="numpy"), value, shape_of(ctx, shaped))
        result = self.body(ctx, data, axes)
        if not _is_empty(ctx.declared(data).shape, axes):
            return result
        nothing = layers.equal(ctx, element_count(ctx, data, axes.output), ctx.constant(0))
        return layers.select(ctx, nothing, value, result)

    def _declared_to_be_empty(self, ctx: Context, data: Output, axes: Output, keep: bool, noop: bool) -> Output:
        """For a list of axes that is declared as empty: all dimensions, or none; the layers refuse a list with axes."""
        every = tuple(range(data.shape.rank))

        def of_known_length(values: Output) -> Output:
            longer = ctx.emit(movement.Concat1(axis=0), axes, values)
            return of_length(ctx, longer, len(every))

        if noop:
            shape = of_known_length(shape_of(ctx, data))
            return self.unreduced(ctx, ctx.emit(movement.Reshape1(special_zero=False), data, shape))
        reduced = self._reduce(ctx, data, Axes(of_known_length(ctx.constant(every)), True, every))
        return reduced if keep else ctx.emit(movement.Reshape1(special_zero=False), reduced, ctx.constant([]))

    def _at_execution(self, ctx: Context, data: Output, axes: Output, keep: bool, noop: bool) -> Output:
        """For axes that are computed at run time; their number may be known."""
        axes = in_type(ctx, axes, element_types.i64)
        number = axes.shape.element_count()
        if number.low == 0 and not noop:
            axes = _all_if_none(ctx, data, axes)
        reduced = self._reduce(ctx, data, Axes(axes, True, None))
        return reduced if keep else drop_dimensions(ctx, reduced, axes)


def _all_if_none(ctx: Context, data: Output, axes: Output) -> Output:
    """``axes``, or every dimension where there are none at run time."""
    member = axes_mask(ctx, rank_of(ctx, data), axes)
    some = ctx.emit(reduction.ReduceMax1(keep_dims=True), member, ctx.constant([0]))
    chosen = ctx.emit(elementwise.Select1(), layers.equal(ctx, some, ctx.constant([0])), ctx.constant([1]), member)
    chosen_indices = ctx.emit(indexing.NonZero3(output_type=element_types.i64), chosen)
    return layers.squeeze(ctx, chosen_indices, ctx.constant([0]))


_FIRST = (1, 11, 13)
_NARROW = ("int8", "int16", "uint8", "uint16")
"""Integers that the schemas leave out, although they have wider ones."""


def _register(member: _Member, by_attribute: Sequence[int], by_input: Sequence[int]) -> None:
    def with_attribute(ctx: Context, data: Output, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Output:
        axes_input = None if axes is None else ctx.constant(axes)
        return member.reduce(ctx, data, axes_input, bool(keepdims), noop=False)

    def with_input(
        ctx: Context,
        data: Output,
        axes: Output | None = None,
        *,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Output:
        return member.reduce(ctx, data, axes, bool(keepdims), bool(noop_with_empty_axes))

    onnx_op(member.name, versions=by_attribute, also=_NARROW)(with_attribute)
    onnx_op(member.name, versions=by_input, also=_NARROW)(with_input)


_register(_Member("ReduceMean", _reduced_by(reduction.ReduceMean1)), _FIRST, (18,))
_register(_Member("ReduceSum", _reduced_by(reduction.ReduceSum1)), (1, 11), (13,))
_register(_Member("ReduceProd", _reduced_by(reduction.ReduceProd1)), _FIRST, (18,))
_register(_Member("ReduceL1", _reduced_by(reduction.ReduceL1_4), _absolute), _FIRST, (18,))
_register(_Member("ReduceL2", _l2, _absolute), _FIRST, (18,))
_register(_Member("ReduceSumSquare", _sum_square, lambda ctx, data: layers.multiply(ctx, data, data)), _FIRST, (18,))
_register(_Member("ReduceLogSum", _log_sum, _log), _FIRST, (18, 28))
_register(_Member("ReduceLogSumExp", _log_sum_exp), _FIRST, (18, 28))
_register(_Member("ReduceMax", _extreme(reduction.ReduceMax1, reduction.ReduceLogicalOr1)), (1, 11, 12, 13), (18, 20))
_register(_Member("ReduceMin", _extreme(reduction.ReduceMin1, reduction.ReduceLogicalAnd1)), (1, 11, 12, 13), (18, 20))


def _arg_extreme(name: str, mode: str) -> None:
    def translate(
        ctx: Context, data: Output, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Output:
        """The index of the extreme along ``axis``; of equal ones the first, or the last."""
        rank = ctx.rank(data, "the data")
        at = normalize_axis(axis, rank)
        source = cut(ctx, data, -1, np.iinfo(np.int64).min, at, -1) if select_last_index else data
        op = sorting.TopK11(axis=at, mode=mode, sort="value", index_element_type=element_types.i64, stable=True)
        indices = ctx.emit_all(op, source, ctx.constant(1))[1]
        if select_last_index:
            last = layers.subtract(ctx, dim_of(ctx, data, at), ctx.constant(1))
            indices = layers.subtract(ctx, last, indices)
        return indices if keepdims else layers.squeeze(ctx, indices, ctx.constant([at]))

    onnx_op(name, versions=(1, 11), without=("select_last_index",))(translate)
    onnx_op(name, versions=(12, 13))(translate)


_arg_extreme("ArgMax", "max")
_arg_extreme("ArgMin", "min")
