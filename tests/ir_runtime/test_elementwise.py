"""The IR's element-wise operations against OpenVINO, and what is inferred of them."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import openvino
import pytest
from openvino import opset1
from openvino import opset16 as ov

import ir_runtime
from ir_runtime.errors import InferenceError
from ir_runtime.graph import element_types
from ir_runtime.graph.model import Model
from ir_runtime.graph.operation import Operation, TensorType, all_operations
from ir_runtime.graph.shape_inference import infer_types, make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.graph.value_ranges import Bounds, bounds_of, range_of
from ir_runtime.operations import elementwise as ir
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Parameter1, Result1
from tests.engines import assert_close, run_numpy, run_openvino
from tests.ir_runtime.peers import check_peers

A = np.array([[-2.5, -1.0, 0.0], [0.25, 1.0, 3.75]], np.float32)
B = np.array([1.5, -2.0, 0.5], np.float32)
NUMBERS = np.array([[-7, 0, 5], [1, 9, -3]], np.int32)
OTHERS = np.array([2, 3, 4], np.int32)


def parameter(array: Any, shape: list[int] | None = None) -> Any:
    return ov.parameter(shape or list(np.shape(array)), openvino.Type(np.asarray(array).dtype))


@pytest.mark.parametrize(
    "name",
    [
        "add", "subtract", "multiply", "maximum", "minimum", "mod", "floor_mod", "squared_difference",
        "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    ],
)  # fmt: skip
def test_binary(name: str) -> None:
    for a, b in ((A, B), (NUMBERS, OTHERS)):
        if name == "floor_mod" and a is NUMBERS:
            continue
        p, q = parameter(a, [-1, 3]), parameter(b)
        check_peers([getattr(ov, name)(p, q)], [p, q], [a, b])


def test_divide() -> None:
    """Negative integers are left out: OpenVINO's CPU plug-in rounds them towards zero whatever the attribute says."""
    for a, b in ((A, B), (np.abs(NUMBERS), OTHERS)):
        p, q = parameter(a), parameter(b)
        check_peers([ov.divide(p, q)], [p, q], [a, b])


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bitwise(name: str) -> None:
    p, q = parameter(NUMBERS), parameter(OTHERS)
    check_peers([getattr(ov, name)(p, q)], [p, q], [NUMBERS, OTHERS])


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logical(name: str) -> None:
    a, b = np.array([True, False, True]), np.array([True, True, False])
    p, q = parameter(a), parameter(b)
    check_peers([getattr(ov, name)(p, q)], [p, q], [a, b])


def test_power() -> None:
    a = np.array([0.5, 2.0, 3.0], np.float32)
    p, q = parameter(a), parameter(B)
    check_peers([ov.power(p, q)], [p, q], [a, B])


def test_logical_xor_of_opset_1() -> None:
    a, b = np.array([True, False, True]), np.array([True, True, False])
    p, q = parameter(a), parameter(b)
    check_peers([opset1.logical_xor(p, q)], [p, q], [a, b])


