"""onnxruntime's quantised and plain operators through both engines, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import ENGINES, check_node, converted, node_model, run, run_onnxruntime
from tests.random_data import generator

R = generator(23)


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def u(*shape: int) -> np.ndarray:
    return R.integers(0, 256, shape).astype(np.uint8)


def s(*shape: int) -> np.ndarray:
    return R.integers(-128, 128, shape).astype(np.int8)


def n(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def z(value: int, kind: Any = np.uint8) -> np.ndarray:
    return np.array(value, kind)


def row(
    op_type: str, name: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any] | None = None, **more: Any
) -> Any:
    return pytest.param(op_type, inputs, attributes or {}, more, id=f"{op_type}-{name}")


A, B = u(2, 3, 4), u(3, 4)
IMAGE = u(1, 3, 6, 6)
KERNEL = {"kernel_shape": [3, 3]}
SCALED = {"sa": n(0.0131), "za": z(120), "b": B, "sb": n(0.0217), "zb": z(7), "sc": n(0.0411), "zc": z(131)}

ROWS = [
    row("QLinearAdd", "u8", {"a": A, **SCALED}),
    row(
        "QLinearAdd",
        "i8",
        {
            "a": s(2, 3),
            "sa": n(0.0131),
            "za": z(-3, np.int8),
            "b": s(3),
            "sb": n(0.0217),
            "zb": z(5, np.int8),
            "sc": n(0.0411),
            "zc": z(1, np.int8),
        },
    ),
    row(
        "QLinearWhere",
        "u8",
        {"c": A % 2 == 0, "x": A, "sx": n(0.0131), "zx": z(120), "y": B, "sy": n(0.0217), "zy": z(9)}
        | {"sz": n(0.0411), "zz": z(131)},
    ),
    row(
        "QLinearWhere",
        "i8",
        {"c": np.array([True, False]), "x": s(3, 2), "sx": n(0.0131), "zx": z(12, np.int8), "y": s(2), "sy": n(0.0217)}
        | {"zy": z(-9, np.int8), "sz": n(0.0111), "zz": z(-3, np.int8)},
    ),
    row("QLinearMul", "u8", {"a": A, **SCALED}, shapes={"a": ["n", None, 4]}),
    row("QLinearSigmoid", "u8", {"x": A, "sx": n(0.05), "zx": z(128), "sy": n(1 / 256), "zy": z(0)}),
    row(
        "QLinearLeakyRelu",
        "i8",
        {"x": s(3, 8), "sx": n(0.0513), "zx": z(3, np.int8), "sy": n(0.0317), "zy": z(-9, np.int8)},
        {"alpha": 0.137},
    ),
    row(
        "QLinearConcat",
        "three",
        {
            "sy": n(0.0317),
            "zy": z(100),
            "a": u(2, 3),
            "sa": n(0.0131),
            "za": z(120),
            "b": u(2, 5),
            "sb": n(0.0217),
            "zb": z(9),
        },
        {"axis": 1},
    ),
    row(
        "QLinearAveragePool",
        "plain",
        {"x": IMAGE, "sx": n(0.0131), "zx": z(120), "sy": n(0.0097), "zy": z(117)},
        KERNEL,
    ),
    row(
        "QLinearAveragePool",
        "pads",
        {"x": IMAGE, "sx": n(0.0131), "zx": z(120), "sy": n(0.0097), "zy": z(117)},
        {**KERNEL, "pads": [1, 1, 1, 1], "strides": [2, 2], "count_include_pad": 1},
    ),
    row(
        "QLinearAveragePool",
        "last",
        {"x": u(1, 6, 6, 3), "sx": n(0.0131), "zx": z(120), "sy": n(0.0097), "zy": z(117)},
        {**KERNEL, "channels_last": 1},
    ),
    row(
        "QLinearGlobalAveragePool", "first", {"x": IMAGE, "sx": n(0.0131), "zx": z(120), "sy": n(0.0097), "zy": z(117)}
    ),
    row(
        "QLinearGlobalAveragePool",
        "last",
        {"x": u(2, 6, 6, 3), "sx": n(0.0131), "zx": z(120), "sy": n(0.0097), "zy": z(117)},
        {"channels_last": 1},
    ),
    row("DynamicQuantizeMatMul", "plain", {"a": f(2, 3, 8), "b": u(8, 5), "sb": n(0.02), "zb": z(100)}),
    row(
        "DynamicQuantizeMatMul",
        "columns",
        {"a": f(3, 8), "b": s(8, 5), "sb": np.abs(f(5)), "": None, "bias": f(5)},
        shapes={"a": ["n", 8]},
    ),
    row(
        "MatMulIntegerToFloat",
        "plain",
        {"a": u(2, 3, 8), "b": u(8, 5), "sa": n(0.03), "sb": n(0.02), "za": z(99), "zb": z(100), "bias": f(5)},
    ),
    row(
        "MatMulIntegerToFloat",
        "columns",
        {"a": u(3, 8), "b": s(8, 5), "sa": n(0.03), "sb": np.abs(f(5)), "": None, "zb": s(5)},
    ),
    row(
        "QAttention",
        "plain",
        {
            "x": u(2, 3, 8),
            "w": s(8, 24),
            "b": f(24),
            "sx": n(0.01),
            "sw": n(0.02),
            "": None,
            "zx": z(128),
            "zw": z(3, np.int8),
        },
        {"num_heads": 2},
    ),
    row(
        "QAttention",
        "columns",
        {
            "x": u(2, 3, 8),
            "w": s(8, 24),
            "b": f(24),
            "sx": n(0.01),
            "sw": np.abs(f(24)) / 30,
            "m": np.array([2, 3], np.int32),
            "zx": z(128),
            "zw": np.zeros(24, np.int8),
        },
        {"num_heads": 2},
    ),
    row("QuantizeLinear", "u16", {"x": f(3, 4) * 9, "s": n(0.0031), "z": z(30000, np.uint16)}),
    row("QuantizeLinear", "axis", {"x": f(3, 4), "s": np.abs(f(3)) / 50, "z": s(3)}, {"axis": 0}),
    row("QuantizeLinear", "no-zero", {"x": f(3, 4), "s": n(0.03)}),
    row(
        "DequantizeLinear",
        "i16",
        {"x": R.integers(-32768, 32768, (3, 4)).astype(np.int16), "s": n(0.0031), "z": z(-77, np.int16)},
    ),
    row("DequantizeLinear", "axis", {"x": u(3, 4), "s": np.abs(f(4)), "z": u(4)}, {"axis": 1}),
    row("Trilu", "upper", {"x": f(2, 4, 5), "k": np.array(1)}),
    row("Trilu", "lower", {"x": f(4, 5)}, {"upper": 0}),
    row(
        "Pad",
        "constant",
        {"x": f(2, 3), "p": np.array([0, 1, 2, 0]), "v": np.array([1.5], np.float32)},
        held=("p", "v"),
    ),
    row("Pad", "reflect", {"x": f(3, 4), "p": np.array([[0, 1, 2, 0]])}, {"mode": "reflect"}, held=("p",)),
    row("Range", "step", {"a": np.array(1, np.int32), "b": np.array(9, np.int32), "d": np.array(3, np.int32)}),
    row("Range", "one", {"a": np.array(1.5, np.float32), "b": np.array(6.0, np.float32)}),
    row("ExpandDims", "front", {"x": f(3, 4), "a": np.array(-1, np.int32)}, held=("a",)),
    row("Inverse", "batch", {"x": f(2, 3, 3) + 3 * np.eye(3, dtype=np.float32)}),
    row("CDist", "squares", {"a": f(3, 4), "b": f(5, 4)}, shapes={"a": ["m", 4], "b": [None, 4]}),
    row("CDist", "roots", {"a": f(3, 4), "b": f(5, 4)}, {"metric": "euclidean"}),
]


def model_of(
    op_type: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any], more: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    options = dict(more)
    held = options.pop("held", ())
    feeds = {name: value for name, value in inputs.items() if value is not None and name not in held}
    order = [name if value is not None else "" for name, value in inputs.items()]
    constants = {name: inputs[name] for name in held}
    model = node_model(
        op_type,
        feeds,
        attributes=attributes,
        constants=constants,
        order=order,
        domain="com.microsoft",
        opset=1,
        **options,
    )
    return model, feeds


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "more"), ROWS)
def test_operator_gives_the_numbers_of_onnxruntime(
    op_type: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any], more: Mapping[str, Any]
) -> None:
    model, feeds = model_of(op_type, inputs, attributes, more)
    check_node(model, feeds)


@pytest.mark.parametrize(("opset", "axis"), [(13, -1), (13, 1), (12, 1)])
def test_softmax_is_right_to_the_last_step(opset: int, axis: int) -> None:
    """onnxruntime adds up rounded powers, so that its result may be the neighbouring number."""
    inputs = {"x": u(2, 3, 5), "sx": n(0.0213), "zx": z(120), "sy": n(1 / 256), "zy": z(0)}
    model, feeds = model_of("QLinearSoftmax", inputs, {"opset": opset, "axis": axis}, {})
    want = run_onnxruntime(model, feeds)[0].astype(int)
    for engine in ENGINES:
        made = run(engine, converted(model), feeds)[0]
        assert made.dtype == np.uint8
        assert np.abs(made.astype(int) - want).max() <= 1


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("has_lengths", [False, True])
def test_lstm_rounds_its_data(direction: str, by_columns: bool, has_lengths: bool) -> None:
    """Data and states are rounded to 8 bits before each product, as in onnxruntime.

    onnxruntime runs with one thread here: with more, each takes the range of its part of the batch.
    """
    count = 2 if direction == "bidirectional" else 1
    shape = (count, 32) if by_columns else (count,)
    constants = {
        "w": s(count, 6, 32),
        "r": s(count, 8, 32),
        "b": f(count, 64) / 4,
        "sw": R.uniform(0.01, 0.02, shape).astype(np.float32),
        "zw": np.zeros(shape, np.int8),
        "sr": R.uniform(0.01, 0.02, shape).astype(np.float32),
        "zr": np.zeros(shape, np.int8),
    }
    feeds = {"x": f(7, 2, 6), "h": f(count, 2, 8), "c": f(count, 2, 8)}
    if has_lengths:
        feeds["lengths"] = np.array([5, 4], np.int32)
    order = ["x", "w", "r", "b", "lengths" if has_lengths else "", "h", "c", "", "sw", "zw", "sr", "zr"]
    attributes = {"hidden_size": 8, "direction": direction}
    model = node_model(
        "DynamicQuantizeLSTM",
        feeds,
        constants=constants,
        order=order,
        attributes=attributes,
        outputs=3,
        domain="com.microsoft",
        opset=1,
    )
    check_node(model, feeds)


def test_zero_points_may_be_left_out() -> None:
    """onnxruntime's type inference stumbles over that, although its schema allows for it."""
    given = {"a": A, "sa": n(0.0131), "za": z(0), "b": B, "sb": n(0.0217), "zb": z(0), "sc": n(0.0411), "zc": z(0)}
    want = run_onnxruntime(*model_of("QLinearAdd", given, {}, {}))
    left_out = {name: None if name in ("za", "zb") else value for name, value in given.items() if name != "zc"}
    model, feeds = model_of("QLinearAdd", left_out, {}, {})
    check_node(model, feeds, want)


