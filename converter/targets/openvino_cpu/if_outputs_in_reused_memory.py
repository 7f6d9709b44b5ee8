"""Outputs of an If with dynamic dimensions, whose memory the plug-in reuses before they are read.

The plug-in allocates memory for all layers up to the next one whose shape depends on values, and only then runs these
layers. It takes the memory of an If's output for that of a later layer, and loses the output where that is larger than
what was allocated before: in the first inference, and in each one with longer dimensions.

    If -> p -> Concat(p, p) -> SoftMax      becomes      If -> p -> Slice(p, [0], ShapeOf(p)) -> Concat -> SoftMax

The shape of the Slice depends on values, so that memory for what follows is allocated when it has run.
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Model, Node, Output, element_types
from ir_runtime.operations.control_flow import If8
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting import Builder, PassTrace, UniqueNames, fail
from ir_runtime.rewriting.shape_layers import shape_of


@openvino_cpu.register("if_outputs_in_reused_memory", since="2025.1", seen_in=("2025.4", "2026.4"))
def if_outputs_in_reused_memory(model: Model, trace: PassTrace) -> int:
    """Let layers read copies of the outputs; names and values stay."""
    count = 0
    for part in model.parts():
        builder = Builder(UniqueNames(part.model))
        for node in part.nodes_of((If8,)):
            outputs = [output for output in node.outputs if _may_be_lost(output, is_main=part.model is model)]
            for output in outputs:
                _copy(builder, node, output)
            if outputs:
                trace.matched(node)
            else:
                trace.not_matched(node, fail("no layer reads an output of dynamic dimensions"))
            count += len(outputs)
    return count


def _may_be_lost(output: Output, *, is_main: bool) -> bool:
    """True for dynamic dimensions that a layer reads.

    The memory of a model's result is the caller's, which is not reused. Another If runs before the memory for what
    follows it is allocated.
    """
    if output.shape.is_static or not output.shape.has_rank or output.element_type is element_types.string:
        return False
    if is_main and any(reader.op.role == "result" for reader in output.uses):
        return False
    return not all(reader.op.role == "result" or isinstance(reader.op, If8) for reader in output.uses)


def _copy(builder: Builder, node: Node, output: Output) -> None:
    rank = output.shape.rank
    builder.begin(node)
    size = shape_of(builder, output)
    copy = builder.emit(Slice8(), output, builder.constant([0] * rank), size, builder.constant([1] * rank))
    results = [reader for reader in output.uses if reader.op.role == "result"]
    output.replace_by(copy, keep=[size.node, copy.node, *results], move_names=False)
