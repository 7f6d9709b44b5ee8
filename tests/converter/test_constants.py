"""Constant, ConstantOfShape, Identity, Cast and CastLike through both engines."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from converter.onnx_file.types import element_type_of
from tests.engines import check_node, converted, node_model, run_numpy, schema_types

FLOATS = np.array([[-2.5, -1.0, -0.0], [0.25, 1.0, 3.75]], np.float32)


# --- Constant ---


@pytest.mark.parametrize("opset", [1, 9, 11, 12, 13, 19, 21, 23, 24, 25])
def test_constant_tensor(opset: int) -> None:
    value = numpy_helper.from_array(FLOATS)
    check_node(node_model("Constant", {}, opset=opset, attributes={"value": value}), {}, [FLOATS])


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value_float": 1.5}, np.array(1.5, np.float32)),
        ({"value_floats": [1.5, -2.0]}, np.array([1.5, -2.0], np.float32)),
        ({"value_int": 7}, np.array(7, np.int64)),
        ({"value_ints": [7, -(2**31)]}, np.array([7, -(2**31)], np.int64)),
    ],
)
@pytest.mark.parametrize("opset", [12, 13, 25])
def test_constant_numbers(opset: int, attributes: dict[str, Any], expected: np.ndarray) -> None:
    check_node(node_model("Constant", {}, opset=opset, attributes=attributes), {}, [expected])


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [({"value_string": "ä"}, np.array("ä", object)), ({"value_strings": ["a", "b"]}, np.array(["a", "b"], object))],
)
def test_constant_texts(attributes: dict[str, Any], expected: np.ndarray) -> None:
    model = node_model("Constant", {}, opset=13, attributes=attributes)
    assert run_numpy(converted(model), {})[0].tolist() == expected.tolist()


def test_constant_of_every_type() -> None:
    for name in ("FLOAT16", "BFLOAT16", "DOUBLE", "INT8", "UINT16", "UINT32", "BOOL", "INT4", "UINT4", "FLOAT8E5M2"):
        expected = np.array([0, 1, 1]).astype(element_type_of(TensorProto.DataType.Value(name)).dtype)
        model = node_model("Constant", {}, opset=25, attributes={"value": numpy_helper.from_array(expected)})
        check_node(model, {}, [expected])


def test_constant_errors() -> None:
    for attributes in ({}, {"value_int": 1, "value_float": 2.0}):
        with pytest.raises(converter.ConversionError, match="exactly one attribute"):
            converter.convert_model(node_model("Constant", {}, opset=13, attributes=attributes))


def sparse_tensor(values: Any, places: Any, shape: list[int]) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.asarray(values), "s"), numpy_helper.from_array(np.asarray(places)), shape
    )


SPARSE = [
    ([1.0, 8.0, 3.0], [[0, 0], [0, 3], [2, 2]], [3, 4]),
    ([1.0, 8.0, 3.0], [0, 3, 10], [3, 4]),
    ([5.0], [7], [2, 2, 2]),
    (np.empty(0), np.empty((0, 2), np.int64), [2, 3]),
    (np.empty(0), np.empty(0, np.int64), [2, 0]),
    (np.arange(5000.0), np.arange(5000) * 2, [10000]),
]


def dense(values: Any, places: Any, shape: list[int]) -> np.ndarray:
    made, at = np.zeros(shape, np.asarray(values).dtype), np.asarray(places)
    for value, place in zip(values, at):
        made[tuple(np.atleast_1d(np.unravel_index(place, shape) if at.ndim == 1 else place))] = value
    return made


@pytest.mark.parametrize("opset", [11, 13, 25])
@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "int8", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize(("values", "places", "shape"), SPARSE, ids=range(len(SPARSE)))
def test_sparse_constant(opset: int, kind: str, values: Any, places: Any, shape: list[int]) -> None:
    typed = np.asarray(values).astype(kind)
    stored = sparse_tensor(typed, places, shape)
    model = node_model("Constant", {}, opset=opset, attributes={"sparse_value": stored})
    engines = ("numpy",) if 0 in shape else ("numpy", "openvino")  # the reader refuses a bin of no bytes
    check_node(model, {}, [dense(typed, places, shape)], engines=engines)


@pytest.mark.parametrize(("values", "places", "shape"), SPARSE[:3], ids=range(3))
@pytest.mark.parametrize("inside", [False, True])
def test_sparse_initializer(values: Any, places: Any, shape: list[int], inside: bool) -> None:
    typed = np.asarray(values, np.float32)
    x = np.ones(shape, np.float32)
    model = node_model("Add", {"x": x}, opset=13, order=["x", "s"])
    graph = model.graph
    if inside:
        branches = [onnx.GraphProto(name=name, node=[graph.node[0]], output=graph.output) for name in ("a", "b")]
        for branch in branches:
            branch.sparse_initializer.append(sparse_tensor(typed, places, shape))
        chosen = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
        graph.node[0].CopyFrom(chosen)
        graph.output[0].name = "y"
        graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    else:
        graph.sparse_initializer.append(sparse_tensor(typed, places, shape))
    feeds = {"x": x, "c": np.array(True)} if inside else {"x": x}
    check_node(model, feeds, [x + dense(typed, places, shape)])


@pytest.mark.parametrize(
    ("values", "places", "shape", "message"),
    [
        ([1.0], [3], [3], "places outside its shape"),
        ([1.0], [-1], [3], "places outside its shape"),
        ([1.0], [[0, 3]], [2, 3], "places outside its shape"),
        ([1.0, 2.0], [1], [3], "has 2 values, but places"),
        ([1.0], [[0, 0, 0]], [2, 3], "has 1 values, but places"),
        ([[1.0]], [[0, 0]], [2, 3], "must be a list"),
        ([1.0], np.array([1], np.int32), [3], "has 1 values, but places"),
        ([1.0], [1], [-3], "has the shape"),
        ([1.0], [1], [1 << 20, 1 << 20], "too large"),
    ],
)
def test_sparse_contradictions(values: Any, places: Any, shape: list[int], message: str) -> None:
    stored = sparse_tensor(values, places, shape)
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model("Constant", {}, opset=13, attributes={"sparse_value": stored}))


# --- ConstantOfShape ---


@pytest.mark.parametrize("opset", [9, 20, 21, 23, 24, 25])
@pytest.mark.parametrize("shape", [[2, 3], [1], [0, 2]])
@pytest.mark.parametrize("known", [True, False])
def test_constant_of_shape(opset: int, shape: list[int], known: bool) -> None:
    for value in (np.array([7], np.int64), np.array([1.5], np.float32), None):
        attributes = {} if value is None else {"value": numpy_helper.from_array(value)}
        expected = np.full(shape, 0 if value is None else value[0], np.float32 if value is None else value.dtype)
        given = {"shape": np.array(shape, np.int64)}
        inputs, constants = ({}, given) if known else (given, {})
        model = node_model("ConstantOfShape", inputs, opset=opset, attributes=attributes, constants=constants)
        check_node(model, inputs, [expected])


def test_constant_of_shape_without_dimensions() -> None:
    shape = {"s": np.zeros(0, np.int64)}
    check_node(node_model("ConstantOfShape", {}, opset=9, constants=shape), {}, [np.array(0, np.float32)])
    # In NumPy alone: OpenVINO drops an input that nothing reads.
    given = node_model("ConstantOfShape", shape, opset=9)
    check_node(given, shape, [np.array(0, np.float32)], engines=["numpy"])


def test_large_constant_of_shape_takes_no_space() -> None:
    model = node_model("ConstantOfShape", {}, opset=9, constants={"s": np.array([4096, 4096], np.int64)})
    assert len(converted(model)[1]) < 1000


@pytest.mark.parametrize(
    ("value", "shape", "reason"),
    [
        (np.ones(2, np.float32), np.array([2], np.int64), "must have one element"),
        (np.ones(1, np.float32), np.array([-1], np.int64), "negative dimension"),
        (np.ones(1, np.float32), np.array([[2]], np.int64), "must be a list"),
    ],
)
def test_constant_of_shape_errors(value: np.ndarray, shape: np.ndarray, reason: str) -> None:
    attributes = {"value": numpy_helper.from_array(value)}
    model = node_model("ConstantOfShape", {}, opset=9, attributes=attributes, constants={"s": shape})
    with pytest.raises(converter.ConversionError, match=reason):
        converter.convert_model(model)


# --- Identity ---


@pytest.mark.parametrize("opset", [1, 13, 14, 16, 19, 21, 23, 24, 25])
def test_identity(opset: int) -> None:
    check_node(node_model("Identity", {"x": FLOATS}, opset=opset, shapes={"x": ["n", None]}), {"x": FLOATS}, [FLOATS])
    check_node(node_model("Identity", {}, opset=opset, constants={"c": FLOATS}), {}, [FLOATS])


def test_output_under_several_names() -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Identity", ["a"], ["b"]),
        helper.make_node("Identity", ["b"], ["c"]),
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in "abc"]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [2, 3])], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10)
    check_node(model, {"x": FLOATS}, [np.abs(FLOATS)] * 3)


# --- Cast ---


def cast_model(op_type: str, x: np.ndarray, to: int, opset: int, **attributes: Any) -> onnx.ModelProto:
    if op_type == "Cast":
        return node_model("Cast", {"x": x}, opset=opset, attributes={"to": to, **attributes})
    like = np.zeros(0, element_type_of(to).dtype)
    return node_model("CastLike", {"x": x}, opset=opset, constants={"like": like}, attributes=attributes)


NUMBERS = {"f": [-1.5, -0.0, 0.3, 2.7, 100.0], "u": [0, 1, 100, 127, 255], "i": [0, 1, 100, 127, -128], "b": [0, 1]}


def number_types() -> list[Any]:
    return [t for t in schema_types("Cast", 13, "T1") if t.kind in "iufb" or t == ml_dtypes.bfloat16]


@pytest.mark.parametrize("source", number_types(), ids=str)
def test_cast_between_numbers(source: Any) -> None:
    x = np.array(NUMBERS.get(source.kind, NUMBERS["f"])).astype(source)
    for target in number_types():
        value = x
        if target.kind in "u" and source.kind not in "ub":
            value = np.abs(x.astype(np.float32)).astype(source)
        expected = (value.astype(np.float32) if source == ml_dtypes.bfloat16 else value).astype(target)
        to = helper.np_dtype_to_tensor_dtype(target)
        for op_type, opset in (("Cast", 9), ("Cast", 13), ("Cast", 19), ("Cast", 25), ("CastLike", 15)):
            if opset == 9 and ml_dtypes.bfloat16 in (source, target):
                continue
            if op_type == "Cast" and opset in (13, 25) and target.kind != "f":
                continue
            check_node(cast_model(op_type, value, to, opset), {"x": value}, [expected])


@pytest.mark.parametrize("to", ["FLOAT", "INT32", "BOOL", "FLOAT16"])
def test_cast_of_opset_1_names_its_type(to: str) -> None:
    expected = FLOATS.astype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(to)))
    check_node(node_model("Cast", {"x": FLOATS}, opset=1, attributes={"to": to}), {"x": FLOATS}, [expected])


def test_cast_of_integers_keeps_the_lowest_bits() -> None:
    x = np.array([300, -129, 65537, -1, 2**31 - 1], np.int32)
    for target in (np.int8, np.uint8, np.int16, np.uint16):
        to = helper.np_dtype_to_tensor_dtype(np.dtype(target))
        check_node(cast_model("Cast", x, to, 13), {"x": x}, [x.astype(target)])


def test_everything_but_zero_is_true() -> None:
    x = np.array([np.nan, np.inf, -0.0, 0.0, 1e-30, -2], np.float32)
    check_node(cast_model("Cast", x, TensorProto.BOOL, 13), {"x": x}, [x != 0])
    n = np.array([0, 1, -(2**31), 256], np.int32)
    check_node(cast_model("Cast", n, TensorProto.BOOL, 13), {"x": n}, [n != 0])


SMALL_FLOATS = np.array([0.1, 448, 460, 470, 1e6, 57344, 65000, np.inf, -np.inf, np.nan, -1000, 1e-4], np.float32)


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize(("to", "most"), [(TensorProto.FLOAT8E4M3FN, 448.0), (TensorProto.FLOAT8E5M2, 57344.0)])
def test_cast_to_small_floats(to: int, most: float, saturate: int) -> None:
    dtype = element_type_of(to).dtype
    limited = np.where(np.isnan(SMALL_FLOATS), SMALL_FLOATS, np.clip(SMALL_FLOATS, -most, most))
    expected = (limited if saturate else SMALL_FLOATS).astype(dtype)
    for op_type, opset in (("Cast", 19), ("Cast", 23), ("Cast", 28), ("CastLike", 19), ("CastLike", 25)):
        model = cast_model(op_type, SMALL_FLOATS, to, opset, saturate=saturate)
        check_node(model, {"x": SMALL_FLOATS}, [expected])
    back = cast_model("Cast", expected, TensorProto.FLOAT, 19)
    check_node(back, {"x": expected}, [expected.astype(np.float32)])


@pytest.mark.parametrize(("to", "bits", "signed"), [("INT4", 4, True), ("UINT4", 4, False), ("UINT2", 2, False)])
def test_cast_to_packed_integers(to: str, bits: int, signed: bool) -> None:
    x = np.arange(-20, 20, dtype=np.int32)
    wrapped = x & ((1 << bits) - 1)
    if signed:
        wrapped = np.where(wrapped >= 1 << (bits - 1), wrapped - (1 << bits), wrapped)
    number = TensorProto.DataType.Value(to)
    expected = wrapped.astype(element_type_of(number).dtype)
    check_node(cast_model("Cast", x, number, 25), {"x": x}, [expected])
    for target in (TensorProto.INT8, TensorProto.FLOAT):
        plain = helper.tensor_dtype_to_np_dtype(target)
        check_node(cast_model("Cast", expected, target, 25), {"x": expected}, [wrapped.astype(plain)])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("up", [2.0**-127, 0.125, 0.25, 2, 2, 4, 2.0**127, 2, 4]),
        ("down", [2.0**-127, 0.0625, 0.25, 1, 2, 2, 2.0**127, 1, 2]),
        ("nearest", [2.0**-127, 0.125, 0.25, 1, 2, 4, 2.0**127, 2, 4]),
    ],
)
def test_cast_to_powers_of_two(mode: str, expected: list[float]) -> None:
    x = np.array([0.0, 0.124, 0.25, 1.1, 2.0, 3.5, np.inf, 1.5, 3.0], np.float32)
    model = cast_model("Cast", x, TensorProto.FLOAT8E8M0, 24, round_mode=mode)
    check_node(model, {"x": x}, [np.array(expected).astype(ml_dtypes.float8_e8m0fnu)])


def test_cast_of_constant_texts() -> None:
    x = np.array(["1.5", "-2e3", "INF", "nan"], object)
    model = node_model("Cast", {}, opset=13, attributes={"to": TensorProto.FLOAT}, constants={"c": x})
    check_node(model, {}, [np.array([1.5, -2000, np.inf, np.nan], np.float32)])
    whole = np.array(["12", "-7"], object)
    model = node_model("Cast", {}, opset=13, attributes={"to": TensorProto.INT64}, constants={"c": whole})
    check_node(model, {}, [np.array([12, -7], np.int64)])


@pytest.mark.parametrize(
    ("x", "opset", "attributes", "reason"),
    [
        (FLOATS, 13, {"to": TensorProto.STRING}, "does not convert f32 to string"),
        (np.array(["1"], object), 13, {"to": TensorProto.FLOAT}, "does not convert string to f32"),
        (FLOATS, 19, {"to": TensorProto.FLOAT8E4M3FNUZ}, "no element type for ONNX's FLOAT8E4M3FNUZ"),
        (FLOATS, 24, {"to": TensorProto.FLOAT8E8M0, "saturate": 0}, "does not saturate"),
        (FLOATS, 24, {"to": TensorProto.FLOAT8E8M0, "round_mode": "off"}, "round_mode must be"),
        (FLOATS, 1, {"to": "float"}, "not the name of an element type"),
        (FLOATS, 13, {}, "'to' is required"),
    ],
)
def test_cast_errors(x: np.ndarray, opset: int, attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(converter.ConversionError, match=reason):
        converter.convert_model(node_model("Cast", {"x": x}, opset=opset, attributes=attributes))
