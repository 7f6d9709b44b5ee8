"""Whole numbers that follow from constants, once dimensions have become constants.

    4 -> Range(0, 4, 1) -> Multiply(4) -> Divide(4)         becomes      [0, 1, 2, 3]

Constants of other types stay as they are: weights keep the layers that widen them.
"""

from __future__ import annotations

from ir_runtime.graph import element_types
from ir_runtime.graph.model import Model, Node, Part
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.constant_folding import fold
from ir_runtime.rewriting.trace import PassTrace
from ir_runtime.rewriting.unique_names import UniqueNames
from ir_runtime.rewriting.uses import Uses

from .registry import passes

_KINDS = (element_types.i32, element_types.i64, element_types.boolean)


@passes.register("constant_layers", after=["shape_arithmetic"], fuses=True)
def constant_layers(model: Model, trace: PassTrace) -> int:
    """Put a constant in the place of each layer of whole numbers whose inputs are constant."""
    return sum(_fold_in(part, trace) for part in model.parts())


def _fold_in(part: Part, trace: PassTrace) -> int:
    found = [node for node in part.nodes if _may_fold(node)]
    if not found:
        return 0
    uses, unique, builder, count = Uses(part.uses), UniqueNames(part), Builder(), 0
    for node in part.nodes:
        # A constant that was made just now may be the last input that was missing.
        if not _may_fold(node):
            continue
        tensors = fold(node.op, [source.type for source in node.inputs], [output.type for output in node.outputs])
        if tensors is None:
            continue
        for output, tensor in zip(node.outputs, tensors):
            constant = builder.tensor(tensor)
            constant.node.name, constant.node.origin = unique(f"{node.name}/constant"), node.origin
            uses.replace(output, constant)
        trace.matched(node)
        count += 1
    return count


def _may_fold(node: Node) -> bool:
    return (
        bool(node.inputs)
        and node.op.role == ""
        and node.op.deterministic
        and not node.op.subgraphs
        and all(source.tensor is not None for source in node.inputs)
        and all(output.element_type in _KINDS for output in node.outputs)
    )