@pytest.mark.parametrize("b_shape", [(), (2,), (2, 1), (2, 2)])
def test_broadcast_from_the_first_dimension(b_shape: tuple[int, ...]) -> None:
    a = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    b = np.arange(100, 100 + math.prod(b_shape), dtype=np.float32).reshape(b_shape)
    nodes = [make_node(Parameter1(shape=list(x.shape), element_type="f32"), ()) for x in (a, b)]
    for node, name in zip(nodes, "ab"):
        node.name = name
        node.outputs[0].add_name(name)
    add = make_node(ir.Add1(auto_broadcast="pdpd"), [node.outputs[0] for node in nodes], "add")
    model = Model("m", nodes, [make_node(Result1(), add.outputs, "result")])
    written = ir_runtime.model_to_bytes(model)
    feeds = {"a": a, "b": b}
    for actual in (run_numpy(written, feeds), run_openvino(written, feeds)):
        assert_close(actual[0], a + b.reshape(b_shape + (1,) * (3 - b.ndim)))


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("absolute", A), ("absolute", NUMBERS), ("negative", A), ("negative", NUMBERS), ("sign", A),
        ("ceiling", A), ("floor", A), ("sqrt", np.abs(A)), ("exp", A), ("log", np.abs(A) + 1),
        ("sin", A), ("cos", A), ("tan", A / 4), ("asin", A / 4), ("acos", A / 4), ("atan", A),
        ("sinh", A), ("cosh", A), ("tanh", A), ("asinh", A), ("acosh", np.abs(A) + 1), ("atanh", A / 4), ("erf", A),
        ("bitwise_not", NUMBERS), ("is_nan", np.array([1, np.nan, np.inf], np.float32)),
        ("is_finite", np.array([1, np.nan, np.inf], np.float32)), ("logical_not", np.array([True, False])),
    ],
)  # fmt: skip
def test_unary(name: str, x: np.ndarray) -> None:
    p = parameter(x, [-1, *x.shape[1:]])
    check_peers([getattr(ov, name)(p)], [p], [x])


@pytest.mark.parametrize(("negative", "positive"), [(True, True), (True, False), (False, True), (False, False)])
def test_is_inf(negative: bool, positive: bool) -> None:
    x = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    p = parameter(x)
    check_peers([ov.is_inf(p, {"detect_negative": negative, "detect_positive": positive})], [p], [x])


@pytest.mark.parametrize("mode", ["half_to_even", "half_away_from_zero"])
def test_round(mode: str) -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.4, 0.5, 1.5, 2.5, 2.7], np.float32)
    p = parameter(x)
    check_peers([ov.round(p, mode)], [p], [x])


def test_erf_to_the_last_digits() -> None:
    x = np.concatenate([np.linspace(-5, 5, 4001), [0.0, 1e-30, 30.0]])
    expected = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(ir.erf(x), expected, rtol=1e-15)
    single = x.astype(np.float32)
    exact = np.array([math.erf(float(v)) for v in single])
    np.testing.assert_allclose(ir.erf(single), exact.astype(np.float32), rtol=2e-7, atol=1e-38)
    assert ir.erf(np.array(0.5)).shape == ()


@pytest.mark.parametrize(("python_division", "expected"), [(True, [-4, -3, 3, 2, -2]), (False, [-3, -2, 3, 2, -2])])
def test_division_of_integers(python_division: bool, expected: list[int]) -> None:
    a, b = np.array([-7, -5, 7, -4, -4], np.int32), np.array([2, 2, 2, -2, 2], np.int32)
    assert ir.Divide1(m_pythondiv=python_division).evaluate(a, b).tolist() == expected


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_small_floats_are_rounded_once(kind: Any) -> None:
    x = np.linspace(0.1, 3, 50).astype(kind)
    for op, expected in ((ir.Exp1(), np.exp), (ir.Sqrt1(), np.sqrt), (ir.Tanh1(), np.tanh)):
        assert np.array_equal(op.evaluate(x), expected(x.astype(np.float64)).astype(np.float32).astype(kind))
    assert np.array_equal(ir.Power1().evaluate(x, x), np.power(x.astype(np.float32), x.astype(np.float32)).astype(kind))


@pytest.mark.parametrize("source", ["f32", "i32", "u8", "i64", "boolean", "f16"])
@pytest.mark.parametrize("target", ["f32", "i32", "u8", "i8", "i64", "u16", "boolean", "f16"])
def test_convert(source: str, target: str) -> None:
    values = {"f32": [-1.5, 0.3, 2.7, 100.0], "f16": [-1.5, 0.3, 2.7, 100.0], "boolean": [True, False]}
    x = np.array(values.get(source, [0, 1, 200, 255]), element_types.element_type(source).dtype)
    p = parameter(x)
    check_peers([ov.convert(p, target)], [p], [x])


