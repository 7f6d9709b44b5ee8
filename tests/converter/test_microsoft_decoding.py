"""BifurcationDetector against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model
from tests.random_data import generator

RNG = generator(11)


def check(feeds: dict[str, Any], *, dynamic: bool = False, **attributes: int) -> None:
    model = node_model(
        "BifurcationDetector",
        feeds,
        opset=1,
        domain="com.microsoft",
        attributes=attributes,
        outputs=2,
        shapes={name: [None] for name in feeds if name != "prev"} if dynamic else None,
    )
    check_node(model, feeds)


@pytest.mark.parametrize("case", range(12))
@pytest.mark.parametrize("sizes", [(1, 3), (2, 4), (1, 1)], ids=str)
def test_without_a_guess(case: int, sizes: tuple[int, int]) -> None:
    """Few different tokens, so that ends of the tokens stand in the source never, once and twice."""
    kinds = 2 + case % 4
    feeds = {
        "src": RNG.integers(0, kinds, 4 + case),
        "cur": RNG.integers(0, kinds, 1 + case % 5),
        "prev": np.array([case % 3]),
    }
    check(feeds, dynamic=case % 2 == 0, min_ngram_size=sizes[0], max_ngram_size=sizes[1])


@pytest.mark.parametrize("start", [0, 2, 6])
@pytest.mark.parametrize("equal", [0, 1, 3, 9])
@pytest.mark.parametrize("dynamic", [False, True])
def test_with_a_guess(start: int, equal: int, dynamic: bool) -> None:
    source = RNG.integers(0, 9, 6)
    guess = np.append(source[start:], 7)
    guess[equal : len(guess) - 1] += 1
    feeds = {"src": source, "cur": RNG.integers(0, 9, 2), "prev": np.array([start]), "guess": guess}
    check(feeds, dynamic=dynamic)


def test_ngram_sizes_out_of_order_are_refused() -> None:
    feeds = {"src": np.array([1, 2]), "cur": np.array([1]), "prev": np.array([0])}
    given = {"min_ngram_size": 3, "max_ngram_size": 2}
    model = node_model("BifurcationDetector", feeds, opset=1, domain="com.microsoft", attributes=given, outputs=2)
    with pytest.raises(converter.ConversionError, match="in order"):
        converter.convert_model(model)
