"""NGramRepeatBlock and BifurcationDetector, against onnxruntime."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.rows.row import each, rows

R = np.random.default_rng(17)
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
ROWS = [
    *(row for sizes in ((1, 9, 2), (3, 12, 3), (4, 30, 5), (2, 3, 1))
      for row in block(**texts(*sizes), ngram_size=each(1, 2, 3, 4), dims=each(None, {"scores": ["batch", None]}))),
    *(row for length in range(5) for row in block(label="short", **texts(2, length, 2), ngram_size=each(1, 2, 4))),
    *block(**texts(1, 4, 2), ngram_size=0, refused="ngram_size must be positive"),
    *(row for name in ("ids", "scores") for values in [texts(1, 4, 2)] for row in block(
        **{**values, name: values[name][0]}, ngram_size=2, refused="must have 2 dimensions, but has 1")),
    *(row for case in range(12) for row in detector(**tokens(case), also=SIZES)),
    *(row for start in (0, 2, 6) for equal in (0, 1, 3, 9) for row in detector(label="guess", **guessed(start, equal))),
    *detector(**tokens(1), min_ngram_size=3, max_ngram_size=2, refused="in order"),
]  # fmt: skip