@pytest.mark.parametrize("target", ["i4", "u4"])
def test_convert_to_packed_integers_wraps(target: str) -> None:
    x = np.array([-9, -8, 7, 8, 15, 16], np.int32)
    wrapped = {"i4": [7, -8, 7, -8, -1, 0], "u4": [7, 8, 7, 8, 15, 0]}[target]
    kind = element_types.element_type(target)
    made = ir.Convert1(destination_type=kind).evaluate(x)
    assert made.dtype == kind.dtype
    assert made.astype(np.int32).tolist() == wrapped


@pytest.mark.parametrize("target", ["i8", "u8", "i16", "u16", "i32"])
def test_convert_what_int32_cannot_hold(target: str) -> None:
    """Its least value takes the place of such floats, as in onnxruntime and in the plug-in, and is cut to the type."""
    x = np.array([3e9, -3e9, 2147483520, 5e9, 1e19, -1e19, np.inf, -np.inf, np.nan, 300, -129, -1.5], np.float32)
    p = parameter(x)
    check_peers([ov.convert(p, target)], [p], [x])


def test_powers_of_two() -> None:
    """f8e8m0 has an exponent and nothing else: what is nearest, ties to even, and saturated."""
    special = [0, -1, 1.1e-38, 8e-39, 1e-39, 1.5, 1.4, 2.9, 3, 3.1, np.inf, -np.inf, np.nan, 3e38, 1.7e38]
    many = 2.0 ** np.random.default_rng(0).uniform(-126, 127.9, 200)
    x = np.array([*special, *many], np.float32)
    p = parameter(x)
    check_peers([ov.convert(p, "f8e8m0")], [p], [x])


def test_convert_like_and_select() -> None:
    p, q, r = parameter(A), parameter(B), parameter(np.array([[True], [False]]))
    check_peers([ov.select(r, p, q)], [p, q, r], [A, B, np.array([[True], [False]])])
    like = parameter(NUMBERS)
    check_peers([ov.convert_like(p, like)], [p, like], [A, NUMBERS])


# --- inference ---


def tensor_type(kind: str, *dims: int | None) -> TensorType:
    return TensorType(element_types.element_type(kind), PartialShape(dims))


@pytest.mark.parametrize(
    ("op", "inputs", "reason"),
    [
        (ir.Add1(), [tensor_type("f32", 2), tensor_type("i32", 2)], "one element type"),
        (ir.Add1(), [tensor_type("f32", 2), tensor_type("f32", 3)], "cannot be broadcast"),
        (ir.Add1(auto_broadcast="none"), [tensor_type("f32", 2), tensor_type("f32", 1)], "must be equal"),
        (ir.Add1(auto_broadcast="pdpd"), [tensor_type("f32", 2, 3), tensor_type("f32", 3)], "does not fit the first"),
        (ir.LogicalAnd1(), [tensor_type("f32", 2), tensor_type("f32", 2)], "must be boolean"),
        (ir.BitwiseAnd13(), [tensor_type("f32", 2), tensor_type("f32", 2)], "must be integers or booleans"),
        (ir.Select1(), [tensor_type("f32", 2), tensor_type("f32", 2), tensor_type("f32", 2)], "must be boolean"),
    ],
)
def test_contradictions(op: Any, inputs: list[TensorType], reason: str) -> None:
    with pytest.raises(InferenceError, match=reason):
        op.infer(inputs)


def test_unknown_rank_and_type() -> None:
    unknown = TensorType(element_types.dynamic, PartialShape.dynamic())
    for op, count in ((ir.Add1(), 2), (ir.Less1(), 2), (ir.Abs1(), 1), (ir.IsNaN10(), 1), (ir.Select1(), 3)):
        assert not op.infer([unknown] * count)[0].shape.has_rank


def interval(*pairs: tuple[int, int]) -> TensorType:
    low, high = zip(*pairs)
    bounds = Bounds(np.array(low, np.int64), np.array(high, np.int64))
    return TensorType(element_types.i64, PartialShape([len(pairs)]), bounds=bounds)


