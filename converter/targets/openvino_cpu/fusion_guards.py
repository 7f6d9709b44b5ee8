"""Rules that keep layers apart which the plug-in would fuse wrongly, or remove."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import INFINITY, Array, Node, Output, PartialShape, element_types
from ir_runtime.graph.element_types import finfo
from ir_runtime.operations import elementwise
from ir_runtime.operations.activation import Clamp1, PReLU1, ReLU1, Sigmoid1, SoftMax
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.interpolate import Interpolate11
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Concat1, Reshape1, Transpose1, Unsqueeze1
from ir_runtime.operations.normalization import BatchNormInference1, BatchNormInference5
from ir_runtime.operations.padding import Pad
from ir_runtime.operations.pooling import AvgPool
from ir_runtime.operations.quantization import FakeQuantize1
from ir_runtime.operations.reduction import Reduction
from ir_runtime.rewriting import Builder, NotMatched, Replacement, UniqueNames, fail
from ir_runtime.rewriting.caches import variable_behind

from .intervals import is_small
from .opaque_identity import opaque_identity, prevent_fusion

_OF_CHANNELS = (BatchNormInference1, BatchNormInference5)
"""Operations with a constant for each channel, which never broadcast their data."""
_BY_CHANNEL = (PReLU1, *_OF_CHANNELS)
"""Operations whose constants lie along dimension 1, whatever their shapes."""
_FUSED = (elementwise.Binary, elementwise.Unary, Clamp1, FakeQuantize1, *_BY_CHANNEL)


_LIMITS = (elementwise.Maximum1, elementwise.Minimum1)
_PADDED = (Convolution1, GroupConvolution1, AvgPool)


@openvino_cpu.edits("fusion_guards", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def fusion_guards(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Prevent wrong fusions; names and values stay.

    The plug-in fuses elementwise layers with constants into the layer before them. That is wrong in these cases:

    - constants of several values after reductions, products and resized channels: values of other rows are read, or
      memory past the end, or the model does not compile;
    - arithmetic after reductions and products of integers, which is then computed in floats;
    - quotients of float64 after reductions of dimension 1 of three, all but the first of which become 0;
    - a Reshape or a Transpose next to a reduction, which is taken for another one and removed or moved;
    - a Pad before a convolution or an average whose pads follow from its dimensions, which are those before the Pad
      then;
    - a Reshape and a Transpose as those of shuffled channels, with a dimension that the Reshape computes: the model
      does not compile;
    - a Maximum and a Minimum of integers with bounds that float32 does not hold, of which it makes a Clamp.

        ReduceMean -> Add(constants)      becomes      ReduceMean -> Maximum(a, a) -> Add(constants)

    Maximum of a value and itself changes nothing, and prevents the fusion.
    """
    wrong = [reader for reader in node.outputs[0].uses if _goes_wrong(node, reader)]
    if wrong:
        prevent_fusion(node.outputs[0], wrong, unique)
    pulled = _is_pulled_through(node)
    if pulled:
        prevent_fusion(node.inputs[0], [node], unique)
    return bool(wrong) + pulled or fail("no layer before or after it is fused wrongly")


def _is_pulled_through(node: Node) -> bool:
    """True if the plug-in would move a change of the shape after the reduction, with its 1 in another place."""
    before = node.inputs[0].node
    if not isinstance(node.op, Reduction) or not node.inputs[0].shape.has_rank or not before.inputs:
        return False
    if node.op.keep_dims:
        return isinstance(before.op, Unsqueeze1)
    axes = node.inputs[1].type.constant
    rank = node.inputs[0].shape.rank
    reduced = () if axes is None else [int(axis) % rank for axis in axes.reshape(-1)]
    return _moves_only_ones(before) or _moves_only_ones(before, reduced)


def _moves_only_ones(node: Node, reduced: Collection[int] = ()) -> bool:
    """True if a Reshape could do the same as this Transpose, but for the dimensions ``reduced`` after it."""
    order = node.inputs[1].type.constant if isinstance(node.op, Transpose1) else None
    shape = node.inputs[0].shape if node.inputs else PartialShape.dynamic()
    if order is None or not shape.has_rank:
        return False
    left = [int(axis) for place, axis in enumerate(order) if place not in reduced]
    others = [axis for axis in left if not shape[axis].contains(1)]
    return others == sorted(others) and len(others) < len(left)


