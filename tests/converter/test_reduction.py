"""The reductions row by row: OpenVINO's own examples, every type, every way to give axes, corner cases."""

from __future__ import annotations

import numpy as np
import pytest

import converter
import ir_runtime
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1
from ir_runtime.operations.reduction import ReduceMean1
from tests.engines import ENGINES, assert_close, check_node, converted, node_model, run, schema_types
from tests.oracles.reduction import reduce

MEMBERS = [
    "ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd", "ReduceMax", "ReduceMin",
    "ReduceLogSum", "ReduceLogSumExp",
]  # fmt: skip


@pytest.mark.parametrize(
    ("axes", "keep_dims", "shape"),
    [
        ([2, 3], True, (6, 12, 1, 1)),
        ([2, 3], False, (6, 12)),
        ([1], False, (6, 10, 24)),
        ([-2], False, (6, 12, 24)),
        ([], True, (6, 12, 10, 24)),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_layer_examples_of_the_reduce_mean_page(
    engine: str, axes: list[int], keep_dims: bool, shape: tuple[int, ...]
) -> None:
    """https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/reduction/reduce-mean-1.html"""
    x = make_node(Parameter1(shape=[6, 12, 10, 24], element_type="f32"), (), "x")
    x.outputs[0].add_name("x")
    over = make_node(Const1(value=ir_runtime.Tensor.from_array(np.array(axes, np.int64))), (), "axes")
    mean = make_node(ReduceMean1(keep_dims=keep_dims), [x.outputs[0], over.outputs[0]], "mean")
    mean.outputs[0].add_name("y")
    result = make_node(Result1(), mean.outputs, "result")
    assert mean.outputs[0].shape.static() == shape
    written = ir_runtime.model_to_bytes(ir_runtime.Model("example", [x], [result]))
    assert ir_runtime.model_to_bytes(ir_runtime.read_model(*written)) == written
    data = np.random.default_rng(0).standard_normal((6, 12, 10, 24)).astype(np.float32)
    expected = data.astype(np.float64).mean(axis=tuple(axes), keepdims=keep_dims) if axes else data
    assert_close(run(engine, written, {"x": data})[0], expected.astype(np.float32))


@pytest.mark.parametrize("op_type", MEMBERS)
@pytest.mark.parametrize("opset", [13, 18])
def test_every_type(op_type: str, opset: int) -> None:
    for dtype in schema_types(op_type, opset):
        if dtype == np.bool_:
            continue
        x = np.array([[1, 2, 3], [4, 3, 2]]).astype(dtype)
        by_input = opset >= 18 or op_type == "ReduceSum"
        model = node_model(
            op_type,
            {"x": x},
            opset=opset,
            attributes=None if by_input else {"axes": [1]},
            constants={"axes": np.array([1], np.int64)} if by_input else None,
        )
        check_node(model, {"x": x}, [reduce(op_type, x, [1], True)], rtol=1e-3)


@pytest.mark.parametrize(("op_type", "expected"), [("ReduceMax", [True, True]), ("ReduceMin", [True, False])])
def test_booleans(op_type: str, expected: list[bool]) -> None:
    x = np.array([[True, True], [True, False]])
    feeds = {"x": x, "axes": np.array([1], np.int64)}
    check_node(
        node_model(op_type, {"x": x}, opset=20, constants={"axes": feeds["axes"]}),
        {"x": x},
        [np.array(expected)[:, None]],
    )
    check_node(node_model(op_type, feeds, opset=20), feeds, [np.array(expected)[:, None]])


LARGE = np.array([[2**31 - 1, 2**31 - 3, 2**31 - 2], [-(2**31), -(2**31) + 1, 5]], np.int64)


@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_large_int32_neither_overflow_nor_round(op_type: str, keepdims: int) -> None:
    """The mean's sum does not fit into int32, and no value fits into float32."""
    x = LARGE.astype(np.int32)
    if op_type == "ReduceL1":
        x = np.abs(x[:1])
    model = node_model(
        op_type, {"x": x}, opset=18, attributes={"keepdims": keepdims}, constants={"axes": np.array([1])}
    )
    check_node(model, {"x": x}, [reduce(op_type, x, [1], bool(keepdims))])


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (np.int64, [2**63 - 1, 2**63 - 3, 2**63 - 1]),
        (np.int64, [-(2**63), -(2**63) + 1, -7]),
        (np.uint64, [2**64 - 1, 2**64 - 1, 2**64 - 4]),
    ],
)
@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceMax", "ReduceMin"])
def test_64_bits_are_exact_in_numpy(op_type: str, dtype: type, values: list[int]) -> None:
    # OpenVINO's CPU plug-in holds these types as int32, so it cannot be asked.
    x = np.array([values], dtype)
    check_node(node_model(op_type, {"x": x}, opset=18), {"x": x}, [reduce(op_type, x, None, True)], engines=["numpy"])


@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceL1", "ReduceSum"])
def test_many_integers_in_one_sum(op_type: str) -> None:
    x = np.random.default_rng(0).integers(-(2**20), 2**20, (70_000, 2)).astype(np.int32)
    attributes = {"axes": [0]} if op_type != "ReduceSum" else {}
    constants = {"axes": np.array([0])} if op_type == "ReduceSum" else None
    model = node_model(op_type, {"x": x}, opset=13, attributes=attributes, constants=constants)
    check_node(model, {"x": x}, [reduce(op_type, x, [0], True)])


