"""Which version of its operator a node is read as, and what of it may differ from the schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import converter
from converter.from_onnx.translation import registry
from converter.from_onnx.translation.registry import onnx_op
from ir_runtime.graph.model import Output
from ir_runtime.operations.elementwise import Abs1
from ir_runtime.rewriting import layers
from tests.converter.test_generous_reading import X, check_with_one_warning, floats, ints
from tests.engines import check_node, node_model, run_onnxruntime

IMAGES = floats(1, 2, 4, 4)


# Operator, opset, inputs, constants, attributes, and the opset in which onnxruntime computes the expected values.
EARLY: list[tuple[str, int, dict[str, Any], dict[str, Any], dict[str, Any], int]] = [
    ("Sign", 8, {"x": X}, {}, {}, 9),
    ("Mish", 1, {"x": X}, {}, {}, 18),
    ("Expand", 1, {"x": X[:, :1]}, {"s": ints(2, 5, 4)}, {}, 8),
    ("GatherND", 7, {"x": X}, {"i": ints(1, 0).reshape(2, 1)}, {}, 11),
    ("ScatterND", 7, {"x": X}, {"i": ints(1).reshape(1, 1), "u": X[:1]}, {}, 11),
    ("BitwiseNot", 16, {"x": X.astype(np.int32)}, {}, {}, 18),
    ("DequantizeLinear", 4, {"x": np.arange(5, dtype=np.uint8)}, {"s": np.float32(0.5), "z": np.uint8(2)}, {}, 10),
    ("DFT", 13, {"x": X[..., None]}, {}, {"axis": 1}, 17),
    ("Gelu", 17, {"x": X}, {}, {}, 20),
]


@pytest.mark.parametrize("row", EARLY, ids=lambda row: row[0])
def test_operators_before_their_opset(row: Any, caplog: pytest.LogCaptureFixture) -> None:
    op_type, opset, inputs, constants, attributes, right = row
    straight = node_model(op_type, inputs, constants=constants, attributes=attributes, opset=right)
    (expected,) = run_onnxruntime(straight, inputs)
    model = node_model(op_type, inputs, constants=constants, attributes=attributes, opset=opset)
    check_with_one_warning(caplog, model, inputs, expected, f"exists from opset {right} on")


def test_a_function_of_a_schema_before_its_opset(caplog: pytest.LogCaptureFixture) -> None:
    feeds = {"theta": floats(1, 2, 3)}
    straight, model = (
        node_model("AffineGrid", feeds, constants={"size": ints(1, 1, 2, 2)}, opset=opset) for opset in (20, 19)
    )
    check_with_one_warning(caplog, model, feeds, run_onnxruntime(straight, feeds)[0], "exists from opset 20 on")


@pytest.mark.parametrize("imported", [True, False])
def test_an_operator_of_the_only_domain_that_has_it(imported: bool, caplog: pytest.LogCaptureFixture) -> None:
    straight = node_model("BiasGelu", {"x": X}, constants={"b": X[0, 0]}, opset=1, domain="com.microsoft")
    model = node_model("BiasGelu", {"x": X}, constants={"b": X[0, 0]}, opset=17)
    if imported:
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    (expected,) = run_onnxruntime(straight, {"x": X})
    check_with_one_warning(caplog, model, {"x": X}, expected, "read as that of the domain 'com.microsoft'")


def test_an_operator_that_two_domains_have_is_refused() -> None:
    for domain in ("test.one", "test.two"):
        onnx_op("OfTwoDomains", domain=domain, versions=(1,))(lambda ctx, x: x)
    with pytest.raises(converter.UnsupportedModelError, match="ONNX has no operator of that name"):
        converter.convert_model(node_model("OfTwoDomains", {"x": X}, opset=17))


# --- versions that share a function ---


def scaled(ctx: Any, x: Output, offset: Output | None = None, *, factor: float = 2.0) -> Output:
    y = layers.multiply(ctx, x, ctx.like(factor, x))
    return y if offset is None else layers.add(ctx, y, offset)


@pytest.fixture
def _two_versions() -> Iterator[None]:
    onnx_op("Scaled", domain="test.without", versions=(1,), without=("offset", "factor"))(scaled)
    onnx_op("Scaled", domain="test.without", versions=(2,))(scaled)
    yield
    # Not a copy of the table: families that are imported meanwhile must stay in it.
    del registry._TRANSLATORS["test.without", "Scaled"]
    registry._forget_found()


def scaled_model(opset: int, *, offset: bool, attributes: dict[str, Any]) -> onnx.ModelProto:
    constants = {"o": X[0, 0]} if offset else {}
    return node_model(
        "Scaled", {"x": X}, constants=constants, attributes=attributes, opset=opset, domain="test.without"
    )


@pytest.mark.usefixtures("_two_versions")
def test_a_function_has_its_defaults_where_a_version_lacks_parameters() -> None:
    check_node(scaled_model(1, offset=False, attributes={}), {"x": X}, [X * np.float32(2)])
    newer = scaled_model(2, offset=True, attributes={"factor": 3.0})
    check_node(newer, {"x": X}, [X * np.float32(3) + X[0, 0]])


@pytest.mark.usefixtures("_two_versions")
@pytest.mark.parametrize(
    ("offset", "attributes", "message"),
    [(True, {}, "takes 1 inputs, but got 2"), (False, {"factor": 3.0}, "has no attribute 'factor'")],
)
def test_a_version_refuses_parameters_that_it_does_not_have(
    offset: bool, attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(converter.InvalidModelError, match=message):
        converter.convert_model(scaled_model(1, offset=offset, attributes=attributes))


@pytest.mark.parametrize(
    ("without", "message"),
    [
        (("bias",), r"needs parameters with defaults called \['bias'\]"),
        (("x",), r"needs parameters with defaults called \['x'\]"),
        (("first",), r"must be the last: \['first'\]"),
    ],
)
def test_parameters_that_cannot_be_left_out(without: tuple[str, ...], message: str) -> None:
    def two(ctx: Any, x: Output, first: Output | None = None, second: Output | None = None) -> Output:
        return x

    with pytest.raises(converter.ConversionError, match=message):
        onnx_op("Refused", domain="test.without", versions=(1,), without=without)(two)
    assert ("test.without", "Refused") not in registry._TRANSLATORS


# Operator, opset, inputs, constants, attributes, expected, the opset that the node is read as in.
FORMS: list[tuple[str, int, dict[str, Any], dict[str, Any], dict[str, Any], Any, int]] = [
    ("ReduceSum", 13, {"x": X}, {}, {"axes": [1], "keepdims": 0}, X.sum(1), 11),
    ("ReduceMax", 18, {"x": X}, {}, {"axes": [-1]}, X.max(-1, keepdims=True), 13),
    ("ReduceMax", 13, {"x": X}, {"a": ints(0)}, {"keepdims": 0}, X.max(0), 18),
    ("Unsqueeze", 13, {"x": X}, {}, {"axes": [0]}, X[None], 11),
    ("Unsqueeze", 11, {"x": X}, {"a": ints(0)}, {}, X[None], 13),
    ("Reshape", 1, {"x": X}, {"s": ints(4, 6)}, {}, X.reshape(4, 6), 5),
    ("Clip", 11, {"x": X}, {}, {"min": -1.0, "max": 2.0}, X.clip(-1, 2), 6),
    ("Clip", 6, {"x": X}, {"low": np.float32(-1)}, {}, X.clip(-1, None), 11),
    ("Pad", 11, {"x": X[0]}, {}, {"pads": [0, 1, 0, 0]}, np.pad(X[0], ((0, 0), (1, 0))), 2),
    ("Slice", 11, {"x": X}, {}, {"starts": [1], "ends": [3], "axes": [1]}, X[:, 1:3], 1),
    ("Split", 13, {"x": X[0]}, {}, {"split": [3], "axis": 0}, X[0], 11),
    ("Concat", 13, {"x": X, "z": X}, {}, {}, np.concatenate([X, X], 1), 1),
]


@pytest.mark.parametrize("row", FORMS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_forms_of_other_versions(row: Any, caplog: pytest.LogCaptureFixture) -> None:
    op_type, opset, inputs, constants, attributes, expected, version = row
    model = node_model(op_type, inputs, constants=constants, attributes=attributes, opset=opset)
    check_with_one_warning(caplog, model, inputs, expected, f"it is read as in opset {version}")


# Operator, opset, inputs, constants, attributes, expected, part of the warning.
ATTRIBUTES: list[tuple[str, int, dict[str, Any], dict[str, Any], dict[str, Any], Any, str]] = [
    ("LeakyRelu", 16, {"x": X}, {}, {"alpha": 2}, np.where(X < 0, 2 * X, X), "'alpha' must be of type FLOAT, but is INT"),
    ("GlobalLpPool", 1, {"x": IMAGES}, {}, {"p": 1}, np.abs(IMAGES).sum((2, 3), keepdims=True), "must be of type FLOAT"),
    ("Upsample", 7, {"x": IMAGES}, {}, {"scales": [1, 1, 2, 2]}, IMAGES.repeat(2, 2).repeat(2, 3), "FLOATS, but is INTS"),
    ("ReduceMax", 13, {"x": X}, {}, {"axes": 1, "keepdims": 0}, X.max(1), "'axes' must be of type INTS, but is INT"),
    ("GlobalMaxPool", 7, {"x": IMAGES}, {}, {"strides": [2, 2]}, IMAGES.max((2, 3), keepdims=True), "'strides', which means nothing"),
    ("Reshape", 13, {"x": X}, {"s": ints(0, -1)}, {"special_zero": 1}, X.reshape(2, 12), "'special_zero', which means nothing"),
]  # fmt: skip


@pytest.mark.parametrize("row", ATTRIBUTES, ids=lambda row: f"{row[0]}-{row[1]}")
def test_attributes_outside_the_schema(row: Any, caplog: pytest.LogCaptureFixture) -> None:
    op_type, opset, inputs, constants, attributes, expected, message = row
    model = node_model(op_type, inputs, constants=constants, attributes=attributes, opset=opset)
    check_with_one_warning(caplog, model, inputs, expected, message)


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        ("Reshape", {"special_zero": 0}, "has no attribute 'special_zero'"),
        ("Concat", {"axis": 1.0}, "attribute 'axis' must be of type INT, but is FLOAT"),
        ("LeakyRelu", {"alpha": "1"}, "attribute 'alpha' must be of type FLOAT, but is STRING"),
        ("MaxPool", {"kernel_shape": 2}, "kernel_shape"),
        ("GlobalAveragePool", {"kernel_shape": [2]}, "has no attribute 'kernel_shape'"),
    ],
)
def test_attributes_that_leave_doubt(op_type: str, attributes: dict[str, Any], message: str) -> None:
    shape = {"s": ints(0, -1)} if op_type == "Reshape" else {}
    model = node_model(op_type, {"x": IMAGES}, constants=shape, attributes=attributes, opset=13)
    with pytest.raises(converter.InvalidModelError, match=message):
        converter.convert_model(model)


# Operator, opset, inputs, constants, attributes, expected.
INTEGERS: list[tuple[str, int, Any, dict[str, Any], dict[str, Any], Any]] = [
    ("MaxPool", 13, IMAGES.astype(np.int32), {}, {"kernel_shape": [2, 2], "strides": [2, 2]}, IMAGES.reshape(1, 2, 2, 2, 2, 2).max((3, 5)).astype(np.int32)),
    ("MaxPool", 8, IMAGES.astype(np.int64), {}, {"kernel_shape": [4, 4]}, IMAGES.max((2, 3), keepdims=True).astype(np.int64)),
    ("GlobalMaxPool", 1, IMAGES.astype(np.int64), {}, {}, IMAGES.max((2, 3), keepdims=True).astype(np.int64)),
    ("ReduceMean", 18, np.array([[1, 2, 6], [250, 251, 255]], np.uint8), {"a": ints(1)}, {"keepdims": 0}, np.array([3, 252], np.uint8)),
    ("ReduceProd", 13, np.array([[1, 2, 6], [5, 5, 5]], np.uint8), {}, {"axes": [1], "keepdims": 0}, np.array([12, 125], np.uint8)),
    ("ReduceSum", 11, np.array([[-1, 2], [50, 5]], np.int16), {}, {"axes": [1], "keepdims": 0}, np.array([1, 55], np.int16)),
    ("Conv", 7, np.arange(4, dtype=np.int64).reshape(1, 1, 2, 2), {"w": np.full((1, 1, 2, 2), 3)}, {}, np.full((1, 1, 1, 1), 18)),
]  # fmt: skip


@pytest.mark.parametrize("row", INTEGERS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_integers_outside_the_schema(row: Any, caplog: pytest.LogCaptureFixture) -> None:
    op_type, opset, data, constants, attributes, expected = row
    model = node_model(op_type, {"x": data}, constants=constants, attributes=attributes, opset=opset)
    check_with_one_warning(caplog, model, {"x": data}, expected, f"but is {data.dtype.kind}")


def test_an_average_of_integers_leaves_doubt() -> None:
    model = node_model("AveragePool", {"x": IMAGES.astype(np.int32)}, attributes={"kernel_shape": [2, 2]}, opset=13)
    with pytest.raises(converter.InvalidModelError, match="but is i32"):
        converter.convert_model(model)


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("attributes", [{}, {"is_test": 0}, {"is_test": 1}])
def test_batch_normalization_with_one_output(
    opset: int, attributes: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    names = ("scale", "bias", "mean")
    constants = {name: np.array([0.5, 2], np.float32) * (i + 1) for i, name in enumerate(names)}
    constants["variance"] = np.array([4, 9], np.float32)
    scale, bias, mean, variance = (value[None, :, None, None] for value in constants.values())
    expected = (IMAGES - mean) / np.sqrt(variance + 1e-5) * scale + bias
    model = node_model("BatchNormalization", {"x": IMAGES}, constants=constants, attributes=attributes, opset=opset)
    if opset == 1:
        check_with_one_warning(caplog, model, {"x": IMAGES}, expected, "'consumed_inputs' is required, but missing")
    else:
        check_node(model, {"x": IMAGES}, [expected])
        assert not caplog.records


@pytest.mark.parametrize("imports", [[("", 13), ("", 10)], [("", 10), ("ai.onnx", 13)], [("ai.onnx", 13), ("", 13)]])
def test_of_several_versions_of_a_domain_the_highest_counts(
    imports: list[tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    """As onnx.proto has it. ReduceSum has axes as an input from opset 13 on, and as an attribute before."""
    model = node_model("ReduceSum", {"x": X}, constants={"a": ints(1)}, opset=13)
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(*one) for one in imports)
    check_node(model, {"x": X}, [X.sum(1, keepdims=True)])
    assert not caplog.records


def test_resize_with_one_scale_and_all_sizes(caplog: pytest.LogCaptureFixture) -> None:
    roi, one = np.zeros(0, np.float32), np.ones(1, np.float32)
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    constants = {"roi": roi, "scales": one, "sizes": ints(1, 2, 8, 8)}
    model = node_model("Resize", {"x": IMAGES}, constants=constants, attributes=attributes, opset=11)
    expected = IMAGES.repeat(2, 2).repeat(2, 3)
    check_with_one_warning(caplog, model, {"x": IMAGES}, expected, "only the sizes have a number for each")
    constants["scales"] = np.array([1, 1, 2, 2], np.float32)
    both = node_model("Resize", {"x": IMAGES}, constants=constants, attributes=attributes, opset=11)
    with pytest.raises(converter.InvalidModelError, match="either scales or sizes"):
        converter.convert_model(both)


def test_shapes_that_numpy_broadcasts_before_opset_7(caplog: pytest.LogCaptureFixture) -> None:
    feeds = {"a": X[0], "b": X[0, :, :1].copy()}
    model = node_model("Add", feeds, opset=6)
    check_with_one_warning(caplog, model, feeds, feeds["a"] + feeds["b"], "without 'broadcast'")
    with pytest.raises(converter.InvalidModelError, match="without 'broadcast'"):
        converter.convert_model(node_model("Add", {"a": X[0], "b": X[0, 0]}, opset=6))


def test_a_transform_of_real_data_without_their_last_dimension(caplog: pytest.LogCaptureFixture) -> None:
    turned = np.fft.rfft(X, axis=1)
    expected = np.stack([turned.real, turned.imag], -1).astype(np.float32)
    model = node_model("DFT", {"x": X}, attributes={"axis": 1, "onesided": 1}, opset=17)
    check_with_one_warning(caplog, model, {"x": X}, expected, "real data need a last dimension of 1")


@pytest.mark.parametrize(("op_type", "expected"), [("Softmax", 1.0), ("LogSoftmax", 0.0)])
def test_softmax_of_a_scalar(op_type: str, expected: float, caplog: pytest.LogCaptureFixture) -> None:
    feeds = {"x": np.array(3.5, np.float32)}
    check_with_one_warning(
        caplog, node_model(op_type, feeds, opset=7), feeds, np.array(expected, np.float32), "is a scalar"
    )


# Operator, opset, data, constants, attributes.
REPEATED_AXES: list[tuple[str, int, Any, dict[str, Any], dict[str, Any]]] = [
    ("Squeeze", 1, X[:1, :, :1], {}, {"axes": [2, 0, 2]}),
    ("Squeeze", 11, X[:1, :, :1], {}, {"axes": [0, 2, -1]}),
    ("Squeeze", 13, X[:1, :, :1], {"a": ints(2, 0, -3, 2)}, {}),
    ("ReduceSum", 11, X, {}, {"axes": [1, 1], "keepdims": 0}),
    ("ReduceSum", 13, X, {"a": ints(1, 0, -2)}, {"keepdims": 0}),
    ("ReduceMean", 18, X, {"a": ints(2, 2)}, {}),
    ("ReduceL2", 13, X, {}, {"axes": [-1, 2, 0]}),
]


@pytest.mark.parametrize("row", REPEATED_AXES, ids=lambda row: f"{row[0]}-{row[1]}")
def test_axes_that_name_a_dimension_twice(row: Any, caplog: pytest.LogCaptureFixture) -> None:
    """ONNX forbids them for Unsqueeze alone, and onnxruntime counts each once."""
    op_type, opset, data, constants, attributes = row
    model = node_model(op_type, {"x": data}, constants=constants, attributes=attributes, opset=opset)
    (expected,) = run_onnxruntime(model, {"x": data})
    check_with_one_warning(caplog, model, {"x": data}, expected, "name a dimension twice")


def test_axes_of_unsqueeze_that_name_a_dimension_twice_are_refused() -> None:
    with pytest.raises(converter.InvalidModelError, match="twice"):
        converter.convert_model(node_model("Unsqueeze", {"x": X}, attributes={"axes": [1, 1]}, opset=11))


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [({}, [1, 3, 6]), ({"exclusive": 1}, [0, 1, 3]), ({"reverse": 1}, [6, 5, 3]), ({"exclusive": 1, "reverse": 1}, [5, 3, 0])],
)  # fmt: skip
def test_running_sums_of_a_list_without_an_axis(
    attributes: dict[str, int], expected: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """The specification's own example, of a list, which has one axis only."""
    feeds = {"x": np.array([1, 2, 3], np.float32)}
    model = node_model("CumSum", feeds, attributes=attributes, opset=14)
    check_with_one_warning(caplog, model, feeds, np.array(expected, np.float32), "takes 2 inputs, but got 1")


