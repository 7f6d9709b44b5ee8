"""onnxruntime's hashes, against onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.rows.row import Row, const, each, rows

R = np.random.default_rng(41)
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
ROWS = [
    *rows("MurmurHash3", 1, domain="com.microsoft", x=each(X.astype(np.int32), X.astype(np.uint32)),
          positive=each(0, 1),
          seed=each(0, 7, 2**31 + 5)),
    *(row for dtype in (np.int32, np.int64) for packed in (False, True) for way in WAYS for row in ngrams(dtype,
    packed, *way)),
    *ngrams(np.int32, False, 3, 2, 0, "", max_ngram_size=1, refused="max_ngram_size must be at least 2"),
    *ngrams(np.int32, False, 3, 2, 0, "", n_head_per_ngram=3,
            refused="6 vocab_sizes are required, but there are 3 and 4"),
]  # fmt: skip
