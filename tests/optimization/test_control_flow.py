"""If, Loop and sequences whose shapes or counts are known disappear; what stays is optimized within."""

from __future__ import annotations

import numpy as np

import converter
from tests.optimization.models import assert_equal, check, floats, operators, parse, run

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
