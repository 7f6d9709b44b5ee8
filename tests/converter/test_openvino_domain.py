"""Attributes of operators of ``org.openvinotoolkit``."""

from __future__ import annotations

from typing import Any, cast

import pytest

from converter.from_onnx.translation.registry import REQUIRED, Translator, find_translator


@pytest.mark.parametrize(
    ("op_type", "defaults"),
    [
        ("PriorBoxClustered", {"clip": 0, "variance": (0.1,), "step": 0.0}),
        ("ExperimentalDetectronTopKROIs", {"max_rois": 1000}),
        ("ExperimentalDetectronPriorGridGenerator", {"flatten": 1, "h": 0}),
        ("ExperimentalDetectronROIFeatureExtractor", {"sampling_ratio": 2, "pyramid_scales": (4, 8, 16, 32, 64)}),
        ("ExperimentalDetectronGenerateProposalsSingleImage", {"pre_nms_count": 1000, "post_nms_count": 1000}),
        ("ExperimentalDetectronDetectionOutput", {"num_classes": 81, "max_detections_per_image": 100}),
        ("DetectionOutput", {"nms_threshold": REQUIRED, "keep_top_k": 1, "top_k": -1}),
    ],
)
def test_defaults_of_openvinos_frontend(op_type: str, defaults: dict[str, Any]) -> None:
    """The defaults of OpenVINO's frontend hold where the IR operation has none or others."""
    translator, _ = cast(tuple[Translator, int], find_translator(op_type, "org.openvinotoolkit", 1))
    assert {name: translator.attributes[name] for name in defaults} == defaults