def number(*values: int) -> TensorType:
    return TensorType(
        element_types.i64, PartialShape([len(values)]), tensor=Tensor.from_array(np.array(values, np.int64))
    )


def constant(kind: str, *values: int) -> TensorType:
    element_type = element_types.element_type(kind)
    array = np.array(values, element_type.dtype)
    return TensorType(element_type, PartialShape([len(values)]), tensor=Tensor.from_array(array))


def bounds(op: Operation, *types: TensorType) -> Bounds | None:
    """The bounds of the result for bounds of the operands."""
    known = [kind.known_bounds for kind in types]
    if None in known:
        return None
    values = op.value_range([range_of(one) for one in known if one is not None])
    return None if values is None else bounds_of(values, op.infer(types)[0].element_type)


def test_operands_aligned_in_front_have_no_bounds() -> None:
    assert infer_types(ir.Add1(auto_broadcast="pdpd"), [interval((0, 9)), number(2)])[0].bounds is None


ENDLESS = 2**63 - 1


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        (ir.Add1(), interval((1, 5), (0, ENDLESS)), number(2, 3), [(3, 7), (3, ENDLESS)]),
        (ir.Subtract1(), interval((1, 5), (0, ENDLESS)), number(2, 3), [(-1, 3), (-3, ENDLESS)]),
        (ir.Subtract1(), number(9), interval((1, 5)), [(4, 8)]),
        (ir.Multiply1(), interval((1, 5)), number(-2), [(-10, -2)]),
        (ir.Multiply1(), interval((-1, 5)), interval((-3, 2)), [(-15, 10)]),
        (ir.Divide1(), interval((3, 9)), number(2), [(1, 4)]),
        (ir.Divide1(), interval((0, ENDLESS)), number(2), [(0, ENDLESS)]),
        (ir.Divide1(), interval((-3, 9), (-5, ENDLESS)), number(2, 3), [(-2, 4), (-2, ENDLESS)]),
        (ir.Divide1(m_pythondiv=False), interval((-3, 9)), number(2), [(-1, 4)]),
        (ir.Divide1(), number(9), interval((-2, 3)), None),
        (ir.FloorMod1(), interval((-3, 9)), number(7), [(0, 6)]),
        (ir.FloorMod1(), interval((2, 4), (0, ENDLESS)), number(7, 5), [(0, 4), (0, 4)]),
        (ir.FloorMod1(), interval((1, ENDLESS)), interval((1, 6)), [(0, 5)]),
        (ir.FloorMod1(), interval((1, 9)), interval((0, 6)), None),
        (ir.Mod1(), interval((-3, ENDLESS)), number(7), [(-3, 6)]),
        (ir.Mod1(), interval((-30, -2)), number(7), [(-6, 0)]),
        (ir.Add1(), interval((-ENDLESS - 1, ENDLESS)), number(5), [(-ENDLESS - 1, ENDLESS)]),
        (ir.Add1(), number(ENDLESS), number(1), None),
        (ir.Subtract1(), number(-ENDLESS), number(2), None),
        (ir.Add1(), number(ENDLESS - 3), number(2), [(ENDLESS - 1, ENDLESS - 1)]),
        (ir.Multiply1(), interval((2**40, 2**41)), number(2**21), [(2**61, 2**62)]),
        (ir.Multiply1(), interval((2**40, 2**42)), number(2**21), None),
        (ir.Multiply1(), interval((2**61, 2**62)), number(2**62), None),
        (ir.BitwiseRightShift15(), interval((3, 9)), number(1), [(1, 4)]),
        (ir.Maximum1(), interval((0, 9)), number(2), [(2, 9)]),
        (ir.Minimum1(), interval((0, ENDLESS)), number(2), [(0, 2)]),
        (ir.Divide1(m_pythondiv=False), interval((-3, 9)), number(-2), [(-4, 1)]),
        (ir.SquaredDifference1(), interval((-3, 2)), number(1), None),
        (ir.BitwiseAnd13(), interval((0, 9)), interval((2, 4)), [(0, 4)]),
        (ir.Power1(), interval((1, 3)), number(2), [(1, 9)]),
        (ir.Power1(), interval((-3, 3)), number(2), None),
    ],
)
def test_bounds(op: Any, a: TensorType, b: TensorType, expected: list[tuple[int, int]] | None) -> None:
    found = bounds(op, a, b)
    if expected is None:
        assert found is None
        return
    assert list(zip(found.lower.tolist(), found.upper.tolist())) == expected


