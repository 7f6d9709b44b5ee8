"""What follows reductions and products, which OpenVINO's CPU plug-in fuses with them or leaves out."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from converter.targets.registry import openvino_cpu
from tests.engines import check_node
from tests.random_data import generator

RNG = generator(3)


def reduced_and(
    op_type: str, axis: int, keepdims: int, after: str, shape: list[Any], opset: int = 17
) -> tuple[onnx.ModelProto, np.ndarray]:
    """A reduction, and a constant for each place along the middle dimension after it."""
    data = (RNG.random((5, 3, 8)) + 0.1).astype(np.float32)
    lasting = {0: (3, 1), 2: (3,)}[axis % 3]
    constant = (RNG.random((1, *lasting, *((1,) if axis % 3 == 2 else ())) if keepdims else lasting) + 0.5).astype("f4")
    node = helper.make_node(op_type, ["x"], ["r"], name="reduce", axes=[axis], keepdims=keepdims)
    nodes, steps = [node], after.split("-")
    value = "r"
    for index, step in enumerate(steps):
        result = "y" if index == len(steps) - 1 else f"t{index}"
        inputs = {"Half": [value, "half"], "RSub": ["k", value], "Relu": [value]}.get(step, [value, "k"])
        if step == "Norm":
            nodes.append(helper.make_node("BatchNormalization", [value, "k1", "k1", "k1", "k1"], [result]))
            continue
        nodes.append(helper.make_node({"Half": "Mul", "RSub": "Sub"}.get(step, step), inputs, [result]))
        value = result
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(constant, "k"),
            numpy_helper.from_array(constant.reshape(-1), "k1"),
            numpy_helper.from_array(np.float32(0.5), "half"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), data


@pytest.mark.parametrize("axes", [[1], [1, 2]])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("between", ["Relu", "Identity"])
def test_quotients_of_float64_after_a_reduction(axes: list[int], keepdims: int, between: str) -> None:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["r"], name="reduce", axes=axes, keepdims=keepdims),
        helper.make_node(between, ["r"], ["t"]),
        helper.make_node("Div", ["t", "k"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["n", 3, 8])],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)],
        [numpy_helper.from_array(np.float64(5), "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    check_node(model, {"x": RNG.random((5, 3, 8)) + 0.1})


@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceMax", "ReduceL1", "ReduceL2", "ReduceProd"])
@pytest.mark.parametrize("axis", [0, 2, -1])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("after", ["Add", "Mul", "RSub", "Half-RSub", "Relu-Half-Add"])
@pytest.mark.parametrize("shape", [[5, 3, 8], ["n", "c", "w"]], ids=["static", "dynamic"])
def test_constants_after_a_reduction_meet_their_rows(
    op_type: str, axis: int, keepdims: int, after: str, shape: list[Any]
) -> None:
    model, data = reduced_and(op_type, axis, keepdims, after, shape)
    check_node(model, {"x": data})


@pytest.mark.parametrize(("axis", "keepdims"), [(0, 1), (2, 0), (2, 1)])
@pytest.mark.parametrize("shape", [[5, 3, 8], ["n", "c", "w"]], ids=["static", "dynamic"])
def test_a_normalisation_of_channels_after_a_reduction(axis: int, keepdims: int, shape: list[Any]) -> None:
    model, data = reduced_and("ReduceMax", axis, keepdims, "Norm", shape)
    check_node(model, {"x": data})


def test_the_layer_keeps_its_names_and_the_tensor_its_shape() -> None:
    model, _ = reduced_and("ReduceMean", 2, 1, "Add", [5, 3, 8])
    made = converter.convert_model(model, output=["r", "y"])
    (reduction,) = [node for node in made.nodes() if node.op.type == "ReduceMean"]
    assert reduction.name == "reduce"
    (tensor,) = [out for node in made.nodes() for out in node.outputs if "r" in out.names]
    assert str(tensor.shape) == "[5,3,1]"
    names = [node.name for node in made.nodes()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("axis", "after"), [(2, "Half"), (0, "Relu"), (2, "Half-Relu")], ids=["number", "none", "numbers"]
)
def test_other_reductions_stay_one_layer(axis: int, after: str) -> None:
    model, _ = reduced_and("ReduceMean", axis, 0, after, [5, 3, 8])
    assert all(node.op.type != "Maximum" for node in converter.convert_model(model).nodes())


@pytest.mark.parametrize("shape", [(3, 5, 1), (1, 4, 3), (2, 3, 1, 4)])
def test_a_transpose_after_a_reduction_is_not_lost(shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        for order in itertools.permutations(range(len(shape) - 1)):
            nodes = [
                helper.make_node("ReduceMax", ["x"], ["r"], axes=[axis], keepdims=0),
                helper.make_node("Transpose", ["r"], ["y"], perm=order),
            ]
            graph = helper.make_graph(
                nodes,
                "g",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            )
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
            check_node(model, {"x": RNG.standard_normal(shape).astype(np.float32)})


RESHAPED = [
    ((4, 2, 3), [0], [1, 6]),
    ((4, 2, 3), [1], [12, 1]),
    ((4, 2, 3), [-3], [1, -1]),
    ((2, 4, 3, 5), [0, 1], [15, 1]),
    ((2, 4, 3, 5), [0, 2], [1, 20]),
    ((2, 3, 2, 2, 3), [0, 1], [1, 1, 12]),
    ((2, 3, 2, 2, 3), [0, 1, 3], [6, 1]),
]


@pytest.mark.parametrize(("shape", "axes", "target"), RESHAPED)
@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL1"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_reshape_after_a_reduction_is_not_lost(
    shape: tuple[int, ...], axes: list[int], target: list[int], op_type: str, dynamic: bool
) -> None:
    nodes = [
        helper.make_node(op_type, ["x", "axes"], ["r"], keepdims=0),
        helper.make_node("Reshape", ["r", "target"], ["y"]),
        helper.make_node("Exp", ["r"], ["z"]),
    ]
    known = [None] * len(shape) if dynamic else shape
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, known)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yz"],
        [numpy_helper.from_array(np.array(axes), "axes"), numpy_helper.from_array(np.array(target), "target")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    check_node(model, {"x": RNG.random(shape).astype(np.float32)})


@pytest.mark.parametrize("shape", [(4, 3, 6, 5), (2, 3, 2, 4, 5), (1, 3, 4, 2)])
@pytest.mark.parametrize("columns", [3, 8], ids=["as-many-columns-as-channels", "others"])
@pytest.mark.parametrize("after", ["Add", "Mul", "Norm", "PRelu", "Half-Add"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_channels_after_a_product(shape: tuple[int, ...], columns: int, after: str, dynamic: bool) -> None:
    weights = RNG.standard_normal((shape[-1], columns)).astype(np.float32)
    by_channel = (RNG.random((3, *([1] * (len(shape) - 2)))) + 0.5).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"])]
    if after == "Norm":
        nodes.append(helper.make_node("BatchNormalization", ["m", "c", "c", "c", "c"], ["y"]))
    elif after == "Half-Add":
        nodes += [helper.make_node("Mul", ["m", "half"], ["h"]), helper.make_node("Add", ["h", "k"], ["y"])]
    else:
        nodes.append(helper.make_node(after, ["m", "k"], ["y"]))
    stored = {"w": weights, "k": by_channel, "c": by_channel.reshape(-1), "half": np.float32(0.5)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None] * len(shape) if dynamic else shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    check_node(model, {"x": RNG.standard_normal(shape).astype(np.float32)})


def test_columns_of_an_unknown_number_after_a_product() -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "t"], ["m"]),
        helper.make_node("Add", ["m", "k"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "s", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([1, 2, 3], np.float32), "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    check_node(model, {"x": RNG.standard_normal((4, 3, 6)).astype(np.float32)})


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceMax", "MatMul"])
def test_constants_that_widen_what_came_before(dimension: int, rank: int, op_type: str) -> None:
    shape = (4, dimension, 2, 5)[:rank]
    second = ["w"] if op_type == "MatMul" else []
    attributes = {} if second else {"axes": [rank - 1], "keepdims": 0}
    nodes = [
        helper.make_node(op_type, ["x", *second], ["r"], **attributes),
        helper.make_node("Mul", ["r", "k"], ["p"]),
        helper.make_node("Transpose", ["p"], ["y"]),
    ]
    behind = rank - 2 if second else rank - 3
    stored = {"w": RNG.random((shape[-1], 6)).astype("f4"), "k": RNG.random((3, *[1] * behind)).astype("f4")}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None] * rank)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    check_node(model, {"x": RNG.standard_normal(shape).astype(np.float32)})


@pytest.mark.parametrize("after", ["Norm", "Add"])
@pytest.mark.parametrize("rank", [2, 3])
def test_usual_layers_stay_as_they_are(after: str, rank: int) -> None:
    """A product, columns of a known number, and a bias or a normalisation, for any number of rows."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"])]
    if after == "Norm":
        nodes.append(helper.make_node("BatchNormalization", ["m", "b", "b", "b", "b"], ["y"]))
    else:
        nodes.append(helper.make_node("Add", ["m", "b"], ["y"]))
    width = 6 if rank == 2 or after == "Add" else 4
    stored = {"w": RNG.random((5, 6)).astype("f4"), "b": RNG.random(width).astype("f4")}
    shape = [None, 5] if rank == 2 else [None, 4, 5]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert all(node.op.type != "Maximum" for node in converter.convert_model(model).nodes())
    check_node(model, {"x": RNG.standard_normal((3, 4, 5)[3 - rank :]).astype(np.float32)})


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    ("shape", "before", "argument"),
    [
        ((3, 2, 1, 1), "Transpose", [0, 2, 3, 1]),
        ((3, 2, 1, 1), "Transpose", [2, 0, 1, 3]),
        ((1, 3, 2), "Transpose", [1, 0, 2]),
        ((3, 4, 1, 2), "Transpose", [3, 2, 1, 0]),
        ((3, 4, 5, 1), "Transpose", [1, 3, 0, 2]),
        ((1, 3, 2), "Transpose", [1, 2, 0]),
        ((1, 3, 2), "Unsqueeze", [2]),
        ((3, 2, 1, 1), "Unsqueeze", [3]),
        ((3, 1, 2), "Unsqueeze", [0]),
    ],
)
def test_dimensions_of_1_stay_where_they_are(
    shape: tuple[int, ...], before: str, argument: list[int], keepdims: int
) -> None:
    rank = len(shape) + (before == "Unsqueeze")
    for axes in (list(found) for count in range(1, rank) for found in itertools.combinations(range(rank), count)):
        nodes = [
            helper.make_node("Transpose", ["x"], ["t"], perm=argument)
            if before == "Transpose"
            else helper.make_node("Unsqueeze", ["x", "places"], ["t"]),
            helper.make_node("ReduceMean", ["t"], ["y"], axes=axes, keepdims=keepdims),
        ]
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(np.array(argument), "places")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        check_node(model, {"x": RNG.standard_normal(shape).astype(np.float32)})