def _goes_wrong(node: Node, reader: Node) -> bool:
    if isinstance(node.op, _LIMITS):
        return isinstance(reader.op, _LIMITS) and _have_rounded_bounds(node, reader)
    if isinstance(node.op, Pad):
        return isinstance(reader.op, _PADDED) and reader.op.auto_pad.startswith("same")
    if isinstance(node.op, Reshape1):
        return _is_taken_for_shuffle(node, reader)
    after = list(_fused_layers(reader))
    if isinstance(node.op, Interpolate11):
        rank = node.outputs[0].shape.rank if node.outputs[0].shape.has_rank else 0
        return _resizes_channels(node) and any(_varies(follower, rank - 1) for follower in after)
    in_integers = node.outputs[0].element_type.is_integral and not isinstance(reader.op, elementwise.Bitwise)
    if in_integers and not all(is_small(follower.outputs[0]) for follower in after):
        return True
    shape = node.outputs[0].shape
    # A dynamic dimension may be 1, and then constants of several values broadcast it.
    unknown = [shape.rank - axis for axis in range(shape.rank) if not shape[axis].is_static] if shape.has_rank else []
    widening = [follower for follower in after if not isinstance(follower.op, _OF_CHANNELS)]
    # Products are fused with constants that vary along one dimension only.
    alone = isinstance(node.op, MatMul1)
    if any(_varies(follower, place, alone) for follower in widening for place in unknown):
        return True
    if isinstance(node.op, Reduction):
        if _reduces_the_middle(node) and any(_divides_float64(follower) for follower in after):
            return True
        return _looks_like_keeping(node, reader) or (_is_outer(node) and any(_varies(follower) for follower in after))
    channels = shape.rank - 1 if shape.has_rank and shape.rank >= 4 else None
    return channels is not None and any(_varies(follower, channels, alone) for follower in after)


def _is_taken_for_shuffle(node: Node, reader: Node) -> bool:
    """True where the plug-in asks for the length of a dimension that may be dynamic, as the batch is divided."""
    before, after, target = node.inputs[0].shape, node.outputs[0].shape, node.inputs[1].type.constant
    if not isinstance(reader.op, Transpose1) or target is None or after.is_static:
        return False
    if not before.has_rank or (before.rank, target.size) != (4, 5) or target[0] < 1:
        return False
    return any(isinstance(follower.op, Reshape1) for follower in reader.outputs[0].uses)


def _have_rounded_bounds(*limits: Node) -> bool:
    """True for single constants, one of which float32 rounds."""
    bounds = [bound for bound in map(_bound, limits) if bound is not None]
    return len(bounds) == len(limits) and any(bound != int(np.float32(bound)) for bound in bounds)


def _bound(node: Node) -> int | None:
    """The integer that a Maximum or a Minimum compares its data with; None where it is not a single constant."""
    constants = [value.type.constant for value in node.inputs if value.element_type.is_integral]
    return next((int(value.item()) for value in constants if value is not None and value.size == 1), None)


def _resizes_channels(node: Node) -> bool:
    """True if an Interpolate may resize dimension 1, where the plug-in expects the number of channels before."""
    before, after = node.inputs[0].shape, node.outputs[0].shape
    if not before.has_rank or not after.has_rank or after.rank < 2:
        return False
    axes = node.inputs[2].type.constant if len(node.inputs) > 2 else None
    if axes is not None and 1 not in [int(axis) % after.rank for axis in axes.reshape(-1)]:
        return False
    return not before[1].is_static or before[1] != after[1]


def _fused_layers(reader: Node) -> Iterator[Node]:
    """The elementwise layers from ``reader`` on whose other inputs are constants."""
    pending, seen = [reader], set()
    while pending:
        node = pending.pop()
        if node not in seen and isinstance(node.op, _FUSED) and _computed_inputs(node) <= 1:
            seen.add(node)
            yield node
            pending += node.outputs[0].uses


def _computed_inputs(node: Node) -> int:
    return sum(source.type.constant is None for source in node.inputs)


