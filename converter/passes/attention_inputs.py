"""Parts shared by passes that match attention: SoftMax of scaled and masked products, and the inputs of the layer."""

from __future__ import annotations

from typing import Union

import numpy as np

from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Node, Output, Tensor
from ir_runtime.operations.activation import SoftMax1, SoftMax8
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.elementwise import Divide1, Multiply1
from ir_runtime.operations.generation import ShapeOf
from ir_runtime.operations.movement import Reshape1, Transpose1
from ir_runtime.rewriting import Builder, Match, NotMatched, Pattern, anything, either, fail, layer, layers

from .idioms import plus, times


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


def untransposed(builder: Builder, value: Output) -> Union[Output, NotMatched]:
    """The value whose last two dimensions ``value`` has in the other order, without a further Transpose.

    A change of the other dimensions may stand behind the Transpose.
    """
    node = value.node
    if isinstance(node.op, Reshape1):
        return _untransposed_before_reshape(builder, value)
    order = node.inputs[1].type.constant if isinstance(node.op, Transpose1) else None
    if order is None:
        return fail(f"layer '{node.name}' is no Transpose of a constant order")
    axes = order.reshape(-1).tolist() or list(range(value.shape.rank))[::-1]
    axes[-2:] = axes[:-3:-1]
    x = node.inputs[0]
    if axes == sorted(axes):
        return x
    if value.only_user is None:
        return fail(f"the transposed keys of '{node.name}' are also read elsewhere")
    return layers.transpose(builder, x, builder.constant(axes))


def _untransposed_before_reshape(builder: Builder, value: Output) -> Union[Output, NotMatched]:
    """As :func:`untransposed`, for a Reshape that keeps the last two dimensions."""
    node = value.node
    assert isinstance(node.op, Reshape1)
    (x, target), dims = node.inputs, symbolic_shapes().dims(value)
    before, shape = symbolic_shapes().dims(x), target.type.constant
    if before is None or dims is None or shape is None or min(len(before), len(dims)) < 2:
        return fail(f"the rank or the shape of '{node.name}' is not known")
    if before[-2:] != dims[-2:]:
        return fail(f"layer '{node.name}' changes the last two dimensions of the keys")
    if value.only_user is None or x.only_user is None:
        return fail(f"the transposed keys of '{node.name}' are also read elsewhere")
    *lead, rows, columns = shape.reshape(-1).tolist()
    taken_over = [axis for axis, size in enumerate([*lead, rows, columns]) if not size and node.op.special_zero]
    if len(before) != len(dims) and taken_over and max(taken_over) >= min(len(before), len(dims)) - 2:
        return fail(f"layer '{node.name}' takes a dimension over from another place")
    turned = untransposed(builder, x)
    if isinstance(turned, NotMatched):
        return turned
    return builder.emit(node.op, turned, builder.constant([*lead, columns, rows], target.element_type))


def scaled_queries(builder: Builder, queries: Output, factor: Output, is_divisor: bool) -> Union[Output, NotMatched]:
    """The queries times a factor for each head or row, which the scores were multiplied by."""
    lead = queries.shape.rank - factor.shape.rank if factor.shape.has_rank else -1
    if lead < 0:
        return fail("the rank of the factor is not known, or greater than that of the queries")
    sizes = factor.shape.dims
    if not sizes[-1].low == sizes[-1].high == 1:
        return fail("the factor differs from key to key")
    for size, own in zip(sizes, queries.shape.dims[lead:]):
        if size.low != size.high or size.value not in (1, own.value if own.low == own.high else 1):
            return fail("the factor may widen the queries")
    return (layers.divide if is_divisor else layers.multiply)(builder, queries, factor)


def joined_masks(builder: Builder, masks: list[Output], rank: int) -> Union[Output, NotMatched, None]:
    """The sum of the masks, of rank 2 at least; None where there is none."""
    wide = []
    for mask in masks:
        if not mask.shape.has_rank or not 0 < mask.shape.rank <= rank:
            return fail("the rank of a mask is not known, 0, or greater than that of the scores")
        wide.append(layers.unsqueeze(builder, mask, 0) if mask.shape.rank == 1 else mask)
    if len(wide) == 2 and not any(_covers(a, b) for a, b in (wide, wide[::-1])):
        return fail("the sum of the masks is larger than each of them")
    return layers.add(builder, *wide) if len(wide) == 2 else wide[0] if wide else None


def _covers(wide: Output, narrow: Output) -> bool:
    """True if a sum has the shape of ``wide``, where dynamic dimensions are equal."""
    lead = wide.shape.rank - narrow.shape.rank
    return lead >= 0 and all(
        size.low == size.high == 1 or size == own for size, own in zip(narrow.shape, wide.shape.dims[lead:])
    )


def attended(
    builder: Builder, match: Match, parts: tuple[Output, Output, Output], scale: Scale
) -> Union[Output, NotMatched]:
    """The attention of queries, keys and values, with scale and masks of the pattern."""
    queries, keys, values = parts
    (rank, *others) = {value.shape.rank if value.shape.has_rank else 0 for value in parts}
    if others or rank < 3:
        return fail("queries, keys and values have not one rank of 3 or more")
    if keys.shape[-2].merge(values.shape[-2]) is None:
        return fail("a mask widens the scores: there are more values than keys")
    mask = joined_masks(builder, [match[name] for name in ("mask", "second mask") if name in match], rank)
    if isinstance(mask, NotMatched):
        return mask
    for name in ("factor", "divisor"):
        if name not in match:
            continue
        if not has_one_element(match[name]):
            scaled = scaled_queries(builder, queries, match[name], name == "divisor")
            if isinstance(scaled, NotMatched):
                return scaled
            queries = scaled
        elif not _is_of_higher_rank(queries, match[name]):
            return fail("the scale has more dimensions than the scores, and so would the result")
        elif not may_be_scale(match[name]):
            return fail("what scales the scores is no constant of ordinary size, and not computed from shapes")
        elif name == "factor":
            scale.multiply(match[name])
        elif not scale.divide(match[name]):
            return fail("it divides by 0")
    inputs = [queries, keys, values, builder.like(0, queries) if mask is None else mask, scale.emit(builder, queries)]
    return builder.emit(ScaledDotProductAttention13(), *inputs)