@pytest.mark.parametrize(("op_type", "empty"), [("Relu", 1), ("NonMaxSuppression", 4), ("NonMaxSuppression", 5)])
def test_inputs_too_many_that_are_empty(op_type: str, empty: int, caplog: pytest.LogCaptureFixture) -> None:
    """The empty name means that there is no input."""
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], np.float32)
    feeds = {"x": X} if op_type == "Relu" else {"boxes": boxes, "scores": np.array([[[0.9, 0.8, 0.7]]], np.float32)}
    constants = {} if op_type == "Relu" else {"most": ints(3)}
    straight = node_model(op_type, feeds, constants=constants, opset=11)
    (expected,) = run_onnxruntime(straight, feeds)
    straight.graph.node[0].input.extend([""] * empty)
    check_with_one_warning(caplog, straight, feeds, expected, "the last of them empty")


def test_is_finite(caplog: pytest.LogCaptureFixture) -> None:
    """ONNX has IsInf and IsNaN alone."""
    values = np.array([[0, -1.5, np.inf], [-np.inf, np.nan, 3e38]], np.float32)
    expected = np.array([[True, True, False], [False, False, True]])
    check_with_one_warning(
        caplog, node_model("IsFinite", {"x": values}, opset=16), {"x": values}, expected, "neither infinite nor NaN"
    )
    with pytest.raises(converter.InvalidModelError, match="floating-point data, but got i64"):
        converter.convert_model(node_model("IsFinite", {"x": ints(1)}, opset=16))