def _varies(node: Node, from_right: int | None = None, alone: bool = False) -> bool:
    """True if a constant has several values; with ``from_right`` along that dimension, counted from the right.

    ``alone``: along no other dimension.
    """
    constants = [source.shape for source in node.inputs if source.type.constant is not None]
    data = node.inputs[0].shape
    if isinstance(node.op, _BY_CHANNEL) and data.has_rank and from_right not in (None, data.rank - 1):
        return False
    if from_right is None or isinstance(node.op, _BY_CHANNEL):
        return any(not shape.element_count().contains(1) for shape in constants)
    varying = [shape for shape in constants if _dimension(shape, from_right) != 1]
    return any(not alone or shape.element_count().contains(_dimension(shape, from_right)) for shape in varying)


def _dimension(shape: PartialShape, from_right: int) -> int:
    return shape[-from_right].value if shape.rank >= from_right else 1


def _is_outer(node: Node) -> bool:
    """True if only the first or only the last of three dimensions is reduced."""
    shape, axes = node.inputs[0].shape, node.inputs[1].type.constant
    if not shape.has_rank or shape.rank != 3 or axes is None or axes.size != 1:
        return False
    return int(axes.reshape(-1)[0]) % 3 != 1


def _reduces_the_middle(node: Node) -> bool:
    """True if the second of three dimensions is reduced, or may be."""
    shape, axes = node.inputs[0].shape, node.inputs[1].type.constant
    if not shape.has_rank or axes is None:
        return True
    return shape.rank == 3 and 1 in [int(axis) % 3 for axis in axes.reshape(-1)]


def _divides_float64(node: Node) -> bool:
    """True for a quotient of float64, which the plug-in does not change to a product as it does others."""
    return isinstance(node.op, elementwise.Divide1) and node.outputs[0].element_type is element_types.f64


def _looks_like_keeping(node: Node, reader: Node) -> bool:
    """True if the plug-in may take a Reshape, or a Transpose that becomes one, for one that restores ``keep_dims``.

    That is so where the target shape has as many dimensions as the reduction leaves, and a 1 where one was reduced.
    The plug-in does not compare the other dimensions.
    """
    if isinstance(node.op, Reduction) and node.op.keep_dims:
        return False
    if not isinstance(reader.op, Reshape1):
        return _moves_only_ones(reader)
    axes, target, shape = node.inputs[1].type.constant, reader.inputs[1].type, node.inputs[0].shape
    count = target.shape.element_count()
    if axes is None or not shape.has_rank or not count.contains(shape.rank - axes.size):
        return False
    at = {int(axis) % shape.rank for axis in axes.reshape(-1)}
    bounds = target.known_bounds
    if bounds is None:
        return any(axis < shape.rank - axes.size for axis in at)
    ends = zip(bounds.lower.reshape(-1).tolist(), bounds.upper.reshape(-1).tolist())
    return any(low <= 1 <= high for index, (low, high) in enumerate(ends) if index in at)


