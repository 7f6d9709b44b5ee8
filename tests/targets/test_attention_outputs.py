"""Attention whose output is transposed, with as many queries as heads, from the start and after a reshape."""

from __future__ import annotations

import pytest

import converter
from tests.engines import check_node
from tests.suite.reshape import check_reshaped

from .probes.computation import attention


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
