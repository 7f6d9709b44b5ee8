"""Strings that are moved as objects, which the plug-in moves as bytes or not at all.

Its Identity, Slice and Split of strings copy pointers, and the process ends when both owners free them. It refuses to
tile, broadcast and select strings. Gather, Reshape and Concat of strings are right, so integers are moved instead:

    x (string) -> Slice(..)      becomes      Range(number of elements) -> Reshape(shape of x) -> Slice(..) -> p
                                              x -> Reshape([-1]) -> Gather(p)

    x (string) -> Identity       becomes      x -> Reshape(shape of x)
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output, element_types
from ir_runtime.operations.generation import Range4, ShapeOf3
from ir_runtime.operations.inputs_outputs import Identity16
from ir_runtime.operations.movement import Reshape1
from ir_runtime.rewriting import Builder, Replacement, fail, layers

_POSITIONS = element_types.i32
"""The type in which the plug-in computes with integers."""


@openvino_cpu.replaces("strings_by_position", seen_in=("2024.6", "2025.4", "2026.4"))
def strings_by_position(builder: Builder, node: Node) -> Replacement:
    """Move the positions of the strings, and gather the strings at them."""
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