@openvino_cpu.replaces("attention_transposed_in_place", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def attention_transposed_in_place(builder: Builder, node: Node) -> Replacement:
    """Prevent the fusion of attention with the Transpose after it.

    The plug-in computes attention of static shapes and the Transpose after it in one step. Where the queries have the
    shape of the output, that step writes the output into the memory of the queries. Heads then overwrite queries of
    others before these are read.

        attention -> Transpose      becomes      attention -> Maximum(a, a) -> Transpose

    The IR of OpenVINO's importer is as wrong. A converted model may be reshaped to as many queries as heads, and so the
    rule applies wherever the two dimensions may be equal. Attention with a cache is another step, which has no such
    fault.
    """
    if not _is_attention(node):
        return fail("its input is not the output of attention, or the queries are transposed, too")
    if _has_cache(node.inputs[0].node):
        return fail("the attention has a cache, with which it is a step that writes elsewhere")
    if not _may_swap_equals(node):
        return fail("order or rank come at run time, nothing is swapped, or what is swapped is never equal")
    value, order = node.inputs
    return builder.emit(node.op, builder.emit(opaque_identity(value.element_type), value, value), order)


def _may_swap_equals(node: Node) -> bool:
    """True if the Transpose swaps dimensions that may be equal."""
    shape, order = node.inputs[0].shape, node.inputs[1].type.constant
    if order is None or not shape.has_rank:
        return False
    return list(order) != sorted(order) and all(shape[to].merge(shape[int(at)]) for to, at in enumerate(order))


def _is_attention(node: Node) -> bool:
    """True if the input is the output of attention whose queries are not transposed themselves.

    A Transpose before the queries becomes part of the same step, which then reads and writes in the same order.
    """
    attended = node.inputs[0].node
    if isinstance(attended.op, MatMul1):
        shares = attended.inputs[0].node
        if not isinstance(shares.op, SoftMax):
            return False
        scores = shares.inputs[0].node
        while isinstance(scores.op, elementwise.Binary):  # a scale or an attention mask
            scores = scores.inputs[0].node
        return not (isinstance(scores.op, MatMul1) and isinstance(scores.inputs[0].node.op, Transpose1))
    return isinstance(attended.op, ScaledDotProductAttention13) and not isinstance(
        attended.inputs[0].node.op, Transpose1
    )


def _has_cache(attention: Node) -> bool:
    """True if keys and values are variables with new ones behind them."""
    is_layer = isinstance(attention.op, ScaledDotProductAttention13)
    return is_layer and all(variable_behind(source) is not None for source in attention.inputs[1:3])


_MOST_ELEMENTS = 64
"""The largest number of elements of a constant that is looked at."""


@openvino_cpu.replaces("sums_that_round", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def sum_that_rounds(builder: Builder, node: Node) -> Replacement:
    """Keep two sums of float32 apart whose large constants round to whole numbers.

    OpenVINO adds constants in a row first, and nothing is left that rounds.

        x -> Add(12582912) -> Subtract(12582912)      becomes      x -> Add -> Maximum(y, y) -> Subtract

    Maximum changes nothing, and prevents the fusion. Constants that add up stay.
    """
    last = _summand(node)
    first = None if last is None else _summand(last[0].node)
    if last is None or first is None:
        return fail("not two constants are added to floats")
    between, second = last
    largest = np.maximum(np.abs(first[1]), np.abs(second))
    usual = 2.0 ** (finfo(between.element_type).nmant / 3)
    if ((np.abs(first[1] + second) >= largest / 2) | (largest <= usual)).all():
        return fail("the constants add up, or are too small to round")
    kept = builder.emit(opaque_identity(between.element_type), between, between)
    return builder.emit(node.op, *(kept if source is between else source for source in node.inputs))


def _summand(node: Node) -> tuple[Output, Array] | None:
    """The other summand and the constant, which is negative where it is subtracted."""
    if not isinstance(node.op, (elementwise.Add1, elementwise.Subtract1)) or not node.outputs[0].element_type.is_real:
        return None
    for x, other in node.orders:
        values = other.type.constant
        if values is not None and 0 < values.size <= _MOST_ELEMENTS and x.type.constant is None:
            wide = values.astype(np.float64)
            return x, wide if isinstance(node.op, elementwise.Add1) else -wide
    return None


@openvino_cpu.replaces("uneven_rotations", seen_in=("2024.6", "2025.4", "2026.4"))
def uneven_rotation(builder: Builder, node: Node) -> Replacement:
    """Keep the Concat of parts of unequal width apart from the product behind it.

        x -> Slices of 3 and 5 -> a, b;  Negative(b), a -> Concat -> r;  r -> Multiply(sin)

    becomes

        ... -> Concat -> Maximum(r, r) -> Multiply(sin)

    Maximum changes nothing, and prevents the fusion.
    """
    if len(node.inputs) != 2 or not any(_is_scaled(value) for value in node.inputs):
        return fail("it does not put a negative part in front of or behind another one")
    assert isinstance(node.op, Concat1)
    # The dimensions of the data are not known here. Slices of constant places have bounds; halves that are cut at a
    # computed place or up to the end have none, or equal ones, and are to be fused.
    shapes = [value.shape for value in node.inputs]
    widths = {shape[node.op.axis].high if shape.has_rank else INFINITY for shape in shapes}
    if len(widths) < 2 or INFINITY in widths:
        return fail("the parts are not known to be of unequal width")
    if not any(isinstance(reader.op, elementwise.Multiply1) for reader in node.outputs[0].uses):
        return fail("nothing multiplies the result")
    joined = builder.emit(node.op, *node.inputs)
    return builder.emit(opaque_identity(joined.element_type), joined, joined)


def _is_scaled(value: Output) -> bool:
    """True for the negative part, also where it is a product with -1."""
    node = value.node
    if isinstance(node.op, elementwise.Negative1):
        return True
    if not isinstance(node.op, elementwise.Multiply1):
        return False
    factors = [source.type.constant for source in node.inputs]
    return any(factor is not None and factor.size == 1 and factor.reshape(-1)[0] == -1 for factor in factors)


@openvino_cpu.edits("widening_factors", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def widening_factors(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Keep products with factors that widen the data apart from the layers behind.

    OpenVINO moves factors into these layers without looking at the shapes: the model does not compile, or its result
    lacks dimensions.

        x [n, 1, h, w] -> Multiply([c, 1, 1]) -> Convolution, where the factor adds the channels
        x -> Multiply(beta) -> Sigmoid -> Multiply(x), where beta widens x, or is computed and no scalar
        x -> MatMul([k]) -> Multiply(number), where the weights are a vector
        x -> ReLU -> Multiply(slopes), the branch of a PReLU, where slopes widen x

    A Maximum of the product and itself changes nothing, and prevents the fusion.
    """
    reads = list(_fused_wrongly(node))
    for source, readers in reads:
        prevent_fusion(source, readers, unique)
    return len(reads) or fail("no factor before or behind it changes the shape")


def _fused_wrongly(node: Node) -> Iterator[tuple[Output, Sequence[Node]]]:
    """Values, and the layers that would be fused with the layer that computes the value, around ``node``."""
    (result,) = node.outputs
    if isinstance(node.op, MatMul1):
        if any(source.tensor is not None and len(source.tensor.shape) == 1 for source in node.inputs):
            readers = [reader for reader in result.uses if _constant_factor(reader) is not None]
            yield from [(result, readers)] if readers else []
    elif isinstance(node.op, ReLU1):
        for reader in [*result.uses, *(each for use in result.uses if _negates(use) for each in use.outputs[0].uses)]:
            scaled = reader.outputs[0] if reader.outputs else result
            if _constant_factor(reader) is not None and str(scaled.shape) != str(result.shape):
                yield scaled, list(scaled.uses)
    elif _is_scaled_wrongly(node):
        yield node.inputs[0], [node]


def _negates(node: Node) -> bool:
    return isinstance(node.op, elementwise.Negative1)


def _is_scaled_wrongly(node: Node) -> bool:
    product = node.inputs[0]
    if isinstance(node.op, Sigmoid1):
        return isinstance(product.node.op, elementwise.Multiply1) and any(
            _is_wrong_beta(beta, x, node) for x, beta in product.node.orders
        )
    if _constant_factor(product.node) is None:
        return False
    data = next(source for source in product.node.inputs if source.type.constant is None)
    if not product.shape.has_rank or not data.shape.has_rank:
        return False
    return data.shape.rank < product.shape.rank or data.shape[1] != product.shape[1]


def _constant_factor(node: Node) -> Output | None:
    """The constant of a product or a quotient with one."""
    if not isinstance(node.op, (elementwise.Multiply1, elementwise.Divide1)):
        return None
    constants = [source for source in node.inputs if source.type.constant is not None or source.tensor is not None]
    return constants[0] if len(constants) == 1 else None


def _is_wrong_beta(beta: Output, x: Output, sigmoid: Node) -> bool:
    """True if ``x`` times the sigmoid of the product of both looks like a Swish with ``beta``, which is no scalar."""
    readers = sigmoid.outputs[0].uses
    if not any(isinstance(reader.op, elementwise.Multiply1) and x in reader.inputs for reader in readers):
        return False
    if beta.tensor is None:
        return not (beta.shape.has_rank and beta.shape.rank == 0)
    values = beta.tensor.array()
    return values.ndim > 0 and values.size > 1 and bool(np.all(values == values.reshape(-1)[0]))
