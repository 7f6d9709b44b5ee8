"""The nodes of optimized models: what disappears, what takes its place, and what the IR cannot carry and stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest

import converter
from converter.editing.optimize import _WITHOUT_FLOAT64
from converter.options.export import ExportOptions
from converter.targets.onnxruntime.kernels import has_kernel
from converter.to_onnx.export import export_graph
from converter.to_onnx.graph import operators_of
from ir_runtime.errors import ModelError
from ir_runtime.graph import Model, Operation, PartialShape, make_node
from ir_runtime.graph.element_types import f64
from ir_runtime.graph.operation import all_operations
from ir_runtime.operations.inputs_outputs import Parameter1, Result1
from tests.converter.optimization.models import all_operators, check, fed, floats, parse

Look = Callable[[onnx.ModelProto], Any]


@dataclass(frozen=True)
class Row:
    """A model, and the operators of the optimized one and of its bodies: their names, or how many there are."""

    label: str
    model: onnx.ModelProto
    operators: str | int | None
    feeds: Sequence[Mapping[str, Any]]
    """Values of inputs in runs; what is not named is drawn."""
    options: Mapping[str, Any]
    look: Look | None
    """What else is true of the optimized model."""
    kept: str
    """A part of the reasons why nodes stay."""


def row(
    label: str, text: str, operators: str | int | None, *, opset: int = 17, header: str = "", feeds: Any = ({},),
    look: Look | None = None, kept: str = "", options: Any = None, **weights: Any,
) -> Iterator[Row]:  # fmt: skip
    domains = f', "{header}" : 1' if header else ""
    yield Row(label, parse(text, opset, domains, **weights), operators, feeds, options or {}, look, kept)


def inputs_of(model: onnx.ModelProto, op_type: str) -> list[int]:
    return [sum(map(bool, node.input)) for node in model.graph.node if node.op_type == op_type]


def names_of(values: Any) -> list[str]:
    return [value.name for value in values]


def lists(**values: Any) -> dict[str, Any]:
    return {name: np.array(value) for name, value in values.items()}


SHAPES = """g (float[n,m,6] x) => (int64[a] p, int64[b] q, int64 r) {
    s = Shape(x)  p = Gather(s, first)  q = Gather(s, second)  r = Gather(s, third) }"""
ZEROS = """g (float[3,b,4] x, float[1,b,5] state) => (float[3,1,b,5] y, float[1,b,5] h) {
    s = Shape(x)  n = Gather(s, one)  size = Concat<axis = 0>(directions, n, hidden)  z = ConstantOfShape%s(size)
    start = %s  y, h = GRU<hidden_size = 5>(x, w, r, , , start) }"""
GATES = {"w": floats(1, 15, 4), "r": floats(1, 15, 5)}
GROUPS = """g (float[%s] x) => (float[%s] y) { a = Reshape(x, groups)  b = InstanceNormalization(a, ones, zeros)
    s = Shape(x)  c = Reshape(b, s)  d = Mul(c, scale)  y = Add(d, bias) }"""
LOOP = "(int64 i, bool before, float[2,4] h) => (bool after, float[2,4] next) { after = Identity(before)"
FEWER = [
    *(r for first, second, third, opset, expected in (
        ([0], [0, 1], 0, 17, "Shape Squeeze Shape"),
        ([1, 2], [0], 1, 17, 4),  # three intervals and a Squeeze
        ([-3, -2], [0, 1], 0, 17, 4),
        ([0], [1], 1, 17, "Shape Shape Squeeze"),
        ([0], [0, 1], 0, 14, 4),  # Shape has no ends yet
        ([0], [1, 0], 0, 17, 4),  # another order
        ([0], [0, 2], 0, 17, 4),  # no neighbours
        ([0], [1, 1], 0, 17, 4))  # one dimension twice
      for r in row(f"dimensions {first} {second} {third}, {opset}", SHAPES, expected, opset=opset,
                   feeds=({"x": floats(2, 3, 6)}, {"x": floats(0, 1, 6)}),
                   **lists(first=first, second=second, third=third))),
    *row("a shape that is read whole", "g (float[n,m] x) => (int64[2] s, int64[1] p) { s = Shape(x)  p = Gather(s, i) }",
         "Gather Shape", i=np.array([1])),
    # The shape behind it is constant where one dimension at most is not known, beside the first.
    *(r for dims, unknown in (("n,6,4,5", 0), ("n,6,4,w", 0), ("n,6,h,w", 1)) for plain in (0, 1)
      for r in row(f"group normalization by instances, {dims}, {plain}", GROUPS % (dims, dims), 5 - 2 * plain + unknown,
                   feeds=({"x": floats(2, 6, 4, 5)},), groups=np.array([0, 2, -1]), ones=np.ones(2, np.float32),
                   zeros=np.zeros(2, np.float32), scale=floats(6, 1, 1) * (1 - plain) + np.float32(plain), opset=18,
                   bias=floats(6, 1, 1, seed=1) * (1 - plain))),
    *(r for value, start, read in (
        ("", "Slice(z, from, to)", 0), ("", "Identity(z)", 0), ("<value = float[1] {0.5}>", "Slice(z, from, to)", 1),
        ("", "Abs(z)", 1),  # it is not known to be zero
        ("", "Add(z, state)", 1), ("", "Identity(state)", 1))
      for r in row(f"a state of zeros, {start}, {value}", ZEROS % (value, start), None if read else "GRU", **GATES,
                   **lists(one=[1], directions=[1], hidden=[5], to=[1], **{"from": [0]}),
                   look=lambda m, read=read: inputs_of(m, "GRU") == [3 + read])),
    # Constants may be larger than what they are made from, up to 1 MiB each; a second time changes nothing.
    *row("large constants", """g (float[n,4] x) => (float[n,1000] y, float[n,400000] z) { a = Expand(v, small)
         b = Add(a, v)  y = MatMul(x, b)  c = Expand(v, large)  z = MatMul(x, c) }""", "Expand MatMul MatMul",
         v=np.float32([[0.5]]), **lists(small=[4, 1000], large=[4, 400000])),
    *row("equal nodes on both sides of a node that stays", """g (float[2,3] x, int64[k] n) => (float[a,b] y, float[a,b] z,
         float[a,b] t) { p = Add(n, one) y = Expand(x, p) o = example.Twist(y) q = Add(n, one) r = Sub(n, one)
         z = Expand(o, q)  t = Expand(o, r) }""", "Add Expand Expand Expand Sub Twist", header="example", feeds=(),
         one=np.array([1])),
    *row("random nodes are never equal", """g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = RandomNormalLike(x)
         o = example.Twist(y)  p = RandomNormalLike(x)  z = Add(o, p) }""",
         "Add RandomNormalLike RandomNormalLike Twist", header="example", feeds=()),
    *row("an If of a rank", """g (float[n, 3] x, bool c) => (float[] y) { s = Shape(x)  r = Size(s)
         two = Constant<value = int64 {2}>()  is_matrix = Equal(r, two)  y = If(is_matrix) <
         then_branch = t () => (float[n, 3] a) { a = Relu(x) },
         else_branch = e () => (float[n] b) { zero = Constant<value_ints = [0]>()  b = Squeeze(x, zero) }> }""", "Relu"),
    *row("a loop that never runs", f"""g (float[2,4] x) => (float[2,4] y) {{ z = Loop(never, , x) <body = b {LOOP}
         next = Sin(h) }}> y = Cos(z) }}""", "Cos", never=np.int64(0)),
    *row("a sequence of a known length", """g (float[4,3] x) => (float[2,3] y) {
         parts = SplitToSequence<axis = 0>(x, two)  y = SequenceAt(parts, one) }""", 1, two=np.int64(2), one=np.int64(1)),
    *row("a loop that stays", f"""g (float[2,4] x, int64 count) => (float[2,4] y) {{ y = Loop(count, , x) <body = b {LOOP}
         t = Transpose(h)  u = Transpose(t)  p = MatMul(u, w)  next = Tanh(p) }}> }}""", "Loop Identity MatMul Tanh",
         w=floats(4, 4), feeds=({"count": np.array(3)}, {"count": np.array(0)}),
         look=lambda m: {"next", "p"} <= {one for n in m.graph.node[0].attribute[0].g.node for one in n.output}),
    *row("branches of two ranks", """g (float[2,3] x, bool c) => (float[] y) { y = If(c) <
         then_branch = t () => (float[2,3] a) { t1 = Transpose(x)  t2 = Transpose(t1)  a = Exp(t2) },
         else_branch = e () => (float[6] b) { r = Relu(x)  i = Identity(r)  b = Reshape(i, rest) }> }""",
         "If Exp Relu Reshape", rest=np.array([-1]), kept="rank", feeds=({"c": np.array(True)}, {"c": np.array(False)})),
    # A branch reads a weight of the graph around it, and one of its own.
    *row("weights around a body that stays", """g (float[2,40] x, bool c, string[n] s) => (float[] y, string[n] u) {
         z = MatMul(x, w)  u = Identity(s)  y = If(c) <then_branch = t () => (float[2,40] a) { a = MatMul(z, w) },
         else_branch = e () => (float[80] b) { d = Add(z, w1)  b = Reshape(d, rest) }> }""", None, w=floats(40, 40),
         w1=floats(40, seed=1), rest=np.array([-1]), feeds=({"c": np.array(True)}, {"c": np.array(False)}),
         look=lambda m: names_of(m.graph.initializer).count("w") == 1),
    *row("nodes that nothing reads", """g (float[2,3] x, string[n] s) => (float[2,3] y) { y = Relu(x)
         t = StringNormalizer(s) }""", "Relu"),
    *row("equal weights", "g (float[2,32] x) => (float[2,32] z) { y = MatMul(x, a)  r = Relu(y)  z = MatMul(r, b) }",
         "MatMul Relu MatMul", a=floats(32, 32), b=floats(32, 32),
         look=lambda m: names_of(m.graph.initializer) == ["a"]),
    # Up to IR version 3 every initializer is an input, too: a default that hardly anybody overrides.
    *row("an initializer that is an input", "g (float[2,3] x, float[3] b) => (float[2,3] y) { y = Add(x, b) }", "Add",
         b=floats(3), look=lambda m: names_of(m.graph.input) == ["x"]),
    *row("an input that nothing reads", "g (float[2,3] x, int64[n] unused) => (float[2,3] y) { y = Relu(x) }", "Relu",
         look=lambda m: names_of(m.graph.input) == ["x", "unused"]),
    *row("an input that is an output", "g (float[2,3] x) => (float[2,3] x, float[2,3] y) { y = Relu(x) }", "Relu",
         look=lambda m: names_of(m.graph.output) == ["x", "y"]),
    *row("the order of the file", "g (float[2,3] x) => (float[2,3] c) { a = Relu(x)  b = Sin(x)  c = Add(b, a) }",
         "Relu Sin Add", look=lambda m: all_operators(m.graph) == ["Relu", "Sin", "Add"]),
]  # fmt: skip

# --- what stays ---

QUANTIZED = """g (float[1,3,6,6] x) => (float[1,4,6,6] y) { q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)
    w = DequantizeLinear<axis = 0>(codes, ws, wz)  c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(d, w)
    p = QuantizeLinear(c, s, z)  y = DequantizeLinear(p, s, z) }"""
CODES = np.random.default_rng(0).integers(-127, 127, (4, 3, 3, 3)).astype(np.int8)
OWN_OPERATOR = """<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[b,4,t] x, float[b,4,2] past) => (float[b,4,t] y, float[b,4,2] next) { a = Identity(x)
        y, next = com.microsoft.OPERATOR(a, w, bias, past) }
    <domain: "com.microsoft", opset_import: ["" : 17]> OPERATOR (x, w, bias, past) => (y, next) {
        all = Concat<axis = -1>(past, x)  a = Conv<group = 4, kernel_shape = [3]>(all, w)
        rows = Constant<value_ints = [1, -1, 1]>()  b = Reshape(bias, rows)  c = Add(a, b)  d = Identity(c)
        e = Identity(d)  y = Identity(e)  start = Constant<value_ints = [-2]>()
        end = Constant<value_ints = [9223372036854775807]>()  axis = Constant<value_ints = [-1]>()
        next = Slice(all, start, end, axis) }"""
OLD_FUNCTION = """<ir_version: 9, opset_import: ["" : 14, "local" : 1]>
    g (float[n,3,8] x) => (float[n,3,8] y) { y = local.F(x) }
    <domain: "local", opset_import: ["" : 14]> F (x) => (d) { s = ReduceLogSumExp<axes = [-1]>(x)  d = Sub(x, s) }"""
FLOAT64 = {"zero": 0.0, "one": 1.0, "three": 3.0, "six": 6.0, "tenth": 0.1}
STAYS = [
    *row("strings", """g (string[n] s, float[n] x) => (string[k] lower, float[n] y) {
         lower = StringNormalizer<is_case_sensitive = 1, stopwords = ["C"]>(s)
         a = Identity(x)  b = Transpose(a)  y = Relu(b) }""", "Relu StringNormalizer",
         feeds=({"s": np.array(["Ab", "C"], object)},)),
    *row("a sequence that is an output", """g (float[2,3] x) => (seq(float[a,b]) parts) { a = Relu(x)  b = Identity(a)
         parts = SplitToSequence<axis = 1>(b) }""", "Relu SplitToSequence"),
    # Their types are known from what the file declares, or from the nodes that read them.
    *row("custom operators", """g (float[2,3] x) => (float[a,b] y) { a = Relu(x)  b = Identity(a)
         c = example.Twist<amount = 2>(b)  d = Relu(c)  e = Identity(d)  y = Add(e, ones) }""", "Relu Twist Relu Add",
         header="example", feeds=(), kept="not supported", ones=np.ones(3, np.float32),
         look=lambda m: ([[*node.input] for node in m.graph.node], m.graph.node[1].attribute[0].i, len(m.opset_import))
         == ([["x"], ["a"], ["c"], ["d", "ones"]], 2, 2)),
    *row("a custom operator in a body", f"""g (float[2,4] x, int64 count) => (float[2,4] y) {{ y = Loop(count, , x) <body =
         b {LOOP} t = Transpose(h)  u = Transpose(t)  o = example.Twist(u)  next = Tanh(o) }}> }}""",
         "Loop Identity Tanh Twist", header="example", feeds=(), kept="not supported"),
    # Of values between them nothing is known.
    *row("custom operators in a row", """g (float[2,3] x) => (float[2,3] y) { a = example.A(x)  b = example.B(a, w)
         c = Abs(b)  y = example.C(c) }""", "A B Abs C", header="example", feeds=(), w=floats(64, 64),
         look=lambda m: np.array_equal(onnx.numpy_helper.to_array(m.graph.initializer[0]), floats(64, 64))),
    *row("operators of Microsoft", """g (float[2,4] x) => (float[2,4] y) { a = Identity(x)
         b = com.microsoft.FastGelu(a)  c = Reshape(b, same)  y = com.microsoft.BiasGelu(c, bias) }""",
         "FastGelu BiasGelu", header="com.microsoft", same=np.array([2, 4]), bias=floats(4)),
    # A call is replaced where its nodes become fewer, and stays together with the function where it cannot.
    *row("functions of the model", """<ir_version: 8, opset_import: ["" : 17, "example" : 1]>
         g (float[2,3] x) => (float[2,3] y, string[n] t) { a = example.Twice(x)  y = Exp(a)  t = example.Shout(words) }
         <domain: "example", opset_import: ["" : 17]>
         Twice (x) => (y) { a = Transpose(x)  b = Transpose(a)  y = Relu(b) }
         <domain: "example", opset_import: ["" : 17]>
         Shout (x) => (y) { y = StringNormalizer<is_case_sensitive = 1, stopwords = ["a"]>(x) }""", "Exp Relu Shout",
         words=np.array(["a", "b"], object), look=lambda m: names_of(m.functions) == ["Shout"]),
    # onnxruntime runs its own operator, however many nodes the function of that name has for other runtimes.
    *(r for name, stays in (("CausalConvWithState", 1), ("OwnConvWithState", 0))
      for r in row(f"a function of an operator, {name}", OWN_OPERATOR.replace("OPERATOR", name),
                   name if stays else "Concat Conv Slice", w=floats(4, 1, 3), bias=floats(4),
                   feeds=({"x": floats(1, 4, 5), "past": floats(1, 4, 2)},),
                   look=lambda m, name=name, stays=stays: names_of(m.functions) == [name] * stays)),
    *(r for opset, stays in ((14, True), (17, True), (18, False), (24, False), (13, False))
      for r in row(f"a function of opset 14 in {opset}", OLD_FUNCTION, None, options={"opset": opset},
                   look=lambda m, stays=stays: bool(m.functions) == stays)),
    # A GRU of two outputs is five layers in the IR, and more nodes again.
    *row("nodes that would become more", """g (float[3,1,4] x) => (float[3,1,1,5] y, float[1,1,5] h) {
         y, h = GRU<hidden_size = 5>(x, w, r) }""", "GRU", **GATES),
    # QuantizeLinear and DequantizeLinear stay two nodes, of the same scales: nothing is quantized again.
    *(r for opset in (13, 17, 21, 23)
      for r in row(f"quantized nodes, {opset}", QUANTIZED, "QuantizeLinear DequantizeLinear DequantizeLinear Conv "
                   "QuantizeLinear DequantizeLinear", opset=opset, codes=CODES, s=np.float32(0.05), z=np.uint8(120),
                   ws=np.linspace(0.01, 0.02, 4, dtype=np.float32), wz=np.zeros(4, np.int8),
                   look=lambda m: CODES.tobytes() in [tensor.raw_data for tensor in m.graph.initializer])),
    *row("an opset that is not written", "g (float[2,3] x) => (float[2,3] y) { a = Identity(x)  y = Relu(a) }",
         "Identity Relu", opset=6, kept="from 7 to"),
    *(r for opset in (14, 24) for formula in (
        "a = Abs(x) b = Add(a, one) y = Div(x, b)", "a = Exp(x) b = Add(a, one) y = Log(b)",
        "a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)",
        "a = Add(x, three) b = Clip(a, zero, six) y = Div(b, six)",
        "s = Mul(x, tenth) b = Less(x, zero) y = Where(b, s, x)",
        "a = Exp(x) b = Add(a, one) c = Log(b) d = Tanh(c) y = Mul(x, d)")
      for r in row(f"float64 is not computed in float32, {opset}, {formula}",
                   f"g (double[n] x) => (double[n] y) {{ {formula} }}", None, opset=opset,
                   feeds=({"x": np.array([-3.3, -0.7, 1 / 3, 2.1, 500.3 if "Exp" in formula else 1e300])},),
                   **{name: np.float64(value) for name, value in FLOAT64.items() if name in formula})),
    *row("a normalization whose scale has no rank", """g (float[2,3,8] x, float[] scale) => (float[a,b,c] y) {
         squares = Mul(x, x)  mean = ReduceMean(squares, last)  sum = Add(mean, epsilon)  root = Sqrt(sum)
         normalized = Div(x, root)  y = Mul(normalized, scale) }""".replace("float[] scale", "float[8] scale"), None,
         opset=23, last=np.array([-1]), epsilon=np.float32(1e-5)),
    # onnx's inference raises ValueError for it.
    *row("a loop of too few inputs", """g (int64 n) => (float[] y) { y = Loop (n) <body = b (int64 i, bool go) =>
         (bool[] on, float[] r) { on = Identity (go) r = Cast <to = 1> (i) }> }""", None, feeds=(),
         kept="takes 2 to 2147483647 inputs, but got 1"),
]  # fmt: skip
(no_rank,) = (row.model for row in STAYS if row.label == "a normalization whose scale has no rank")
no_rank.graph.input[1].type.tensor_type.ClearField("shape")

# --- operators of onnxruntime ---

ATTENTION = """g (float[b,s,8] x, float[b,t,8] m) => (float[b,s,8] y%(more)s) {
    qp = MatMul(x, wq)  qb = Add(qp, bq)  qr = Reshape(qb, heads)  q = Transpose<perm = [0, 2, 1, 3]>(qr)
    kp = MatMul(%(keys)s, wk)  kb = %(bias)s  kr = Reshape(kb, heads)  k = Transpose<perm = [0, 2, 3, 1]>(kr)
    vp = MatMul(%(keys)s, wv)  vb = Add(bv, vp)  vr = Reshape(vb, heads)  v = Transpose<perm = [0, 2, 1, 3]>(vr)
    p = MatMul(q, k)  scaled = Mul(p, scale)  %(mask)s  a = Softmax<axis = -1>(%(scores)s)  o = MatMul(a, v)
    r = Transpose<perm = %(order)s>(o)  y = Reshape(r, joined) }"""
PLAIN = {"more": "", "keys": "x", "bias": "Add(kp, bk)", "mask": "", "scores": "scaled", "order": "[0, 2, 1, 3]"}
PROJECTIONS = {f"w{name}": floats(8, 8, seed=ord(name)) / 3 for name in "qkv"}
PROJECTIONS |= {f"b{name}": floats(8, seed=ord(name) + 9) for name in "qkv"}
GELU = "g (float[n,4] x) => (float[n,4] y) { a = %s(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, h) }"
OWN = {"target": "onnxruntime"}
FUSED = [
    *(r for changes, scale, count in (
        ({}, 0.5, 4), ({}, 0.3, 4),
        ({"bias": "Identity(kp)"}, 0.5, 3),  # not all have a bias
        ({"more": ", float[b,s,8] qb"}, 0.5, 3),  # which something else reads
        ({"more": ", float[b,c,s,t] p"}, 0.5, 0), ({"more": ", float[b,c,s,d] v"}, 0.5, 0),
        ({"mask": "p2 = Add(scaled, mask)", "scores": "p2"}, 0.5, 0), ({"order": "[0, 1, 2, 3]"}, 0.5, 0),
        ({"keys": "m"}, 0.5, 0))  # of which there may be none
      for target in ("onnxruntime", "plain")
      for r in row(f"attention for {target}, {changes}, {scale}", ATTENTION % {**PLAIN, **changes}, None,
                   options={"target": target}, **PROJECTIONS, **lists(heads=[0, 0, 2, 4], joined=[0, 0, 8]),
                   scale=np.float32(scale), mask=floats(1, 1, 1, 2), feeds=({"m": floats(2, 2, 8, seed=5)},),
                   look=lambda m, count=count * (target == "onnxruntime"):
                   inputs_of(m, "MultiHeadAttention") == [count][: bool(count)])),
    *(r for opset in (17, 20) for factor, expected in ((np.sqrt(0.5), "Gelu"), (0.7071, "Mul Erf Add Mul Mul"))
      for r in row(f"Gelu of opset {opset} by {factor}", GELU % "Mul", expected, opset=opset, options=OWN,
                   root=np.float32(factor), one=np.float32(1), h=np.float32(0.5),
                   look=lambda m, opset=opset, expected=expected:
                   (m.graph.node[0].domain == "com.microsoft") == (opset < 20 and expected == "Gelu"))),
    # A newer opset has fewer nodes.
    *(r for options, expected in (({"opset": 20}, "Gelu"), ({}, "Div Erf Add Mul Mul"))
      for r in row(f"Gelu with {options}", GELU % "Div", expected, options=options, root=np.float32(2**0.5),
                   one=np.float32(1), h=np.float32(0.5))),
]  # fmt: skip
ROWS = [*FEWER, *STAYS, *FUSED]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_optimized(row: Row) -> None:
    result = converter.optimize(row.model, **row.options)
    made = result.to_onnx()
    for feeds in row.feeds:
        made = check(row.model, fed(row.model, **feeds), **row.options)
    found = sorted(all_operators(made.graph))
    if row.operators is not None:
        expected = sorted(row.operators.split()) if isinstance(row.operators, str) else row.operators
        assert (found if isinstance(row.operators, str) else len(found)) == expected, found
    assert row.look is None or row.look(made), made
    assert row.kept in " ".join(result.kept.values())


def test_functions_count_as_their_nodes() -> None:
    (model,) = (row.model for row in ROWS if row.label == "functions of the model")
    assert converter.optimize(model).nodes_before == 5
    (model,) = (row.model for row in ROWS if row.label == "branches of two ranks")
    assert (converter.optimize(model).nodes_before, converter.optimize(model).nodes) == (7, 4)


NEVER_FUSED = {"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Elu", "Erf", "Sinh", "Tan"}
"""Layers of which onnxruntime has no kernel of float64 either, but that are single nodes of the file already."""


def _is_written_without_float64(cls: type[Operation]) -> bool:
    """True if the exporter writes a layer of float64 as operators of which one has no kernel for it."""
    x = [make_node(Parameter1(shape=PartialShape([2, 3]), element_type=f64), (), name) for name in "ab"]
    x = x[: cls.inputs[0]]
    try:
        node = make_node(cls(), [source.outputs[0] for source in x], "layer")
        model = Model("m", x, [make_node(Result1(), node.outputs, "y")])
        nodes = operators_of(export_graph(model, ExportOptions(opset=22)).graph)
    except (ModelError, TypeError):  # attributes are required, or other types
        return False
    schemas = [onnx.defs.get_schema(node.op.type, 22) for node in nodes]
    return not all(
        has_kernel(schema.name, "", schema.since_version, dict.fromkeys(types, "tensor(double)"))
        for schema in schemas
        if (types := [c.type_param_str for c in schema.type_constraints if "tensor(double)" in c.allowed_type_strs])
    )


def test_the_layers_that_would_compute_float64_in_float32_are_known() -> None:
    families = ("ir_runtime.operations.activation", "ir_runtime.operations.elementwise")
    classes = [cls for cls in all_operations() if cls.__module__ in families and cls.inputs[0] in (1, 2)]
    assert {cls.type for cls in classes if _is_written_without_float64(cls)} - NEVER_FUSED == set(_WITHOUT_FLOAT64)
