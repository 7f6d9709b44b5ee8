"""``fp16``: models that compute in float16, in onnxruntime against the same models in float32."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import converter
from converter import ConversionError
from tests.commands import onnx2ir
from tests.converter.optimization.models import all_operators, assert_valid, fed, floats, operators, parse, run

HALF, SINGLE = TensorProto.FLOAT16, TensorProto.FLOAT
Look = Callable[[converter.Optimization, onnx.ModelProto], Any]


def check_half(
    model: onnx.ModelProto, feeds: Mapping[str, Any], tolerance: float = 5e-3, **options: Any
) -> tuple[converter.Optimization, onnx.ModelProto]:
    """Return the result in float16, whose outputs are within ``tolerance`` of the largest values of the float32 ones."""
    result = converter.optimize(model, fp16=True, **options)
    written = result.to_onnx()
    assert_valid(written, model)
    assert result.nodes == len(operators(written.graph)) or any(node.attribute for node in written.graph.node)
    halves = [value.name for value in written.graph.input if value.type.tensor_type.elem_type == HALF]
    own = {name: np.asarray(value).astype(np.float16) if name in halves else value for name, value in feeds.items()}
    for (name, value), (other, expected) in zip(run(written, own).items(), run(model, feeds).items()):
        assert name == other
        assert np.isfinite(value).all() == np.isfinite(expected).all(), name
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max(initial=1e-3))
    if "fp16_except" not in options:
        again = converter.optimize(written).to_onnx()
        assert again.SerializeToString(deterministic=True) == written.SerializeToString(deterministic=True)
    return result, written


def types_of(model: onnx.ModelProto) -> dict[str, int]:
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    values = (*graph.input, *graph.value_info, *graph.output)
    return types | {value.name: value.type.tensor_type.elem_type for value in values}


def weights_of(model: onnx.ModelProto) -> set[int]:
    return {tensor.data_type for tensor in model.graph.initializer}


def inputs_of(model: onnx.ModelProto, op_type: str) -> list[int]:
    types = types_of(model)
    return next([types[name] for name in node.input if name] for node in model.graph.node if node.op_type == op_type)


@dataclass(frozen=True)
class Row:
    """A model, what of it stays in float32 and why; ``casts`` counts its Casts."""

    text: str
    weights: Mapping[str, Any] = field(default_factory=dict)
    float32: Mapping[str, str] = field(default_factory=dict)
    feeds: Sequence[Mapping[str, Any]] = ({},)
    look: Look = lambda result, written: True
    casts: int | None = None
    opset: int = 17
    header: str = ""
    tolerance: float = 5e-3
    options: Mapping[str, Any] = field(default_factory=dict)


PERCEPTRON = """g (float[n,8] x) => (float[n,4] y) { [first] a = MatMul(x, w)  b = Add(a, bias)  [act] c = Relu(b)
    [second] d = MatMul(c, v)  [last] y = Softmax(d) }"""
LAYERS = {"w": floats(8, 16), "bias": floats(16), "v": floats(16, 4, seed=1)}
ENDS = "g (float[n,8] x, int64[n] k) => (float[n,8] y, float[n,8] same, int64[n] m, float[8] w) { a = Mul(x, w) "
ENDS += "y = Tanh(a)  same = Identity(x)  m = Neg(k) }"
ASKED = "float32 is asked for"
TINY = "it computes with numbers so small that float16 rounds them by more than 0.1 percent"
LARGE = "it computes with numbers beyond 65504, the largest of float16"
BEYOND = """g (float[n,4] x) => (float[n,4] y, float[n,4] z) { [scaled] a = Mul(x, large)  p = Abs(a)  b = Mul(p, small)
    y = Exp(b)  z = Min(x, large) }"""
HIDDEN = """g (int64[n,3] mask, float[n,3] x) => (float[n,3] y) { hidden = Equal(mask, zero)
    bias = Where(hidden, lowest, nothing)  scores = Add(x, bias)  y = Softmax(scores) }"""
CORNERS = np.sort(np.random.default_rng(0).uniform(0, 1, (1, 5, 2, 2)).astype(np.float32), axis=2).reshape(1, 5, 4)
QUANTIZED = """g (float[1,3,6,6] x) => (float[1,4,6,6] y) { r = Abs(x)  q = QuantizeLinear(r, s, z)
    d = DequantizeLinear(q, s, z)  w = DequantizeLinear<axis = 0>(codes, ws, wz)
    c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(d, w, bias)  p = QuantizeLinear(c, s, z)
    e = DequantizeLinear(p, s, z)  y = Tanh(e) }"""
CODES = np.random.default_rng(0).integers(-127, 127, (4, 3, 3, 3)).astype(np.int8)
ROOT_HALF = {"root": np.float32(np.sqrt(0.5)), "one": np.float32(1), "half": np.float32(0.5)}


def declared(model: onnx.ModelProto) -> list[int]:
    return [value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)]


def readers_after(model: onnx.ModelProto, op_type: str) -> set[str]:
    readers = {name: node.op_type for node in model.graph.node for name in node.input}
    return {readers[node.output[0]] for node in model.graph.node if node.op_type == op_type}


def tiny(nodes: str, constant: Any, stays: bool, dims: str) -> Row:
    """What is multiplied by small numbers stays in float32; beside larger numbers, and in sums, they do not matter."""
    rank = dims.replace("3", "2") if "MatMul" in nodes else dims
    x = floats(2, 3) * np.float32(1e-4 if "Div" in nodes else 3e4)
    return Row(f"g (float[{dims}] x) => (float[{rank}] y) {{ {nodes} }}", {"c": constant},
               {"scaled": TINY} if stays else {}, [{"x": x}], tolerance=2e-3)  # fmt: skip


ROWS: dict[str, Row] = {
    "weights and values between ends of float32": Row(
        PERCEPTRON, LAYERS, casts=2, look=lambda r, m: weights_of(m) == {HALF} and declared(m) == [SINGLE, SINGLE]
        and list(types_of(m).values()).count(SINGLE) == 2 and r.nodes == 6),
    "ends of float16": Row(
        ENDS, {"w": floats(8)}, casts=0, options={"fp16_io": True},
        look=lambda r, m: declared(m) == [HALF, TensorProto.INT64, HALF, HALF, TensorProto.INT64, HALF]),
    **{f"nodes that are asked to stay, {names}": Row(
        PERCEPTRON, LAYERS, dict.fromkeys(stay.split(), ASKED), options={"fp16_except": names},
        look=lambda r, m: r.kept["last"] == ASKED and inputs_of(m, "Softmax") == [SINGLE])
       for names, stay in (("Softmax", "last"), ("last", "last"), ("last, MatMul", "first second last"))},
    "a list of nodes that are asked to stay": Row(
        PERCEPTRON, LAYERS, {"act": ASKED, "last": ASKED}, options={"fp16_except": ["last", "act"]}),
    "an If that stays": Row(
        """g (float[2,3] x, bool c) => (float y) { n = Neg (x) y = If (c) <then_branch = t () => (float[2,3] a) {
        a = Neg (n) }, else_branch = e () => (float[6] b) { b = Reshape (n, s) }> }""", {"s": np.array([6])},
        {"y": "If of opset 17 takes no float16"}, [{"c": np.array(True)}, {"c": np.array(False)}]),
    # What computes with such numbers stays in float32; what only chooses among values takes the largest number.
    "numbers beyond the largest": Row(
        BEYOND, {"large": np.float32([1e6, 1e6, 2, 3]), "small": np.float32([1e-6, 1e-6, 1, 1])}, {"scaled": LARGE},
        [{"x": np.float32([[0.01, 0.02, 1, 2]])}]),
    **{f"small numbers, {nodes}, {np.ravel(constant)[:3]}, {dims}": tiny(nodes, constant, stays, dims)
       for dims in ("n,3", "2,3") for nodes, constant, stays in (
        ("[scaled] y = Mul(x, c)", np.float32(1e-8), True), ("[scaled] y = Mul(c, x)", np.float32([1e-5]), True),
        ("[scaled] y = Mul(x, c)", np.float32([-1e-8, 0, 3e-7]), True),
        ("[scaled] y = Div(x, c)", np.float32([[2e-6]]), True),
        ("a = Abs(x) [scaled] b = Mul(a, c)  y = Add(b, c)", np.float32(1e-8), True),
        ("[scaled] y = MatMul(x, c)", np.full((3, 2), 1e-7, np.float32), True),
        ("y = Mul(x, c)", np.float32(2**-15), False), ("y = Mul(x, c)", np.float32([1, 1e-8, 1]), False),
        ("y = Add(x, c)", np.float32(1e-8), False), ("y = Max(x, c)", np.float32(1e-8), False))},
    # Scores of -100 below the lowest number of float16 would be minus infinity, and a row of it NaN.
    **{f"rows that are hidden whole by {lowest}": Row(
        HIDDEN, {"zero": np.int64(0), "lowest": np.float32(lowest), "nothing": np.float32(0)},
        feeds=[{"mask": np.array([[1, 1, 0], [1, 0, 1] if np.isinf(lowest) else [0, 0, 0]]),
                "x": np.float32([[1, 2, 3], [-100, -100, -100]])}])
       for lowest in (-np.inf, float(np.finfo(np.float32).min), -1e9)},
    "an epsilon is no zero": Row(
        "g (float[n,3] x) => (float[n,3] y) { a = Abs(x)  b = Add(a, e)  y = Div(x, b) }", {"e": np.float32(1e-12)},
        feeds=[{"x": np.float32([[0, 1, -2]])}]),
    # NonMaxSuppression takes float32 alone, and Resize takes scales of float32.
    "operators without float16": Row(
        """g (float[1,2,4,4] x, float[1,5,4] boxes, float[1,1,5] scores) => (float[a,b,c,d] y, int64[k,3] z) {
        r = Relu(x)  s = Resize<mode = "linear">(r, , scales)  y = Tanh(s)  t = Sigmoid(scores)
        [chosen] z = NonMaxSuppression(boxes, t, most) }""",
        {"scales": np.float32([1, 1, 1.7, 2.3]), "most": np.array([3])},
        {"chosen": "NonMaxSuppression of opset 17 takes no float16"}, [{"boxes": CORNERS}],
        lambda r, m: inputs_of(m, "Resize") == [HALF, SINGLE]),
    # A Cast between a DequantizeLinear and its reader would keep runtimes from computing in whole numbers.
    **{f"quantized nodes stay side by side, {opset}": Row(
        QUANTIZED, {"s": np.float32(0.05), "ws": np.linspace(0.01, 0.02, 4, dtype=np.float32), "bias": floats(4),
                    "z": np.uint8(120), "wz": np.zeros(4, np.int8), "codes": CODES}, {"*": "it is quantized"},
        look=lambda r, m: readers_after(m, "DequantizeLinear") == {"Conv", "Cast"}
        and readers_after(m, "Conv") == {"QuantizeLinear"}, opset=opset, tolerance=2e-2) for opset in (13, 17, 21)},
    # Scales of weights become float16 where DequantizeLinear takes these.
    **{f"weights that are dequantized, {opset}": Row(
        "g (float[n,8] x) => (float[n,4] y) { w = DequantizeLinear<axis = 1>(codes, s, z)  y = MatMul(x, w) }",
        {"codes": np.random.default_rng(0).integers(-127, 127, (8, 4)).astype(np.int8),
         "s": np.float32([0.1, 0.2, 0.3, 0.4]), "z": np.int8([1, 0, 2, 0])},
        {"*": "it is quantized"} if opset == 13 else {}, opset=opset,
        look=lambda r, m, scale=scale: inputs_of(m, "DequantizeLinear")[:2] == [TensorProto.INT8, scale])
       for opset, scale in ((13, SINGLE), (21, HALF))},
    # A GRU of two outputs is no node of the IR; Casts beside it are left out.
    "nodes that stay become float16": Row(
        """g (float[3,1,4] x) => (float[3,1,1,5] y, float[1,1,5] h) { a = Abs(x)
        b, h = GRU<hidden_size = 5>(a, w, r)  y = Neg(b) }""", {"w": floats(1, 15, 4), "r": floats(1, 15, 5)},
        casts=3, look=lambda r, m: weights_of(m) == {HALF}),
    "strings and custom operators": Row(
        """g (string[n] s, float[n] x) => (string[n] t, float[n] y) { t = StringNormalizer(s)  a = Tanh(x)
        [own] b = example.Twist(a)  y = Exp(b) }""", {}, {"own": "the types that Twist takes are not known"}, [],
        lambda r, m: sorted({*operators(m.graph)}) == ["Cast", "Exp", "StringNormalizer", "Tanh", "Twist"], 4,
        header=', "example" : 1'),
    "operators of onnxruntime": Row(
        """g (float[n,4] x) => (float[n,4] y) { a = Mul(x, root)  b = Erf(a)  c = Add(b, one)  d = Mul(x, c)
        y = Mul(d, half) }""", ROOT_HALF, options={"target": "onnxruntime"},
        look=lambda r, m: operators(m.graph) == ["Cast", "Gelu", "Cast"]),
    "bodies": Row(
        """g (bool choice, int64 count, float[2,3] x) => (float[2,3] y, float[2,3] z) { y = If (choice) <
        then_branch = one () => (float[2,3] a) { b = MatMul(x, w)  a = Tanh(b) },
        else_branch = two () => (float[2,3] c) { c = Sub(x, bias) }> z = Loop (count, , x) <
        body = step (int64 i, bool on, float[2,3] v) => (bool go, float[2,3] next) { go = Identity(on)
        m = MatMul(v, w)  next = Sigmoid(m) }> }""", {"w": floats(3, 3), "bias": floats(3)},
        feeds=[{"choice": np.array(choice), "count": np.array(3)} for choice in (True, False)],
        look=lambda r, m: weights_of(m) <= {HALF, TensorProto.BOOL, TensorProto.INT64}),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_in_float16(name: str) -> None:
    row = ROWS[name]
    model = parse(row.text, row.opset, row.header, **row.weights)
    result = converter.optimize(model, fp16=True, **row.options)
    written = result.to_onnx()
    for feeds in row.feeds:
        result, written = check_half(model, fed(model, **feeds), row.tolerance, **row.options)
    stays = {"*": "it is quantized"} if set(result.float32.values()) == {"it is quantized"} else result.float32
    assert stays == row.float32
    assert row.casts in (None, all_operators(written.graph).count("Cast"))
    assert row.look(result, written)


def test_positions_stay_exact() -> None:
    model = parse("""g (int64[n] position, float[n] x) => (float[n] y) { p = Cast<to = 1>(position)
        angle = Mul(p, frequency)  c = Cos(angle)  y = Mul(x, c) }""", frequency=np.float32(0.37))  # fmt: skip
    feeds = {"position": np.array([3, 5001, 100003]), "x": np.float32([1, 2, 3])}
    assert any("positions" in reason for reason in check_half(model, feeds)[0].float32.values())


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    unary = ["Relu", "Tanh", "Sigmoid", "Abs", "Neg", "Softmax<axis = 1>", "Transpose", "Identity", "Sqrt"]
    binary = ["Add", "Mul", "Max", "MatMul", "Sub"]
    lines, values, weights = [], ["x"], {}
    for number in range(10):
        source, draw = values[rng.integers(len(values))], rng.random()
        if draw < 0.4:
            operator = unary[rng.integers(len(unary))]
            if operator == "Sqrt":
                lines.append(f"p{number} = Abs({source})")
                source = f"p{number}"
            lines.append(f"v{number} = {operator}({source})")
        elif draw < 0.7:
            weights[f"w{number}"] = floats(4, 4, seed=seed * 100 + number) / 2
            lines.append(f"v{number} = {binary[rng.integers(len(binary))]}({source}, w{number})")
        else:
            lines.append(f"v{number} = {binary[rng.integers(2)]}({source}, {values[rng.integers(len(values))]})")
        values.append(f"v{number}")
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
        *(({"fp16": True, "kind": kind}, "no tensors of float32") for kind in ("int64", "float16", "double")),
    ],
)
def test_errors(options: Any, reason: str) -> None:
    kind = options.pop("kind", "")
    text = f"g ({kind}[n] x) => ({kind}[n] y) {{ y = Neg(x) }}" if kind else PERCEPTRON
    with pytest.raises(ConversionError, match=reason):
        converter.optimize(parse(text, **({} if kind else LAYERS)), **options)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(PERCEPTRON, **LAYERS), "m.onnx")
    code, out, errors = onnx2ir("optimize", "m.onnx", "--fp16", "--fp16-except", "Softmax", "--verify", "--json")
    result = json.loads(out)
    assert (code, result["float32"]) == (0, {"last": ASKED}), errors
    assert result["verification"]["verdict"] == "equal"
    code, out, errors = onnx2ir("optimize", "m.onnx", "--fp16", "--fp16-io", "--fp16-except", "last", "--verify")
    assert (code, "1 compute in float32" in out + errors) == (0, True), errors
    code, _, errors = onnx2ir("optimize", "m.onnx", "--fp16-except", "Softmax")
    assert (code, "needs --fp16" in errors) == (2, True)
    assert not list(tmp_path.glob("*.tmp"))


def test_verify_finds_what_float16_does_not_explain() -> None:
    """The tolerance is that of float16, and no more."""
    model = parse(PERCEPTRON, **LAYERS)
    changed = converter.optimize(model, fp16=True).to_onnx()
    (tensor,) = (tensor for tensor in changed.graph.initializer if list(tensor.dims) == [16, 4])
    tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)[::-1].copy(), tensor.name))
    assert converter.verify(model, changed).verdict == "different"


def test_outputs_without_a_declared_type_stay_float32() -> None:
    model = parse("""g (float[2,3] x, int64[1] axes) => (float[n] y, float[n] z) {
        r = ReduceSum(x, axes)  y = Relu(r) z = Neg(r) }""")
    model.graph.output[1].ClearField("type")
    written = converter.optimize(model, fp16=True).to_onnx()
    assert [value.dtype for value in run(written, fed(model)).values()] == [np.float32, np.float32]
    assert "ReduceSum" in operators(written.graph)


@pytest.mark.parametrize("frozen", [{}, {"freeze": {"factor": np.float32(0.5)}}])
def test_outputs_of_nodes_that_stay_have_the_shapes_that_follow_from_options(frozen: dict[str, Any]) -> None:
    text = "g (float[n,3,8,10] x, float factor) => (float[a,b,c,d] y) { r = Mul(x, factor)  y = Conv(r, w) }"
    model = parse(text, w=floats(4, 3, 3, 3))
    written = converter.optimize(model, input="x[1,3,?,10]", fp16=True, fp16_except="Conv", **frozen).to_onnx()
    onnx.checker.check_model(written, full_check=True)
    assert [dim.dim_value for dim in written.graph.output[0].type.tensor_type.shape.dim] == [1, 4, 0, 8]
