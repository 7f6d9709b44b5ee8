"""Places among sorted numbers: how many of them come before each value."""

from __future__ import annotations

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.sorting import Bucketize3, SearchSorted15
from ir_runtime.rewriting.expressions import Expression


def _places(ordered: Expression, values: Expression, *, right: bool) -> Expression:
    values = values.unsqueeze(-1)
    below = ordered <= values if right else ordered < values
    return below.as_type("i64").sum(-1)


@decomposes(SearchSorted15)
def search_sorted(op: SearchSorted15, ordered: Expression, values: Expression) -> Expression:
    """ReduceSum of Less: how many of the sorted numbers come before each value"""
    ordered = ordered.unsqueeze(-2) if ordered.rank > 1 else ordered
    return _places(ordered, values, right=op.right_mode).as_type(op.output_type)


@decomposes(Bucketize3)
def bucketize(op: Bucketize3, values: Expression, boundaries: Expression) -> Expression:
    """ReduceSum of Less: how many boundaries come before each value"""
    if values.element_type is not boundaries.element_type:
        element_type = "f64" if values.element_type.is_real or boundaries.element_type.is_real else "i64"
        values, boundaries = values.as_type(element_type), boundaries.as_type(element_type)
    return _places(boundaries, values, right=not op.with_right_bound).as_type(op.output_type)
