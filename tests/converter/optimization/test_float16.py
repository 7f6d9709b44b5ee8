"""``fp16``: models that compute in float16, in onnxruntime against the same models in float32."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import converter
from converter import ConversionError
from tests.commands import onnx2ir
from tests.converter.optimization.models import assert_valid, floats, operators, parse, run

HALF, SINGLE = TensorProto.FLOAT16, TensorProto.FLOAT


def check_half(
    model: onnx.ModelProto, feeds: Mapping[str, Any], tolerance: float = 5e-3, **options: Any
) -> converter.Optimization:
    """Return the result in float16, whose outputs are within ``tolerance`` of the largest values of the float32 ones."""
    result = converter.optimize(model, fp16=True, **options)
    written = result.to_onnx()
    assert_valid(written, model)
    assert result.nodes == len(operators(written.graph)) or any(node.attribute for node in written.graph.node)
    own = {
        value.name: np.asarray(feeds[value.name]).astype(np.float16)
        if value.type.tensor_type.elem_type == HALF
        else feeds[value.name]
        for value in written.graph.input
    }
    for (name, value), (other, expected) in zip(run(written, own).items(), run(model, feeds).items()):
        assert name == other
        assert np.isfinite(value).all() == np.isfinite(expected).all(), name
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max(initial=1e-3))
    if "fp16_except" in options:
        return result
    again = converter.optimize(written).to_onnx()
    assert again.SerializeToString(deterministic=True) == written.SerializeToString(deterministic=True)
    return result


def types_of(model: onnx.ModelProto) -> dict[str, int]:
    """The element type of each tensor."""
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    values = (*graph.input, *graph.value_info, *graph.output)
    return types | {value.name: value.type.tensor_type.elem_type for value in values}


def perceptron(opset: int = 17) -> onnx.ModelProto:
    text = """g (float[n,8] x) => (float[n,4] y) {
        [first] a = MatMul(x, w)
        b = Add(a, bias)
        [act] c = Relu(b)
        [second] d = MatMul(c, v)
        [last] y = Softmax(d)
    }"""
    return parse(text, opset, w=floats(8, 16), bias=floats(16), v=floats(16, 4, seed=1))


def test_weights_and_values_between_ends_of_float32() -> None:
    result = check_half(perceptron(), {"x": floats(3, 8)})
    model = result.to_onnx()
    assert operators(model.graph).count("Cast") == 2
    assert {tensor.data_type for tensor in model.graph.initializer} == {HALF}
    types = types_of(model)
    assert (types["x"], types["y"]) == (SINGLE, SINGLE)
    assert sum(one == SINGLE for one in types.values()) == 2
    assert result.float32 == {}
    assert result.nodes == converter.optimize(perceptron()).nodes + 2


def test_ends_of_float16() -> None:
    text = """g (float[n,8] x, int64[n] k) => (float[n,8] y, float[n,8] same, int64[n] m, float[8] w) {
        a = Mul(x, w)
        y = Tanh(a)
        same = Identity(x)
        m = Neg(k)
    }"""
    feeds = {"x": floats(3, 8), "k": np.array([1, 2, 3])}
    model = check_half(parse(text, w=floats(8)), feeds, fp16_io=True).to_onnx()
    assert "Cast" not in operators(model.graph)
    declared = [value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)]
    assert declared == [HALF, TensorProto.INT64, HALF, HALF, TensorProto.INT64, HALF]


@pytest.mark.parametrize("names", ["Softmax", "last", ["last", "act"], "last, MatMul"])
def test_nodes_that_are_asked_to_stay(names: Any) -> None:
    result = check_half(perceptron(), {"x": floats(3, 8)}, fp16_except=names)
    assert result.float32["last"] == result.kept["last"] == "float32 is asked for"
    types = types_of(result.to_onnx())
    (softmax,) = (node for node in result.to_onnx().graph.node if node.op_type == "Softmax")
    assert types[softmax.input[0]] == SINGLE
    assert ("act" in result.float32) == ("act" in names)
    assert len(result.float32) == {"last, MatMul": 3, "last": 1, "Softmax": 1}.get(str(names), 2)


def test_numbers_beyond_the_largest() -> None:
    """What computes with them stays in float32; what only chooses among values takes the largest number."""
    text = """g (float[n,4] x) => (float[n,4] y, float[n,4] z) {
        [scaled] a = Mul(x, large)
        p = Abs(a)
        [back] b = Mul(p, small)
        y = Exp(b)
        z = Min(x, large)
    }"""
    model = parse(text, large=np.float32([1e6, 1e6, 2, 3]), small=np.float32([1e-6, 1e-6, 1, 1]))
    result = converter.optimize(model, fp16=True)
    assert result.float32 == {"scaled": "it computes with numbers beyond 65504, the largest of float16"}
    values = run(result.to_onnx(), {"x": np.float32([[0.01, 0.02, 1, 2]])})
    assert all(np.isfinite(value).all() for value in values.values())
    np.testing.assert_allclose(values["z"], [[0.01, 0.02, 1, 2]], rtol=1e-3)


TINY = "it computes with numbers so small that float16 rounds them by more than 0.1 percent"


@pytest.mark.parametrize("dims", ["n,3", "2,3"])
@pytest.mark.parametrize(
    ("nodes", "constant", "expected"),
    [
        ("[scaled] y = Mul(x, c)", np.float32(1e-8), TINY),
        ("[scaled] y = Mul(c, x)", np.float32([1e-5]), TINY),
        ("[scaled] y = Mul(x, c)", np.float32([-1e-8, 0, 3e-7]), TINY),
        ("[scaled] y = Div(x, c)", np.float32([[2e-6]]), TINY),
        ("a = Abs(x) [scaled] b = Mul(a, c)  y = Add(b, c)", np.float32(1e-8), TINY),
        ("[scaled] y = MatMul(x, c)", np.full((3, 2), 1e-7, np.float32), TINY),
        ("y = Mul(x, c)", np.float32(2**-15), ""),
        ("y = Mul(x, c)", np.float32([1, 1e-8, 1]), ""),
        ("y = Add(x, c)", np.float32(1e-8), ""),
        ("y = Max(x, c)", np.float32(1e-8), ""),
    ],
)
def test_numbers_that_float16_rounds_by_too_much(dims: str, nodes: str, constant: Any, expected: str) -> None:
    """What is multiplied by them stays in float32; beside larger numbers, and in sums, they do not matter."""
    rank = "n,2" if "MatMul" in nodes and dims == "n,3" else "2,2" if "MatMul" in nodes else dims
    model = parse(f"g (float[{dims}] x) => (float[{rank}] y) {{ {nodes} }}", c=constant)
    factor = 1e-4 if "Div" in nodes else 3e4
    result = check_half(model, {"x": floats(2, 3) * np.float32(factor)}, 2e-3)
    assert result.float32 == ({"scaled": expected} if expected else {})


@pytest.mark.parametrize("lowest", [-np.inf, float(np.finfo(np.float32).min), -1e9])
def test_rows_that_are_hidden_whole(lowest: float) -> None:
    """Scores of -100 below the lowest number of float16 would be minus infinity, and a row of it NaN."""
    text = """g (int64[n,3] mask, float[n,3] x) => (float[n,3] y) {
        hidden = Equal(mask, zero)
        bias = Where(hidden, lowest, nothing)
        scores = Add(x, bias)
        y = Softmax(scores)
    }"""
    weights = {"zero": np.int64(0), "lowest": np.float32(lowest), "nothing": np.float32(0)}
    whole = [1, 0, 1] if np.isinf(lowest) else [0, 0, 0]
    feeds = {"mask": np.array([[1, 1, 0], whole]), "x": np.float32([[1, 2, 3], [-100, -100, -100]])}
    check_half(parse(text, **weights), feeds)


def test_an_epsilon_is_no_zero() -> None:
    text = "g (float[n,3] x) => (float[n,3] y) { a = Abs(x)  b = Add(a, e)  y = Div(x, b) }"
    check_half(parse(text, e=np.float32(1e-12)), {"x": np.float32([[0, 1, -2]])})


def test_operators_without_float16() -> None:
    """NonMaxSuppression takes float32 alone, and Resize takes scales of float32."""
    text = """g (float[1,2,4,4] x, float[1,5,4] boxes, float[1,1,5] scores) => (float[a,b,c,d] y, int64[k,3] z) {
        r = Relu(x)
        s = Resize<mode = "linear">(r, , scales)
        y = Tanh(s)
        t = Sigmoid(scores)
        [chosen] z = NonMaxSuppression(boxes, t, most)
    }"""
    corners = np.sort(np.random.default_rng(0).uniform(0, 1, (1, 5, 2, 2)).astype(np.float32), axis=2).reshape(1, 5, 4)
    feeds = {"x": floats(1, 2, 4, 4), "boxes": corners, "scores": floats(1, 1, 5)}
    model = parse(text, scales=np.float32([1, 1, 1.7, 2.3]), most=np.array([3]))
    result = check_half(model, feeds)
    assert result.float32 == {"chosen": "NonMaxSuppression of opset 17 takes no float16"}
    (resize,) = (node for node in result.to_onnx().graph.node if node.op_type == "Resize")
    types = types_of(result.to_onnx())
    assert [types[name] for name in resize.input if name] == [HALF, SINGLE]


def test_positions_stay_exact() -> None:
    text = """g (int64[n] position, float[n] x) => (float[n] y) {
        p = Cast<to = 1>(position)
        angle = Mul(p, frequency)
        c = Cos(angle)
        y = Mul(x, c)
    }"""
    feeds = {"position": np.array([3, 5001, 100003]), "x": np.float32([1, 2, 3])}
    result = check_half(parse(text, frequency=np.float32(0.37)), feeds)
    assert any("positions" in reason for reason in result.float32.values())


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_quantized_nodes_stay_side_by_side(opset: int) -> None:
    """A Cast between a DequantizeLinear and its reader would keep runtimes from computing in whole numbers."""
    text = """g (float[1,3,6,6] x) => (float[1,4,6,6] y) {
        r = Abs(x)
        q = QuantizeLinear(r, s, z)
        d = DequantizeLinear(q, s, z)
        w = DequantizeLinear<axis = 0>(codes, ws, wz)
        c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(d, w, bias)
        p = QuantizeLinear(c, s, z)
        e = DequantizeLinear(p, s, z)
        y = Tanh(e)
    }"""
    codes = np.random.default_rng(0).integers(-127, 127, (4, 3, 3, 3)).astype(np.int8)
    scales = {"s": np.float32(0.05), "ws": np.linspace(0.01, 0.02, 4).astype(np.float32), "bias": floats(4)}
    model = parse(text, opset, **scales, z=np.uint8(120), wz=np.zeros(4, np.int8), codes=codes)
    result = check_half(model, {"x": floats(1, 3, 6, 6)}, 2e-2)
    graph = result.to_onnx().graph
    readers = {name: node.op_type for node in graph.node for name in node.input}
    after = {readers[node.output[0]] for node in graph.node if node.op_type == "DequantizeLinear"}
    assert after == {"Conv", "Cast"}
    assert [readers[node.output[0]] for node in graph.node if node.op_type == "Conv"] == ["QuantizeLinear"]
    assert set(result.float32.values()) == {"it is quantized"}


@pytest.mark.parametrize("opset", [13, 21])
def test_weights_that_are_dequantized(opset: int) -> None:
    """Their scales become float16 where DequantizeLinear takes these."""
    text = "g (float[n,8] x) => (float[n,4] y) { w = DequantizeLinear<axis = 1>(codes, s, z)  y = MatMul(x, w) }"
    codes = np.random.default_rng(0).integers(-127, 127, (8, 4)).astype(np.int8)
    model = parse(text, opset, codes=codes, s=np.float32([0.1, 0.2, 0.3, 0.4]), z=np.int8([1, 0, 2, 0]))
    result = check_half(model, {"x": floats(3, 8)})
    (node,) = (node for node in result.to_onnx().graph.node if node.op_type == "DequantizeLinear")
    types = types_of(result.to_onnx())
    assert (types[node.input[0]], types[node.input[1]]) == (TensorProto.INT8, HALF if opset == 21 else SINGLE)


def test_nodes_that_stay_become_float16() -> None:
    """A GRU of two outputs is no node of the IR; Casts beside it are left out."""
    text = """g (float[3,1,4] x) => (float[3,1,1,5] y, float[1,1,5] h) {
        a = Abs(x)
        b, h = GRU<hidden_size = 5>(a, w, r)
        y = Neg(b)
    }"""
    result = check_half(parse(text, w=floats(1, 15, 4), r=floats(1, 15, 5)), {"x": floats(3, 1, 4)})
    graph = result.to_onnx().graph
    assert operators(graph).count("Cast") == 3
    assert {tensor.data_type for tensor in graph.initializer} == {HALF}
    assert result.float32 == {}


def test_strings_and_custom_operators() -> None:
    text = """g (string[n] s, float[n] x) => (string[n] t, float[n] y) {
        t = StringNormalizer(s)
        a = Tanh(x)
        [own] b = example.Twist(a)
        y = Exp(b)
    }"""
    result = converter.optimize(parse(text, header=', "example" : 1'), fp16=True)
    assert result.float32 == {"own": "the types that Twist takes are not known"}
    assert sorted(operators(result.to_onnx().graph)) == [*["Cast"] * 4, "Exp", "StringNormalizer", "Tanh", "Twist"]


def test_operators_of_onnxruntime_compute_in_float16() -> None:
    text = """g (float[n,4] x) => (float[n,4] y) {
        a = Mul(x, root)
        b = Erf(a)
        c = Add(b, one)
        d = Mul(x, c)
        y = Mul(d, half)
    }"""
    weights = {"root": np.float32(np.sqrt(0.5)), "one": np.float32(1), "half": np.float32(0.5)}
    result = check_half(parse(text, 17, **weights), {"x": floats(3, 4)}, target="onnxruntime")
    assert operators(result.to_onnx().graph) == ["Cast", "Gelu", "Cast"]
    assert not result.float32


def test_bodies() -> None:
    text = """g (bool choice, int64 count, float[2,3] x) => (float[2,3] y, float[2,3] z) {
        y = If (choice) <
            then_branch = one () => (float[2,3] a) { b = MatMul(x, w)  a = Tanh(b) },
            else_branch = two () => (float[2,3] c) { c = Sub(x, bias) }
        >
        z = Loop (count, , x) <
            body = step (int64 i, bool on, float[2,3] v) => (bool go, float[2,3] next) {
                go = Identity(on)
                m = MatMul(v, w)
                next = Sigmoid(m)
            }
        >
    }"""
    model = parse(text, w=floats(3, 3), bias=floats(3))
    for choice in (True, False):
        result = check_half(model, {"choice": np.array(choice), "count": np.array(3), "x": floats(2, 3)})
    initializers = {tensor.name: tensor.data_type for tensor in result.to_onnx().graph.initializer}
    assert set(initializers.values()) <= {HALF, TensorProto.BOOL, TensorProto.INT64}


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    unary = ["Relu", "Tanh", "Sigmoid", "Abs", "Neg", "Softmax<axis = 1>", "Transpose", "Identity", "Sqrt"]
    binary = ["Add", "Mul", "Max", "MatMul", "Sub"]
    lines, values, weights = [], ["x"], {}
    for number in range(10):
        name, source = f"v{number}", values[rng.integers(len(values))]
        draw = rng.random()
        if draw < 0.4:
            operator = unary[rng.integers(len(unary))]
            if operator == "Sqrt":
                lines.append(f"p{number} = Abs({source})")
                source = f"p{number}"
            lines.append(f"{name} = {operator}({source})")
        elif draw < 0.7:
            weights[f"w{number}"] = floats(4, 4, seed=seed * 100 + number) / 2
            lines.append(f"{name} = {binary[rng.integers(len(binary))]}({source}, w{number})")
        else:
            other = values[rng.integers(len(values))]
            lines.append(f"{name} = {binary[rng.integers(2)]}({source}, {other})")
        values.append(name)
    nodes = "  ".join([*lines, "y = Identity(v9)"])
    text = f"g (float[4,4] x) => (float[4,4] y, float[4,4] v5) {{ {nodes} }}"
    check_half(parse(text, **weights), {"x": floats(4, 4, seed=seed)}, 2e-2)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"fp16": True, "fp16_except": "Relu, sofmax"}, "no node and no operator of the name 'sofmax'"),
        ({"fp16_io": True}, "fp16_io needs fp16"),
        ({"fp16_except": "Relu"}, "fp16_except needs fp16"),
        ({"fp16": True, "fp16_except": [3]}, "fp16_except must be names"),
    ],
)
def test_errors(options: Any, reason: str) -> None:
    with pytest.raises(ConversionError, match=reason):
        converter.optimize(perceptron(), **options)


def test_a_model_without_float32() -> None:
    for kind in ("int64", "float16", "double"):
        with pytest.raises(ConversionError, match="no tensors of float32"):
            converter.optimize(parse(f"g ({kind}[n] x) => ({kind}[n] y) {{ y = Neg(x) }}"), fp16=True)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(perceptron(), "m.onnx")
    code, out, errors = onnx2ir("optimize", "m.onnx", "--fp16", "--fp16-except", "Softmax", "--verify", "--json")
    assert code == 0, errors
    result = json.loads(out)
    assert result["float32"] == {"last": "float32 is asked for"}
    assert result["verification"]["verdict"] == "equal"
    code, out, errors = onnx2ir("optimize", "m.onnx", "--fp16", "--fp16-io", "--fp16-except", "last", "--verify")
    assert code == 0, errors
    assert "1 compute in float32" in out + errors
    code, _, errors = onnx2ir("optimize", "m.onnx", "--fp16-except", "Softmax")
    assert code == 2
    assert "needs --fp16" in errors
    assert not list(tmp_path.glob("*.tmp"))


def test_verify_finds_what_float16_does_not_explain(tmp_path: Path) -> None:
    """The tolerance is that of float16, and no more."""
    onnx.save(perceptron(), tmp_path / "m.onnx")
    changed = converter.optimize(perceptron(), fp16=True).to_onnx()
    for tensor in changed.graph.initializer:
        if list(tensor.dims) == [16, 4]:
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)[::-1].copy(), tensor.name))
    onnx.save(changed, tmp_path / "n.onnx")
    assert converter.verify(tmp_path / "m.onnx", tmp_path / "n.onnx").verdict == "different"


def test_outputs_without_a_declared_type_stay_float32() -> None:
    model = parse(
        "g (float[2,3] x, int64[1] axes) => (float[n] y, float[n] z) { r = ReduceSum(x, axes)  y = Relu(r) z = Neg(r) }"
    )
    model.graph.output[1].ClearField("type")
    feeds = {"x": np.ones((2, 3), np.float32), "axes": np.array([1])}
    written = converter.optimize(model, fp16=True).to_onnx()
    assert [value.dtype for value in run(written, feeds).values()] == [np.float32, np.float32]
    assert "ReduceSum" in operators(written.graph)


@pytest.mark.parametrize("frozen", [{}, {"freeze": {"factor": np.float32(0.5)}}])
def test_outputs_of_nodes_that_stay_have_the_shapes_that_follow_from_options(frozen: dict[str, Any]) -> None:
    text = "g (float[n,3,8,10] x, float factor) => (float[a,b,c,d] y) { r = Mul(x, factor)  y = Conv(r, w) }"
    model = parse(text, w=floats(4, 3, 3, 3))
    written = converter.optimize(model, input="x[1,3,?,10]", fp16=True, fp16_except="Conv", **frozen).to_onnx()
    onnx.checker.check_model(written, full_check=True)
    dims = written.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [1, 4, 0, 8]