@pytest.mark.parametrize("op_type", MEMBERS)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[0], [-1, 0], [2, 1, 0]])
def test_axes_as_graph_input(op_type: str, keepdims: int, axes: list[int]) -> None:
    x = np.random.default_rng(0).uniform(0.5, 2, (2, 3, 4)).astype(np.float32)
    feeds = {"x": x, "axes": np.array(axes, np.int64)}
    opset = 13 if op_type == "ReduceSum" else 18
    model = node_model(op_type, feeds, opset=opset, attributes={"keepdims": keepdims}, shapes={"x": ["a", None, 4]})
    check_node(model, feeds, [reduce(op_type, x, axes, bool(keepdims))], rtol=1e-3)


@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceL1", "ReduceSumSquare", "ReduceLogSum"])
@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("axes", [[], [1], [0, -1]])
def test_unknown_number_of_axes(op_type: str, noop: int, axes: list[int]) -> None:
    x = np.random.default_rng(0).uniform(0.5, 2, (2, 3)).astype(np.float32)
    feeds = {"x": x, "axes": np.array(axes, np.int64)}
    model = node_model(op_type, feeds, opset=18, attributes={"noop_with_empty_axes": noop}, shapes={"axes": ["k"]})
    check_node(model, feeds, [reduce(op_type, x, axes, True, bool(noop))])
    # Without keepdims the rank itself is unknown, which the CPU plug-in refuses.
    dropping = node_model(
        op_type, feeds, opset=18, attributes={"noop_with_empty_axes": noop, "keepdims": 0}, shapes={"axes": ["k"]}
    )
    check_node(dropping, feeds, [reduce(op_type, x, axes, False, bool(noop))], engines=["numpy"])


@pytest.mark.parametrize("op_type", MEMBERS)
@pytest.mark.parametrize("shape", [(2, 0, 3), (0,)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_dimensions_of_size_zero(op_type: str, shape: tuple[int, ...], dynamic: bool) -> None:
    x = np.zeros(shape, np.float32)
    axis = shape.index(0)
    opset = 13 if op_type == "ReduceSum" else 18
    shapes = {"x": [f"d{i}" for i in range(len(shape))]} if dynamic else None
    model = node_model(op_type, {"x": x}, opset=opset, constants={"axes": np.array([axis])}, shapes=shapes)
    # OpenVINO answers the extremes of nothing with the largest finite numbers, and dimensions are dynamic.
    extremes = op_type in ("ReduceMax", "ReduceMin")
    check_node(model, {"x": x}, [reduce(op_type, x, [axis], True)], engines=["numpy"] if extremes else ENGINES)


@pytest.mark.parametrize("op_type", MEMBERS)
def test_noop_still_transforms_each_element(op_type: str) -> None:
    if op_type == "ReduceSum":
        attributes, opset = {"noop_with_empty_axes": 1}, 13
    else:
        attributes, opset = {"noop_with_empty_axes": 1}, 18
    x = np.array([[-1.5, 2.0], [3.0, -0.25]], np.float32)
    if op_type == "ReduceLogSum":
        x = np.abs(x)
    check_node(
        node_model(op_type, {"x": x}, opset=opset, attributes=attributes),
        {"x": x},
        [reduce(op_type, x, [], True, True)],
    )


@pytest.mark.parametrize("x", [[1e4, 1e4], [-np.inf, -np.inf], [np.inf, 1.0], [-1e4, -1e4 + 1], [-np.inf, 3.0]])
def test_log_sum_exp_does_not_overflow(x: list[float]) -> None:
    data = np.array([x], np.float32)
    expected = np.logaddexp.reduce(data.astype(np.float64), axis=1, keepdims=True).astype(np.float32)
    model = node_model("ReduceLogSumExp", {"x": data}, opset=18, constants={"axes": np.array([1])})
    check_node(model, {"x": data}, [expected])


def test_the_plain_case_is_one_layer() -> None:
    x = np.zeros((1, 3, 8, 8), np.float32)
    for op_type in ("ReduceMean", "ReduceL1"):
        model = converter.convert_model(node_model(op_type, {"x": x}, opset=18, constants={"axes": np.array([2, 3])}))
        assert [n.op.type for n in model.nodes()] == ["Parameter", "Const", op_type, "Result"]
        assert [n.op.opset for n in model.nodes() if n.op.type == op_type] == [1 if op_type == "ReduceMean" else 4]


@pytest.mark.parametrize(
    ("attributes", "constants", "message"),
    [
        ({}, {"axes": np.array([3])}, "axis 3 lies outside the range"),
        ({"keepdim": 1}, {}, "has no attribute 'keepdim'"),
        ({"keepdims": 1.0}, {}, "attribute 'keepdims' must be of type INT, but is FLOAT"),
        ({}, {"axes": np.array([0.0], np.float32)}, "input 'axes' must be one of int64, but is f32"),
    ],
)
def test_errors_name_the_node(attributes: dict, constants: dict, message: str) -> None:
    model = node_model(
        "ReduceMean", {"x": np.zeros((2, 3, 4), np.float32)}, opset=18, attributes=attributes, constants=constants
    )
    with pytest.raises(converter.ConversionError, match=r"node 'node' \(ReduceMean, opset 18\)") as caught:
        converter.convert_model(model)
    assert message in str(caught.value)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
def test_arg_extremes_with_ties(op_type: str, axis: int, keepdims: int, last: int) -> None:
    x = np.array([[1, 5, 5, 0], [5, 0, 5, 0]], np.float32)
    attributes = {"axis": axis, "keepdims": keepdims, "select_last_index": last}
    check_node(node_model(op_type, {"x": x}, opset=13, attributes=attributes, shapes={"x": ["n", "m"]}), {"x": x})


def test_the_written_model_has_precision_and_keep_dims() -> None:
    xml, _ = converted(node_model("ReduceL1", {"x": np.zeros((2, 3), np.float16)}, opset=18))
    assert b'precision="FP16"' in xml
    assert b'keep_dims="true"' in xml
