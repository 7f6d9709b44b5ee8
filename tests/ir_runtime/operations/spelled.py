"""Types of inputs as tables spell them: ``f32[2,?] i64{1,-1} i64(3)``, where braces and parentheses hold constants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ir_runtime.graph.element_types import element_type
from ir_runtime.graph.operation import Operation, TensorType, find_operation
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.graph.value_ranges import Bounds

ENDLESS = 2**63 - 1


def ends_of(number: str) -> tuple[int, int]:
    """Return the ends of ``3``, ``1..5``, ``2..`` or ``..``; what is left out stands for no end."""
    low, dots, high = number.partition("..")
    return int(low or -ENDLESS - 1), int(high or ENDLESS) if dots else int(low)


def types(text: str) -> list[TensorType]:
    """Return the types; ``i64{3}`` is a list of one number, ``i64(3)`` a number, and ``i64{1..5}`` has bounds."""
    found = []
    for kind, bracket, content in re.findall(r"(\w+)([\[{(])([^\]})]*)[\]})]", text):
        if bracket == "[":
            found.append(TensorType(element_type(kind), PartialShape.parse(f"[{content}]")))
            continue
        numbers = [ends_of(number) for number in content.split(",") if number]
        dtype = np.int64 if ".." in content else element_type(kind).dtype
        lower, upper = (
            array if bracket == "{" else array[0, ...]
            for array in (np.array([ends[index] for ends in numbers], dtype) for index in (0, 1))
        )
        tensor = None if ".." in content else Tensor.from_array(lower)
        bounds = Bounds(lower, upper) if ".." in content else None
        found.append(TensorType(element_type(kind), PartialShape(lower.shape), tensor, bounds))
    return found


def operation(label: str, attributes: Mapping[str, Any]) -> Operation:
    """Return the operation of a label such as ``Gather-8``."""
    name, _, opset = label.rpartition("-")
    return find_operation(name, int(opset))(**attributes)


# Attributes of operations that several tables need.
PLANES = {"output_dim": 6, "group_size": 3, "spatial_scale": 1.0, "mode": "average"}
POOLED = {"pooled_h": 2, "pooled_w": 2}
PREFIX = "ExperimentalDetectron"
PROPOSED = {"base_size": 16, "pre_nms_topn": 100, "post_nms_topn": 20, "nms_thresh": 0.5, "feat_stride": 8,
    "min_size": 4,
            "ratio": [0.5, 1.0, 2.5], "scale": [0.75, 2.0]}  # fmt: skip
GENERATED = {"min_size": 3.0, "nms_threshold": 0.5, "pre_nms_count": 80, "post_nms_count": 25}
SINGLE = {"min_size": 0.0, "nms_threshold": 0.5, "pre_nms_count": 60, "post_nms_count": 20}
CELLS = {"flatten": True, "h": 0, "w": 0, "stride_x": 0.0, "stride_y": 0.0}
PYRAMID = {"output_size": 3, "sampling_ratio": 2, "pyramid_scales": [4, 8], "aligned": False}
LAST = {"score_threshold": 0.2, "nms_threshold": 0.4, "max_delta_log_wh": 1.5, "num_classes": 4, "post_nms_count": 50,
        "max_detections_per_image": 20, "deltas_weights": [10.0, 8.0, 5.0, 4.0]}  # fmt: skip
CORNER = "caffe.PriorBoxParameter.CORNER"
DETECTED = {"keep_top_k": [15], "nms_threshold": 0.4, "code_type": CORNER, "share_location": True, "normalized": True}
WINDOW = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
