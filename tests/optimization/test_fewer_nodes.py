"""Models that need fewer nodes than their files have, and files from which a node may not be taken."""

from __future__ import annotations

import numpy as np
import pytest

import converter
from tests.optimization.models import check, floats, operators, parse

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
