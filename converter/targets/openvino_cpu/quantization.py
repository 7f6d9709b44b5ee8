"""Rules for quantized models: what the plug-in's low-precision transformations look for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Array, ElementType, Node, Origin, Output, Tensor, element_types, make_node
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.elementwise import Add1, Convert1, Divide1, Multiply1, Round5, Subtract1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Reshape1
from ir_runtime.operations.pooling import MaxPool
from ir_runtime.operations.quantization import FakeQuantize1
from ir_runtime.records import record
from ir_runtime.rewriting import Builder, NotMatched, Replacement, UniqueNames, fail, layers

_PRODUCTS = (Convolution1, GroupConvolution1, MatMul1)


@openvino_cpu.replaces("quantized_products", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def quantized_products(builder: Builder, node: Node) -> Replacement:
    """Move the scale of a quantized product from its sum to its weights.

    QLinearConv, QLinearMatMul and similar operators add up products of integers exactly, and scale the sum. The
    plug-in's low-precision transformations look for floats instead: quantized data, and weights with their scales.

        x (quantized) -> Convert(f32) -> Subtract(z)  \\
        w (8 bits)    -> Convert(f32) -> Subtract(z') -> Convolution -> (Add(bias)) -> Multiply(f) -> Round ...

    becomes, where ``x`` is quantized in the model itself,

        x (quantized) -> Convert(f32) -> Subtract(z)  \\
        w (8 bits)    -> Convert(f32) -> Subtract(z') -> Multiply(f) -> Convolution -> (Add(bias f)) -> Round ...

    The sum is rounded in float32, so that a value halfway between two quantization steps may be rounded to the other
    one. Where integers are an input of the model, as in tests of a single operator, the layers stay as they are, and
    exact.
    """
    factor = node.inputs[1].tensor
    if factor is None or node.outputs[0].element_type is not element_types.f32:
        return fail("the factor is not constant, or not float32")
    total, bias = _split_bias(node.inputs[0])
    product = total.node
    if not isinstance(product.op, _PRODUCTS) or total.only_user is None:
        return fail("its input is no convolution or MatMul, or other layers read it, too")
    data, weights = product.inputs
    grouped = isinstance(product.op, GroupConvolution1) and isinstance(weights.node.op, Reshape1)
    stored = weights.node.inputs[0] if grouped else weights
    if not _is_dequantized(data, stored=False) or not (
        _is_dequantized(stored, stored=True) or _is_dequantized(stored, stored=False)
    ):
        return fail("the factors of the product are not dequantized integers of 8 bits")
    scale = _weight_scale(factor.array().astype(np.float32), product, stored)
    if scale is None:
        return fail("the factor has neither one element nor one for each output channel")
    scaled = layers.multiply(builder, stored, builder.constant(scale, element_types.f32))
    if grouped:
        scaled = builder.emit(weights.node.op, scaled, weights.node.inputs[1])
    result = builder.emit(product.op, data, scaled)
    if bias is not None:
        result = layers.add(builder, result, builder.constant(bias * factor.array(), element_types.f32))
    return result


def _split_bias(value: Output) -> tuple[Output, Array | None]:
    """Return the product in front of an integer Add of a constant bias, and the bias; None without one."""
    add = value.node.inputs[0].node if isinstance(value.node.op, Convert1) else None
    if add is None or not isinstance(add.op, Add1) or add.outputs[0].only_user is None or value.only_user is None:
        return value, None
    converted, bias = add.inputs[0].node, add.inputs[1].tensor
    if bias is None or not isinstance(converted.op, Convert1) or converted.outputs[0].only_user is None:
        return value, None
    return converted.inputs[0], bias.array().astype(np.float64)


def _is_dequantized(value: Output, *, stored: bool) -> bool:
    """True for 8-bit integers as floats, less a constant or not: constants if ``stored``, else quantized data."""
    node = value.node
    if isinstance(node.op, Subtract1):
        zero = node.inputs[1].node
        if node.inputs[1].tensor is None and not (isinstance(zero.op, Convert1) and zero.inputs[0].tensor is not None):
            return False
        node = node.inputs[0].node
    if not isinstance(node.op, Convert1) or not node.inputs[0].element_type.is_integral:
        return False
    if node.inputs[0].element_type.bits > 8:
        return False
    return node.inputs[0].tensor is not None if stored else is_quantized(node.inputs[0])


def _weight_scale(factor: Array, product: Node, weights: Output) -> Array | None:
    """Return the factor of the sum in the shape that scales the weights; None if it is not per output channel."""
    if factor.size == 1:
        return factor.reshape(())
    rank = product.outputs[0].shape.rank if product.outputs[0].shape.has_rank else None
    if rank is None or not weights.shape.has_rank:
        return None
    channels = rank - 1 if isinstance(product.op, MatMul1) else 1
    aligned_shape = (1,) * (rank - factor.ndim) + factor.shape
    if len(aligned_shape) != rank or factor.size != aligned_shape[channels]:
        return None
    if isinstance(product.op, MatMul1):
        return factor.reshape((-1, 1) if product.op.transpose_b else (-1,))
    return factor.reshape((-1,) + (1,) * (weights.shape.rank - 1))


_TYPES = (element_types.u8, element_types.i8, element_types.u4, element_types.i4)


@openvino_cpu.edits("fake_quantize", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def fake_quantize(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Replace a quantization by FakeQuantize where every reader dequantizes it.

    The plug-in runs convolutions and products in 8 bits where its low-precision transformations find FakeQuantize
    before them. They do not recognise Divide, Round, Add, Clamp, Convert, Convert, Subtract and Multiply, each of which
    reads and writes the data once.

        x -> Divide(s) -> Round -> Add(z) -> Clamp -> Convert(u8)    u8 -> Convert(f32) -> Subtract(z') -> Multiply(s')
        x -> FakeQuantize((low - z) s, (high - z) s, (low - z') s', (high - z') s')

    Between the two the whole numbers may be moved about (Reshape, Transpose, MaxPool ...), which happens to the
    real ones then. FakeQuantize computes the same step by another formula: a value in the middle between two steps
    may take the other one. Whole numbers that a model returns, or computes with, stay exact.
    """
    quantized = _match_quantization(node)
    if quantized is None:
        return fail("it does not end a quantisation with constant scale and zero point")
    return int(_replace(node, quantized, unique)) or fail(
        "a reader does not dequantise the integers, does so to infinite numbers, or they are moved with a scale for "
        "each channel"
    )


@record
class Quantised:
    """The parts of ``saturate(round(x / scale) + zero)``."""

    x: Output
    scale: Array
    zero: Array
    element_type: ElementType


def _constant(value: Output) -> Array | None:
    """A constant as float32 numbers, or the constant that is converted to it, as zero points are."""
    if isinstance(value.node.op, Convert1):
        value = value.node.inputs[0]
    tensor = value.tensor
    return None if tensor is None else tensor.array().astype(np.float32)


def _match_quantization(node: Node) -> Quantised | None:
    """The parts of a quantisation that ends in ``node``."""
    if not isinstance(node.op, Convert1) or node.op.destination_type not in _TYPES:
        return None
    element_type, clamp = node.op.destination_type, node.inputs[0].node
    if not isinstance(clamp.op, Clamp1) or (clamp.op.min, clamp.op.max) != element_type.limits:
        return None
    moved, zero = clamp.inputs[0].node, np.asarray(np.float32(0))
    if isinstance(moved.op, Add1):
        added = _constant(moved.inputs[1])
        if added is None:
            return None
        zero, moved = added, moved.inputs[0].node
    if not isinstance(moved.op, Round5) or moved.op.mode != "half_to_even":
        return None
    ratio = moved.inputs[0]
    if ratio.element_type is not element_types.f32:
        return None
    if not isinstance(ratio.node.op, Divide1):
        return Quantised(ratio, np.asarray(np.float32(1)), zero, element_type)  # scaled already
    scale = _constant(ratio.node.inputs[1])
    if scale is None or not (scale > 0).all() or not _has_finite_ends(element_type, zero, scale):
        return None  # scales that come at run time stay exact
    return Quantised(ratio.node.inputs[0], scale, zero, element_type)


def _ends(element_type: ElementType, zero: Array, scale: Array) -> list[Array]:
    """Return the values of the least and the greatest integer of a type, in float64."""
    return [(limit - zero.astype(np.float64)) * scale for limit in element_type.limits]


def _has_finite_ends(element_type: ElementType, zero: Array, scale: Array) -> bool:
    """True if both ends are finite as float32, and the distance between them is."""
    low, high = _ends(element_type, zero, scale)
    limit = float(np.finfo(np.float32).max)
    return all((np.abs(each) <= limit).all() for each in (low, high, high - low))


def is_quantized(value: Output) -> bool:
    """True if the model quantises the value itself, and moves it at most."""
    while _moves(value.node):
        value = value.node.inputs[0]
    return _match_quantization(value.node) is not None


def _moves(node: Node) -> bool:
    """True if the layer returns elements of its first input, quantized or not."""
    return node.op.movement or isinstance(node.op, MaxPool)


@record
class Dequantised:
    """The parts of ``y = (q - zero) * scale``."""

    y: Output
    scale: Array
    zero: Array


def _match_dequantization(convert: Node) -> Dequantised | None:
    """The parts of a dequantisation that begins with ``convert``; None where an integer stands for no finite number."""
    if not isinstance(convert.op, Convert1) or convert.op.destination_type is not element_types.f32:
        return None
    value, scale, zero = convert.outputs[0], np.asarray(np.float32(1)), np.asarray(np.float32(0))
    reader = value.only_user
    if reader is not None and isinstance(reader.op, Subtract1) and reader.inputs[0] is value:
        taken = _constant(reader.inputs[1])
        if taken is not None:
            zero, value = taken, reader.outputs[0]
            reader = value.only_user
    if reader is not None and isinstance(reader.op, Multiply1):
        factor = _constant(reader.inputs[1] if reader.inputs[0] is value else reader.inputs[0])
        if factor is not None:
            scale, value = factor, reader.outputs[0]
    if not _has_finite_ends(convert.inputs[0].element_type, zero, scale):
        # A mask is the product of a quantised 0 or 1 and the lowest float. The formula of FakeQuantize would make it
        # infinite, and also the other product, as a little more than 1 times that number.
        return None
    return Dequantised(value, scale, zero)


@record
class _Leaf:
    """A dequantisation, and the layers that move the integers before it."""

    moves: tuple[Node, ...]
    back: Dequantised


def _leaves(whole: Output, moves: tuple[Node, ...] = ()) -> Iterator[_Leaf | None]:
    """The dequantisations of the integers, moved or not; None for a reader that needs the integers."""
    readers = whole.uses
    if not readers:
        yield None
    for reader in readers:
        if _moves(reader) and reader.inputs.index(whole) == 0 and reader.inputs.count(whole) == 1:
            yield from _leaves(reader.outputs[0], (*moves, reader))
            if any(output.uses for output in reader.outputs[1:]):
                yield None
        else:
            back = _match_dequantization(reader)
            yield None if back is None else _Leaf(moves, back)


def _replace(node: Node, quantized: Quantised, unique: UniqueNames) -> bool:
    """Replace the dequantisations if every reader of the integers is one; whether that is so."""
    leaves: list[_Leaf] = []
    for leaf in _leaves(node.outputs[0]):
        # A scale for each channel does not follow integers that are moved.
        if leaf is None or (leaf.moves and max(leaf.back.scale.size, leaf.back.zero.size, quantized.scale.size) > 1):
            return False
        leaves.append(leaf)
    replacements: dict[object, Output] = {}
    used_names: set[str] = set()

    def name_of(replaced: Node) -> str:
        """The name of the replaced layer; a new one where several layers replace it."""
        name = unique(replaced.name) if replaced.name in used_names else replaced.name
        used_names.add(name)
        return name

    for leaf in leaves:
        back = leaf.back
        key = (back.scale.tobytes(), back.zero.tobytes())
        if key not in replacements:
            stands_for = node if leaf.moves else back.y.node
            replacements[key] = _emit(quantized, back, stands_for.origin, name_of(stands_for), unique)
        value = replacements[key]
        for move in leaf.moves:
            if (key, move) not in replacements:
                copy = make_node(move.op, [value, *move.inputs[1:]], name_of(move))
                copy.origin, copy.runtime_info = move.origin, move.runtime_info
                replacements[key, move] = copy.outputs[0]
            value = replacements[key, move]
        back.y.replace_by(value)
    return True


def _emit(quantized: Quantised, back: Dequantised, origin: Origin | None, name: str, unique: UniqueNames) -> Output:
    ends = [
        *_ends(quantized.element_type, quantized.zero, quantized.scale),
        *_ends(quantized.element_type, back.zero, back.scale),
    ]
    constants = [
        make_node(Const1(value=Tensor.from_array(np.asarray(end, np.float32))), (), unique(f"{name}/{role}")).outputs[0]
        for end, role in zip(ends, ("input_low", "input_high", "output_low", "output_high"))
    ]
    node = make_node(FakeQuantize1(levels=1 << quantized.element_type.bits), [quantized.x, *constants], name)
    node.origin = origin
    return node.outputs[0]


_SCAN_LIMIT = 1 << 16
"""Bytes of a constant that are worth reading to learn whether its numbers are whole."""


@openvino_cpu.replaces("integer_round_trips", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def integer_round_trips(builder: Builder, node: Node) -> Replacement:
    """Remove conversions of whole floats to an integer type and back.

    They are slow: before a float product the plug-in writes the quantised value as 8 bits and reads it back, and
    between a product and its scale the whole product as 32 bits.

        Clamp(Round(x), 0, 255) -> Convert(u8) -> Convert(f32)      becomes      Clamp(Round(x), 0, 255)
        MatMul(whole floats) -> Convert(i32) -> Convert(f32)        becomes      MatMul(whole floats)
        MatMul(..) -> Convert(i32) -> Add(bias) -> Convert(f32)     becomes      MatMul(..) -> Add(Convert(bias, f32))
    """
    if node.outputs[0].element_type is not element_types.f32:
        return fail("it does not convert to float32")
    there = node.inputs[0].node
    if isinstance(there.op, Add1):
        products = [_product(source) for source in there.inputs]
        if not any(products):
            return fail("it converts a sum without a product of whole floats")
        a, b = (
            product or layers.in_type(builder, source, element_types.f32)
            for product, source in zip(products, there.inputs)
        )
        return builder.emit(there.op, a, b)
    rounded = _product(node.inputs[0]) or _whole_clamp(node.inputs[0])
    return rounded or fail("its input is no product or Clamp of whole floats that was converted to integers")


def _product(value: Output) -> Output | None:
    """The product of whole floats that was converted to ``value``."""
    source = _before_conversion(value)
    # As wide as the sums of integers that it stands for.
    if source is None or value.element_type.bits < 32 or not isinstance(source.node.op, _PRODUCTS):
        return None
    return source if all(_is_whole(factor) for factor in source.node.inputs) else None


def _whole_clamp(value: Output) -> Output | None:
    """The whole floats that were converted to ``value``, all of them in the range of its type."""
    source = _before_conversion(value)
    if source is None or not isinstance(source.node.op, Clamp1):
        return None
    low, high = value.element_type.limits
    clamp = source.node.op
    return source if low <= clamp.min and clamp.max <= high and _is_whole(source.node.inputs[0]) else None


def _before_conversion(value: Output) -> Output | None:
    """The floats that were converted to the integers ``value``."""
    node = value.node
    if not isinstance(node.op, Convert1) or not value.element_type.is_integral:
        return None
    return node.inputs[0] if node.inputs[0].element_type is element_types.f32 else None


def _is_whole(value: Output, deepest: int = 8) -> bool:
    node = value.node
    tensor = value.tensor
    if tensor is not None and tensor.byte_size <= _SCAN_LIMIT:
        return bool((np.mod(tensor.array(), 1) == 0).all())
    if isinstance(node.op, Convert1):
        return node.inputs[0].element_type.is_integral
    if isinstance(node.op, Clamp1):
        ends = (node.op.min, node.op.max)
        return deepest > 0 and all(float(end).is_integer() for end in ends) and _is_whole(node.inputs[0], deepest - 1)
    if isinstance(node.op, (Add1, Subtract1)):
        return deepest > 0 and all(_is_whole(source, deepest - 1) for source in node.inputs)
    return isinstance(node.op, Round5)
