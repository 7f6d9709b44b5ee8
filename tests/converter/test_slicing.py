"""ONNX's Slice and CenterCropPad through both engines, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from ir_runtime.operations.inputs_outputs import Const1
from tests.engines import check_node, node_model

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
FAR = 2**63 - 1
SHAPES: list[Any] = [None, {"x": ["a", None, "c"]}]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CASES: list[dict[str, list[int]]] = [
    {"starts": [1], "ends": [2]},
    {"starts": [0, 1], "ends": [2, 3]},
    {"starts": [1], "ends": [FAR], "axes": [-1]},
    {"starts": [-2], "ends": [FAR], "axes": [2]},
    {"starts": [-100], "ends": [-1], "axes": [1]},
    {"starts": [3], "ends": [1], "axes": [1]},
    {"starts": [100], "ends": [200], "axes": [1]},
    {"starts": [0, 1, 0], "ends": [FAR, 3, -2], "axes": [0, 1, 2]},
    {"starts": [2, 0], "ends": [4, 1], "axes": [2, 0]},
]
STEPPED: list[dict[str, list[int]]] = [
    {"starts": [0], "ends": [FAR], "axes": [1], "steps": [2]},
    {"starts": [-1], "ends": [-FAR - 1], "axes": [2], "steps": [-1]},
    {"starts": [FAR], "ends": [-FAR], "axes": [0], "steps": [-1]},
    {"starts": [3], "ends": [0], "axes": [2], "steps": [-2]},
    {"starts": [-1], "ends": [-4], "axes": [1], "steps": [-1]},
    {"starts": [-1], "ends": [-(2**31)], "axes": [1], "steps": [-1]},
    {"starts": [1, 4], "ends": [2**31 - 1, 0], "axes": [0, 2], "steps": [1, -3]},
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_slice_1(case: dict[str, list[int]], shapes: Any) -> None:
    # onnxruntime no longer runs opset 1 everywhere; the meaning is that of opset 13.
    expected = X[sliced(case)]
    check_node(node_model("Slice", {"x": X}, attributes=case, opset=1, shapes=shapes), {"x": X}, [expected])


def sliced(case: dict[str, list[int]]) -> tuple[slice, ...]:
    """NumPy's slices, whose rules for positions are ONNX's."""
    parts = [slice(None)] * 3
    axes = case.get("axes", list(range(len(case["starts"]))))
    for axis, start, end, step in zip(axes, case["starts"], case["ends"], case.get("steps", [1] * 3)):
        parts[axis] = slice(start, end, step)
    return tuple(parts)


@pytest.mark.parametrize("opset", [10, 11, 13])
@pytest.mark.parametrize("case", CASES + STEPPED, ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_slice(opset: int, case: dict[str, list[int]], shapes: Any) -> None:
    constants = {name: ints(*values) for name, values in case.items()}
    model = node_model("Slice", {"x": X}, constants=constants, opset=opset, shapes=shapes)
    check_node(model, {"x": X}, [X[sliced(case)]])


@pytest.mark.parametrize("case", [CASES[1], CASES[5], *STEPPED], ids=str)
@pytest.mark.parametrize("dtype", [np.int32, np.int64], ids=str)
def test_slice_at_execution(case: dict[str, list[int]], dtype: Any) -> None:
    limits = np.iinfo(dtype)
    clipped = {name: np.clip(values, limits.min, limits.max).astype(dtype) for name, values in case.items()}
    feeds = {"x": X, **clipped}
    # The CPU plug-in keeps the lower 32 bits of what a caller hands it as int64.
    beyond = any(abs(int(value)) > 2**31 for values in clipped.values() for value in values)
    engines = ["numpy"] if beyond else ["numpy", "openvino"]
    for shapes in SHAPES:
        model = node_model("Slice", feeds, opset=13, shapes=shapes)
        check_node(model, feeds, [X[sliced(case)]], engines=engines)


def test_slice_with_known_axes_and_positions_at_execution() -> None:
    feeds = {"x": X, "starts": ints(1), "ends": ints(-1)}
    model = node_model("Slice", feeds, constants={"axes": ints(2)}, opset=13)
    check_node(model, feeds)


def test_slice_of_nothing_at_all() -> None:
    constants = {"s": ints(), "e": ints()}
    check_node(node_model("Slice", {"x": X}, constants=constants, opset=13), {"x": X}, [X])


def shape_chain(shape: list[Any]) -> Any:
    """Shape -> Slice, Gather, arithmetic -> Concat -> Reshape, as exporters write a flattening."""
    constants = {"zero": ints(0), "two": ints(2), "one": np.array(1, np.int64), "minus": ints(-1)}
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "zero", "two"], ["lead"]),
        helper.make_node("Gather", ["shape", "one"], ["channels"], axis=0),
        helper.make_node("Unsqueeze", ["channels", "zero"], ["channel_list"]),
        helper.make_node("Slice", ["shape", "zero", "two", "zero"], ["again"]),
        helper.make_node("Concat", ["lead", "minus"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y0"]),
        helper.make_node("Mul", ["channel_list", "two"], ["doubled"]),
        helper.make_node("Concat", ["doubled", "again"], ["y1"], axis=0),
    ]
    outputs = [
        helper.make_tensor_value_info("y0", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("y1", TensorProto.INT64, None),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "chain", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10)


def test_chains_of_shapes_fold_where_the_shape_is_known() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
    check_node(shape_chain([2, 3, 2, 2]), {"x": x})
    model = converter.convert_model(shape_chain([2, 3, 2, 2]), static=True)
    assert {node.op.type for node in model.nodes() if node.inputs} == {"Reshape", "Result"}
    assert isinstance(model.results[1].inputs[0].node.op, Const1)


@pytest.mark.parametrize("shape", [["n", 3, "h", "w"], ["n", "c", "h", "w"], [None, 3, 2, 2]], ids=str)
def test_chains_of_unknown_shapes(shape: list[Any]) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
    check_node(shape_chain(shape), {"x": x})


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("target", "axes"), [([5, 2, 5], None), ([2, 7], [0, -1]), ([4], [1]), ([0], [2]), ([6, 9], [2, 0])], ids=str
)
@pytest.mark.parametrize("known", [True, False])
def test_center_crop_pad(shapes: Any, target: list[int], axes: list[int] | None, known: bool) -> None:
    attributes = {} if axes is None else {"axes": axes}
    feeds: dict[str, Any] = {"x": X}
    constants = {"shape": ints(*target)}
    if not known:
        feeds, constants = {**feeds, **constants}, {}
    model = node_model("CenterCropPad", feeds, constants=constants, attributes=attributes, opset=18, shapes=shapes)
    expected = X
    for dimension, axis in zip(target, axes or range(3)):
        expected = centred(expected, dimension, axis)
    check_node(model, feeds, [expected])


def centred(x: np.ndarray, dimension: int, axis: int) -> np.ndarray:
    """One dimension cut or padded; the smaller half of an odd surplus is in front."""
    surplus = x.shape[axis] - dimension
    if surplus >= 0:
        return np.take(x, np.arange(surplus // 2, surplus // 2 + dimension), axis)
    pads = [(0, 0)] * x.ndim
    pads[axis] = (-surplus // 2, -surplus - -surplus // 2)
    return np.pad(x, pads)


@pytest.mark.parametrize(
    ("opset", "arguments", "message"),
    [
        (13, {"constants": {"s": ints(0), "e": ints(1), "a": ints(0), "t": ints(0)}}, "must not be 0"),
        (13, {"constants": {"s": ints(0), "e": ints(1), "a": ints(3)}}, "outside the range"),
        (13, {"constants": {"s": ints(0, 0), "e": ints(1, 1), "a": ints(1, 1)}}, "twice"),
        (13, {"constants": {"s": ints(0, 0), "e": ints(1)}}, "must have one length"),
        (13, {"constants": {"s": ints(0).reshape(1, 1), "e": ints(1)}}, "must be a list"),
        (1, {"attributes": {"starts": [0], "ends": [1, 2]}}, "must have one length"),
    ],
)
def test_contradictions(opset: int, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model("Slice", {"x": X}, opset=opset, **arguments))


def test_a_slice_of_unknown_rank_between_shapes() -> None:
    """Its rank depends on data, and shapes that follow from it are computed from others."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    target = helper.make_tensor_value_info("target", TensorProto.INT64, ["rank"])
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    nodes = [
        helper.make_node("Reshape", ["x", "target"], ["r"]),
        helper.make_node("Slice", ["r", "zero", "one", "zero"], ["s"]),
        helper.make_node("Shape", ["s"], ["dims"]),
        helper.make_node("Reshape", ["s", "dims"], ["z"]),
    ]
    constants = [numpy_helper.from_array(ints(value), name) for name, value in (("zero", 0), ("one", 1))]
    graph = helper.make_graph(nodes, "g", [x, target], [z], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    compiled = ir_runtime.compile_model(converter.convert_model(model))  # OpenVINO's CPU plug-in needs known ranks
    result = compiled({"x": X[:, :, 0], "target": ints(2, 3, 2)})
    assert np.array_equal(result["z"], X[:, :, 0].reshape(2, 3, 2)[:1])
