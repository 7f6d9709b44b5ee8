"""Fuse attention that exporters emit with Einsum into ScaledDotProductAttention.

    q, k -> Einsum(btnh,bsnh->bnts) -> Add(mask) -> SoftMax(-1) -> s
    s, v -> Einsum(bnts,bsnh->btnh)

becomes

    q, k, v -> Transpose each -> ScaledDotProductAttention(mask, 1) -> Transpose

Keras and torchvision write this, in these and other orders of the dimensions. Scale and masks are those of
:mod:`~.attentions`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ir_runtime.analysis.polynomials import Polynomial
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Dimension, Node, Output
from ir_runtime.operations.activation import SoftMax
from ir_runtime.operations.matmul import Einsum7, Equation
from ir_runtime.rewriting import Builder, NotMatched, Replacement, anything, either, fail, layer, layers

from .attention_inputs import Scale, attended, weights_of, without_factors
from .idioms import is_real
from .registry import passes

_PRODUCTS = layer(Einsum7, anything("first", is_real), anything("second"), name="products")
_WEIGHTS = weights_of(_PRODUCTS)
_PATTERN = either(layer(Einsum7, _WEIGHTS, anything("values")), layer(Einsum7, anything("values"), _WEIGHTS))


@passes.replaces("einsum_attentions")
def einsum_attention(builder: Builder, node: Node) -> Replacement:
    """Replace the second Einsum by ScaledDotProductAttention."""
    if not any(isinstance(source.node.op, SoftMax) for source in node.inputs):
        return fail("no input is made by SoftMax")
    match = _PATTERN.match(node.outputs[0])
    if isinstance(match, NotMatched):
        return match
    why = match.check_private()
    if why is not None:
        return why
    scores, output = _terms(match.node("products")), _terms(node)
    if node.inputs[0] is match["values"]:
        output = [output[1], output[0], output[2]]
    for queries, keys, names in (
        (scores[0], scores[1], ("first", "second")),
        (scores[1], scores[0], ("second", "first")),
    ):
        orders = _orders(queries, keys, scores[2], output)
        if orders is not None:
            if not _agree(match.node("products"), node):
                return fail("dimensions of a letter may differ: an Einsum repeats one of 1")
            scale = Scale()
            q, k = (without_factors(match[name], scale) for name in names)
            parts = [_transpose(builder, part, order) for part, order in zip((q, k, match["values"]), orders)]
            product = attended(builder, match, (parts[0], parts[1], parts[2]), scale)
            return product if isinstance(product, NotMatched) else _transpose(builder, product, orders[3])
    return fail("the equations are not those of attention")


def _agree(*nodes: Node) -> bool:
    """True if no Einsum repeats a dimension of 1.

    ScaledDotProductAttention repeats batches as an Einsum does, but no dimension that is summed over: one that is
    dynamic in the file has to be the same in both inputs. Dimensions that the file declares are compared when the
    inputs get their declared shapes.
    """
    for node in nodes:
        *terms, output = _terms(node)
        seen: dict[str, tuple[Dimension, Polynomial | None]] = {}
        for letters, source in zip(terms, node.inputs):
            sizes: Sequence[Polynomial | None] = symbolic_shapes().dims(source) or [None] * len(letters)
            for letter, dimension, size in zip(letters, source.shape if source.shape.has_rank else (), sizes):
                other, other_size = seen.setdefault(letter, (dimension, size))
                if other.is_static and dimension.is_static and other.value != dimension.value:
                    return False
                is_dynamic = not (other.low and dimension.low)
                if letter not in output and is_dynamic and (size is None or size != other_size):
                    return False
    return True


def _terms(node: Node) -> list[str]:
    """The letters of the two inputs and of the output."""
    assert isinstance(node.op, Einsum7)
    equation = Equation.parse(node.op.equation)
    return [*equation.operands, equation.output]


def _orders(queries: str, keys: str, scores: str, output: Sequence[str]) -> list[list[int]] | None:
    """Return the orders of queries, keys, values and the output; None where the equations are others."""
    weights, values, result = output
    batch, row, column = scores[:-2], scores[-2:-1], scores[-1:]
    depth = "".join(sorted(set(queries) & set(keys) - set(scores)))
    lead, query, key = weights[:-2], weights[-2:-1], weights[-1:]
    width = "".join(sorted(set(values) - set(weights)))
    expected_orders = [batch + row + depth, batch + column + depth, lead + key + width, result]
    actual_orders = [queries, keys, values, lead + query + width]
    for letters, actual in zip([scores, weights, *expected_orders], [scores, weights, *actual_orders]):
        if sorted(letters) != sorted(actual) or len(set(letters)) != len(scores) or "." in letters:
            return None
    return [
        [letters_in_order.index(letter) for letter in letters]
        for letters, letters_in_order in zip(expected_orders, actual_orders)
    ]


def _transpose(builder: Builder, value: Output, order: list[int]) -> Output:
    is_kept = order == sorted(order)
    return value if is_kept else layers.transpose(builder, value, builder.constant(order))