def test_an_operator_of_the_users_own_comes_before_a_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_TRANSLATORS", dict(registry._TRANSLATORS))
    onnx_op("IsFinite", versions=(1,))(lambda ctx, x: ctx.emit(Abs1(), x))
    try:
        check_node(node_model("IsFinite", {"x": X}, opset=16), {"x": X}, [np.abs(X)])
    finally:
        monkeypatch.undo()
        registry._forget_found()


def test_running_sums_of_more_dimensions_need_an_axis() -> None:
    with pytest.raises(converter.InvalidModelError, match="takes 2 inputs, but got 1: the axis is missing"):
        converter.convert_model(node_model("CumSum", {"x": X}, opset=11))


@pytest.mark.parametrize("opset", [1, 13, 21])
def test_transpose_by_an_input_that_reverses(opset: int, caplog: pytest.LogCaptureFixture) -> None:
    """Read or ignored, it means the same."""
    order = {"order": ints(2, 1, 0, dtype=np.int32)}
    model = node_model("Transpose", {"x": X}, constants=order, opset=opset)
    check_with_one_warning(caplog, model, {"x": X}, X.transpose(2, 1, 0), "takes 1 inputs, but got 2")


@pytest.mark.parametrize("case", ["another order", "computed", "with perm"])
def test_transpose_by_an_input_that_leaves_doubt(case: str) -> None:
    order = ints(0, 2, 1) if case == "another order" else ints(2, 1, 0)
    inputs = {"order": order} if case == "computed" else {}
    constants = {} if case == "computed" else {"order": order}
    attributes = {"perm": [2, 1, 0]} if case == "with perm" else {}
    model = node_model("Transpose", {"x": X, **inputs}, constants=constants, attributes=attributes, opset=13)
    with pytest.raises(converter.InvalidModelError, match="takes 1 inputs, but got 2"):
        converter.convert_model(model)


