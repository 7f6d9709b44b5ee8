"""Rules for element types of few bits, and for strings."""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import ElementType, Node, Operation, Output, element_types
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.elementwise import BitwiseAnd13, BitwiseLeftShift15, BitwiseRightShift15
from ir_runtime.operations.generation import Range4, ShapeOf3
from ir_runtime.operations.indexing import Gather8, GatherElements6, GatherND8
from ir_runtime.operations.inputs_outputs import Identity16
from ir_runtime.operations.movement import Broadcast3, Concat1, Reshape1, Tile1
from ir_runtime.operations.normalization import GroupNormalization12
from ir_runtime.operations.padding import Pad12
from ir_runtime.operations.slicing import Slice8, Split1, StridedSlice1, VariadicSplit1
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.layers import in_type


@openvino_cpu.replaces("convert_to_boolean", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def convert_to_boolean(builder: Builder, node: Node) -> Replacement:
    """Compare numbers with 0 instead of converting them to boolean.

    The plug-in converts NaN and the least i32 to false. It refuses floats of less than 16 bits, and u2.

        x (f32) -> Convert(boolean)      becomes      x -> NotEqual(0)
    """
    (value,) = node.inputs
    element_type = value.element_type
    if node.outputs[0].element_type is not element_types.boolean:
        return fail("it does not convert to boolean")
    if element_type is element_types.boolean or (element_type.is_integral and 2 < element_type.bits < 32):
        return fail("the plug-in converts this type to boolean correctly")
    if element_type.bits < 16:
        value = in_type(builder, value, element_types.f32 if element_type.is_real else element_types.i32)
    return layers.not_equal(builder, value, builder.like(0, value))


@openvino_cpu.replaces("convert_to_packed_integers", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def convert_to_packed_integers(builder: Builder, node: Node) -> Replacement:
    """Take the lowest bits before a conversion to integers of 4 and 2 bits.

    Where another Convert follows, the plug-in drops both, and the upper bits stay.

        x -> Convert(u4) -> Convert(f32)      becomes      x -> Convert(i32) -> BitwiseAnd(15) -> Convert(u4) -> ...
        x -> Convert(i4) -> Convert(f32)      becomes      x -> Convert(i32) -> BitwiseLeftShift(28)
                                                             -> BitwiseRightShift(28) -> Convert(i4) -> ...

    Values that are known to fit, as after a Clamp, stay as they are.
    """
    (value,) = node.inputs
    element_type = node.outputs[0].element_type
    if (
        not (element_type.is_packed and element_type.is_integral)
        or value.tensor is not None
        or _fits(value, element_type)
    ):
        return fail("the type is no integer of 4 bits or less, or the input is constant or fits")
    whole = in_type(builder, value, element_types.i32)
    if not element_type.is_signed:
        mask = builder.like((1 << element_type.bits) - 1, whole)
        return in_type(builder, builder.emit(BitwiseAnd13(), whole, mask), element_type)
    above = builder.like(32 - element_type.bits, whole)
    raised = builder.emit(BitwiseLeftShift15(), whole, above)
    return in_type(builder, builder.emit(BitwiseRightShift15(), raised, above), element_type)


def _fits(value: Output, element_type: ElementType) -> bool:
    low, high = element_type.limits
    source = value.element_type
    if source is element_types.boolean:
        return True
    if source.is_integral and source.limits[0] >= low and source.limits[1] <= high:
        return True
    clamp = value.node.op
    return isinstance(clamp, Clamp1) and clamp.min >= low and clamp.max <= high


@openvino_cpu.replaces("gather_from_2_bit_tables", seen_in=("2024.6", "2025.4", "2026.4"))
def gather_from_2_bit_tables(builder: Builder, node: Node) -> Replacement:
    """Store in 4 bits a table of 2 bits whose gathered elements are converted at once.

    The plug-in gathers u2 as if each element had a byte of its own, and so returns other elements.

        table (u2) -> Gather -> Convert(f32)      becomes      table (u4) -> Gather -> Convert(f32)
    """
    gather = node.inputs[0].node
    if not isinstance(gather.op, Gather8) or gather.inputs[0].element_type is not element_types.u2:
        return fail("its input is not gathered from u2")
    table = gather.inputs[0].tensor
    if table is None:
        return fail("the table is not constant")
    stored = builder.constant(table.array().astype(np.uint8), element_types.u4)
    return builder.emit(node.op, builder.emit(gather.op, stored, *gather.inputs[1:]))


_MOVES: tuple[type[Operation], ...] = (
    Broadcast3, Concat1, Gather8, GatherElements6, GatherND8, Pad12, Slice8, Split1, StridedSlice1, Tile1,
    VariadicSplit1,
)  # fmt: skip
_WIDER: dict[ElementType, tuple[ElementType, tuple[type[Operation], ...]]] = {
    element_types.u2: (element_types.i32, _MOVES),
    element_types.f4e2m1: (element_types.f32, _MOVES),
    element_types.bf16: (element_types.f32, (GroupNormalization12,)),
}
"""For each type the wider one that holds all its values, and the layers that need it."""


@openvino_cpu.replaces(
    "layers_of_narrow_types",
    *{operation for _, layers in _WIDER.values() for operation in layers},
    seen_in=("2023.3", "2024.6", "2025.4", "2026.4"),
)
def layers_of_narrow_types(builder: Builder, node: Node) -> Replacement:
    """Compute layers that do not support an element type in a wider type that holds all its values.

    The plug-in moves elements of u2 and f4e2m1 as if each had a byte of its own, and so returns other elements. It
    refuses GroupNormalization of bf16.

        x (u2) -> Slice                           becomes      x -> Convert(i32) -> Slice -> Convert(u2)
        x (bf16) -> GroupNormalization            becomes      x -> Convert(f32) -> GroupNormalization -> Convert(bf16)

    A conversion to the wider type and back loses nothing. Transpose is wrong in both types and stays. Stored tables
    of u2 have a rule of their own, gather_from_2_bit_tables.
    """
    element_type = node.inputs[0].element_type
    wide, layers = _WIDER.get(element_type, (element_type, ()))
    if not isinstance(node.op, layers):
        return fail("the plug-in supports the element type in this layer")
    widened = [
        in_type(builder, source, wide) if source.element_type is element_type else source for source in node.inputs
    ]
    return [in_type(builder, value, element_type) for value in builder.emit_all(node.op, *widened)]


_BYTES = (element_types.i8, element_types.u8)


@openvino_cpu.replaces("saturated_8_bit_integers", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def saturated_8_bit_integers(builder: Builder, node: Node) -> Replacement:
    """Compute arithmetic of 8-bit integers as i32.

    The plug-in saturates the results. Where dimensions are dynamic, it also rounds quotients to the nearest integer.
    ONNX's integers wrap around, as the lowest bits of a wider type do, and its quotients are rounded towards zero.

        Add(u8, u8)      becomes   Convert(Add(Convert(i32), Convert(i32)), u8)
    """
    element_type = node.outputs[0].element_type
    if element_type not in _BYTES:
        return fail("the output is not i8 or u8")
    wide = [in_type(builder, value, element_types.i32) for value in node.inputs]
    return in_type(builder, builder.emit(node.op, *wide), element_type)


_POSITIONS = element_types.i32
"""The type in which the plug-in computes with integers."""


@openvino_cpu.replaces("strings_by_position", seen_in=("2024.6", "2025.4", "2026.4"))
def strings_by_position(builder: Builder, node: Node) -> Replacement:
    """Move the positions of the strings, and gather the strings at them.

    Strings that are moved as objects, which the plug-in moves as bytes or not at all.

    Its Identity, Slice and Split of strings copy pointers, and the process ends when both owners free them. It refuses
    to tile, broadcast and select strings. Gather, Reshape and Concat of strings are right, so integers are moved
    instead:

        x (string) -> Slice(..)      becomes      Range(number of elements) -> Reshape(shape of x) -> Slice(..) -> p
                                                  x -> Reshape([-1]) -> Gather(p)

        x (string) -> Identity       becomes      x -> Reshape(shape of x)
    """
    if node.outputs[0].element_type is not element_types.string:
        return fail("it moves no strings")
    if isinstance(node.op, Identity16):
        (x,) = node.inputs
        return builder.emit(Reshape1(special_zero=False), x, _shape(builder, x))
    inputs, flat = list(node.inputs), list[Output]()
    start = builder.constant(0, _POSITIONS)
    for place, source in enumerate(node.inputs):
        if source.element_type is element_types.string:
            flat.append(layers.reshape(builder, source, [-1]))
            size = _size(builder, flat[-1])
            end = size if len(flat) == 1 else layers.add(builder, start, size)
            positions = builder.emit(Range4(output_type=_POSITIONS), start, end, builder.constant(1, _POSITIONS))
            inputs[place] = builder.emit(Reshape1(special_zero=False), positions, _shape(builder, source))
            start = end
    strings = layers.concat(builder, 0, *flat) if len(flat) > 1 else flat[0]
    moved = builder.emit_all(node.op, *inputs)
    return [layers.gather(builder, strings, positions, builder.constant(0)) for positions in moved]


def _shape(builder: Builder, value: Output) -> Output:
    return builder.emit(ShapeOf3(output_type=element_types.i64), value)


def _size(builder: Builder, value: Output) -> Output:
    """The number of elements of a list, as a scalar."""
    size = builder.emit(ShapeOf3(output_type=_POSITIONS), value)
    return layers.squeeze(builder, size, builder.constant([0]))
