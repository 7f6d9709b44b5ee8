"""Softmax and normalization of what every iteration of a loop reads, which the plug-in overwrites.

The plug-in fills the parameters of a body before each iteration, but not those of values that stay the same in all
iterations. It computes SoftMax and MVN in the memory of their input where nothing else reads that. So the second
iteration reads the result of the first one. So does an elementwise layer behind two views of such a value.

    x -> Parameter (the same in all iterations) -> SoftMax      becomes      ... -> Maximum(x, x) -> SoftMax

Maximum changes nothing, and returns memory of its own.
"""

from __future__ import annotations

from converter.targets.openvino_cpu.opaque_identity import prevent_fusion
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, SubGraph
from ir_runtime.operations.activation import SoftMax1, SoftMax8
from ir_runtime.operations.normalization import MVN2, MVN6
from ir_runtime.rewriting import NotMatched, UniqueNames, fail

from .loop_states_in_shared_memory import ELEMENTWISE, source_of_views

_IN_PLACE = (SoftMax1, SoftMax8, MVN2, MVN6)
"""Layers that the plug-in computes in the memory of their input."""
_HIDDEN_BY = 2
"""The number of views in a row behind which the plug-in writes elementwise results into a parameter."""


@openvino_cpu.edits("loop_inputs_in_place", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def loop_inputs_in_place(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Let each layer that computes in place read memory of its own."""
    count = sum(map(_protect_inputs, node.op.subgraphs))
    return count or fail("no Softmax or normalization reads what stays the same in all iterations")


def _protect_inputs(sub: SubGraph) -> int:
    filled = {sub.body.parameters[mapping.parameter] for mapping in sub.inputs if mapping.axis is not None}
    handed_on = {
        sub.body.parameters[parameter]
        for result, parameter in sub.back_edges
        if source_of_views(sub.body.results[result].inputs[0])[1].node is not sub.body.parameters[parameter]
    }
    unique, count = UniqueNames(sub.body), 0
    for node in sub.body.nodes():
        if not isinstance(node.op, (*_IN_PLACE, *ELEMENTWISE)):
            continue
        views, source = source_of_views(node.inputs[0])
        # Of elementwise layers the plug-in knows that they may not write into a parameter, or into a view of it.
        is_hidden = views >= _HIDDEN_BY or isinstance(node.op, _IN_PLACE)
        if is_hidden and source.node.op.role == "parameter" and source.node not in filled | handed_on:
            prevent_fusion(node.inputs[0], [node], unique)
            count += 1
    return count
