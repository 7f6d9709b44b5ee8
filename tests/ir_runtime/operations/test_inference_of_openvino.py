"""Element types and shapes that are inferred of partly known inputs, against those that OpenVINO infers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset16 as ops

import ir_runtime
from ir_runtime.graph import element_types
from ir_runtime.graph.operation import TensorType
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.colour import BGRtoNV12_17, RGBtoNV12_17
from ir_runtime.operations.inputs_outputs import Parameter1, Result1
from ir_runtime.operations.type_promotion import ConvertPromoteTypes14
from tests.engines import core, made, written
from tests.ir_runtime.operations.spelled import CELLS, DETECTED, GENERATED, LAST, PREFIX, PROPOSED, PYRAMID, SINGLE

Inputs = Sequence[Any]
Row = tuple[str, Mapping[str, Any], Inputs, Sequence[str]]
"""An operation, its attributes, the types of its inputs or their constant values, and the shapes of the former."""

REALS, WHOLE = ("f32", "f16"), np.int64
PLACES = np.array([[3, 1], [0, 3], [3, 0], [0, 1]])
PLANES = ("[2,54,9,11] [7,5]", "[?,?,?,?] [?,?]")
CLASSES = ({}, {"nms_top_k": 5}, {"keep_top_k": 7}, {"nms_top_k": 5, "keep_top_k": 40})
NMS = [("MatrixNms-8", {}), ("MulticlassNms-8", {}), ("MulticlassNms-9", {})]
EXACT: list[Row] = [
    *(("ISTFT-16", {"center": center, "normalized": False}, ["f32", "f32", WHOLE(size), *rest], [
        "[5,7,2] [8]", "[2,5,7,2] [8]", "[?,?,?,2] [8]", "[...] [8]", "[3..4,5,4..9,2] [8]", "[5,0,2] [8]",
        "[5,..3,2] [8]", "[2..5,7,2] [8]",
    ]) for center, size in itertools.product((False, True), (8, 9))
      for rest in ([WHOLE(3)], [WHOLE(3), np.array([30])], ["i64:[]"], [WHOLE(3), "i64:[]"])),
    ("SparseFillEmptyRows-16", {}, ["f32", np.array([5, 6]), "i64", "f32:[]"], ["[4] [4,2]", "[?] [4,2]",
        "[...] [...]"]),
    ("SparseFillEmptyRows-16", {}, ["f32", "i64:[2]", "i64", "f32:[]"], ["[4] [4,2]"]),
    ("SparseFillEmptyRows-16", {}, ["f32", np.array([5, 6]), PLACES, "f32:[]"], ["[4]", "[?]"]),
    ("SparseFillEmptyRows-16", {}, ["f32", "i64:[2]", PLACES, "f32:[]"], ["[4]"]),
    ("SparseFillEmptyRows-16", {}, ["f32", np.array([3, 6]), np.zeros((0, 2), np.int64), "f32:[]"], ["[0]"]),
    ("SparseFillEmptyRows-16", {}, ["f32", np.array([0, 6]), "i64", "f32:[]"], ["[0] [?,2]"]),
    ("GroupedMatMul-17", {}, ["f32", "f32", "i32"], [
        "[6,3] [2,4,3] [2]", "[?,?] [2,4,3] [2]", "[...] [2,4,3] [2]", "[6,3] [...] [2]", "[6,3] [2,?,3] [...]",
        "[2,5,3] [2,4,3] [2]",
    ]),
    ("GroupedMatMul-17", {}, ["f32", "f32"], ["[2,5,3] [2,4,3]", "[?,5,3] [2,?,?]", "[2..4,5,3] [1..3,?,?]"]),
    ("CTCGreedyDecoder-1", {}, ["f32", "f32"], [
        "[4,2,3] [4,2]", "[?,?,3] [4,2]", "[4,?,?] [?,2]", "[...] [4,2]", "[4,2,3] [...]", "[4..6,2..5,3] [5..9,3..8]",
        "[...] [...]",
    ]),
    ("CTCGreedyDecoderSeqLen-6", {}, ["f32", "i32"], [
        "[2,4,3] [2]", "[?,?,3] [2]", "[2..5,4..6,3] [3..8]", "[...] [2]", "[2,4,3] [...]", "[...] [...]",
    ]),
    ("CTCLoss-4", {}, ["f32", "i32", "i32", "i32"], [
        "[2,4,3] [2] [2,4] [2]", "[?,4,3] [?] [2,4] [?]", "[...] [...] [...] [...]", "[2..6,4,3] [3..8] [?,4] [?]",
        "[...] [...] [...] [3..5]",
    ]),
    ("StringTensorUnpack-15", {}, ["string"], ["[2,3]", "[?,3]", "[...]", "[]", "[2..5]"]),
    ("StringTensorPack-15", {}, ["i32", "i32", "u8"], [
        "[2,3] [2,3] [10]", "[?,3] [2,3] [?]", "[...] [2,3] [?]", "[...] [...] [...]", "[2..5] [3..8] [3]",
    ]),
    *((f"{name}toRGB-8", {}, ["u8"], [
        "[1,6,4,1]", "[?,?,?,?]", "[1,6..12,4..8,1]", "[...]", "[?,6..11,4,?]", "[1,7..20,4,1]", "[1,0,4,1]",
    ]) for name in ("NV12", "I420")),
    *((f"{name}toBGR-8", {}, ["u8"] * (1 + count), [f"{first} {' '.join([other.format(3 - count)] * count)}"
        for first, other in (
        ("[1,4,4,1]", "[1,2,2,{}]"), ("[?,?,?,?]", "[1,2,2,{}]"), ("[...]", "[1,2,2,{}]"), ("[1,4,4,1]", "[...]"),
        ("[1..5,4..8,4,1]", "[2..9,1..3,2,{}]"), ("[...]", "[?,1..3,2,{}]"), ("[1,?,?,1]", "[...]"), ("[...]", "[...]"),
        ("[1,3..5,4,1]", "[1,?,2,{}]"),
    )]) for name, count in (("NV12", 1), ("I420", 2))),
    *((name, {"output_type": "i32", **limits}, ["f16", "f16"], ["[2,20,4] [2,3,20]"])
      for (name, _), limits in itertools.product(NMS, CLASSES)),
    *(("MulticlassNms-9", limits, ["f32", "f32", "i32"], ["[3,20,4] [3,20] [2]"]) for limits in CLASSES),
    *(("NMSRotated-13", {}, ["f16", "f16", WHOLE(limit), np.float32(0.3), np.float32(0.1)], ["[2,20,5] [2,3,20]"])
      for limit in (0, 5, 50)),
    *(row for kind in REALS for row in [
        ("PSROIPooling-1", {"output_dim": 6, "group_size": 3, "spatial_scale": 1.0, "mode": "average"}, [kind, kind],
            PLANES),
        ("PSROIPooling-1", {"output_dim": 9, "group_size": 4, "spatial_scale": 1.0, "mode": "bilinear",
            "spatial_bins_x": 3,
                            "spatial_bins_y": 2}, [kind, kind], PLANES),
        ("DeformablePSROIPooling-1", {"output_dim": 6, "group_size": 3, "spatial_scale": 1.0}, [kind, kind], PLANES),
        ("DeformablePSROIPooling-1", {"output_dim": 6, "group_size": 3, "part_size": 2}, [kind, kind,
            f"{kind}:[?,4,2,2]"], PLANES),
        ("ROIAlignRotated-15", {"pooled_h": 3, "pooled_w": 4, "sampling_ratio": 2, "spatial_scale": 1.0,
            "clockwise_mode": True},
         [kind, kind, "i32:[?]"], PLANES),
        *((f"Proposal-{opset}", PROPOSED, [kind] * 3, [
            "[2,12,5,6] [2,24,5,6] [3]", "[?,12,?,?] [?,24,5,6] [?]", "[2,?,?,?] [?,24,5,6] [4]",
        ]) for opset in (1, 4)),
        ("GenerateProposals-9", {**GENERATED, "roi_num_type": "i32"}, [kind] * 4, [
            "[2,3] [5,6,3,4] [2,12,5,6] [2,3,5,6]", "[?,4] [5,6,3,4] [?,12,5,6] [?,3,5,6]",
            "[2,?] [?,?,?,4] [?,?,?,?] [?,?,?,?]",
        ]),
        (PREFIX + "GenerateProposalsSingleImage-6", SINGLE, [kind] * 4, [
            "[3] [90,4] [12,5,6] [3,5,6]", "[?] [?,?] [?,?,?] [?,?,?]",
        ]),
        (PREFIX + "TopKROIs-6", {"max_rois": 5}, [kind] * 2, ["[10,4] [10]", "[?,?] [?]"]),
        (PREFIX + "PriorGridGenerator-6", CELLS, [kind] * 3, ["[3,4] [1,8,5,6] [1,3,40,48]"]),
        (PREFIX + "PriorGridGenerator-6", {**CELLS, "flatten": False}, [kind] * 3, ["[?,4] [1,8,5,6] [1,3,40,48]"]),
        (PREFIX + "PriorGridGenerator-6", {**CELLS, "h": 2, "w": 3}, [kind] * 3, ["[3,4] [?,?,?,6] [1,3,40,48]"]),
        (PREFIX + "ROIFeatureExtractor-6", PYRAMID, [kind] * 3, [
            "[10,4] [1,16,20,30] [1,16,10,15]", "[?,4] [1,?,?,?] [?,16,10,15]",
        ]),
        (PREFIX + "DetectionOutput-6", LAST, [kind] * 4, ["[20,4] [20,16] [20,4] [1,3]", "[?,?] [20,?] [?,4] [?,?]"]),
    ]),
]  # fmt: skip
LIMITS = ({"keep_top_k": [6]}, {"keep_top_k": [-1], "top_k": 7}, {"keep_top_k": [-1]})
DETECTIONS = [(f"DetectionOutput-{opset}", {**DETECTED, **limits, **({"num_classes": 4} if opset == 1 else {})}, kind)
              for opset, limits, kind in itertools.product((1, 8), LIMITS, REALS)]  # fmt: skip
EXACT += [(name, {**attributes, "share_location": False}, [kind] * 3, ["[2,400] [2,100] [1,2,100]"])
          for name, attributes, kind in DETECTIONS]  # fmt: skip
MORE_IS_KNOWN: list[Row] = [
    *((name, limits, ["f32", "f32"], ["[2,?,4] [?,3,?]", "[?,?,?] [?,?,?]", "[...] [2,3,20]", "[...] [...]"])
      for (name, _), limits in itertools.product(NMS, CLASSES)),
    *(("NMSRotated-13", {"output_type": "i32"}, ["f32", "f32", WHOLE(limit), np.float32(0.3), np.float32(0.1)],
       ["[2,?,5] [?,3,?]"]) for limit in (0, 5, 50)),
    *(row for name, attributes, kind in DETECTIONS for row in [
        (name, attributes, [kind] * 3, [
            "[2,100] [2,100] [1,2,100]", "[?,100] [?,100] [?,2,100]", "[2,?] [2,100] [2,2,100]",
                "[2,100] [2,?] [2,2,?]",
            "[?,?] [?,?] [?,?,?]",
        ]),
        (name, attributes, [kind] * 5, ["[2,100] [2,100] [1,2,100] [2,50] [2,100]",
            "[2,100] [2,?] [1,2,?] [2,50] [2,?]"]),
    ]),
]  # fmt: skip
"""Here ours may know more than OpenVINO does, but nothing else."""


def node_of(label: str, attributes: Mapping[str, Any], inputs: Inputs, shapes: str) -> tuple[Any, list[Any]]:
    """Return OpenVINO's node, and its parameters."""
    sources, parameters, given = [], [], shapes.split()
    for source in inputs:
        if not isinstance(source, str):
            sources.append(ops.constant(np.asarray(source)))
            continue
        kind, _, shape = source.partition(":")
        spelled = shape or given.pop(0)
        parameters.append(ops.parameter(openvino.PartialShape(spelled), getattr(openvino.Type, kind)))
        sources.append(parameters[-1])
    name, _, opset = label.rpartition("-")
    assert not given
    return made(name, int(opset), sources, **attributes), parameters