def test_sum_with_a_bias() -> None:
    feeds = {"x": f(2, 3, 4), "bias": f(4), "skip": f(2, 3, 4)}
    want = [feeds["x"] + feeds["bias"] + feeds["skip"]]
    check_node(node_model("BiasAdd", feeds, domain="com.microsoft", opset=1), feeds, want)


def test_convolution_with_channels_behind() -> None:
    x, w, b = f(1, 4, 6, 6), f(6, 2, 3, 3), f(6)
    attributes = {"group": 2, "pads": [1, 0, 1, 0]}
    plain = {"x": x, "w": w, "b": b}
    want = run_onnxruntime(node_model("Conv", plain, attributes=attributes, opset=11), plain)[0].transpose(0, 2, 3, 1)
    feeds = {"x": x.transpose(0, 2, 3, 1), "w": w.transpose(0, 2, 3, 1), "b": b}
    check_node(node_model("NhwcConv", feeds, attributes=attributes, domain="com.microsoft", opset=1), feeds, [want])


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "message"),
    [
        ("CDist", {"a": f(3, 4), "b": f(5, 4)}, {"metric": "cosine"}, "the metric 'cosine' is not supported"),
        ("QLinearConcat", {"s": n(1), "z": z(0), "a": A, "sa": n(1)}, {"axis": 0}, "needs a scale and a zero point"),
        ("QLinearAdd", {"a": A, "sa": n(1)}, {}, "input 'B' is required"),
    ],
)
def test_contradictions_are_named(
    op_type: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model_of(op_type, inputs, attributes, {})[0])


def test_a_sum_between_two_steps_goes_where_onnxruntime_puts_it() -> None:
    """1 + erf in 8 bits, as a quantised Gelu has it: every sum is a whole number of steps and a half."""
    codes = np.arange(256, dtype=np.uint8)
    scales = {"s": np.float32(1) / np.float32(127.5), "t": np.float32(1) / np.float32(255)}
    constants = {**scales, "z": np.uint8(128), "one": np.array([255], np.uint8), "zero": np.uint8(0)}
    model = node_model(
        "QLinearAdd",
        {"x": codes},
        opset=1,
        domain="com.microsoft",
        constants=constants,
        order=["x", "s", "z", "one", "t", "zero", "s", "zero"],
    )
    # By hand: (x - 128) + 127.5, the halves to even numbers.
    expected = np.clip(np.rint(codes.astype(np.float64) - 0.5), 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(run_onnxruntime(model, {"x": codes})[0], expected)
    check_node(model, {"x": codes}, [expected])
