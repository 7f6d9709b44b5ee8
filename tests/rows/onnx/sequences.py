"""Sequences, and operators on texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.rows.row import Row, const, each, graphs, rows

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
    *graphs(MAPPED, label="split_and_mapped", opset=18, x=X),
    *graphs(OPTIONAL, label="optional", opset=18, x=X),
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

WORDS = np.array([1, 2, 3, 1, 2, 2, 3, 9], np.int32)
GRAMS: dict[str, Any] = {
    "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "mode": "TF",
    "ngram_counts": [0, 3], "ngram_indexes": [0, 1, 2, 3, 4], "pool_int64s": [1, 2, 3, 1, 2, 2, 3],
}  # fmt: skip
ONE: dict[str, Any] = {**GRAMS, "max_gram_length": 1, "ngram_counts": [0], "ngram_indexes": [2**40], "pool_int64s": [1]}
WEIGHTS = [0.5, 1.0, 1.5, 2.0, -2.5]
LARGE = [1 << 24, (1 << 24) + 1, (1 << 24) - 1, 1 << 30, (1 << 30) + 1, -(1 << 30), -(1 << 30) - 1]


def vectorizer(x: np.ndarray, label: str = "", **attributes: Any) -> Iterator[Row]:
    yield from rows("TfIdfVectorizer", 9, label=label, x=x, **{**GRAMS, **attributes})


def random_pool(seed: int) -> Iterator[Row]:
    rng = np.random.default_rng(seed)
    grams = [np.unique(rng.integers(0, 5, (rng.integers(0, 9), n)), axis=0) for n in (1, 2, 3)]
    total, least = sum(map(len, grams)) or 1, int(rng.integers(1, 4))
    yield from vectorizer(
        rng.integers(0, 6, (3, 20)).astype([np.int32, np.int64][seed % 2]), "random",
        pool_int64s=np.concatenate([rng.permutation(g).reshape(-1) for g in grams]).tolist(),
        ngram_counts=[0, *np.cumsum([g.size for g in grams])[:-1].tolist()],
        ngram_indexes=rng.permutation(total + 3)[:total].tolist(), weights=rng.standard_normal(total).tolist(),
        min_gram_length=least, max_gram_length=int(rng.integers(least, 4)), max_skip_count=int(rng.integers(0, 5)),
        mode=["TF", "IDF", "TFIDF"][seed % 3],
    )  # fmt: skip


ROWS += [
    *vectorizer(each(WORDS, WORDS.astype(np.int64)), mode=each("TF", "IDF", "TFIDF"), also=each({}, {"weights": WEIGHTS}),
                ngram_indexes=each([0, 1, 2, 3, 4], [4, 2, 0, 1, 3], [7, 0, 5, 2, 3])),
    *vectorizer(WORDS, also=each(
        {"max_skip_count": 2},
        {"max_skip_count": 3, "min_gram_length": 2},
        {"ngram_indexes": [0, 1, 1, 0, 0]},
        {"ngram_indexes": [0, 1, 1, 3, 0], "mode": "TFIDF", "weights": WEIGHTS},
        {"ngram_counts": [1, 3], "ngram_indexes": [0, 1, 2, 3]},
        {"ngram_counts": [0, 0], "pool_int64s": [1, 2, 2, 3], "ngram_indexes": [0, 1], "max_gram_length": 1},
        {"pool_int64s": [1 + (1 << 32), 2, 3, 1, 2, 2, 3 - (1 << 33)]},
    )),
    *vectorizer(np.array([[1, -2, 1, -2], [3, 3, 2, 3]]), pool_int64s=[1, -2, 3, 1, -2, 2, 3]),
    *vectorizer(each(*(np.array([*LARGE, 1 << 24, (1 << 30) + 2], t) for t in ("i4", "i8"))), pool_int64s=LARGE),
    *(row for batch, length in ((b, n) for b in (1, 3) for n in (0, 1, 2, 5, 30))
      for x in [np.random.default_rng(length).integers(0, 4, (batch, length))]
      for row in vectorizer(each(x, x[0]), "lengths", max_skip_count=2)),
    *(row for seed in range(8) for row in random_pool(seed)),
    *vectorizer(WORDS, mode="X", refused="TF, IDF or TFIDF"),
    *vectorizer(WORDS, min_gram_length=0, refused="0 to 2 tokens"),
    *vectorizer(WORDS, min_gram_length=3, refused="3 to 2 tokens"),
    *vectorizer(WORDS, max_gram_length=3, refused="1 to 3 tokens"),
    *vectorizer(WORDS, max_skip_count=-1, refused="up to -1"),
    *vectorizer(WORDS, pool_int64s=[1, 2, 3, 1, 2, 2], refused="2-grams are the numbers 3 to 6"),
    *vectorizer(WORDS, ngram_counts=[3, 0], refused="1-grams are the numbers 3 to 0"),
    *vectorizer(WORDS, pool_int64s=[1, 2, 2, 1, 2, 2, 3], refused="1-gram twice"),
    *vectorizer(WORDS, ngram_indexes=[0, 1, 2, 3], refused="5 n-grams need"),
    *vectorizer(WORDS, ngram_indexes=[0, 1, 2, 3, -1], refused="from 0 on"),
    *vectorizer(WORDS, weights=[1.0], refused="1 weights"),
    *vectorizer(WORDS, pool_strings=["a"], refused="texts"),
    *vectorizer(WORDS, mode="IDF", ngram_indexes=[0, 1, 1, 2, 3], refused="share an index"),
    *vectorizer(each(np.array(1), WORDS.reshape(2, 2, 2)), refused="rank 1 or 2|a sequence or a batch"),
    # Skips beyond the row cost nothing (onnxruntime counts them), nor does what a few bytes of the file ask for.
    *(row for arguments in ({"label": "skips", "expect": np.array([1], np.float32)},
                            {"dims": {"x": [None]}, "refused": "rows of a known length"})
      for row in vectorizer(np.array([1, 2, 1]), min_gram_length=2, max_skip_count=10**6, ngram_counts=[0, 0],
                            ngram_indexes=[0], pool_int64s=[1, 1], **arguments)),
    *vectorizer(np.array([1, 2, 1]), **ONE, refused="1099511627777 columns is too wide"),
]  # fmt: skip