# --- what the schema fixes need not be declared ---


def test_unknown_ranks(caplog: pytest.LogCaptureFixture) -> None:
    random = np.random.default_rng(0)

    def some(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    rows: list[tuple[str, str, dict[str, Any], int, dict[str, Any]]] = [
        ("ConvTranspose", "", {"x": some(1, 4, 3, 3), "w": some(4, 2, 3, 3)}, 11, {"group": 2, "kernel_shape": [3, 3]}),
        ("Conv", "", {"x": some(1, 4, 3, 3), "w": some(4, 2, 2, 2)}, 11, {"group": 2, "kernel_shape": [2, 2]}),
        ("SkipLayerNormalization", "com.microsoft", {"x": some(2, 3, 4), "s": some(2, 3, 4), "g": some(4)}, 1, {}),
        ("Attention", "com.microsoft", {"x": some(2, 3, 4), "w": some(4, 12), "b": some(12)}, 1, {"num_heads": 2}),
    ]
    for op_type, domain, feeds, opset, attributes in rows:
        known = node_model(op_type, feeds, attributes=attributes, opset=opset, domain=domain)
        model = node_model(
            op_type, feeds, attributes=attributes, opset=opset, domain=domain, shapes=_unknown(op_type, feeds)
        )
        check_node(model, feeds, run_onnxruntime(known, feeds), engines=["numpy"], atol=1e-4)
    messages = [record.getMessage() for record in caplog.records]
    assert not [message for message in messages if "takes no tensors of unknown rank" not in message]


def _unknown(op_type: str, feeds: dict[str, Any]) -> dict[str, Any]:
    """Convolutions find their rank in the data or in the weights."""
    return dict.fromkeys(["w"] if op_type.startswith("Conv") else feeds)


def _scan_body(shape: list[int | str] | None) -> onnx.GraphProto:
    values = {name: helper.make_tensor_value_info(name, 1, shape) for name in ("total", "item", "sum", "out")}
    nodes = [helper.make_node("Add", ["total", "item"], ["sum"]), helper.make_node("Mul", ["sum", "factor"], ["out"])]
    return helper.make_graph(nodes, "body", [values["total"], values["item"]], [values["sum"], values["out"]])


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("backwards", [0, 1])
def test_scan_of_opset_8_takes_a_batch(batch: int, backwards: int) -> None:
    """Each sequence of the batch on its own, as the first version of Scan is defined."""
    data = np.arange(batch * 8, dtype=np.float32).reshape(batch, 4, 2)
    feeds = {"initial": data[:, 0] * 10, "items": data}
    node = helper.make_node(
        "Scan",
        ["", "initial", "items"],
        ["end", "outs"],
        body=_scan_body([2]),
        num_scan_inputs=1,
        directions=[backwards],
    )
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_tensor_value_info(name, 1, list(value.shape)) for name, value in feeds.items()],
        [onnx.ValueInfoProto(name=name) for name in ("end", "outs")],
        [numpy_helper.from_array(np.array([2.0, -1.0], np.float32), "factor")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)
    sums = feeds["initial"][:, None] + np.cumsum(data[:, ::-1] if backwards else data, 1)
    check_node(model, feeds, [sums[:, -1], sums * np.array([2.0, -1.0], np.float32)])


