"""Sequences and optionals that are lowered while converting, against onnxruntime."""

from __future__ import annotations

import numpy as np

from tests.rows.row import const, each, graphs, rows

X = np.arange(12, dtype=np.float32).reshape(4, 3)
EDITED = """g (float[4,3] x) => (float[p,q] y, int64 count) {
    n = Neg (x)  a = Abs (x)  s = SequenceConstruct (x, n)  t = SequenceInsert (s, a, at)  u = SequenceErase (t, one)
    y = SequenceAt (u, zero)  count = SequenceLength (t)
}"""
SPLIT = """g (float[4,3] x) => (float[p,q] y, float[r,s] z) {{
    s = SplitToSequence {} ({})  y = SequenceAt (s, last)  z = ConcatFromSequence <{}> (s)
}}"""
MAPPED = """g (float[4,3] x) => (float[p,q] y, float[r] z) {
    s = SplitToSequence (x)
    m, k2 = SequenceMap <body = body (float[r,c] i) => (float[r2,c2] j, float k) {
        j = Add (i, x)  k = ReduceSum <keepdims = 0> (j)
    }> (s)
    y = ConcatFromSequence <axis = 0> (m)  z = ConcatFromSequence <axis = 0, new_axis = 1> (k2)
}"""
OPTIONAL = """g (float[4,3] x) => (float[4,3] y, bool has, bool none) {
    o = Optional (x)  p = Identity (o)  has = OptionalHasElement (p)  y = OptionalGetElement (p)
    none = OptionalHasElement ()
}"""


def mapped(x: np.ndarray) -> list[np.ndarray]:
    parts = [row[None] + x for row in x]
    return [np.concatenate(parts), np.array([part.sum() for part in parts], np.float32)]


def refused(nodes: str, message: str, dims: str = "4,3", output: str = "float y", **constants: object) -> object:
    text = f"g (float[{dims}] x) => ({output}) {{ {nodes} }}"
    return graphs(text, label="refused", opset=18, x=X, refused=message, **{n: const(v) for n, v in constants.items()})


ROWS = [
    *graphs(EDITED, label="edited", opset=18, x=X, at=const(each(0, 2, -1)), one=const(1), zero=const(0)),
    *(row for attributes, joined, split in (
        ("", "axis = 0", None), ("<keepdims = 0>", "axis = 1, new_axis = 1", None), ("<axis = 1>", "axis = 1", None),
        ("", "axis = 0", 3), ("", "axis = 0", [1, 3]), ("<axis = -1>", "axis = -1", [2, 1]))
      for row in graphs(SPLIT.format(attributes, "x" if split is None else "x, split", joined), label="split", opset=18,
                        x=X, last=const(-1), **({} if split is None else {"split": const(split)}))),
    *graphs(MAPPED, label="split_and_mapped", opset=18, x=X, expect=mapped),
    *graphs(OPTIONAL, label="optional", opset=18, x=X, expect=[X, np.array(True), np.array(False)]),
    *refused("y = SequenceConstruct (x)", "output 'y' is a sequence, and the IR carries nothing but tensors",
             output="seq(float[4,3]) y"),
    *refused("s = SequenceConstruct (x) y = Relu (s)", "input 0 is a sequence"),
    *refused("s = SequenceConstruct (x) y = SequenceAt (s, at)", "position 3 lies outside", at=3),
    *refused("y = SequenceLength (x)", "input_sequence must be a sequence, but is a tensor", output="int64 y"),
    *refused("s = SplitToSequence (x, n) y = SequenceLength (s)", "do not add up to the dimension 4", n=[1, 1],
             output="int64 y"),
    *refused("s = SplitToSequence (x) y = SequenceLength (s)", "along axis 0 must be known", "n,3", "int64 y"),
    *rows("StringNormalizer", 20, x=X, refused="no operations on strings"),
    *rows("ImageDecoder", 20, x=X, refused="no decoding of image files"),
]  # fmt: skip
