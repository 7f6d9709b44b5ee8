"""What disappears from optimized models, and operators of onnxruntime that take its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.converter.optimization.models import assert_equal, check, floats, operators, parse, run

# --- fewer nodes ---

SHAPES = """g (float[n,m,6] x) => (int64[a] p, int64[b] q, int64 r) {
    s = Shape(x)
    p = Gather(s, first)
    q = Gather(s, second)
    r = Gather(s, third)
}"""


@pytest.mark.parametrize(
    ("first", "second", "third", "opset", "expected"),
    [
        ([0], [0, 1], 0, 17, ["Shape", "Squeeze", "Shape"]),
        ([1, 2], [0], 1, 17, None),  # three intervals and a Squeeze
        ([-3, -2], [0, 1], 0, 17, None),
        ([0], [1], 1, 17, ["Shape", "Shape", "Squeeze"]),
        ([0], [0, 1], 0, 14, None),  # Shape has no ends yet
        ([0], [1, 0], 0, 17, None),  # another order
        ([0], [0, 2], 0, 17, None),  # no neighbours
        ([0], [1, 1], 0, 17, None),  # one dimension twice
    ],
)
def test_dimensions_of_a_shape(
    first: list[int], second: list[int], third: int, opset: int, expected: list[str] | None
) -> None:
    model = parse(SHAPES, opset, first=np.array(first), second=np.array(second), third=np.array(third))
    graph = check(model, {"x": floats(2, 3, 6)}).graph
    written = sorted(operators(graph))
    assert written == sorted(expected) if expected else len(written) <= 4
    check(model, {"x": floats(0, 1, 6)})


def test_a_shape_that_is_read_whole() -> None:
    text = "g (float[n,m] x) => (int64[2] s, int64[1] p) { s = Shape(x)  p = Gather(s, place) }"
    graph = check(parse(text, place=np.array([1])), {"x": floats(2, 3)}).graph
    assert sorted(operators(graph)) == ["Gather", "Shape"]


@pytest.mark.parametrize("shape", [["n", 6, 4, 5], ["n", 6, 4, "w"], ["n", 6, "h", "w"]])
@pytest.mark.parametrize("plain", [True, False])
def test_group_normalization_by_instance_normalization(shape: list[str | int], plain: bool) -> None:
    """The shape behind it is constant where one dimension at most is not known, beside the first."""
    text = """g (float[%s] x) => (float[%s] y) {
        a = Reshape(x, groups)
        b = InstanceNormalization(a, ones, zeros)
        s = Shape(x)
        c = Reshape(b, s)
        d = Mul(c, scale)
        y = Add(d, bias)
    }"""
    dims = ",".join(map(str, shape))
    weights = {"groups": np.array([0, 2, -1]), "ones": np.ones(2, np.float32), "zeros": np.zeros(2, np.float32)}
    scale, bias = np.ones((6, 1, 1), np.float32), np.zeros((6, 1, 1), np.float32)
    if not plain:
        scale, bias = floats(6, 1, 1), floats(6, 1, 1, seed=1)
    model = parse(text % (dims, dims), 18, **weights, scale=scale, bias=bias)
    graph = check(model, {"x": floats(2, 6, 4, 5)}).graph
    known = sum(isinstance(size, str) for size in shape) <= 2
    expected = 3 + (0 if plain else 2) + (0 if known else 1)
    assert len(operators(graph)) == expected


ZEROS = """g (float[3,b,4] x, float[1,b,5] state) => (float[3,1,b,5] y, float[1,b,5] h) {
    s = Shape(x)
    n = Gather(s, one)
    size = Concat<axis = 0>(directions, n, hidden)
    z = ConstantOfShape%s(size)
    start = %s
    y, h = GRU<hidden_size = 5>(x, w, r, , , start)
}"""


@pytest.mark.parametrize(
    ("value", "start", "reads_state"),
    [
        ("", "Slice(z, from, to)", False),
        ("", "Identity(z)", False),
        ("", "Abs(z)", True),  # it is not known to be zero
        ("<value = float[1] {0.5}>", "Slice(z, from, to)", True),
        ("", "Add(z, state)", True),
        ("", "Identity(state)", True),
    ],
)
def test_states_of_zeros(value: str, start: str, reads_state: bool) -> None:
    weights = {"w": floats(1, 15, 4), "r": floats(1, 15, 5), "one": np.array([1])}
    lists = {"directions": np.array([1]), "hidden": np.array([5]), "from": np.array([0]), "to": np.array([1])}
    feeds = {"x": floats(3, 2, 4), "state": floats(1, 2, 5)}
    result = check(parse(ZEROS % (value, start), **weights, **lists), feeds)
    (node,) = (node for node in result.graph.node if node.op_type == "GRU")
    assert (len(node.input) > 5 and bool(node.input[5])) == reads_state
    if not reads_state:
        assert operators(result.graph) == ["GRU"]


def test_constants_that_are_larger_than_what_they_are_made_from() -> None:
    """Up to 1 MiB each; a second time changes nothing."""
    text = """g (float[n,4] x) => (float[n,1000] y, float[n,400000] z) {
        a = Expand(v, small)
        b = Add(a, v)
        y = MatMul(x, b)
        c = Expand(v, large)
        z = MatMul(x, c)
    }"""
    model = parse(text, v=np.float32([[0.5]]), small=np.array([4, 1000]), large=np.array([4, 400000]))
    graph = check(model, {"x": floats(2, 4)}).graph
    assert sorted(operators(graph)) == ["Expand", "MatMul", "MatMul"]


def test_equal_nodes_on_both_sides_of_a_node_that_stays() -> None:
    text = """g (float[2,3] x, int64[k] n) => (float[a,b] y, float[a,b] z, float[a,b] t) {
        p = Add(n, one)
        y = Expand(x, p)
        [own] o = example.Twist(y)
        q = Add(n, one)
        r = Sub(n, one)
        z = Expand(o, q)
        t = Expand(o, r)
    }"""
    model = parse(text, header=', "example" : 1', one=np.array([1]))
    graph = converter.optimize(model).to_onnx().graph
    assert sorted(operators(graph)) == ["Add", "Expand", "Expand", "Expand", "Sub", "Twist"]


def test_random_nodes_are_never_equal() -> None:
    text = """g (float[2,3] x) => (float[2,3] y, float[2,3] z) {
        y = RandomNormalLike(x)
        [own] o = example.Twist(y)
        p = RandomNormalLike(x)
        z = Add(o, p)
    }"""
    graph = converter.optimize(parse(text, header=', "example" : 1')).to_onnx().graph
    assert operators(graph).count("RandomNormalLike") == 2


# --- control flow ---

RANKS = """g (float[n, 3] x, bool c) => (float[] y) {
    s = Shape(x)
    r = Size(s)
    two = Constant<value = int64 {2}>()
    is_matrix = Equal(r, two)
    y = If(is_matrix) <
        then_branch = t () => (float[n, 3] a) { a = Relu(x) },
        else_branch = e () => (float[n] b) { zero = Constant<value_ints = [0]>()  b = Squeeze(x, zero) }>
}"""


def test_an_if_of_a_rank_disappears() -> None:
    result = check(parse(RANKS), {"x": floats(2, 3), "c": np.array(True)})
    assert operators(result.graph) == ["Relu"]


def test_a_loop_that_never_runs_disappears() -> None:
    text = """g (float[2,3] x) => (float[2,3] y) {
        z = Loop(never, , x) <body = b (int64 i, bool before, float[2,3] h) => (bool after, float[2,3] next) {
            after = Identity(before)
            next = Sin(h)
        }>
        y = Cos(z)
    }"""
    result = check(parse(text, never=np.int64(0)), {"x": floats(2, 3)})
    assert operators(result.graph) == ["Cos"]


def test_a_sequence_of_a_known_length_disappears() -> None:
    text = """g (float[4,3] x) => (float[2,3] y) {
        parts = SplitToSequence<axis = 0>(x, two)
        y = SequenceAt(parts, one)
    }"""
    result = check(parse(text, two=np.int64(2), one=np.int64(1)), {"x": floats(4, 3)})
    assert "SequenceAt" not in operators(result.graph)
    assert len(result.graph.node) == 1


def test_a_loop_that_stays_is_optimized_within() -> None:
    text = """g (float[2,4] x, int64 count) => (float[2,4] y) {
        y = Loop(count, , x) <body = b (int64 i, bool before, float[2,4] h) => (bool after, float[2,4] next) {
            after = Identity(before)
            t = Transpose(h)
            u = Transpose(t)
            p = MatMul(u, w)
            next = Tanh(p)
        }>
    }"""
    model = parse(text, w=floats(4, 4))
    feeds = {"x": floats(2, 4), "count": np.array(3)}
    result = check(model, feeds)
    assert operators(result.graph) == ["Loop"]
    body = result.graph.node[0].attribute[0].g
    assert sorted(operators(body)) == ["Identity", "MatMul", "Tanh"]
    assert {"next", "p"} <= {name for node in body.node for name in node.output}
    assert_equal(run(result, {**feeds, "count": np.array(0)})["y"], feeds["x"])


def test_branches_of_different_ranks_are_optimized_within() -> None:
    text = """g (float[2,3] x, bool c) => (float[] y) {
        y = If(c) <
            then_branch = t () => (float[2,3] a) { t1 = Transpose(x)  t2 = Transpose(t1)  a = Exp(t2) },
            else_branch = e () => (float[6] b) { r = Relu(x)  i = Identity(r)  b = Reshape(i, rest) }>
    }"""
    model = parse(text, rest=np.array([-1]))
    result = check(model, {"x": floats(2, 3), "c": np.array(False)})
    branches = {attribute.name: operators(attribute.g) for attribute in result.graph.node[0].attribute}
    assert branches == {"then_branch": ["Exp"], "else_branch": ["Relu", "Reshape"]}
    optimized = converter.optimize(model)
    assert (optimized.nodes_before, optimized.nodes) == (7, 4)
    (reason,) = optimized.kept.values()
    assert "rank" in reason
    assert_equal(run(result, {"x": floats(2, 3), "c": np.array(True)})["y"], np.exp(floats(2, 3)))


def test_weights_around_a_body_that_stays() -> None:
    """A branch reads a weight of the graph around it, and one of its own."""
    text = """g (float[2,40] x, bool c, string[n] s) => (float[] y, string[n] u) {
        z = MatMul(x, w)
        u = Identity(s)
        y = If(c) <
            then_branch = t () => (float[2,40] a) { a = MatMul(z, w) },
            else_branch = e () => (float[80] b) { d = Add(z, w1)  b = Reshape(d, rest) }>
    }"""
    weights = {"w": floats(40, 40), "w1": floats(40, seed=1), "rest": np.array([-1])}
    for c in (True, False):
        feeds = {"x": floats(2, 40), "c": np.array(c), "s": np.array(["a"], object)}
        result = check(parse(text, **weights), feeds)
    names = [tensor.name for tensor in result.graph.initializer]
    assert names.count("w") == 1


# --- onnxruntime operators ---

ATTENTION = """g (float[b,s,8] x, float[b,t,8] m) => (float[b,s,8] y%(more)s) {
    qp = MatMul(x, wq)
    qb = Add(qp, bq)
    qr = Reshape(qb, heads)
    q = Transpose<perm = [0, 2, 1, 3]>(qr)
    kp = MatMul(%(keys)s, wk)
    kb = %(bias)s
    kr = Reshape(kb, heads)
    k = Transpose<perm = [0, 2, 3, 1]>(kr)
    vp = MatMul(%(keys)s, wv)
    vb = Add(bv, vp)
    vr = Reshape(vb, heads)
    v = Transpose<perm = [0, 2, 1, 3]>(vr)
    p = MatMul(q, k)
    scaled = Mul(p, scale)
    a = Softmax<axis = -1>(%(scores)s)
    o = MatMul(a, v)
    r = Transpose<perm = %(order)s>(o)
    y = Reshape(r, joined)
}"""
PLAIN = {"more": "", "keys": "x", "bias": "Add(kp, bk)", "scores": "scaled", "order": "[0, 2, 1, 3]"}


@pytest.mark.parametrize(
    ("changes", "scale", "inputs"),
    [
        ({}, 0.5, 4),
        ({}, 0.3, 4),
        ({"bias": "Identity(kp)"}, 0.5, 3),  # not all have a bias
        ({"more": ", float[b,s,8] qb"}, 0.5, 3),  # which something else reads
        ({"more": ", float[b,c,s,t] p"}, 0.5, None),
        ({"more": ", float[b,c,s,d] v"}, 0.5, None),
        ({"scores": "p2", "keys": "x"}, 0.5, None),  # a mask
        ({"order": "[0, 1, 2, 3]"}, 0.5, None),
        ({"keys": "m"}, 0.5, None),  # of which there may be none
    ],
)
def test_attention(changes: dict[str, str], scale: float, inputs: int | None) -> None:
    text = ATTENTION % {**PLAIN, **changes}
    if "p2" in text:
        text = text.replace("a = Softmax", "p2 = Add(scaled, mask)  a = Softmax")
    weights: dict[str, Any] = {f"w{name}": floats(8, 8, seed=ord(name)) / 3 for name in "qkv"}
    weights |= {f"b{name}": floats(8, seed=ord(name) + 9) for name in "qkv"}
    lists = {"heads": np.array([0, 0, 2, 4]), "joined": np.array([0, 0, 8])}
    model = parse(text, 17, **weights, **lists, scale=np.float32(scale), mask=floats(1, 1, 1, 2))
    feeds = {"x": floats(2, 2, 8), "m": floats(2, 2, 8, seed=5)}
    graph = check(model, feeds, target="onnxruntime").graph
    nodes = [node for node in graph.node if node.op_type == "MultiHeadAttention"]
    assert [sum(bool(name) for name in node.input) for node in nodes] == ([] if inputs is None else [inputs])
    assert "MultiHeadAttention" not in operators(check(model, feeds).graph)


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize(("factor", "expected"), [(np.sqrt(0.5), ["Gelu"]), (0.7071, None)])
def test_gelu(opset: int, factor: float, expected: list[str] | None) -> None:
    text = """g (float[n,4] x) => (float[n,4] y) {
        a = Mul(x, root)
        b = Erf(a)
        c = Add(b, one)
        d = Mul(x, c)
        y = Mul(d, half)
    }"""
    weights = {"root": np.float32(factor), "one": np.float32(1), "half": np.float32(0.5)}
    graph = check(parse(text, opset, **weights), {"x": floats(3, 4)}, target="onnxruntime").graph
    assert operators(graph) == (expected or ["Mul", "Erf", "Add", "Mul", "Mul"])
    if expected:
        assert graph.node[0].domain == ("com.microsoft" if opset < 20 else "")