def test_scan_of_inputs_of_unknown_rank() -> None:
    data = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    node = helper.make_node(
        "Scan", ["initial", "items"], ["end", "outs"],
        body=_scan_body(None), num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1],
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_tensor_value_info(name, 1, None) for name in ("initial", "items")],
        [onnx.ValueInfoProto(name=name) for name in ("end", "outs")],
        [numpy_helper.from_array(np.array(2.0, np.float32), "factor")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    feeds = {"initial": data[:, 0] * 0, "items": data}
    sums = np.cumsum(data, 1)
    check_node(model, feeds, [sums[:, -1], sums * 2], engines=["numpy"])


def test_an_input_with_the_name_of_a_constant_node(caplog: pytest.LogCaptureFixture) -> None:
    """As one that has an initializer; ONNX has no second name for it."""
    model = node_model("Squeeze", {"x": X[:1], "a": ints(1)}, opset=13)
    model.graph.node.insert(0, helper.make_node("Constant", [], ["a"], value=numpy_helper.from_array(ints(0))))
    check_with_one_warning(caplog, model, {"x": X[:1]}, X[0], "'a' is declared as an input")
    model.graph.node[0].CopyFrom(helper.make_node("Identity", ["x"], ["a"]))
    with pytest.raises(converter.InvalidModelError, match="which already has a value"):
        converter.convert_model(model)


# --- what must stay refused ---


def test_a_later_form_that_nothing_fits_names_the_first_reason() -> None:
    model = node_model("ReduceSum", {"x": X}, attributes={"axis": [1]}, opset=13)
    with pytest.raises(converter.InvalidModelError, match="has no attribute 'axis'"):
        converter.convert_model(model)


def test_an_operator_of_the_users_own_stays_that_of_the_models_opset(caplog: pytest.LogCaptureFixture) -> None:
    def early_swish(ctx: Any, x: Output) -> Output:
        return ctx.emit(Abs1(), x)  # type: ignore[no-any-return]

    onnx_op("EarlySwish", domain="test.early", versions=(1,))(early_swish)
    model = node_model("EarlySwish", {"x": X}, opset=1, domain="test.early")
    check_node(model, {"x": X}, [np.abs(X)])
    assert not caplog.records
