"""What the IR cannot carry stays as it is, and everything around it is optimized."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import converter
from converter.export_options import ExportOptions
from converter.optimization.optimize import _WITHOUT_FLOAT64
from converter.targets.onnxruntime.kernels import has_kernel
from converter.to_onnx.export import Exported
from ir_runtime.errors import ModelError
from ir_runtime.graph import Model, Operation, PartialShape, make_node
from ir_runtime.graph.element_types import f64
from ir_runtime.graph.operation import all_operations
from ir_runtime.operations.inputs_outputs import Parameter1, Result1
from tests.converter.optimization.models import check, floats, operators, parse, run

X = floats(2, 3)


def test_strings() -> None:
    text = """g (string[n] s, float[n] x) => (string[n] lower, float[n] y) {
        lower = StringNormalizer<is_case_sensitive = 1, stopwords = ["C"]>(s)
        a = Identity(x)
        b = Transpose(a)
        y = Relu(b)
    }"""
    feeds = {"s": np.array(["Ab", "C"], object), "x": floats(2)}
    assert sorted(operators(check(parse(text), feeds).graph)) == ["Relu", "StringNormalizer"]


def test_sequences_that_are_outputs() -> None:
    text = """g (float[2,3] x) => (seq(float[a,b]) parts) {
        a = Relu(x)
        b = Identity(a)
        parts = SplitToSequence<axis = 1>(b)
    }"""
    assert operators(check(parse(text), {"x": X}).graph) == ["Relu", "SplitToSequence"]


def test_custom_operators() -> None:
    """Their types are known from what the file declares, or from the nodes that read them."""
    text = """g (float[2,3] x) => (float[a,b] y) {
        a = Relu(x)
        b = Identity(a)
        [own] c = example.Twist<amount = 2>(b)
        d = Relu(c)
        e = Identity(d)
        y = Add(e, ones)
    }"""
    model = parse(text, header=', "example" : 1', ones=np.ones(3, np.float32))
    result = converter.optimize(model)
    graph = result.to_onnx().graph
    assert operators(graph) == ["Relu", "Twist", "Relu", "Add"]
    assert [list(node.input) for node in graph.node] == [["x"], ["b"], ["c"], ["d", "ones"]]
    assert graph.node[1].attribute == model.graph.node[2].attribute
    assert "not supported" in result.kept["own"]
    assert [(one.domain, one.version) for one in result.to_onnx().opset_import] == [("", 17), ("example", 1)]


def test_custom_operators_in_a_row() -> None:
    """Of values between them nothing is known."""
    text = "g (float[2,3] x) => (float[2,3] y) { a = example.A(x)  b = example.B(a, w)  c = Abs(b)  y = example.C(c) }"
    model = parse(text, header=', "example" : 1', w=floats(64, 64))
    result = converter.optimize(model).to_onnx()
    assert operators(result.graph) == ["A", "B", "Abs", "C"]
    assert list(result.graph.initializer) == list(model.graph.initializer)


def test_operators_of_microsoft() -> None:
    text = """g (float[2,4] x) => (float[2,4] y) {
        a = Identity(x)
        b = com.microsoft.FastGelu(a)
        c = Reshape(b, same)
        y = com.microsoft.BiasGelu(c, bias)
    }"""
    model = parse(text, header=', "com.microsoft" : 1', same=np.array([2, 4]), bias=floats(4))
    assert operators(check(model, {"x": floats(2, 4)}).graph) == ["FastGelu", "BiasGelu"]


def test_functions_of_the_model() -> None:
    """A call is replaced where its nodes become fewer, and stays together with the function where it cannot."""
    text = """<ir_version: 8, opset_import: ["" : 17, "example" : 1]>
        g (float[2,3] x) => (float[2,3] y, string[n] t) {
            a = example.Twice(x)
            y = Exp(a)
            t = example.Shout(words)
        }
        <domain: "example", opset_import: ["" : 17]> Twice (x) => (y) { a = Transpose(x)  b = Transpose(a)  y = Relu(b) }
        <domain: "example", opset_import: ["" : 17]>
        Shout (x) => (y) { y = StringNormalizer<is_case_sensitive = 1, stopwords = ["a"]>(x) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.helper.make_tensor("words", onnx.TensorProto.STRING, [2], ["a", "b"]))
    result = check(model, {"x": X})
    assert sorted(operators(result.graph)) == ["Exp", "Relu", "Shout"]
    assert [function.name for function in result.functions] == ["Shout"]
    assert converter.optimize(model).nodes_before == 5


