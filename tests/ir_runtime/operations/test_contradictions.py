"""What operations refuse: types of inputs and attributes that contradict each other, and values that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ir_runtime import AttributeValueError, ExecutionError, InferenceError, ModelError
from ir_runtime.operations import priors
from tests.ir_runtime.operations.relaxation import DETECTED, PLANES, POOLED, PYRAMID, WINDOW, operation, types
from tests.rows.layers.detection import CELLS, GENERATED, LAST, PREFIX, PROPOSED, SINGLE

ROWS: dict[str, list[tuple[Any, ...]]] = {
    "Add-1": [("f32[2] i32[2]", "one element type"), ("f32[2] f32[3]", "cannot be broadcast"),
        ("f32[2] f32[1]", "must be equal", {"auto_broadcast": "none"}),
        ("f32[2,3] f32[3]", "does not fit the first", {"auto_broadcast": "pdpd"})],
    "LogicalAnd-1": [("f32[2] f32[2]", "must be boolean")],
    "BitwiseAnd-13": [("f32[2] f32[2]", "must be integers or booleans")],
    "Select-1": [("f32[2] f32[2] f32[2]", "must be boolean")],
    "ErfInv-17": [("i32[2]", "floating-point")],
    "Sigmoid-1": [("i32[2]", "floating-point")],
    "Clamp-1": [("f32[2]", "min must not be above max", {"min": 1, "max": 0})],
    "SoftMax-1": [("f32[2,2]", "no negative axis", {"axis": -1})],
    "SoftMax-8": [("f32[2,2]", "axis 2 lies outside", {"axis": 2})],
    "PReLU-1": [("f32[2,3,4] f32[5]", "cannot be broadcast")],
    "Selu-1": [("f32[2] f32[2] f32[]", "must be a scalar")],
    "HardSigmoid-1": [("f32[2] f16[] f32[]", "one element type")],
    "FakeQuantize-1": [("f32[2] f32[2] f32[2] f32[2] f32[2]", "two levels", {"levels": 1})],
    "FakeConvert-13": [("f32[2] f32[2]", "destination_type must be", {"destination_type": "f16"}),
        ("f32[2] f32[3,2]", "must not be larger than the data"),
        ("f32[2] f32[2] f32[3,2]", "must not be larger than the data")],
    "DepthToSpace-1": [("f32[4]", "needs a batch, channels and space", {"block_size": 2}),
        ("f32[4,4]", "needs a batch, channels and space", {"block_size": 2})],
    "SpaceToDepth-1": [("f32[4]", "needs a batch, channels and space", {"block_size": 2}),
        ("f32[4,4]", "needs a batch, channels and space", {"block_size": 2})],
    "BinaryConvolution-1": [("f32[3,2,5,5] u1[4,3,3,3]", "have 2", WINDOW)],
    "Convolution-1": [("f32[1,4,9,9] f32[8,3,3,3]", "have 4", {"strides": [2, 1]})],
    "GroupedMatMul-17": [("f32[6,3] f32[2,4,3]", "third input"), ("f32[3,6] f32[4,6] i32[2]", r"must be \[t, k\]"),
        ("f32[6] f32[2,4,3] i32[2]", r"must be \[t, k\]"), ("f32[6,3] f32[2,4,3] i32[2,1]", "must be a list"),
        ("f32[6,3] f32[2,4,3] f32[2]", "i32 or i64"), ("f32[6,3] f16[2,4,3] i32[2]", "one element type"),
        ("f32[2,5,3] f32[3,4,3]", "as many groups"), ("f32[2,5,3] f32[2,3,4]", "last dimension")],
    "ScaledDotProductAttention-13": [("f32[2,4,8] f32[2,5,7] f32[2,5,6]", "agree in the last dimension"),
        ("f32[2,4,8] f32[2,5,8] f32[2,6,6]", "agree in the last but one dimension"),
        ("f32[8] f32[5,8] f32[5,6]", "must be at least matrices"), ("i32[4,8] i32[5,8] i32[5,6]", "floating-point")],
    "GRUCell-3": [("f32[?,4] f32[3,2] f32[8,4] f32[6,2]", "rows of W", {"hidden_size": 2}),
        ("f32[?,4] f32[3,2] f32[6,4] f32[6,2]", "activations are", {"hidden_size": 2, "activations": ["tanh"]})],
    "RNNCell-1": [("f32[?,4] f32[3,2] f32[2,4] f32[2,2]", "is not known", {"hidden_size": 2, "activations": ["hard"]})],
    "BatchNormInference-5": [("f32[?,4,?] f32[4] f32[4] f32[4] f32[3]", "3 values, but the data has 4"),
        ("f32[?,4,?] f32[4] f32[4] f32[4] f32[4,1]", "must be a list"),
        ("f32[4] f32[4] f32[4] f32[4] f32[4]", "a batch and a channel")],
    "BatchNormInference-1": [("f32[4] f32[4] f16[1,4] f32[4] f32[4]", "one element type")],
    "MVN-6": [("f32[?,4,?] i64{3}", "axis 3 lies outside"), ("f32[?,4,?] i64{1,-2}", "name a dimension twice")],
    "MVN-2": [("i32[1,2]", "floating-point")],
    "LRN-1": [("f32[?,4,?] i64{1}", "size must be positive")],
    "GroupNormalization-12": [("f32[?,4,?] f32[4] f32[4]", "cannot be split into 3 groups", {"num_groups": 3}),
        ("f32[?,4,?] f32[4] f32[4]", "must be positive", {"num_groups": 0})],
    "Bucketize-3": [("f32[2,3] f32[1,4]", r"must be a list, but have the shape \[1,4\]")],
    "SparseFillEmptyRows-16": [("f32[4] i64[2] i64[3,2] f32[]", "number of values must agree"),
        ("f32[4] i64[2] i64[4,3] f32[]", "number of dimensions must agree"),
        ("f32[4] i64[3] i64[4,2] f32[]", "number of dimensions must agree"),
        ("f32[4] i64[2] i64[4,2] f32[1]", "0 dimensions"), ("f32[4] i32[2] i64[4,2] f32[]", "one element type"),
        ("f32[4] f32[2] f32[4,2] f32[]", "must be integers")],
    "CTCGreedyDecoder-1": [("f32[4,2] f32[4,2]", "3 dimensions"), ("f32[4,2,3] f32[4,3]", "batch must agree"),
        ("f32[4,2,3] f32[5,2]", "number of steps must agree")],
    "CTCGreedyDecoderSeqLen-6": [("f32[2,4,3] f32[3]", "batch must agree")],
    "CTCLoss-4": [("f32[2,4,3] f32[3] f32[2,4] f32[2]", "batch must agree"),
        ("f32[2,4,3] f32[2] f32[2,5] f32[2]", "number of steps must agree"),
        ("f32[2,4,3] f32[2] f32[2,4] f32[2] f32[1]", "0 dimensions")],
    "StringTensorPack-15": [("i32[2] i32[3] u8[9]", "one shape"), ("i32[2] i64[2] u8[9]", "one element type"),
        ("f32[2] f32[2] u8[9]", "i32 or i64"), ("i32[2] i32[2] i8[9]", "must be u8"),
        ("i32[2] i32[2] u8[3,3]", "1 dimensions")],
    "StringTensorUnpack-15": [("f32[2]", "must hold texts")],
    "ISTFT-16": [("f32[7,2] f32[8] i64(8) i64(3)", "three or four dimensions"),
        ("f32[6,7,2] f32[8] i64(8) i64(3)", "5 frequencies"),
        ("f32[5,7,2] f32[9] i64(8) i64(3)", "do not make a transform"),
        ("f32[5,7,2] f32[8] i64(8) i64(0)", "do not make a transform"),
        ("f32[5,7,2] f32[8,1] i64(8) i64(3)", "1 dimensions"), ("f32[5,7,2] f32[8] i64{8} i64(3)", "0 dimensions")],
    "NV12toRGB-8": [("u8[6,4,1]", "4 dimensions"), ("u8[1,5,4,1]", "cannot be shared"),
        ("u8[1,4,4,1] u8[1,2,3,2]", "width must agree"), ("u8[1,4,4,1] u8[1,2,2,1]", "2 channels"),
        ("i8[1,6,4,1]", "u8 or of a floating-point type")],
    "I420toRGB-8": [("u8[1,6,3,1]", "cannot be shared"), ("u8[1,6,4,3]", "1 channels"),
        ("u8[1,4,4,1] u8[1,2,2,1]", "one plane or 3")],
    "RGBtoNV12-17": [("i32[1,4,4,3]", "u8 or of a floating-point type"), ("u8[1,3,4,3]", "cannot be shared"),
        ("u8[1,4,3,3]", "cannot be shared", {"single_plane": False}), ("u8[1,4,4,1]", "3 channels")],
    "MatrixNms-8": [("f32[2,20,4] f32[3,3,20]", "number of images"), ("f32[2,20,5] f32[2,3,20]", "coordinates"),
        ("f32[2,20,4] f32[2,3,20]", "nms_top_k", {"nms_top_k": -2})],
    "MulticlassNms-8": [("f32[2,20,4] f32[2,3,21]", "number of boxes"),
        ("f32[2,20,4] f32[2,3,20]", "nms_eta", {"nms_eta": 1.5})],
    "MulticlassNms-9": [("f32[2,20,4] f32[2,3,20] f32[4]", "2 dimensions"),
        ("f32[2,20,4] f32[3,20] f32[4]", "number of classes")],
    "NMSRotated-13": [("f32[2,20,4] f32[2,3,20] f32[] f32[] f32[]", "coordinates"),
        ("f32[2,20,5] f32[2,3,20] f32[2] f32[] f32[]", "limit")],
    "PSROIPooling-1": [("f32[2,50,9,11] f32[7,5]", "channels", PLANES), ("f32[2,54,9,11] f32[7,4]", "region", PLANES),
        ("f32[2,54,9,11] f32[7,5]", "positive", {**PLANES, "group_size": 0}),
        ("f32[2,54,9,11] f32[7,5]", "spatial_bins", {**PLANES, "mode": "bilinear"})],
    "DeformablePSROIPooling-1": [("f32[2,54,9,11] f32[7,5,1]", "2 dimensions", {"output_dim": 54}),
        ("f32[2,54,9,11] f32[7,5] f32[6,2,1,1]", "offsets", {"output_dim": 54}),
        ("f32[2,54,9,11] f32[7,5] f32[7,10,1,1]", "spread", {"output_dim": 54})],
    "ROIAlignRotated-15": [("f32[2,54,9,11] f32[7,4] f32[7]", "region", POOLED),
        ("f32[2,54,9,11] f32[7,5] f32[6]", "batches", POOLED),
        ("f32[2,54,9,11] f32[7,5] f32[7]", "positive", {"pooled_h": 2})],
    "DetectionOutput-8": [("f32[2,100] f32[3,100] f32[1,2,100]", "number of images", DETECTED),
        ("f32[2,100] f32[2,100] f32[3,2,100]", "lists of priors", DETECTED),
        ("f32[2,100] f32[2,100] f32[1,1,100]", "rows of the priors", DETECTED),
        ("f32[2,96] f32[2,100] f32[1,2,100]", "priors and of moves", DETECTED),
        ("f32[2,100] f32[2,90] f32[1,2,100]", "the scores have 90 values", DETECTED),
        ("f32[2,100] f32[2,100] f32[1,2,100]", "keep_top_k", {**DETECTED, "keep_top_k": []}),
        ("f32[2,100] f32[2,100] f32[1,2,100] f32[2,50]", "come together", DETECTED)],
    "Proposal-4": [("f32[2,12,5,6] f32[2,23,5,6] f32[3]", "number of deltas", PROPOSED),
        ("f32[2,12,5,6] f32[3,24,5,6] f32[3]", "number of images", PROPOSED),
        ("f32[2,12,5,6] f32[2,24,5,6] f32[2]", "three or four", PROPOSED),
        ("f32[2,12,5,6] f32[2,24,5,6] f32[3]", "framework", {**PROPOSED, "framework": "other"})],
    "GenerateProposals-9": [("f32[2,3] f32[5,6,3,5] f32[2,12,5,6] f32[2,3,5,6]", "coordinates", GENERATED),
        ("f32[2,3] f32[5,6,3,4] f32[2,12,5,7] f32[2,3,5,6]", "width", GENERATED),
        ("f32[2,3] f32[5,6,3,4] f32[2,9,5,6] f32[2,3,5,6]", "number of deltas", GENERATED),
        ("f32[2,3] f32[5,6,3,4] f32[2,12,5,6] f32[2,3,5,6]", "positive", {**GENERATED, "post_nms_count": 0})],
    PREFIX + "GenerateProposalsSingleImage-6": [("f32[4] f32[90,4] f32[12,5,6] f32[3,5,6]", "dimensions", SINGLE),
        ("f32[3] f32[80,4] f32[12,5,6] f32[3,5,6]", "anchors", SINGLE)],
    PREFIX + "TopKROIs-6": [("f32[10,4] f32[9]", "regions", {"max_rois": 5}),
        ("f32[10,4] f32[10]", "max_rois", {"max_rois": -5})],
    PREFIX + "PriorGridGenerator-6": [("f32[3,4] f32[1,8,5,6] f32[2,3,40,48]", "images", CELLS),
        ("f32[3,4] f32[1,8,5,6] f32[1,3,40,48]", "h must lie", {**CELLS, "h": 6})],
    PREFIX + "ROIFeatureExtractor-6": [("f32[10,4] f32[1,16,20,30] f32[1,15,10,15]", "channels", PYRAMID),
        ("f32[10,4] f32[1,16,20,30]", "scales", {**PYRAMID, "pyramid_scales": []})],
    PREFIX + "DetectionOutput-6": [("f32[20,4] f32[20,12] f32[20,4] f32[1,3]", "deltas", LAST),
        ("f32[20,4] f32[20,16] f32[20,4] f32[1,3]", "weights", {**LAST, "deltas_weights": [1.0]})],
    "Col2Im-15": [(f"f32[?,?,?] i64{first} i64{second}", "must be given by two numbers", WINDOW)
                  for shape in ("[1,1,2]", "[]", "[3]") for first, second in ((shape, "[2]"), ("[2]", shape))],
}  # fmt: skip
"""Inputs, what is wrong with them, and attributes if there are any."""


@pytest.mark.parametrize(("label", "row"), [(label, row) for label, rows in ROWS.items() for row in rows])
def test_types_that_contradict(label: str, row: tuple[Any, ...]) -> None:
    inputs, reason, *attributes = row
    with pytest.raises(InferenceError, match=reason):
        operation(label, *attributes).infer(types(inputs))


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
