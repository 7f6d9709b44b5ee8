"""MatMul, Gemm, Einsum and the integer products through both engines, against NumPy and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model
from tests.random_data import generator

RNG = generator(7)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def whole(low: int, high: int, *shape: int, dtype: Any) -> np.ndarray:
    return RNG.integers(low, high, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("opset", [1, 9, 13])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((2, 1, 2, 3), (4, 3, 4)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((3,), (3,)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 2)),
    ],
)
def test_matmul(opset: int, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    feeds = {"a": normal(*a), "b": normal(*b)}
    check_node(node_model("MatMul", feeds, opset=opset), feeds)


def test_matmul_of_dynamic_dimensions() -> None:
    feeds = {"a": normal(2, 1, 3, 4), "b": normal(5, 4, 2)}
    shapes = {"a": ["n", None, None, None], "b": [None, None, 2]}
    check_node(node_model("MatMul", feeds, opset=13, shapes=shapes), feeds)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("constant", [False, True])
def test_matmul_of_large_integers_wraps_and_never_rounds(dtype: Any, constant: bool) -> None:
    low = 0 if np.dtype(dtype).kind == "u" else -(2**31)
    high = 2**31 - 1 if np.dtype(dtype).itemsize == 8 else int(np.iinfo(dtype).max)
    a, b = whole(low, high, 3, 40, dtype=dtype), whole(max(low, -77), 77, 40, 2, dtype=dtype)
    a, b = (a, b) if np.dtype(dtype).itemsize == 4 else (a // 1000, b)
    feeds = {"a": a} if constant else {"a": a, "b": b}
    expected = (a.astype(object) @ b.astype(object)) % 2 ** (8 * np.dtype(dtype).itemsize)
    wrapped = expected.astype(np.uint64).astype(dtype)
    # OpenVINO's CPU plug-in computes 64-bit integers in 32 bits, so sums stay below 2^31 there.
    if np.dtype(dtype).itemsize == 8:
        assert np.abs(wrapped.astype(np.float64)).max() < 2**35
    engines = ("numpy", "openvino") if np.dtype(dtype).itemsize == 4 else ("numpy",)
    model = node_model("MatMul", feeds, opset=13, constants={"b": b} if constant else None, order=["a", "b"])
    check_node(model, feeds, [wrapped], engines=engines)


@pytest.mark.parametrize("constant", [False, True])
def test_matmul_of_int64_sums_beyond_float32(constant: bool) -> None:
    a, b = whole(-4000, 4000, 3, 40, dtype=np.int64), whole(-9000, 9000, 40, 2, dtype=np.int64)
    feeds = {"a": a} if constant else {"a": a, "b": b}
    model = node_model("MatMul", feeds, opset=13, constants={"b": b} if constant else None, order=["a", "b"])
    check_node(model, feeds, [a @ b])


def gemm(opset: int, a: Any, b: Any, c: Any | None, **attributes: Any) -> tuple[Any, dict[str, Any]]:
    feeds = {"a": a, "b": b} if c is None else {"a": a, "b": b, "c": c}
    return node_model("Gemm", feeds, opset=opset, attributes=attributes), feeds


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
@pytest.mark.parametrize("c", [(), (1,), (4,), (2, 1), (1, 4), (2, 4)])
@pytest.mark.parametrize(
    "attributes", [{}, {"alpha": 0.5, "beta": -2.0}, {"transA": 1, "transB": 1, "alpha": 3.0}, {"beta": 0.0}]
)
def test_gemm(opset: int, c: tuple[int, ...], attributes: dict[str, Any]) -> None:
    a = normal(3, 2) if attributes.get("transA") else normal(2, 3)
    b = normal(4, 3) if attributes.get("transB") else normal(3, 4)
    check_node(*gemm(opset, a, b, normal(*c), **attributes))


@pytest.mark.parametrize("opset", [11, 13])
def test_gemm_without_c(opset: int) -> None:
    check_node(*gemm(opset, normal(2, 3), normal(3, 4), None, alpha=2.0))


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize(("c", "broadcast"), [((2, 4), 0), ((4,), 1), ((2, 4), 1)])
def test_gemm_with_broadcast_flag(opset: int, c: tuple[int, ...], broadcast: int) -> None:
    a, b, d = normal(2, 3), normal(3, 4), normal(*c)
    model, feeds = gemm(opset, a, b, d, broadcast=broadcast, alpha=0.5)
    check_node(model, feeds, [(0.5 * a @ b + d).astype(np.float32)])


def test_gemm_of_dynamic_dimensions() -> None:
    feeds = {"a": normal(2, 3), "b": normal(4, 3), "c": normal(4)}
    shapes = {"a": ["n", None], "b": [None, None], "c": [None]}
    check_node(node_model("Gemm", feeds, opset=13, attributes={"transB": 1}, shapes=shapes), feeds)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_gemm_of_integers(dtype: Any) -> None:
    a, b, c = (whole(0, 5000, *shape, dtype=dtype) for shape in ((2, 3), (3, 4), (4,)))
    check_node(*gemm(13, a, b, c, alpha=2.0), [(2 * (a @ b) + c).astype(dtype)])


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij->ji", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("ij->", [(2, 3)]),
        (" i j , j k -> i k ", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ba,cb", [(2, 3), (4, 2)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("...ij,...jk", [(5, 2, 3), (5, 3, 4)]),
        ("i,j->ij", [(3,), (4,)]),
        ("ij,kj,lj->ikl", [(2, 3), (4, 3), (5, 3)]),
        ("bqnh,btnh->bnqt", [(2, 3, 4, 5), (2, 6, 4, 5)]),
        ("a...b,b...->a...", [(2, 3, 4, 5), (5, 3, 4)]),
        (",ij->ij", [(), (2, 3)]),
        ("ij,kl->", [(2, 3), (4, 3)]),
        ("Ab,bC->CA", [(2, 3), (3, 4)]),
    ],
)
@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "int64", "unknown"])
def test_einsum(equation: str, shapes: list[tuple[int, ...]], kind: str) -> None:
    whole_numbers = kind.startswith("int")
    arrays = [
        whole(-300, 300, *shape, dtype=kind)
        if whole_numbers
        else normal(*shape, dtype="float32" if kind == "unknown" else kind)
        for shape in shapes
    ]
    feeds = {f"x{i}": array for i, array in enumerate(arrays)}
    declared = {name: [None] * array.ndim for name, array in feeds.items()} if kind == "unknown" else None
    model = node_model("Einsum", feeds, opset=12, attributes={"equation": equation}, shapes=declared)
    expected = np.asarray(np.einsum(equation.replace(" ", ""), *arrays))
    check_node(model, feeds, [expected], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("a_type", [np.uint8, np.int8])
@pytest.mark.parametrize("b_type", [np.uint8, np.int8])
@pytest.mark.parametrize("depth", [4, 1500, 5000])
@pytest.mark.parametrize("zeros", ["none", "scalars", "rows", "columns"])
def test_matmul_integer(a_type: Any, b_type: Any, depth: int, zeros: str) -> None:
    a_info, b_info = np.iinfo(a_type), np.iinfo(b_type)
    a, b = np.full((3, depth), a_info.max, a_type), np.full((depth, 2), b_info.max, b_type)
    a[1] = whole(a_info.min, a_info.max, depth, dtype=a_type)
    b[:, 1] = whole(b_info.min, b_info.max, depth, dtype=b_type)
    constants: dict[str, Any] = {"b": b}
    zero_a, zero_b = np.zeros((), a_type), np.zeros((), b_type)
    if zeros != "none":
        zero_a = whole(0, 100, *((3,) if zeros == "rows" else ()), dtype=a_type)
        zero_b = whole(0, 100, *((2,) if zeros == "columns" else ()), dtype=b_type)
        constants |= {"az": zero_a, "bz": zero_b}
    model = node_model("MatMulInteger", {"a": a}, opset=10, constants=constants)
    column = zero_a[:, None] if zeros == "rows" else zero_a
    expected = (a.astype(np.int64) - column) @ (b.astype(np.int64) - zero_b)
    check_node(model, {"a": a}, [expected.astype(np.int32)])


def test_matmul_integer_of_two_inputs_of_dynamic_dimensions() -> None:
    a, b = whole(0, 255, 2, 3, 70, dtype=np.uint8), whole(0, 255, 2, 70, 4, dtype=np.uint8)
    feeds = {"a": a, "b": b, "az": np.uint8(128), "bz": np.uint8(3)}
    model = node_model("MatMulInteger", feeds, opset=10, shapes={"a": [None, None, None], "b": [None, None, None]})
    check_node(model, feeds)


@pytest.mark.parametrize("w_type", [np.uint8, np.int8])
@pytest.mark.parametrize("zeros", ["none", "data", "both", "filters"])
@pytest.mark.parametrize("group", [1, 2])
def test_conv_integer(w_type: Any, zeros: str, group: int) -> None:
    x = whole(200, 255, 1, 80, 5, 6, dtype=np.uint8)
    w = whole(90, 127, 4, 80 // group, 3, 3, dtype=w_type)
    constants: dict[str, Any] = {"w": w}
    if zeros != "none":
        constants["xz"] = np.uint8(7)
    if zeros in ("both", "filters"):
        constants["wz"] = np.array([3, 0, 9, 2], w_type) if zeros == "filters" else w_type(4)
    attributes = {"pads": [1, 1, 1, 1], "group": group}
    model = node_model("ConvInteger", {"x": x}, opset=10, attributes=attributes, constants=constants)
    data = np.pad(x.astype(np.int64) - constants.get("xz", np.uint8(0)), ((0, 0), (0, 0), (1, 1), (1, 1)))
    zero = np.asarray(constants.get("wz", 0)).astype(np.int64).reshape(-1, 1, 1, 1)
    weights = (w.astype(np.int64) - zero).reshape(group, 4 // group, 80 // group, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), (2, 3))
    windows = windows.reshape(1, group, 80 // group, 5, 6, 3, 3)
    expected = np.einsum("ngchwij,gocij->ngohw", windows, weights).reshape(1, 4, 5, 6)
    check_node(model, {"x": x}, [expected.astype(np.int32)])


@pytest.mark.parametrize(
    ("op_type", "shapes", "attributes", "message"),
    [
        ("MatMul", [(2, 3), (4, 5)], {}, "have no product"),
        ("MatMul", [(), (4, 5)], {}, "a scalar has no product"),
        ("Gemm", [(2, 3), (3, 4), (3, 4)], {}, "cannot be"),
        ("Gemm", [(2, 3, 1), (3, 4)], {}, "A must be a matrix"),
        ("Einsum", [(2, 3), (4, 5)], {"equation": "ij,jk->ik"}, "'j' of"),
        ("Einsum", [(2, 3)], {"equation": "ij,jk->ik"}, "is of 2 inputs"),
        ("Einsum", [(2, 3)], {"equation": "ij->ik"}, "must be letters of its inputs"),
        ("Einsum", [(2, 3)], {"equation": "i->>j"}, "is not an Einstein summation"),
    ],
)
def test_errors(op_type: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any], message: str) -> None:
    feeds = {f"x{i}": normal(*shape) for i, shape in enumerate(shapes)}
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model(op_type, feeds, opset=13, attributes=attributes))
