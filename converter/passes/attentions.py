"""Fuse attention: SoftMax of scaled and masked products, and products with the values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.analysis.polynomials import Polynomial
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Dimension, Node, Output, Tensor
from ir_runtime.operations.activation import SoftMax1, SoftMax8
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.elementwise import Divide1, Multiply1
from ir_runtime.operations.generation import ShapeOf
from ir_runtime.operations.matmul import Einsum7, Equation, MatMul1
from ir_runtime.operations.movement import Reshape1, Transpose1
from ir_runtime.rewriting import Builder, Match, Pattern, Replacement, anything, either, fail, layer, layers

from .idioms import is_real, plus, times
from .registry import passes


def weights_of(products: Pattern) -> Pattern:
    """The weights of the values: SoftMax along the last axis of products, which are scaled, then masked."""
    scaled = either(products, times(products, anything("factor")), layer(Divide1, products, anything("divisor")))
    once = plus(scaled, anything("mask"))
    masked = either(scaled, once, plus(once, anything("second mask")))
    return layer((SoftMax8, SoftMax1), masked, check=_along_last_axis)


def _along_last_axis(value: Output) -> str | None:
    axis, shape = value.node.op.axis, value.shape  # type: ignore[attr-defined]
    return None if shape.has_rank and axis % shape.rank == shape.rank - 1 else "is not along the last axis"


_ORDINARY = 2.0**20
_MOST_LAYERS_OF_A_SCALE = 32


class Scale:
    """A product of factors and divisors, each of one element: constants are multiplied as doubles."""

    def __init__(self) -> None:
        self._number = 1.0
        self._factors: list[Output] = []
        self._divisors: list[Output] = []

    def multiply(self, factor: Output) -> None:
        """Take one more factor."""
        constant = factor.type.constant
        if constant is None:
            self._factors.append(factor)
        else:
            self._number *= float(constant.reshape(-1)[0])

    def divide(self, divisor: Output) -> bool:
        """Take one more divisor; not if it is 0."""
        constant = divisor.type.constant
        if constant is None:
            self._divisors.append(divisor)
        elif not float(constant.reshape(-1)[0]):
            return False
        else:
            self._number /= float(constant.reshape(-1)[0])
        return True

    def emit(self, builder: Builder, queries: Output) -> Output:
        """The scale as a scalar (or a list of one), of the type of the queries.

        A constant is not shared with other layers: runtimes move it to the layers before, where nothing else reads it.
        """
        product: Output | None = None
        if self._number != 1 or not self._factors:
            element_type = queries.element_type
            product = builder.tensor(Tensor.from_array(np.asarray(self._number, element_type.dtype), element_type))
        for factor in self._factors:
            product = factor if product is None else layers.multiply(builder, product, factor)
        assert product is not None
        for divisor in self._divisors:
            product = layers.divide(builder, product, divisor)
        return product if product.shape.rank < 2 else layers.reshape(builder, product, [])


def has_one_element(value: Output) -> bool:
    """True if the value is one number, whatever dimensions are dynamic."""
    return value.shape.has_rank and all(size.low == size.high == 1 for size in value.shape)


def may_be_scale(value: Output) -> bool:
    """True if a number may scale queries instead of scores: a constant of ordinary size, or computed from shapes.

    Another number may be so large that it makes queries infinite where scores are not, or so small that they become 0.
    """
    constant = value.type.constant
    if constant is not None:
        size = abs(float(constant.reshape(-1)[0]))
        return 1 / _ORDINARY <= size <= _ORDINARY
    pending, seen = [value.node], set[Node]()
    while pending and len(seen) < _MOST_LAYERS_OF_A_SCALE:
        node = pending.pop()
        if isinstance(node.op, ShapeOf) or node.op.data is not None or node in seen:
            continue
        if not node.inputs:
            return False
        seen.add(node)
        pending.extend(source.node for source in node.inputs)
    return not pending


def without_factors(value: Output, scale: Scale) -> Output:
    """Return the operand of products and quotients with scalars; the scalars go to ``scale``.

    A product that more than one layer reads stays: it is computed anyway.
    """
    while isinstance(value.node.op, (Multiply1, Divide1)) and value.only_user is not None:
        x, other = value.node.inputs
        if isinstance(value.node.op, Multiply1) and has_one_element(x):
            x, other = other, x
        if not has_one_element(other) or not _is_of_higher_rank(x, other) or not may_be_scale(other):
            break
        if isinstance(value.node.op, Multiply1):
            scale.multiply(other)
        elif not scale.divide(other):
            break
        value = x
    return value


def _is_of_higher_rank(x: Output, other: Output) -> bool:
    return x.shape.has_rank and x.shape.rank >= other.shape.rank


def untransposed(builder: Builder, value: Output) -> Output:
    """The value whose last two dimensions ``value`` has in the other order, without a further Transpose.

    A change of the other dimensions may stand behind the Transpose.
    """
    node = value.node
    if isinstance(node.op, Reshape1):
        return _untransposed_before_reshape(builder, value)
    order = node.inputs[1].type.constant if isinstance(node.op, Transpose1) else None
    if order is None:
        raise fail(f"layer '{node.name}' is no Transpose of a constant order")
    axes = order.reshape(-1).tolist() or list(range(value.shape.rank))[::-1]
    axes[-2:] = axes[:-3:-1]
    x = node.inputs[0]
    if axes == sorted(axes):
        return x
    if value.only_user is None:
        raise fail(f"the transposed keys of '{node.name}' are also read elsewhere")
    return layers.transpose(builder, x, builder.constant(axes))


def _untransposed_before_reshape(builder: Builder, value: Output) -> Output:
    """As :func:`untransposed`, for a Reshape that keeps the last two dimensions."""
    node = value.node
    assert isinstance(node.op, Reshape1)
    (x, target), dims = node.inputs, symbolic_shapes().dims(value)
    before, shape = symbolic_shapes().dims(x), target.type.constant
    if before is None or dims is None or shape is None or min(len(before), len(dims)) < 2:
        raise fail(f"the rank or the shape of '{node.name}' is not known")
    if before[-2:] != dims[-2:]:
        raise fail(f"layer '{node.name}' changes the last two dimensions of the keys")
    if value.only_user is None or x.only_user is None:
        raise fail(f"the transposed keys of '{node.name}' are also read elsewhere")
    *lead, rows, columns = shape.reshape(-1).tolist()
    taken_over = [axis for axis, size in enumerate([*lead, rows, columns]) if not size and node.op.special_zero]
    if len(before) != len(dims) and taken_over and max(taken_over) >= min(len(before), len(dims)) - 2:
        raise fail(f"layer '{node.name}' takes a dimension over from another place")
    return builder.emit(
        node.op, untransposed(builder, x), builder.constant([*lead, columns, rows], target.element_type)
    )


def scaled_queries(builder: Builder, queries: Output, factor: Output, is_divisor: bool) -> Output:
    """The queries times a factor for each head or row, which the scores were multiplied by."""
    lead = queries.shape.rank - factor.shape.rank if factor.shape.has_rank else -1
    if lead < 0:
        raise fail("the rank of the factor is not known, or greater than that of the queries")
    sizes = factor.shape.dims
    if not sizes[-1].low == sizes[-1].high == 1:
        raise fail("the factor differs from key to key")
    for size, own in zip(sizes, queries.shape.dims[lead:]):
        if size.low != size.high or size.value not in (1, own.value if own.low == own.high else 1):
            raise fail("the factor may widen the queries")
    return (layers.divide if is_divisor else layers.multiply)(builder, queries, factor)


def joined_masks(builder: Builder, masks: list[Output], rank: int) -> Output | None:
    """The sum of the masks, of rank 2 at least; None where there is none."""
    wide = []
    for mask in masks:
        if not mask.shape.has_rank or not 0 < mask.shape.rank <= rank:
            raise fail("the rank of a mask is not known, 0, or greater than that of the scores")
        wide.append(layers.unsqueeze(builder, mask, 0) if mask.shape.rank == 1 else mask)
    if len(wide) == 2 and not any(_covers(a, b) for a, b in (wide, wide[::-1])):
        raise fail("the sum of the masks is larger than each of them")
    return layers.add(builder, *wide) if len(wide) == 2 else wide[0] if wide else None


def _covers(wide: Output, narrow: Output) -> bool:
    """True if a sum has the shape of ``wide``, where dynamic dimensions are equal."""
    lead = wide.shape.rank - narrow.shape.rank
    return lead >= 0 and all(
        size.low == size.high == 1 or size == own for size, own in zip(narrow.shape, wide.shape.dims[lead:])
    )


def attended(builder: Builder, match: Match, parts: tuple[Output, Output, Output], scale: Scale) -> Output:
    """The attention of queries, keys and values, with scale and masks of the pattern."""
    queries, keys, values = parts
    (rank, *others) = {value.shape.rank if value.shape.has_rank else 0 for value in parts}
    if others or rank < 3:
        raise fail("queries, keys and values have not one rank of 3 or more")
    if keys.shape[-2].merge(values.shape[-2]) is None:
        raise fail("a mask widens the scores: there are more values than keys")
    mask = joined_masks(builder, [match[name] for name in ("mask", "second mask") if name in match], rank)
    for name in ("factor", "divisor"):
        if name not in match:
            continue
        if not has_one_element(match[name]):
            queries = scaled_queries(builder, queries, match[name], name == "divisor")
        elif not _is_of_higher_rank(queries, match[name]):
            raise fail("the scale has more dimensions than the scores, and so would the result")
        elif not may_be_scale(match[name]):
            raise fail("what scales the scores is no constant of ordinary size, and not computed from shapes")
        elif name == "factor":
            scale.multiply(match[name])
        elif not scale.divide(match[name]):
            raise fail("it divides by 0")
    inputs = [queries, keys, values, builder.like(0, queries) if mask is None else mask, scale.emit(builder, queries)]
    return builder.emit(ScaledDotProductAttention13(), *inputs)


def _plain_rows(value: Output) -> str | None:
    return "transposes its first input" if value.node.op.transpose_a else None  # type: ignore[attr-defined]


def _plain(value: Output) -> str | None:
    is_turned = value.node.op.transpose_b  # type: ignore[attr-defined]
    return _plain_rows(value) or ("transposes the values" if is_turned else None)


_PRODUCTS = layer(MatMul1, anything("queries", is_real), anything("keys"), name="products", check=_plain_rows)
_ATTENTION = layer(MatMul1, weights_of(_PRODUCTS), anything("values"), check=_plain)


@passes.fuses("attentions", _ATTENTION)
def attention(builder: Builder, node: Node, match: Match) -> Replacement:
    """Fuse the node sequence that exporters emit for attention into ScaledDotProductAttention.

        q -> Multiply(a) -> q'
        k -> Transpose -> Multiply(b) -> k'
        q', k' -> MatMul -> Multiply(c) -> Add(mask) -> SoftMax(-1) -> s
        s, v -> MatMul

    becomes

        q, k, v, mask, a * b * c -> ScaledDotProductAttention

    Each factor may be there or not, as a quotient, too, and computed from shapes. Two masks become one where the sum is
    no larger than the larger of them. A factor for each head stays in front of the queries. The scale is an input even
    where it is the default, which depends on the shape of the queries. Where scores themselves are replaced (by Select,
    for hidden keys) or rows that are NaN, the layer has no equal, and all stays.
    """
    scale = Scale()
    queries, keys = (without_factors(match[name], scale) for name in ("queries", "keys"))
    if not match.node("products").op.transpose_b:  # type: ignore[attr-defined]
        keys = without_factors(untransposed(builder, keys), scale)
    return attended(builder, match, (queries, keys, match["values"]), scale)


_EINSUM = layer(Einsum7, anything("first", is_real), anything("second"), name="products")
_WEIGHTS = weights_of(_EINSUM)
_EINSUM_ATTENTION = either(layer(Einsum7, _WEIGHTS, anything("values")), layer(Einsum7, anything("values"), _WEIGHTS))


@passes.fuses("einsum_attentions", _EINSUM_ATTENTION)
def einsum_attention(builder: Builder, node: Node, match: Match) -> Replacement:
    """Fuse attention that exporters emit with Einsum into ScaledDotProductAttention.

        q, k -> Einsum(btnh,bsnh->bnts) -> Add(mask) -> SoftMax(-1) -> s
        s, v -> Einsum(bnts,bsnh->btnh)

    becomes

        q, k, v -> Transpose each -> ScaledDotProductAttention(mask, 1) -> Transpose

    Keras and torchvision write this, in these and other orders of the dimensions. Scale and masks are those of
    :mod:`~.attentions`.
    """
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
            return _transpose(builder, attended(builder, match, (parts[0], parts[1], parts[2]), scale), orders[3])
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
