"""Values that are quantised and then dequantised, as FakeQuantize.

The plug-in runs convolutions and products in 8 bits where its low-precision transformations find FakeQuantize before
them. They do not recognise Divide, Round, Add, Clamp, Convert, Convert, Subtract and Multiply, each of which reads
and writes the data once.

    x -> Divide(s) -> Round -> Add(z) -> Clamp -> Convert(u8)      u8 -> Convert(f32) -> Subtract(z') -> Multiply(s')
    x -> FakeQuantize((low - z) s, (high - z) s, (low - z') s', (high - z') s')

Between the two the whole numbers may be moved about (Reshape, Transpose, MaxPool ...), which happens to the
real ones then. FakeQuantize computes the same step by another formula: a value in the middle between two steps
may take the other one. Whole numbers that a model returns, or computes with, stay exact.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Array, ElementType, Node, Origin, Output, Tensor, element_types, make_node
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.elementwise import Add1, Convert1, Divide1, Multiply1, Round5, Subtract1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.pooling import MaxPool
from ir_runtime.operations.quantization import FakeQuantize1
from ir_runtime.records import record
from ir_runtime.rewriting import NotMatched, UniqueNames, fail

_TYPES = (element_types.u8, element_types.i8, element_types.u4, element_types.i4)


@openvino_cpu.edits("fake_quantize", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def fake_quantize(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Replace a quantisation by FakeQuantize where every reader dequantises it."""
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
