"""Give onnxruntime models in which it computes what ONNX specifies, where it is known to compute something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
from onnx import NodeProto, helper

from ir_runtime.records import record


@record
class _Deviation:
    """An attribute of an operator that onnxruntime ignores, and operators that compute its values from the result.

    ``neutral`` is the attribute's value without effect; where the attribute ``unless`` has a value other than 1, the
    kernel follows the specification.
    """

    attribute: str
    neutral: str | int
    operators: Mapping[str | int, str]
    unless: str
    issue: str


_DEVIATIONS = {
    "TreeEnsembleRegressor": _Deviation(
        "post_transform", "NONE", {"LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}, "n_targets", "onnxruntime#26596"
    ),
}
_REFUSALS = ("batch_size must be 1 when sequence_length > 1 and past context is given",)
"""Errors of onnxruntime's kernels about inputs that the operators allow: GroupQueryAttention."""


def is_known_refusal(error: str) -> bool:
    """True if onnxruntime refuses inputs that the operator's specification allows."""
    return any(refusal in error for refusal in _REFUSALS)


def deviations_of(nodes: Iterable[NodeProto]) -> list[str]:
    """Return in a sentence each what onnxruntime ignores of ``nodes``."""
    found = [(node, *_deviation(node)) for node in nodes]
    return [
        f"onnxruntime ignores {deviation.attribute} of {node.op_type} ({deviation.issue}): {operator} was applied to "
        f"its result '{node.output[0]}'"
        for node, deviation, operator in found
        if deviation is not None
    ]


def with_specified_results(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose nodes compute in onnxruntime what ONNX specifies; ``model`` itself if all of them do."""
    if not deviations_of(model.graph.node):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.node[:]
    for node in model.graph.node:
        changed.graph.node.append(node)
        deviation, operator = _deviation(node)
        if deviation is not None:
            raw = changed.graph.node[-1]
            raw.output[0] = f"{node.output[0]}/ignored_{deviation.attribute}"
            kept = [attribute for attribute in node.attribute if attribute.name != deviation.attribute]
            del raw.attribute[:]
            raw.attribute.extend([*kept, helper.make_attribute(deviation.attribute, deviation.neutral)])
            changed.graph.node.append(helper.make_node(operator, [raw.output[0]], [node.output[0]]))
    if not any(entry.domain in ("", "ai.onnx") for entry in changed.opset_import):
        changed.opset_import.append(helper.make_opsetid("", 13))
    return changed


def _deviation(node: NodeProto) -> tuple[_Deviation | None, str]:
    deviation = _DEVIATIONS.get(node.op_type) if node.domain == "ai.onnx.ml" else None
    if deviation is None:
        return None, ""
    values = {attribute.name: attribute.s.decode() or attribute.i for attribute in node.attribute}
    operator = deviation.operators.get(values.get(deviation.attribute, deviation.neutral), "")
    return (deviation, operator) if operator and values.get(deviation.unless, 1) == 1 else (None, "")