def test_each_change_before_a_reduction_counts() -> None:
    """The derivation of an IR has the number of changes that each rule made."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "last"], ["t"]),
        helper.make_node("ReduceMean", ["t"], ["first"], axes=[1], keepdims=1),
        helper.make_node("ReduceMax", ["t"], ["second"], axes=[0], keepdims=1),
    ]
    types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("first", "second")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 5, 3])
    graph = helper.make_graph(nodes, "g", [x], types, [numpy_helper.from_array(np.array([3]), "last")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert openvino_cpu.run(converter.convert_model(model, target="any")) == {"fusion_guards": 2}


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMax"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_integers_after_a_reduction_stay_integers(op_type: str, dynamic: bool) -> None:
    """Float32 holds the reduction, but not what is computed from it."""
    data = RNG.integers(-100, 100, (4, 50)).astype(np.int8)
    by_input = op_type == "ReduceSum"
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.INT32),
        helper.make_node(
            op_type, ["wide", "axes"] if by_input else ["wide"], ["r"], **({} if by_input else {"axes": [1]})
        ),
        helper.make_node("Mul", ["r", "k"], ["p"]),
        helper.make_node("Add", ["p", "l"], ["y"]),
    ]
    constants = {"k": np.int32(40_097), "l": np.int32(765_432_111), "axes": np.array([1])}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT8, ["n", "m"] if dynamic else data.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    wide = data.astype(np.int32)
    reduced = wide.sum(1, keepdims=True) if by_input else wide.max(1, keepdims=True)
    check_node(model, {"x": data}, [(reduced * 40_097 + 765_432_111).astype(np.int32)])
    ir = converter.convert_model(model)
    assert [node.op.type for node in ir.nodes()].count(op_type) == 1


def padded_and(
    op_type: str, auto_pad: str, strides: int, rank: int, shape: list[Any], *, is_read_twice: bool = False
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A Pad of uneven widths, and a window whose pads follow from the dimensions."""
    data = RNG.standard_normal((1, 4, *range(7, 7 + rank))).astype(np.float32)
    widths = np.array([0, 0, *[1] * rank, 0, 0, *[2] * rank])
    kernel = RNG.standard_normal((4, 2 if op_type == "Group" else 4, *[3] * rank)).astype(np.float32)
    attributes: dict[str, Any] = {"auto_pad": auto_pad, "strides": [strides] * rank, "kernel_shape": [3] * rank}
    attributes |= {"Group": {"group": 2}, "Counting": {"count_include_pad": 1}}.get(op_type, {})
    layer = {"Group": "Conv", "Counting": "AveragePool"}.get(op_type, op_type)
    weights = [] if layer.endswith("Pool") else ["w"]
    nodes = [
        helper.make_node("Pad", ["x", "widths"], ["p"]),
        helper.make_node(layer, ["p", *weights], ["y"], **attributes),
    ]
    outputs = ["p", "y"] if is_read_twice else ["y"]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, data.shape if not shape else shape[: 2 + rank])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(widths, "widths"), *([numpy_helper.from_array(kernel, "w")] if weights else [])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), {"x": data}


