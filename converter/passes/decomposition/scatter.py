"""Updates that are combined with what they replace, in a Loop of plain updates."""

from __future__ import annotations

import numpy as np

from converter.passes.decomposition.registry import decomposes
from ir_runtime.graph import ElementType
from ir_runtime.operations import scatter as ir
from ir_runtime.rewriting.expressions import Expression, NotExpressible, loop

_COMBINED = {
    "sum": Expression.__add__,
    "prod": Expression.__mul__,
    "min": Expression.minimum,
    "max": Expression.maximum,
}
_OF_BOOLEANS = {"sum": "max", "prod": "min"}


@decomposes(ir.ScatterElementsUpdate12)
def scatter_elements(
    op: ir.ScatterElementsUpdate12, x: Expression, indices: Expression, updates: Expression, axis: Expression
) -> Expression:
    """A Loop along the axis, whose steps update different elements; means as sums divided by numbers of updates"""
    constant, reduction, element_type = axis.elements(), op.reduction, x.element_type
    if constant is None:
        raise NotExpressible("the axis must be known")
    if reduction == "none":
        return x.emit(ir.ScatterElementsUpdate3(), indices, updates, axis)
    at = constant[0] % x.rank
    if element_type.name == "boolean":
        plain = op.with_attributes(reduction=_OF_BOOLEANS.get(reduction, reduction))
        return x.as_type("i32").emit(plain, indices, updates.as_type("i32"), axis).as_type(element_type)
    if not op.use_init_val:
        neutral = x.of(_neutral(reduction, element_type)).broadcast(*indices.sizes())
        x = x.scatter(indices, neutral, at)
    if reduction == "mean":
        ones = x.of(1).broadcast(*indices.sizes())
        counts = x.of(0).broadcast(*x.sizes()).scatter(indices, ones, at, "sum")
        total = x.scatter(indices, updates, at, "sum")
        return total / (counts + 1 if op.use_init_val else counts.maximum(1))
    if not op.use_init_val:
        return x.scatter(indices, updates, at, reduction)

    pairs = enumerate(zip(x.value.shape, indices.value.shape))
    narrower = [other for other, (size, least) in pairs if other != at and not (size.is_static and size == least)]

    def step(number: Expression, state: Expression) -> list[Expression]:
        places, change = (value.gather(number.reshape(1), at) for value in (indices, updates))
        present = state
        for other in narrower:  # indices may be fewer than elements beside the axis
            present = present.cut(other, 0, indices.size(other))
        combined = _COMBINED[reduction](present.gather_elements(places, at), change)
        return [state.emit(ir.ScatterElementsUpdate3(), places, combined, axis)]

    return loop(indices.size(at), [x], step)[0]


def _neutral(reduction: str, element_type: ElementType) -> float:
    """The value from which a reduction starts."""
    if reduction in ("sum", "mean", "prod"):
        return int(reduction == "prod")
    if element_type.is_real:
        return np.inf if reduction == "min" else -np.inf
    return element_type.limits[1 if reduction == "min" else 0]


@decomposes(ir.ScatterNDUpdate15)
def scatter_nd(op: ir.ScatterNDUpdate15, x: Expression, places: Expression, updates: Expression) -> Expression:
    """A Loop over the places; differences as sums of negated updates"""
    reduction, element_type, size = op.reduction, x.element_type, places.value.shape[-1]
    if reduction == "none":
        return x.scatter_nd(places, updates)
    if element_type.name == "boolean":
        plain = op.with_attributes(reduction=_OF_BOOLEANS.get(reduction, reduction))
        return x.as_type("i32").emit(plain, places, updates.as_type("i32")).as_type(element_type)
    if reduction == "sub":
        return x.emit(op.with_attributes(reduction="sum"), places, 0 - updates)
    if not size.is_static:
        raise NotExpressible("the number of coordinates must be known")
    rows = places.as_type("i64").reshape(-1, size.value)
    changes = updates.reshape(rows.size(0), *x.sizes()[size.value :])

    def step(number: Expression, state: Expression) -> list[Expression]:
        place, change = (value.gather(number.reshape(1)) for value in (rows, changes))
        return [state.scatter_nd(place, _COMBINED[reduction](state.gather_nd(place), change))]

    return loop(rows.size(0), [x], step)[0]
