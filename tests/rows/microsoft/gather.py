"""onnxruntime's lookups: gathering, hashes, n-grams."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tests.rows.row import Row, const, each, rows

R = np.random.default_rng(17)
blocks_of = functools.partial(rows, "GatherBlockQuantized", 1, domain="com.microsoft", block_size=16)
packed = functools.partial(rows, "GatherPacked", 1, domain="com.microsoft")


def whole(kind: Any, low: int, high: int) -> Any:
    data, zero = (const(R.integers(low, high, shape).astype(kind)) for shape in ((6, 48), (6, 3)))
    return {"data": data, "indices": np.array([[1, 5], [-2, 0]]), "scales": None, "zero": each(None, zero),
            "bits": 8 if kind is np.uint8 else 4}  # fmt: skip


def scales(*shape: int, dtype: Any = np.float32) -> Any:
    return const(R.uniform(0.1, 1, shape), dtype)


BYTES = {0: 128, 1: 64, 30: 64, 2: 18, 6: 22, 8: 34, 20: 18}
"""Formats of GGML -> the bytes of 32 numbers."""


def ggml(packed_type: int, blocks: int) -> Any:
    """Five rows of numbers in one of the formats."""
    if packed_type in (0, 1, 30):
        dtype = {0: np.dtype("<f4"), 1: np.dtype("<f2"), 30: np.dtype(ml_dtypes.bfloat16)}[packed_type]
        return const(R.standard_normal((5, 32 * blocks)).astype(dtype).view(np.uint8))
    data = R.integers(0, 256, (5, blocks, BYTES[packed_type])).astype(np.uint8)
    data[..., :2] = R.uniform(0.01, 1, (5, blocks)).astype("<f2").view(np.uint8).reshape(5, blocks, 2)
    return const(data.reshape(5, -1))


KINDS = [(ml_dtypes.int4, -8, 8), (ml_dtypes.uint4, 0, 16), (np.uint8, 0, 256)]
AXES = [((20, 5), 1, 0, (2, 5)), ((3, 32, 4), -1, 1, (3, 2, 4)), ((5, 32, 3), 0, -2, (5, 2, 3)),
((16, 2, 7), 2, 0, (1, 2, 7))]  # fmt: skip
"""Shapes, the axis that is gathered and the one of blocks, and the shapes of scales."""
ROWS = [
    *(row for kind in KINDS for row in blocks_of(
        **whole(*kind) | {"scales": each(*(scales(6, 3, dtype=t) for t in (np.float32, np.float16,
        ml_dtypes.bfloat16)))}, dims=each(None, {"indices": ["n", None]}))),
    *(row for bits in (2, 4) for row in blocks_of(
        label="packed", data=const(R.integers(0, 256, (6, 6 * bits)), np.uint8), indices=np.array([4, -1, 0], np.int32),
        scales=scales(6, 3), zero=each(None, const(R.integers(0, 256, (6, -(-3 * bits // 8))), np.uint8)), bits=bits)),
    *(row for shape, gathered, quantized, blocks in AXES for row in blocks_of(
        label="axes", data=const(R.integers(-8, 8, shape).astype(ml_dtypes.int4)),
        indices=each(np.array(1), np.array([0, -1]), np.array([[1], [0]])), scales=scales(*blocks),
        gather_axis=gathered, quantize_axis=quantized)),
    *blocks_of(label="real", data=const(R.standard_normal((6, 32)), ml_dtypes.float8_e4m3fn),
               indices=np.array([[2, 5]]), scales=each(scales(6, 2), scales(1, 2))),
    *(row for options, refused in (({"gather_axis": 1}, "must differ"),
    ({"block_size": 0}, "block_size must be positive"), ({"block_size": 32}, r"scales must have the shape \[6, 1\]"))
      for row in blocks_of(data=const(np.zeros((6, 32), ml_dtypes.int4)), indices=np.array([0]), scales=scales(6, 2),
                           **options, refused=refused)),
    *(row for packed_type, blocks in itertools.product(BYTES, (1, 3)) for row in packed(
        data=ggml(packed_type, blocks), indices=np.array([[0, 4, 2], [7, -1, -9]]), packed_type=packed_type,
        K=32 * blocks, output_dtype=each(1, 10, 16))),
    *packed(data=ggml(2, 1), indices=np.zeros(2, np.int64), packed_type=12, K=32, refused="but is 12"),
    *packed(data=ggml(2, 1), indices=np.zeros(2, np.int64), packed_type=2, K=64,
            refused=r"of K = 64 .* the shape \(5, 18\)"),
]  # fmt: skip

NEEDED, STORED = "ids factors sizes ", ("factors", "sizes", "offsets", "eos")


def ngrams(dtype: Any, packed: bool, size: int, heads: int, reset: int, options: str, **more: Any) -> Iterator[Row]:
    """Yield a row with some of the inputs that may be left out; of two sequences, or three that are packed."""
    past = (3 if packed else 2, size - 1)
    ids = R.integers(0, 6, 9 if packed else (2, 9)).astype(dtype)
    values = {
        "ids": ids,
        "factors": R.integers(-(2**30), 2**30, size).astype(dtype) * (1 if dtype == np.int32 else 2**31 + 1),
        "sizes": R.integers(1, 2**20, (size - 1) * heads).astype(dtype),
        **({"starts": np.array([0, 4, 5, 9], np.int32)} if packed else {}),
        "past": R.integers(0, 6, past).astype(dtype),
        "offsets": R.integers(0, 99, (size - 1) * heads).astype(dtype),
        "eos": np.array(3, dtype),
    }
    values["segments"] = np.sort(R.integers(0, 3, ids.shape)).astype(np.int32)
    if packed:
        values["past_segments"] = R.integers(0, 2, past).astype(np.int32)
    present = (NEEDED + "starts " + options).split()
    inputs = {name: value if name in present else None for name, value in values.items()}
    inputs = {name: const(value) if name in STORED and value is not None else value for name, value in inputs.items()}
    attributes = {"max_ngram_size": size, "n_head_per_ngram": heads, "pad_id": 0, "reset_on_eos": reset}
    outputs = 3 if packed and "segments" in present else 2
    op_type = "VarlenNGramHashMapping" if packed else "NGramHashMapping"
    return rows(op_type, 1, domain="com.microsoft", outputs=outputs, **{**inputs, **attributes, **more})


WAYS = [
    (2, 1, 0, ""), (3, 2, 0, "past"), (3, 2, 1, "past offsets eos"), (4, 3, 1, "eos segments"),
    (4, 1, 1, "past eos segments past_segments"), (3, 2, 0, "segments offsets"),
]  # fmt: skip
X = np.array([[0, 1, -5], [2**31 - 1, 123456, -(2**31)]], np.int64)
ROWS += [
    *rows("MurmurHash3", 1, domain="com.microsoft", x=each(X.astype(np.int32), X.astype(np.uint32)),
          positive=each(0, 1),
          seed=each(0, 7, 2**31 + 5)),
    *(row for dtype in (np.int32, np.int64) for packed in (False, True) for way in WAYS for row in ngrams(dtype,
    packed, *way)),
    *ngrams(np.int32, False, 3, 2, 0, "", max_ngram_size=1, refused="max_ngram_size must be at least 2"),
    *ngrams(np.int32, False, 3, 2, 0, "", n_head_per_ngram=3,
            refused="6 vocab_sizes are required, but there are 3 and 4"),
]  # fmt: skip

block = functools.partial(rows, "NGramRepeatBlock", 1, domain="com.microsoft")
detector = functools.partial(rows, "BifurcationDetector", 1, domain="com.microsoft", outputs=2)


def texts(batch: int, length: int, kinds: int) -> dict[str, Any]:
    """Few different tokens, so that n-grams occur again; one score stays NaN unless its token is blocked."""
    scores = R.standard_normal((batch, kinds + 1)).astype(np.float32)
    scores[0, 0] = np.nan
    return {"ids": R.integers(0, kinds, (batch, length)), "scores": scores}


def tokens(case: int) -> dict[str, Any]:
    """Few different tokens, so that ends of the tokens stand in the source never, once and twice."""
    kinds = 2 + case % 4
    source, current = R.integers(0, kinds, 4 + case), R.integers(0, kinds, 1 + case % 5)
    return {"src": source, "cur": current, "prev": np.array([case % 3])}


def guessed(start: int, equal: int) -> dict[str, Any]:
    """A guess of which some tokens stand in the source."""
    source = R.integers(0, 9, 6)
    guess = np.append(source[start:], 7)
    guess[equal : len(guess) - 1] += 1
    return {"src": source, "cur": R.integers(0, 9, 2), "prev": np.array([start]), "guess": guess}


SIZES = each(*({"min_ngram_size": low, "max_ngram_size": high} for low, high in ((1, 3), (2, 4), (1, 1))))
ROWS += [
    *(row for sizes in ((1, 9, 2), (3, 12, 3), (4, 30, 5), (2, 3, 1))
      for row in block(**texts(*sizes), ngram_size=each(1, 2, 3, 4), dims=each(None, {"scores": ["batch", None]}))),
    *(row for length in range(5) for row in block(label="short", **texts(2, length, 2), ngram_size=each(1, 2, 4))),
    *block(**texts(1, 4, 2), ngram_size=0, refused="ngram_size must be positive"),
    *(row for name in ("ids", "scores") for values in [texts(1, 4, 2)] for row in block(
        **{**values, name: values[name][0]}, ngram_size=2, refused="must have 2 dimensions")),
    *(row for case in range(12) for row in detector(**tokens(case), also=SIZES)),
    *(row for start in (0, 2, 6) for equal in (0, 1, 3, 9) for row in detector(label="guess", **guessed(start, equal))),
    *detector(**tokens(1), min_ngram_size=3, max_ngram_size=2, refused="in order"),
]  # fmt: skip