@pytest.mark.parametrize(
    ("is_exact", "row"),
    [*((True, row) for row in EXACT), *((False, row) for row in MORE_IS_KNOWN)],
    ids=lambda value: value[0] if isinstance(value, tuple) else str(value),
)
def test_types_and_shapes(is_exact: bool, row: Row) -> None:
    *named, spelled = row
    for shapes in spelled:
        node, parameters = node_of(*named, shapes)
        model = ir_runtime.read_model(*written(node.outputs(), parameters))
        assert len(model.outputs) == len(node.outputs())
        for found, wanted in zip(model.outputs, node.outputs()):
            assert str(found.element_type) == wanted.get_element_type().get_type_name(), shapes
            shape = PartialShape.parse(str(wanted.get_partial_shape()))
            assert found.shape == (shape if is_exact else found.shape.merge(shape)), shapes


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("shape", ["1,4,6,3", "?,?,?,?", "...", "1,4..8,2..6,3", "2..3,3..7,3..9,?", "1,0,6,3"])
@pytest.mark.parametrize("cls", [RGBtoNV12_17, BGRtoNV12_17])
def test_shapes_to_nv12(cls: Any, shape: str, single: bool) -> None:
    """OpenVINO reads our file, as its factory has no such node."""
    x = make_node(Parameter1(shape=PartialShape.parse(shape), element_type="u8"), (), "x")
    node = make_node(cls(single_plane=single), x.outputs, "conversion")
    results = [make_node(Result1(), [out], f"result{out.index}") for out in node.outputs]
    model = ir_runtime.Model(parameters=[x], results=results)
    theirs = core().read_model(*ir_runtime.model_to_bytes(model)).outputs
    assert len(theirs) == len(model.outputs)
    for ours, wanted in zip(model.outputs, theirs):
        assert ours.shape == PartialShape.parse(str(wanted.get_partial_shape()))
        assert str(ours.element_type) == wanted.get_element_type().get_type_name()


