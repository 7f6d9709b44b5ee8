"""Attention that an exporter spelled out, as ScaledDotProductAttention.

    q -> Multiply(a) -> q'
    k -> Transpose -> Multiply(b) -> k'
    q', k' -> MatMul -> Multiply(c) -> Add(mask) -> SoftMax(-1) -> s
    s, v -> MatMul

becomes

    q, k, v, mask, a * b * c -> ScaledDotProductAttention

Each factor may be there or not, as a quotient, too, and computed at run time. Two masks become one where the sum is no
larger than the larger of them. A factor for each head stays in front of the queries. The scale is an input even where
it is the default, which depends on the shape of the queries. Where scores themselves are replaced (by Select, for
hidden keys) or rows that are NaN, the layer has no equal, and all stays.
"""

from __future__ import annotations

from ir_runtime.graph.model import Node, Output
from ir_runtime.operations.activation import SoftMax1, SoftMax8
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.elementwise import Divide1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import Match, NotMatched, Pattern, anything, either, fail, layer
from ir_runtime.rewriting.replace_layers import Replacement
from ir_runtime.rewriting.uses import Uses

from .attention_inputs import (
    Scale,
    has_one_element,
    joined_masks,
    scaled_queries,
    untransposed,
    without_factors,
)
from .idioms import is_real, of_same_shape, plus, times
from .registry import passes


def _along_last_axis(value: Output) -> str | None:
    axis, shape = value.node.op.axis, value.shape  # type: ignore[attr-defined]
    return None if shape.has_rank and axis % shape.rank == shape.rank - 1 else "is not along the last axis"


def _plain_rows(value: Output) -> str | None:
    return "transposes its first input" if value.node.op.transpose_a else None  # type: ignore[attr-defined]


def _plain(value: Output) -> str | None:
    return _plain_rows(value) or (
        "transposes the values" if value.node.op.transpose_b else None  # type: ignore[attr-defined]
    )


def _pattern() -> Pattern:
    products = layer(MatMul1, anything("queries", is_real), anything("keys"), name="products", check=_plain_rows)
    scaled = either(
        products,
        times(products, anything("factor")),
        layer(Divide1, products, anything("divisor")),
    )
    masked = either(
        scaled, plus(scaled, anything("mask")), plus(plus(scaled, anything("mask")), anything("second mask"))
    )
    weights = layer((SoftMax8, SoftMax1), masked, name="weights", check=_along_last_axis)
    return layer(MatMul1, weights, anything("values"), check=_plain)


_PATTERN = _pattern()


@passes.replaces("attentions", MatMul1, after=["equal_layers", "transposes_in_a_row"], fuses=True)
def attention(builder: Builder, node: Node, uses: Uses) -> Replacement:
    """Put ScaledDotProductAttention in the place of the second product."""
    if not isinstance(node.inputs[0].node.op, (SoftMax1, SoftMax8)):
        return fail("input 0 is not made by SoftMax")
    found = _PATTERN.match(node.outputs[0])
    if isinstance(found, NotMatched):
        return found
    return found.check_private(uses) or _replacement(builder, node, found, uses)


def _replacement(builder: Builder, node: Node, found: Match, uses: Uses) -> Replacement:
    queries, values = found["queries"], found["values"]
    ranks = {value.shape.rank if value.shape.has_rank else 0 for value in (queries, found["keys"], values)}
    (rank, *others) = ranks
    if others or rank < 3:
        return fail("queries, keys and values have not one rank of 3 or more")
    scale = Scale()
    for name in ("factor", "divisor"):
        if name not in found:
            continue
        if not has_one_element(found[name]):
            scaled = scaled_queries(builder, queries, found[name], name == "divisor")
            if isinstance(scaled, NotMatched):
                return scaled
            queries = scaled
        elif name == "factor":
            scale.multiply(found[name])
        elif not scale.divide(found[name]):
            return fail("it divides by 0")
    if queries is found["queries"]:
        queries = without_factors(queries, scale, uses)
    keys = without_factors(found["keys"], scale, uses)
    if not found.node("products").op.transpose_b:  # type: ignore[attr-defined]
        turned = untransposed(builder, keys, uses)
        if isinstance(turned, NotMatched):
            return turned
        keys = without_factors(turned, scale, uses)
    mask = joined_masks(builder, [found[name] for name in ("mask", "second mask") if name in found], rank)
    if isinstance(mask, NotMatched):
        return mask
    inputs = [queries, keys, values, builder.like(0, queries) if mask is None else mask, scale.emit(builder, queries)]
    return of_same_shape(builder.emit(ScaledDotProductAttention13(), *inputs), node)
