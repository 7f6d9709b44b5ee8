"""verify knows where onnxruntime computes otherwise than ONNX specifies, and compares with what is specified."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import converter
from tests.converter.test_verify_inputs import F32, model, node


def ensemble(transform: str, targets: int) -> onnx.ModelProto:
    """Return a single tree with two leaves for each target."""
    tree = node(
        "TreeEnsembleRegressor",
        "x",
        "y",
        domain="ai.onnx.ml",
        n_targets=targets,
        post_transform=transform,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[0.0, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0] * 2 * targets,
        target_nodeids=[1, 2] * targets,
        target_ids=sorted([*range(targets)] * 2),
        target_weights=[0.5, -1.5] + [1.0, 2.0] * (targets - 1),
    )
    proto = model([tree], {}, {"x": (F32, ["n", 2])})
    proto.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    return proto


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("targets", [1, 2])
def test_a_transform_that_onnxruntime_ignores(transform: str, targets: int) -> None:
    proto = ensemble(transform, targets)
    inputs = {"x": np.array([[-1, 0], [1, 0], [-2, 0]], np.float32)}
    report = converter.verify(proto, converter.convert_model(proto), inputs=inputs)
    assert not [output for output in report.outputs if not output.passed], report.reason
    assert report.first_fault is None
    is_ignored = transform != "NONE" and targets == 1
    assert any("onnxruntime#26596" in note for note in report.notes) == is_ignored


def test_another_transform_is_different() -> None:
    inputs = {"x": np.array([[-1, 0], [1, 0]], np.float32)}
    report = converter.verify(ensemble("LOGISTIC", 1), converter.convert_model(ensemble("NONE", 1)), inputs=inputs)
    assert report.verdict == "different"
