"""What operations refuse: types of inputs and attributes that contradict each other, and values that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ir_runtime import AttributeValueError, ExecutionError, InferenceError, ModelError
from ir_runtime.operations import priors
from tests.ir_runtime.operations.relaxation import (
    CELLS,
    DETECTED,
    GENERATED,
    LAST,
    PLANES,
    POOLED,
    PREFIX,
    PROPOSED,
    PYRAMID,
    SINGLE,
    WINDOW,
    operation,
    types,
)

ROWS: list[tuple[str, dict[str, Any], str, str]] = [
    ("Add-1", {}, "f32[2] i32[2]", "one element type"),
    ("Add-1", {}, "f32[2] f32[3]", "cannot be broadcast"),
    ("Add-1", {"auto_broadcast": "none"}, "f32[2] f32[1]", "must be equal"),
    ("Add-1", {"auto_broadcast": "pdpd"}, "f32[2,3] f32[3]", "does not fit the first"),
    ("LogicalAnd-1", {}, "f32[2] f32[2]", "must be boolean"),
    ("BitwiseAnd-13", {}, "f32[2] f32[2]", "must be integers or booleans"),
    ("Select-1", {}, "f32[2] f32[2] f32[2]", "must be boolean"),
    ("ErfInv-17", {}, "i32[2]", "floating-point"),
    ("Sigmoid-1", {}, "i32[2]", "floating-point"),
    ("Clamp-1", {"min": 1, "max": 0}, "f32[2]", "min must not be above max"),
    ("SoftMax-8", {"axis": 2}, "f32[2,2]", "axis 2 lies outside"),
    ("PReLU-1", {}, "f32[2,3,4] f32[5]", "cannot be broadcast"),
    ("Selu-1", {}, "f32[2] f32[2] f32[]", "must be a scalar"),
    ("HardSigmoid-1", {}, "f32[2] f16[] f32[]", "one element type"),
    ("FakeQuantize-1", {"levels": 1}, "f32[2] f32[2] f32[2] f32[2] f32[2]", "two levels"),
    ("FakeConvert-13", {"destination_type": "f16"}, "f32[2] f32[2]", "destination_type must be"),
    ("FakeConvert-13", {}, "f32[2] f32[3,2]", "must not be larger than the data"),
    ("FakeConvert-13", {}, "f32[2] f32[2] f32[3,2]", "must not be larger than the data"),
    ("DepthToSpace-1", {"block_size": 2}, "f32[4]", "needs a batch, channels and space"),
    ("DepthToSpace-1", {"block_size": 2}, "f32[4,4]", "needs a batch, channels and space"),
    ("SpaceToDepth-1", {"block_size": 2}, "f32[4]", "needs a batch, channels and space"),
    ("SpaceToDepth-1", {"block_size": 2}, "f32[4,4]", "needs a batch, channels and space"),
    ("BinaryConvolution-1", WINDOW, "f32[3,2,5,5] u1[4,3,3,3]", "have 2"),
    ("Convolution-1", {"strides": [2, 1]}, "f32[1,4,9,9] f32[8,3,3,3]", "have 4"),
    *(("Col2Im-15", WINDOW, f"f32[?,?,?] i64{sizes[0]} i64{sizes[1]}", "must be given by two numbers")
      for shape in ("[1,1,2]", "[]", "[3]") for sizes in ((shape, "[2]"), ("[2]", shape))),
    ("GroupedMatMul-17", {}, "f32[6,3] f32[2,4,3]", "third input"),
    ("GroupedMatMul-17", {}, "f32[3,6] f32[4,6] i32[2]", r"must be \[t, k\]"),
    ("GroupedMatMul-17", {}, "f32[6] f32[2,4,3] i32[2]", r"must be \[t, k\]"),
    ("GroupedMatMul-17", {}, "f32[6,3] f32[2,4,3] i32[2,1]", "must be a list"),
    ("GroupedMatMul-17", {}, "f32[6,3] f32[2,4,3] f32[2]", "i32 or i64"),
    ("GroupedMatMul-17", {}, "f32[6,3] f16[2,4,3] i32[2]", "one element type"),
    ("GroupedMatMul-17", {}, "f32[2,5,3] f32[3,4,3]", "as many groups"),
    ("GroupedMatMul-17", {}, "f32[2,5,3] f32[2,3,4]", "last dimension"),
    ("ScaledDotProductAttention-13", {}, "f32[2,4,8] f32[2,5,7] f32[2,5,6]", "agree in the last dimension"),
    ("ScaledDotProductAttention-13", {}, "f32[2,4,8] f32[2,5,8] f32[2,6,6]", "agree in the last but one dimension"),
    ("ScaledDotProductAttention-13", {}, "f32[8] f32[5,8] f32[5,6]", "must be at least matrices"),
    ("ScaledDotProductAttention-13", {}, "i32[4,8] i32[5,8] i32[5,6]", "floating-point"),
    ("GRUCell-3", {"hidden_size": 2}, "f32[?,4] f32[3,2] f32[8,4] f32[6,2]", "rows of W"),
    ("GRUCell-3", {"hidden_size": 2, "activations": ["tanh"]}, "f32[?,4] f32[3,2] f32[6,4] f32[6,2]",
        "activations are"),
    ("RNNCell-1", {"hidden_size": 2, "activations": ["hard"]}, "f32[?,4] f32[3,2] f32[2,4] f32[2,2]", "is not known"),
    ("BatchNormInference-5", {}, "f32[?,4,?] f32[4] f32[4] f32[4] f32[3]", "3 values, but the data has 4"),
    ("BatchNormInference-5", {}, "f32[?,4,?] f32[4] f32[4] f32[4] f32[4,1]", "must be a list"),
    ("BatchNormInference-5", {}, "f32[4] f32[4] f32[4] f32[4] f32[4]", "a batch and a channel"),
    ("BatchNormInference-1", {}, "f32[4] f32[4] f16[1,4] f32[4] f32[4]", "one element type"),
    ("MVN-6", {}, "f32[?,4,?] i64{3}", "axis 3 lies outside"),
    ("MVN-6", {}, "f32[?,4,?] i64{1,-2}", "name a dimension twice"),
    ("MVN-2", {}, "i32[1,2]", "floating-point"),
    ("LRN-1", {}, "f32[?,4,?] i64{1}", "size must be positive"),
    ("GroupNormalization-12", {"num_groups": 3}, "f32[?,4,?] f32[4] f32[4]", "cannot be split into 3 groups"),
    ("GroupNormalization-12", {"num_groups": 0}, "f32[?,4,?] f32[4] f32[4]", "must be positive"),
    ("Bucketize-3", {}, "f32[2,3] f32[1,4]", r"must be a list, but have the shape \[1,4\]"),
    ("SparseFillEmptyRows-16", {}, "f32[4] i64[2] i64[3,2] f32[]", "number of values must agree"),
    ("SparseFillEmptyRows-16", {}, "f32[4] i64[2] i64[4,3] f32[]", "number of dimensions must agree"),
    ("SparseFillEmptyRows-16", {}, "f32[4] i64[3] i64[4,2] f32[]", "number of dimensions must agree"),
    ("SparseFillEmptyRows-16", {}, "f32[4] i64[2] i64[4,2] f32[1]", "0 dimensions"),
    ("SparseFillEmptyRows-16", {}, "f32[4] i32[2] i64[4,2] f32[]", "one element type"),
    ("SparseFillEmptyRows-16", {}, "f32[4] f32[2] f32[4,2] f32[]", "must be integers"),
    ("CTCGreedyDecoder-1", {}, "f32[4,2] f32[4,2]", "3 dimensions"),
    ("CTCGreedyDecoder-1", {}, "f32[4,2,3] f32[4,3]", "batch must agree"),
    ("CTCGreedyDecoder-1", {}, "f32[4,2,3] f32[5,2]", "number of steps must agree"),
    ("CTCGreedyDecoderSeqLen-6", {}, "f32[2,4,3] f32[3]", "batch must agree"),
    ("CTCLoss-4", {}, "f32[2,4,3] f32[3] f32[2,4] f32[2]", "batch must agree"),
    ("CTCLoss-4", {}, "f32[2,4,3] f32[2] f32[2,5] f32[2]", "number of steps must agree"),
    ("CTCLoss-4", {}, "f32[2,4,3] f32[2] f32[2,4] f32[2] f32[1]", "0 dimensions"),
    ("StringTensorPack-15", {}, "i32[2] i32[3] u8[9]", "one shape"),
    ("StringTensorPack-15", {}, "i32[2] i64[2] u8[9]", "one element type"),
    ("StringTensorPack-15", {}, "f32[2] f32[2] u8[9]", "i32 or i64"),
    ("StringTensorPack-15", {}, "i32[2] i32[2] i8[9]", "must be u8"),
    ("StringTensorPack-15", {}, "i32[2] i32[2] u8[3,3]", "1 dimensions"),
    ("StringTensorUnpack-15", {}, "f32[2]", "must hold texts"),
    ("ISTFT-16", {}, "f32[7,2] f32[8] i64(8) i64(3)", "three or four dimensions"),
    ("ISTFT-16", {}, "f32[6,7,2] f32[8] i64(8) i64(3)", "5 frequencies"),
    ("ISTFT-16", {}, "f32[5,7,2] f32[9] i64(8) i64(3)", "do not make a transform"),
    ("ISTFT-16", {}, "f32[5,7,2] f32[8] i64(8) i64(0)", "do not make a transform"),
    ("ISTFT-16", {}, "f32[5,7,2] f32[8,1] i64(8) i64(3)", "1 dimensions"),
    ("ISTFT-16", {}, "f32[5,7,2] f32[8] i64{8} i64(3)", "0 dimensions"),
    ("NV12toRGB-8", {}, "u8[6,4,1]", "4 dimensions"),
    ("NV12toRGB-8", {}, "u8[1,5,4,1]", "cannot be shared"),
    ("I420toRGB-8", {}, "u8[1,6,3,1]", "cannot be shared"),
    ("I420toRGB-8", {}, "u8[1,6,4,3]", "1 channels"),
    ("NV12toRGB-8", {}, "u8[1,4,4,1] u8[1,2,3,2]", "width must agree"),
    ("NV12toRGB-8", {}, "u8[1,4,4,1] u8[1,2,2,1]", "2 channels"),
    ("I420toRGB-8", {}, "u8[1,4,4,1] u8[1,2,2,1]", "one plane or 3"),
    ("NV12toRGB-8", {}, "i8[1,6,4,1]", "u8 or of a floating-point type"),
    ("RGBtoNV12-17", {}, "i32[1,4,4,3]", "u8 or of a floating-point type"),
    ("RGBtoNV12-17", {}, "u8[1,3,4,3]", "cannot be shared"),
    ("RGBtoNV12-17", {"single_plane": False}, "u8[1,4,3,3]", "cannot be shared"),
    ("RGBtoNV12-17", {}, "u8[1,4,4,1]", "3 channels"),
    ("MatrixNms-8", {}, "f32[2,20,4] f32[3,3,20]", "number of images"),
    ("MatrixNms-8", {}, "f32[2,20,5] f32[2,3,20]", "coordinates"),
    ("MatrixNms-8", {"nms_top_k": -2}, "f32[2,20,4] f32[2,3,20]", "nms_top_k"),
    ("MulticlassNms-8", {}, "f32[2,20,4] f32[2,3,21]", "number of boxes"),
    ("MulticlassNms-8", {"nms_eta": 1.5}, "f32[2,20,4] f32[2,3,20]", "nms_eta"),
    ("MulticlassNms-9", {}, "f32[2,20,4] f32[2,3,20] f32[4]", "2 dimensions"),
    ("MulticlassNms-9", {}, "f32[2,20,4] f32[3,20] f32[4]", "number of classes"),
    ("NMSRotated-13", {}, "f32[2,20,4] f32[2,3,20] f32[] f32[] f32[]", "coordinates"),
    ("NMSRotated-13", {}, "f32[2,20,5] f32[2,3,20] f32[2] f32[] f32[]", "limit"),
    ("PSROIPooling-1", PLANES, "f32[2,50,9,11] f32[7,5]", "channels"),
    ("PSROIPooling-1", PLANES, "f32[2,54,9,11] f32[7,4]", "region"),
    ("PSROIPooling-1", {**PLANES, "group_size": 0}, "f32[2,54,9,11] f32[7,5]", "positive"),
    ("PSROIPooling-1", {**PLANES, "mode": "bilinear"}, "f32[2,54,9,11] f32[7,5]", "spatial_bins"),
    ("DeformablePSROIPooling-1", {"output_dim": 54}, "f32[2,54,9,11] f32[7,5,1]", "2 dimensions"),
    ("DeformablePSROIPooling-1", {"output_dim": 54}, "f32[2,54,9,11] f32[7,5] f32[6,2,1,1]", "offsets"),
    ("DeformablePSROIPooling-1", {"output_dim": 54}, "f32[2,54,9,11] f32[7,5] f32[7,10,1,1]", "spread"),
    ("ROIAlignRotated-15", POOLED, "f32[2,54,9,11] f32[7,4] f32[7]", "region"),
    ("ROIAlignRotated-15", POOLED, "f32[2,54,9,11] f32[7,5] f32[6]", "batches"),
    ("ROIAlignRotated-15", {"pooled_h": 2}, "f32[2,54,9,11] f32[7,5] f32[7]", "positive"),
    ("DetectionOutput-8", DETECTED, "f32[2,100] f32[3,100] f32[1,2,100]", "number of images"),
    ("DetectionOutput-8", DETECTED, "f32[2,100] f32[2,100] f32[3,2,100]", "lists of priors"),
    ("DetectionOutput-8", DETECTED, "f32[2,100] f32[2,100] f32[1,1,100]", "rows of the priors"),
    ("DetectionOutput-8", DETECTED, "f32[2,96] f32[2,100] f32[1,2,100]", "priors and of moves"),
    ("DetectionOutput-8", DETECTED, "f32[2,100] f32[2,90] f32[1,2,100]", "the scores have 90 values"),
    ("DetectionOutput-8", {**DETECTED, "keep_top_k": []}, "f32[2,100] f32[2,100] f32[1,2,100]", "keep_top_k"),
    ("DetectionOutput-8", DETECTED, "f32[2,100] f32[2,100] f32[1,2,100] f32[2,50]", "come together"),
    ("Proposal-4", PROPOSED, "f32[2,12,5,6] f32[2,23,5,6] f32[3]", "number of deltas"),
    ("Proposal-4", PROPOSED, "f32[2,12,5,6] f32[3,24,5,6] f32[3]", "number of images"),
    ("Proposal-4", PROPOSED, "f32[2,12,5,6] f32[2,24,5,6] f32[2]", "three or four"),
    ("Proposal-4", {**PROPOSED, "framework": "other"}, "f32[2,12,5,6] f32[2,24,5,6] f32[3]", "framework"),
    ("GenerateProposals-9", GENERATED, "f32[2,3] f32[5,6,3,5] f32[2,12,5,6] f32[2,3,5,6]", "coordinates"),
    ("GenerateProposals-9", GENERATED, "f32[2,3] f32[5,6,3,4] f32[2,12,5,7] f32[2,3,5,6]", "width"),
    ("GenerateProposals-9", GENERATED, "f32[2,3] f32[5,6,3,4] f32[2,9,5,6] f32[2,3,5,6]", "number of deltas"),
    ("GenerateProposals-9", {**GENERATED, "post_nms_count": 0}, "f32[2,3] f32[5,6,3,4] f32[2,12,5,6] f32[2,3,5,6]",
     "positive"),
    (PREFIX + "GenerateProposalsSingleImage-6", SINGLE, "f32[4] f32[90,4] f32[12,5,6] f32[3,5,6]", "dimensions"),
    (PREFIX + "GenerateProposalsSingleImage-6", SINGLE, "f32[3] f32[80,4] f32[12,5,6] f32[3,5,6]", "anchors"),
    (PREFIX + "TopKROIs-6", {"max_rois": 5}, "f32[10,4] f32[9]", "regions"),
    (PREFIX + "TopKROIs-6", {"max_rois": -5}, "f32[10,4] f32[10]", "max_rois"),
    (PREFIX + "PriorGridGenerator-6", CELLS, "f32[3,4] f32[1,8,5,6] f32[2,3,40,48]", "images"),
    (PREFIX + "PriorGridGenerator-6", {**CELLS, "h": 6}, "f32[3,4] f32[1,8,5,6] f32[1,3,40,48]", "h must lie"),
    (PREFIX + "ROIFeatureExtractor-6", PYRAMID, "f32[10,4] f32[1,16,20,30] f32[1,15,10,15]", "channels"),
    (PREFIX + "ROIFeatureExtractor-6", {**PYRAMID, "pyramid_scales": []}, "f32[10,4] f32[1,16,20,30]", "scales"),
    (PREFIX + "DetectionOutput-6", LAST, "f32[20,4] f32[20,12] f32[20,4] f32[1,3]", "deltas"),
    (PREFIX + "DetectionOutput-6", {**LAST, "deltas_weights": [1.0]}, "f32[20,4] f32[20,16] f32[20,4] f32[1,3]",
        "weights"),
]  # fmt: skip


@pytest.mark.parametrize(("label", "attributes", "inputs", "reason"), ROWS)
def test_types_that_contradict(label: str, attributes: dict[str, Any], inputs: str, reason: str) -> None:
    with pytest.raises(InferenceError, match=reason):
        operation(label, attributes).infer(types(inputs))


@pytest.mark.parametrize(
    ("label", "attributes", "reason"),
    [
        ("Add-1", {"auto_broadcast": "some"}, "auto_broadcast"),
        ("Round-5", {"mode": "up"}, "mode"),
        ("Add-1", {"axis": 1}, "Add has no attribute 'axis'; known are: auto_broadcast"),
        ("Gelu-7", {"approximation_mode": "fast"}, "approximation_mode"),
        ("MatrixNms-8", {"decay_function": "cubic"}, "decay_function"),
        ("MulticlassNms-9", {"sort_result_type": "box"}, "sort_result_type"),
        ("PSROIPooling-1", {**PLANES, "mode": "max"}, "mode"),
        ("DetectionOutput-8", {**DETECTED, "code_type": "caffe.PriorBoxParameter.OTHER"}, "code_type"),
    ],
)
def test_attributes_that_cannot_be(label: str, attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(AttributeValueError, match=reason):
        operation(label, attributes)


def test_a_negative_axis_that_the_first_revision_does_not_have() -> None:
    with pytest.raises(InferenceError, match="no negative axis"):
        operation("SoftMax-1", {"axis": -1})


PLACES = [[3, 1], [0, 3], [3, 0], [0, 1]]
LABELS = np.array([[0, 1, 2, 0, 9, 9]])
LOGITS, STEPS = np.zeros((1, 6, 4), np.float32), np.zeros((3, 9, 4), np.float32)
TEXT = np.frombuffer("aç€ z".encode(), np.uint8)
GROUPS = np.ones((7, 5), np.float32), np.ones((2, 2, 5), np.float32)
SCORES, DELTAS = np.ones((2, 2, 5, 7), np.float32), np.zeros((2, 4, 5, 7), np.float32)
GRID = np.zeros((3, 4), np.float32), np.zeros((1, 2, 4, 5), np.float32), np.zeros((1, 3, 41, 48), np.float32)
VALUES: list[tuple[str, dict[str, Any], Sequence[Any], str]] = [
    *[("SparseFillEmptyRows-16", {}, (np.ones(4), dimensions, PLACES, np.ones(())), "outside a matrix")
      for dimensions in ([3, 6], [5, 3])],
    *[("GroupedMatMul-17", {}, (*GROUPS, ends), "cannot end at") for ends in ([2, 8], [3, 2], [2], [-1, 3])],
    *[("CTCLoss-4", {}, (LOGITS, steps, LABELS, labels), "at most")
      for steps, labels in (([7], [1]), ([2], [3]), ([2], [-1]))],
    ("CTCGreedyDecoderSeqLen-6", {}, (STEPS, [9, 10, 9]), "0 to 9 steps"),
    *[("StringTensorPack-15", {}, (begins, ends, TEXT), "ascending order")
      for begins, ends in (([0], [9]), ([-1], [2]), ([2], [1]), ([6, 0], [7, 1]), ([0, 1], [3, 2]))],
    ("MulticlassNms-9", {}, (np.zeros((2, 4, 4), np.float32), np.zeros((2, 4), np.float32), [3, 2]), "only 4"),
    (PREFIX + "PriorGridGenerator-6", {"h": 9, "w": 3}, GRID, "larger"),
    ("Proposal-1", {**PROPOSED, "ratio": [1.0], "scale": [1.0]}, (SCORES, DELTAS, [0, 56, 1]), "positive"),
    ("Proposal-1", {**PROPOSED, "ratio": [1.0, 2.0], "scale": [1.0]}, (SCORES, DELTAS, [40, 56, 1]), "anchors"),
]  # fmt: skip


@pytest.mark.parametrize(("label", "attributes", "inputs", "reason"), VALUES)
def test_values_that_cannot_be(label: str, attributes: dict[str, Any], inputs: Sequence[Any], reason: str) -> None:
    arrays = [np.asarray(value) for value in inputs]
    is_late = label.startswith((PREFIX, "Multiclass", "Proposal"))
    with pytest.raises(ExecutionError if is_late else ModelError, match=reason):
        operation(label, attributes).evaluate(*arrays)


def test_greatest_size_of_an_unscaled_layer() -> None:
    op = priors.PriorBox1(min_size=[0.1], max_size=[0.2], scale_all_sizes=False)
    with pytest.raises(InferenceError, match="max_size"):
        op.boxes()
