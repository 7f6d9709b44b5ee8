"""TfIdfVectorizer through both engines, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model

X = np.array([1, 2, 3, 1, 2, 2, 3, 9], np.int32)
POOL = {"ngram_counts": [0, 3], "ngram_indexes": [0, 1, 2, 3, 4], "pool_int64s": [1, 2, 3, 1, 2, 2, 3]}
GRAMS = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "mode": "TF", **POOL}
WEIGHTS = [0.5, 1.0, 1.5, 2.0, -2.5]


def vectorizer(x: np.ndarray, attributes: Mapping[str, Any], **more: Any) -> Any:
    return node_model("TfIdfVectorizer", {"x": x}, opset=9, attributes={**GRAMS, **attributes}, **more)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("indexes", [[0, 1, 2, 3, 4], [4, 2, 0, 1, 3], [7, 0, 5, 2, 3]])
def test_modes_weights_and_indexes(kind: Any, mode: str, weights: list[float] | None, indexes: list[int]) -> None:
    attributes = {"mode": mode, "ngram_indexes": indexes, **({"weights": weights} if weights else {})}
    check_node(vectorizer(X.astype(kind), attributes), {"x": X.astype(kind)})


LARGE = [1 << 24, (1 << 24) + 1, (1 << 24) - 1, 1 << 30, (1 << 30) + 1, -(1 << 30), -(1 << 30) - 1]

ROWS: list[tuple[dict[str, Any], Any]] = [
    ({"max_skip_count": 2}, X),
    ({"max_skip_count": 9}, X),
    ({"max_skip_count": 3, "min_gram_length": 2}, X),
    ({"max_gram_length": 1}, X),
    ({"max_skip_count": 1}, X.reshape(2, 4)),
    ({"ngram_indexes": [0, 1, 1, 0, 0]}, X),
    ({"ngram_indexes": [0, 1, 1, 3, 0], "mode": "TFIDF", "weights": WEIGHTS}, X),
    ({"ngram_indexes": [0, 1, 2, 3, 4, 9]}, X),
    ({"ngram_counts": [1, 3], "ngram_indexes": [0, 1, 2, 3]}, X),
    ({"ngram_counts": [0, 0], "pool_int64s": [1, 2, 2, 3], "ngram_indexes": [0, 1]}, X),
    ({"ngram_counts": [0, 0], "pool_int64s": [1, 2, 2, 3], "ngram_indexes": [0, 1], "max_gram_length": 1}, X),
    ({"pool_int64s": [1, -2, 3, 1, -2, 2, 3]}, np.array([[1, -2, 1, -2], [3, 3, 2, 3]])),
    ({"pool_int64s": [1 + (1 << 32), 2, 3, 1, 2, 2, 3 - (1 << 33)]}, X),
    ({"pool_int64s": LARGE}, np.array([*LARGE, 1 << 24, (1 << 30) + 2], np.int32)),
    ({"pool_int64s": LARGE}, np.array([*LARGE, 1 << 24, (1 << 30) + 2])),
    ({"min_gram_length": 2}, X[:1]),
    ({"min_gram_length": 2, "max_skip_count": 5}, X[:3]),
]


@pytest.mark.parametrize(("attributes", "x"), ROWS)
def test_rows(attributes: dict[str, Any], x: np.ndarray) -> None:
    check_node(vectorizer(x, attributes), {"x": x})


@pytest.mark.parametrize("length", [0, 1, 2, 5, 30])
@pytest.mark.parametrize("batch", [1, 3])
def test_dynamic_dimensions(length: int, batch: int) -> None:
    x = np.random.default_rng(length).integers(0, 4, (batch, length))
    attributes = {"max_skip_count": 2}
    check_node(vectorizer(x, attributes, shapes={"x": ["n", None]}), {"x": x})
    check_node(vectorizer(x[0], attributes, shapes={"x": [None]}), {"x": x[0]})


@pytest.mark.parametrize("seed", range(8))
def test_random_pools(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grams = [np.unique(rng.integers(0, 5, (rng.integers(0, 9), n)), axis=0) for n in (1, 2, 3)]
    counts = [0, *np.cumsum([g.size for g in grams])[:-1].tolist()]
    total = sum(map(len, grams)) or 1
    least = int(rng.integers(1, 4))
    attributes = {
        "pool_int64s": np.concatenate([rng.permutation(g).reshape(-1) for g in grams] or [[0]]).tolist(),
        "ngram_counts": counts,
        "ngram_indexes": rng.permutation(total + 3)[:total].tolist(),
        "weights": rng.standard_normal(total).tolist(),
        "min_gram_length": least,
        "max_gram_length": int(rng.integers(least, 4)),
        "max_skip_count": int(rng.integers(0, 5)),
        "mode": ["TF", "IDF", "TFIDF"][seed % 3],
    }
    x = rng.integers(0, 6, (3, 20)).astype([np.int32, np.int64][seed % 2])
    check_node(vectorizer(x, attributes), {"x": x})


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"mode": "X"}, "TF, IDF or TFIDF"),
        ({"min_gram_length": 0}, "0 to 2 tokens"),
        ({"min_gram_length": 3}, "3 to 2 tokens"),
        ({"max_gram_length": 3}, "1 to 3 tokens"),
        ({"max_skip_count": -1}, "up to -1"),
        ({"pool_int64s": [1, 2, 3, 1, 2, 2]}, "2-grams are the numbers 3 to 6"),
        ({"ngram_counts": [3, 0]}, "1-grams are the numbers 3 to 0"),
        ({"pool_int64s": [1, 2, 2, 1, 2, 2, 3]}, "1-gram twice"),
        ({"ngram_indexes": [0, 1, 2, 3]}, "5 n-grams need"),
        ({"ngram_indexes": [0, 1, 2, 3, -1]}, "from 0 on"),
        ({"weights": [1.0]}, "1 weights"),
        ({"pool_strings": ["a"]}, "texts"),
        ({"mode": "IDF", "ngram_indexes": [0, 1, 1, 2, 3]}, "share an index"),
    ],
)
def test_errors(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(vectorizer(X, attributes))


@pytest.mark.parametrize("shape", [(), (2, 2, 2)])
def test_other_ranks(shape: tuple[int, ...]) -> None:
    with pytest.raises(converter.ConversionError, match=r"rank 1 or 2|a sequence or a batch"):
        converter.convert_model(vectorizer(np.zeros(shape, np.int32), {}))


def test_skips_beyond_the_row_cost_nothing() -> None:
    x = np.array([1, 2, 1], np.int64)
    attributes = {
        "mode": "TF", "min_gram_length": 2, "max_gram_length": 2, "max_skip_count": 2**62,
        "ngram_counts": [0, 0], "ngram_indexes": [0], "pool_int64s": [1, 1],
    }  # fmt: skip
    made = node_model("TfIdfVectorizer", {"x": x}, opset=9, attributes=attributes)
    check_node(made, {"x": x}, [np.array([1], np.float32)])
    unknown = node_model("TfIdfVectorizer", {"x": x}, opset=9, attributes=attributes, shapes={"x": [None]})
    with pytest.raises(converter.ConversionError, match=r"'node' \(TfIdfVectorizer.*rows of a known length"):
        converter.convert_model(unknown)


def test_a_column_far_away_is_refused_at_once() -> None:
    """Each column takes its place in constants: what a few bytes of the file ask for need not fit into memory."""
    x = np.array([1, 2, 1], np.int64)
    attributes = {
        "mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0,
        "ngram_counts": [0], "ngram_indexes": [2**40], "pool_int64s": [1],
    }  # fmt: skip
    with pytest.raises(converter.ConversionError, match=r"TfIdfVectorizer.*1099511627777 columns is too wide"):
        converter.convert_model(node_model("TfIdfVectorizer", {"x": x}, opset=9, attributes=attributes))
