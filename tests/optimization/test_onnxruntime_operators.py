"""``--target onnxruntime``: operators of com.microsoft, where they compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.optimization.models import check, floats, operators, parse

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
PLAIN = {
    "more": "",
    "keys": "x",
    "bias": "Add(kp, bk)",
    "scores": "scaled",
    "order": "[0, 2, 1, 3]",
}


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
