"""Attention whose output is transposed, with as many queries as heads, from the start and after a reshape."""

from __future__ import annotations

import onnx
import pytest

import converter
from tests.engines import check_node
from tests.suite.reshape import check_reshaped

from .probes.computation import attention
from .probes.rows import numbers, several


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dimensions", [(1, 2, 2, 2, 8), (3, 4, 4, 9, 16), (1, 8, 8, 8, 32), (2, 4, 5, 4, 8)])
@pytest.mark.parametrize("shapes", [True, False])
def test_as_many_queries_as_heads(fused: bool, dimensions: tuple[int, ...], shapes: bool) -> None:
    model, feeds = attention(fused, dimensions, shapes)
    check_node(model, feeds)


@pytest.mark.parametrize("fused", [False, True])
def test_after_a_reshape(fused: bool) -> None:
    model, feeds = attention(fused, (2, 4, 7, 5, 16))
    check_reshaped(model, feeds, attention(fused, (2, 4, 4, 5, 16))[1], attention(fused, (1, 5, 5, 5, 16))[1])


@pytest.mark.parametrize("fused", [False, True])
def test_attention_of_transposed_queries_stays_fused(fused: bool) -> None:
    model, feeds = attention(fused, transposed=True)
    check_node(model, feeds)
    assert all(node.op.type != "Maximum" for node in converter.convert_model(model).nodes())


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("values", [(), (2,), (1, 2)], ids=str)
@pytest.mark.parametrize("weights", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("is_open", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("scores", ["s = Identity (q)", "s = MatMul (q, k)"])
def test_weights_and_values_of_other_ranks(
    rows: int, values: tuple[int, ...], weights: tuple[int, ...], is_open: bool, scores: str
) -> None:
    """A vector of weights gives no dimension to the product."""
    feeds = {"q": numbers(*weights, rows) / 9, "v": numbers(*values, rows, 4)}
    if "k" in scores:
        feeds["k"] = numbers(rows, rows) / 30
    nodes = onnx.parser.parse_graph(f"g (q) => (y) {{ {scores} w = Softmax (s) y = MatMul (w, v) }}").node
    check_node(*several(nodes, feeds, {}, {name: [None] * v.ndim if is_open else v.shape for name, v in feeds.items()}))