@pytest.mark.parametrize(
    ("kind", "values", "target", "expected"),
    [
        ("i64", [3, -4], "i32", [3, -4]),
        ("i64", [3, -4], "u32", None),
        ("i64", [2**31], "i32", None),
        ("i64", [2**31], "u32", [2**31]),
        ("u64", [2**63], "i64", None),
        ("i32", [-1], "u64", None),
        ("u8", [200], "i64", [200]),
        ("i64", [3], "i8", None),
    ],
)
def test_bounds_of_conversions(kind: str, values: list[int], target: str, expected: list[int] | None) -> None:
    found = bounds(ir.Convert1(destination_type=target), constant(kind, *values))
    assert (None if found is None else found.lower.tolist()) == expected
    assert found is None or found.is_exact


def test_bounds_of_scalars_that_were_picked() -> None:
    picked = infer_types(Gather8(), [interval((1, 5), (2, ENDLESS)), constant("i64", 1), number(0)])[0].bounds
    assert picked is not None
    scalar = TensorType(element_types.i64, PartialShape(()), bounds=Bounds(picked.lower[0], picked.upper[0]))
    found = bounds(ir.Multiply1(), scalar, scalar)
    assert found is not None
    assert (found.lower.tolist(), found.upper.tolist()) == (4, ENDLESS)


@pytest.mark.parametrize(
    "cls", [cls for cls in all_operations() if issubclass(cls, ir.Binary)], ids=lambda cls: cls.type
)
def test_bounds_of_scalars(cls: type[ir.Binary]) -> None:
    """NumPy returns plain numbers where arrays of objects have no dimensions."""
    kind = element_types.boolean if issubclass(cls, ir.Logical) else element_types.i64
    scalar = TensorType(kind, PartialShape(()), bounds=Bounds(np.int64(0), np.int64(1)))
    found = infer_types(cls(), [scalar, scalar])[0].bounds
    assert found is None or found.lower.shape == ()


def test_numbers_beyond_int64_have_no_bounds() -> None:
    assert constant("u64", 2**64 - 1, 3).known_bounds is None


def test_bounds_of_what_may_wrap() -> None:
    small = TensorType(element_types.u8, PartialShape([1]), tensor=Tensor.from_array(np.array([200], np.uint8)))
    assert bounds(ir.Add1(), small, small) is None
    wide = TensorType(element_types.i32, PartialShape([1]), tensor=Tensor.from_array(np.array([2**31 - 1], np.int32)))
    assert bounds(ir.Add1(), wide, wide) is None


def test_bounds_of_a_selection() -> None:
    unknown = TensorType(element_types.boolean, PartialShape([2]))
    found = infer_types(ir.Select1(), [unknown, interval((1, 5), (2, 3)), number(4, 9)])[0].bounds
    assert found is not None
    assert list(zip(found.lower.tolist(), found.upper.tolist())) == [(1, 5), (2, 9)]


def test_wrong_attributes() -> None:
    with pytest.raises(ir_runtime.ModelError, match="auto_broadcast"):
        ir.Add1(auto_broadcast="some")
    with pytest.raises(ir_runtime.ModelError, match="mode"):
        ir.Round5(mode="up")
    with pytest.raises(ir_runtime.AttributeValueError, match="Add has no attribute 'axis'; known are: auto_broadcast"):
        ir.Add1(axis=1)
