"""onnxruntime's hashes through both engines, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import converter
from tests.engines import check_node, node_model
from tests.random_data import generator

R = generator(41)
OPTIONAL = ("past", "offsets", "eos", "segments", "past_segments")


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("seed", [0, 7, 2**31 + 5])
def test_murmur_hash(dtype: Any, positive: int, seed: int) -> None:
    x = np.array([[0, 1, -5], [2**31 - 1, 123456, -(2**31)]], np.int64).astype(dtype)
    attributes = {"positive": positive, "seed": seed}
    check_node(node_model("MurmurHash3", {"x": x}, opset=1, domain="com.microsoft", attributes=attributes), {"x": x})


def ngrams(
    dtype: Any, size: int, heads: int, reset: int = 0, options: str = "", packed: bool = False
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Hashes of n-grams with some of the ``OPTIONAL`` inputs; two sequences, or three that are packed."""
    ids = R.integers(0, 6, 9 if packed else (2, 9)).astype(dtype)
    past = (3 if packed else 2, size - 1)
    segments = np.sort(R.integers(0, 3, ids.shape)).astype(np.int32)
    values = {
        "ids": ids,
        "factors": R.integers(-(2**30), 2**30, size).astype(dtype) * (1 if dtype == np.int32 else 2**31 + 1),
        "sizes": R.integers(1, 2**20, (size - 1) * heads).astype(dtype),
        "starts": np.array([0, 4, 5, 9], np.int32),
        "past": R.integers(0, 6, past).astype(dtype),
        "offsets": R.integers(0, 99, (size - 1) * heads).astype(dtype),
        "eos": np.array(3, dtype),
        "segments": segments,
        "past_segments": R.integers(0, 2, past).astype(np.int32),
    }
    order = [name if name not in OPTIONAL or name in options.split() else "" for name in values]
    if not packed:
        order = [name for name in order if name != "starts"][:7]
    while not order[-1]:
        order.pop()
    constants = {name: values[name] for name in ("factors", "sizes", "offsets", "eos") if name in order}
    feeds = {name: values[name] for name in order if name and name not in constants}
    attributes = {"max_ngram_size": size, "n_head_per_ngram": heads, "pad_id": 0, "reset_on_eos": reset}
    model = node_model(
        "VarlenNGramHashMapping" if packed else "NGramHashMapping",
        feeds,
        opset=1,
        domain="com.microsoft",
        outputs=3 if packed and "segments" in order else 2,
        constants=constants,
        order=order,
        attributes=attributes,
    )
    return model, feeds


WAYS = [
    (2, 1, 0, ""),
    (3, 2, 0, "past"),
    (3, 2, 1, "past offsets eos"),
    (4, 3, 1, "eos segments"),
    (4, 1, 1, "past eos segments past_segments"),
    (3, 2, 0, "segments offsets"),
]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("size", "heads", "reset", "options"), WAYS)
def test_ngrams(dtype: Any, packed: bool, size: int, heads: int, reset: int, options: str) -> None:
    model, feeds = ngrams(dtype, size, heads, reset, options, packed)
    check_node(model, feeds)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"max_ngram_size": 1}, "max_ngram_size must be at least 2"),
        ({"n_head_per_ngram": 3}, "6 vocab_sizes are required, but there are 3 and 4"),
    ],
)
def test_contradictions(attributes: dict[str, int], message: str) -> None:
    model, _ = ngrams(np.int32, 3, 2)
    for attribute in model.graph.node[0].attribute:
        attribute.i = attributes.get(attribute.name, attribute.i)
    with pytest.raises(converter.InvalidModelError, match=message):
        converter.convert_model(model)