@pytest.mark.parametrize(("name", "stays"), [("CausalConvWithState", True), ("OwnConvWithState", False)])
def test_functions_of_operators_that_have_a_kernel(name: str, stays: bool) -> None:
    """onnxruntime runs its own operator, however many nodes the function of that name has for other runtimes."""
    text = """<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[b,4,t] x, float[b,4,2] past) => (float[b,4,t] y, float[b,4,2] next) {
            a = Identity(x)
            y, next = com.microsoft.OPERATOR(a, w, bias, past)
        }
        <domain: "com.microsoft", opset_import: ["" : 17]>
        OPERATOR (x, w, bias, past) => (y, next) {
            all = Concat<axis = -1>(past, x)
            a = Conv<group = 4, kernel_shape = [3]>(all, w)
            rows = Constant<value_ints = [1, -1, 1]>()
            b = Reshape(bias, rows)
            c = Add(a, b)
            d = Identity(c)
            e = Identity(d)
            y = Identity(e)
            start = Constant<value_ints = [-2]>()
            end = Constant<value_ints = [9223372036854775807]>()
            axis = Constant<value_ints = [-1]>()
            next = Slice(all, start, end, axis)
        }"""
    model = onnx.parser.parse_model(text.replace("OPERATOR", name))
    model.graph.initializer.append(onnx.numpy_helper.from_array(floats(4, 1, 3), "w"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(floats(4), "bias"))
    result = check(model, {"x": floats(1, 4, 5), "past": floats(1, 4, 2)})
    assert operators(result.graph) == ([name] if stays else ["Concat", "Conv", "Slice"])
    assert [function.name for function in result.functions] == ([name] if stays else [])


def test_nodes_that_would_become_more() -> None:
    """A GRU of two outputs is five layers in the IR, and more nodes again."""
    text = "g (float[3,1,4] x) => (float[3,1,1,5] y, float[1,1,5] h) { y, h = GRU<hidden_size = 5>(x, w, r) }"
    result = check(parse(text, w=floats(1, 15, 4), r=floats(1, 15, 5)), {"x": floats(3, 1, 4)})
    assert operators(result.graph) == ["GRU"]


@pytest.mark.parametrize("opset", [13, 17, 21, 23])
def test_quantized_nodes(opset: int) -> None:
    """QuantizeLinear and DequantizeLinear stay two nodes, of the same scales: nothing is quantized again."""
    text = """g (float[1,3,6,6] x) => (float[1,4,6,6] y) {
        q = QuantizeLinear(x, s, z)
        d = DequantizeLinear(q, s, z)
        w = DequantizeLinear<axis = 0>(codes, ws, wz)
        c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(d, w)
        p = QuantizeLinear(c, s, z)
        y = DequantizeLinear(p, s, z)
    }"""
    codes = np.random.default_rng(0).integers(-127, 127, (4, 3, 3, 3)).astype(np.int8)
    scales = {"s": np.float32(0.05), "ws": np.linspace(0.01, 0.02, 4).astype(np.float32)}
    model = parse(text, opset, **scales, z=np.uint8(120), wz=np.zeros(4, np.int8), codes=codes)
    result = check(model, {"x": floats(1, 3, 6, 6)})
    assert operators(result.graph) == operators(model.graph)
    stored = {tensor.name: tensor for tensor in result.graph.initializer}
    assert np.array_equal(onnx.numpy_helper.to_array(stored["codes"]), codes)


def test_a_model_of_an_opset_that_is_not_written_stays() -> None:
    model = parse("g (float[2,3] x) => (float[2,3] y) { a = Identity(x)  y = Relu(a) }", opset=6)
    result = converter.optimize(model)
    assert operators(result.to_onnx().graph) == ["Identity", "Relu"]
    assert "from 7 to" in next(iter(result.kept.values()))


def test_nodes_that_nothing_reads_are_left_out() -> None:
    text = "g (float[2,3] x, string[n] s) => (float[2,3] y) { y = Relu(x)  t = StringNormalizer(s) }"
    assert operators(check(parse(text), {"x": X, "s": np.array(["a"], object)}).graph) == ["Relu"]


@pytest.mark.parametrize("opset", [14, 24])
@pytest.mark.parametrize(
    "formula",
    [
        "a = Abs(x) b = Add(a, one) y = Div(x, b)",
        "a = Exp(x) b = Add(a, one) y = Log(b)",
        "a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)",
        "a = Add(x, three) b = Clip(a, zero, six) y = Div(b, six)",
        "s = Mul(x, tenth) b = Less(x, zero) y = Where(b, s, x)",
        "a = Exp(x) b = Add(a, one) c = Log(b) d = Tanh(c) y = Mul(x, d)",
    ],
)
def test_activations_of_float64_are_not_computed_in_float32(formula: str, opset: int) -> None:
    numbers = {"zero": 0.0, "one": 1.0, "three": 3.0, "six": 6.0, "tenth": 0.1}
    weights = {name: np.float64(value) for name, value in numbers.items() if name in formula}
    model = parse(f"g (double[n] x) => (double[n] y) {{ {formula} }}", opset, **weights)
    values = np.array([-3.3, -0.7, 1 / 3, 2.1, 500.3 if "Exp" in formula else 1e300])
    result = check(model, {"x": values})
    np.testing.assert_allclose(run(result, {"x": values})["y"], run(model, {"x": values})["y"], rtol=1e-15)


NEVER_FUSED = {"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Elu", "Erf", "Sinh", "Tan"}
"""Layers of which onnxruntime has no kernel of float64 either, but that are single nodes of the file already."""


def _is_written_without_float64(cls: type[Operation]) -> bool:
    """True if the exporter writes a layer of float64 as operators of which one has no kernel for it."""
    x = [
        make_node(Parameter1(shape=PartialShape([2, 3]), element_type=f64), (), name) for name in "ab"[: cls.inputs[0]]
    ]
    try:
        node = make_node(cls(), [source.outputs[0] for source in x], "layer")
        calls = Exported.of(
            Model("m", x, [make_node(Result1(), node.outputs, "y")]), ExportOptions(opset=22)
        ).graph.calls
    except (ModelError, TypeError):  # attributes are required, or other types
        return False
    schemas = [onnx.defs.get_schema(call.op_type, 22) for call in calls]
    return not all(
        has_kernel(schema.name, "", schema.since_version, dict.fromkeys(types, "tensor(double)"))
        for schema in schemas
        if (types := [c.type_param_str for c in schema.type_constraints if "tensor(double)" in c.allowed_type_strs])
    )


def test_the_layers_that_would_compute_float64_in_float32_are_known() -> None:
    families = ("ir_runtime.operations.activation", "ir_runtime.operations.elementwise")
    classes = [cls for cls in all_operations() if cls.__module__ in families and cls.inputs[0] in (1, 2)]
    assert {cls.type for cls in classes if _is_written_without_float64(cls)} - NEVER_FUSED == set(_WITHOUT_FLOAT64)


def test_a_normalization_whose_scale_has_no_rank_stays() -> None:
    text = """g (float[2,3,8] x, float[] scale) => (float[a,b,c] y) {
        squares = Mul(x, x)
        mean = ReduceMean(squares, last)
        sum = Add(mean, epsilon)
        root = Sqrt(sum)
        normalized = Div(x, root)
        y = Mul(normalized, scale)
    }"""
    model = parse(text, 23, last=np.array([-1]), epsilon=np.float32(1e-5))
    model.graph.input[1].type.tensor_type.ClearField("shape")
    check(model, {"x": floats(2, 3, 8), "scale": floats(8)})


@pytest.mark.parametrize(("opset", "is_kept"), [(14, True), (17, True), (18, False), (24, False), (13, False)])
def test_functions_stay_where_their_operators_are_those_of_the_opset(opset: int, is_kept: bool) -> None:
    text = """<ir_version: 9, opset_import: ["" : 14, "local" : 1]>
    g (float[n,3,8] x) => (float[n,3,8] y) { y = local.F(x) }
    <domain: "local", opset_import: ["" : 14]>
    F (x) => (d) {
        s = ReduceLogSumExp<axes = [-1]>(x)
        d = Sub(x, s)
    }"""
    result = check(onnx.parser.parse_model(text), {"x": floats(2, 3, 8)}, opset=opset)
    assert bool(result.functions) == is_kept


def test_a_loop_of_too_few_inputs_stays() -> None:
    """onnx's inference raises ValueError for it."""
    model = parse("""g (int64 n) => (float[] y) { y = Loop (n) <body = b (int64 i, bool go) => (bool[] on, float[] r)
        { on = Identity (go) r = Cast <to = 1> (i) }> }""")
    assert converter.optimize(model).kept == {"y": "takes 2 to 2147483647 inputs, but got 1"}
