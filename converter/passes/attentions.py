"""Fuse the node sequence that exporters emit for attention into ScaledDotProductAttention.

    q -> Multiply(a) -> q'
    k -> Transpose -> Multiply(b) -> k'
    q', k' -> MatMul -> Multiply(c) -> Add(mask) -> SoftMax(-1) -> s
    s, v -> MatMul

becomes

    q, k, v, mask, a * b * c -> ScaledDotProductAttention

Each factor may be there or not, as a quotient, too, and computed from shapes. Two masks become one where the sum is no
larger than the larger of them. A factor for each head stays in front of the queries. The scale is an input even where
it is the default, which depends on the shape of the queries. Where scores themselves are replaced (by Select, for
hidden keys) or rows that are NaN, the layer has no equal, and all stays.
"""

from __future__ import annotations

from ir_runtime.graph import Node, Output
from ir_runtime.operations.activation import SoftMax
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.rewriting import Builder, NotMatched, Replacement, anything, fail, layer

from .attention_inputs import Scale, attended, untransposed, weights_of, without_factors
from .idioms import is_real
from .registry import passes


def _plain_rows(value: Output) -> str | None:
    return "transposes its first input" if value.node.op.transpose_a else None  # type: ignore[attr-defined]


def _plain(value: Output) -> str | None:
    is_turned = value.node.op.transpose_b  # type: ignore[attr-defined]
    return _plain_rows(value) or ("transposes the values" if is_turned else None)


_PRODUCTS = layer(MatMul1, anything("queries", is_real), anything("keys"), name="products", check=_plain_rows)
_PATTERN = layer(MatMul1, weights_of(_PRODUCTS), anything("values"), check=_plain)


@passes.replaces("attentions")
def attention(builder: Builder, node: Node) -> Replacement:
    """Replace the second product by ScaledDotProductAttention."""
    if not isinstance(node.inputs[0].node.op, SoftMax):
        return fail("input 0 is not made by SoftMax")
    match = _PATTERN.match(node.outputs[0])
    if isinstance(match, NotMatched):
        return match
    why = match.check_private()
    if why is not None:
        return why
    scale = Scale()
    queries, keys = (without_factors(match[name], scale) for name in ("queries", "keys"))
    if not match.node("products").op.transpose_b:  # type: ignore[attr-defined]
        turned = untransposed(builder, keys)
        if isinstance(turned, NotMatched):
            return turned
        keys = without_factors(turned, scale)
    return attended(builder, match, (queries, keys, match["values"]), scale)