@pytest.mark.parametrize("op_type", ["Conv", "Group", "ConvTranspose", "AveragePool", "Counting", "MaxPool"])
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("shape", [[], ["n", 4, "h", "w", "d"], ["n", 4, 7, "w", "d"]], ids=["static", "open", "some"])
@pytest.mark.parametrize("is_read_twice", [False, True])
def test_a_pad_before_a_window_is_not_lost(
    op_type: str, auto_pad: str, strides: int, rank: int, shape: list[Any], is_read_twice: bool
) -> None:
    model, feeds = padded_and(op_type, auto_pad, strides, rank, shape, is_read_twice=is_read_twice)
    check_node(model, feeds)


SHUFFLES = {
    "a group of any number": ("0, 2, 1, 3, 4", [1, -1, 12, 4, 5], [1, 12, -1, 5]),
    "rows of any number": ("0, 1, 2, 4, 3", [1, -1, 4, 5, 12], [1, -1, 5, 48]),
    "columns of any number": ("0, 2, 1, 3, 4", [2, 3, 4, 5, -1], [2, 12, 5, -1]),
    "any batch": ("0, 2, 1, 3, 4", [-1, 3, 4, 4, 5], [-1, 12, 4, 5]),
    "more dimensions": ("0, 2, 1, 3, 4, 5", [1, -1, 12, 2, 2, 5], [1, 12, -1, 5]),
    "another order": ("0, 2, 1, 4, 3", [1, -1, 12, 4, 5], [1, 12, -1, 5]),
}


def shuffled(name: str, shape: list[Any]) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A Reshape that divides a dimension, a Transpose and a Reshape."""
    order, first, second = SHUFFLES[name]
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float{[*map(str, shape)]} x) => (y) <int64[{len(first)}] first = {{{str(first)[1:-1]}}},
          int64[4] second = {{{str(second)[1:-1]}}}> {{
          a = Reshape (x, first) b = Transpose <perm = [{order}]> (a) c = Reshape (b, second) y = Relu (c) }}""".replace(
            "'", ""
        )
    )
    return model, {"x": RNG.standard_normal((2, 12, 4, 5)).astype(np.float32)}


@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("shape", [["n", 12, 4, 5], ["n", "c", "h", "w"], [2, "c", 4, 5], [2, 12, 4, 5]], ids=str)
def test_what_looks_like_shuffled_channels(name: str, shape: list[Any]) -> None:
    check_node(*shuffled(name, shape))
