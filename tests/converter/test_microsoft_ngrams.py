"""NGramRepeatBlock against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model
from tests.random_data import generator

RNG = generator(17)


def ngram_repeat_block(feeds: dict[str, Any], size: int, *, dynamic: bool = False) -> Any:
    shapes = {"ids": ["batch", "length"], "scores": ["batch", None]} if dynamic else None
    return node_model(
        "NGramRepeatBlock", feeds, opset=1, domain="com.microsoft", attributes={"ngram_size": size}, shapes=shapes
    )


def texts(batch: int, length: int, kinds: int) -> dict[str, Any]:
    """Few different tokens, so that n-grams occur again; one score stays NaN unless its token is blocked."""
    scores = RNG.standard_normal((batch, kinds + 1)).astype(np.float32)
    scores[0, 0] = np.nan
    return {"ids": RNG.integers(0, kinds, (batch, length)), "scores": scores}


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize(("batch", "length", "kinds"), [(1, 9, 2), (3, 12, 3), (4, 30, 5), (2, 3, 1)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_ngrams(size: int, batch: int, length: int, kinds: int, dynamic: bool) -> None:
    feeds = texts(batch, length, kinds)
    check_node(ngram_repeat_block(feeds, size, dynamic=dynamic), feeds)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("dynamic", [False, True])
def test_texts_that_are_shorter_than_an_ngram(length: int, size: int, dynamic: bool) -> None:
    feeds = texts(2, length, 2)
    check_node(ngram_repeat_block(feeds, size, dynamic=dynamic), feeds)


def test_size_that_is_not_positive_is_refused() -> None:
    with pytest.raises(converter.InvalidModelError, match="ngram_size must be positive"):
        converter.convert_model(ngram_repeat_block(texts(1, 4, 2), 0))


@pytest.mark.parametrize("name", ["ids", "scores"])
def test_other_ranks_are_refused(name: str) -> None:
    feeds = texts(1, 4, 2)
    feeds[name] = feeds[name][0]
    with pytest.raises(converter.InvalidModelError, match="must have 2 dimensions, but has 1"):
        converter.convert_model(ngram_repeat_block(feeds, 2))