KINDS = [kind for kind in element_types.ALL if kind.name not in ("dynamic", "string")]


def promoted_by_openvino(attributes: dict[str, Any], a: TensorType, b: TensorType) -> str | None:
    nodes = [
        ops.parameter(openvino.PartialShape(str(x.shape)), getattr(openvino.Type, x.element_type.name)) for x in (a, b)
    ]
    try:
        node = ops.convert_promote_types(*nodes, **attributes)
    except RuntimeError:
        return None
    assert node.output(0).get_element_type() == node.output(1).get_element_type()
    return node.output(0).get_element_type().get_type_name()


def promoted(attributes: dict[str, Any], a: TensorType, b: TensorType) -> str | None:
    try:
        types = ConvertPromoteTypes14(**attributes).infer([a, b])
    except ir_runtime.ModelError:
        return None
    assert [t.shape for t in types] == [a.shape, b.shape]
    assert types[0].element_type is types[1].element_type
    return str(types[0].element_type)


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("scalars", [False, True])
@pytest.mark.parametrize("target", ["f32", "i64"])
@pytest.mark.parametrize("shapes", [("2", "2"), ("2", ""), ("", "?"), ("...", "")])
def test_promotion_of_every_pair_of_types(unsafe: bool, scalars: bool, target: str, shapes: tuple[str, str]) -> None:
    attributes = {"promote_unsafe": unsafe, "pytorch_scalar_promotion": scalars, "u64_integer_promotion_target": target}
    for pair in itertools.product(KINDS, repeat=2):
        a, b = (TensorType(kind, PartialShape.parse(shape)) for kind, shape in zip(pair, shapes))
        assert promoted(attributes, a, b) == promoted_by_openvino(attributes, a, b), (pair, attributes)
