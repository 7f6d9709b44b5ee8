"""Attention whose output is turned, with as many queries as heads, from the start and after a reshape."""

from __future__ import annotations

import pytest

import converter
from tests.engines import check_node
from tests.suite.reshape import check_reshaped

from .probes_layers import attention


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("extents", [(1, 2, 2, 2, 8), (3, 4, 4, 9, 16), (1, 8, 8, 8, 32), (2, 4, 5, 4, 8)])
@pytest.mark.parametrize("shapes", [True, False])
def test_as_many_queries_as_heads(fused: bool, extents: tuple[int, ...], shapes: bool) -> None:
    model, feeds = attention(fused, extents, shapes)
    check_node(model, feeds)


@pytest.mark.parametrize("fused", [False, True])
def test_after_a_reshape(fused: bool) -> None:
    model, feeds = attention(fused, (2, 4, 7, 5, 16))
    check_reshaped(model, feeds, attention(fused, (2, 4, 4, 5, 16))[1], attention(fused, (1, 5, 5, 5, 16))[1])


@pytest.mark.parametrize("fused", [False, True])
def test_queries_that_are_turned_on_their_way_in_stay_one_step(fused: bool) -> None:
    model, feeds = attention(fused, turned=True)
    check_node(model, feeds)
    assert all(node.op.type != "Maximum" for node in converter.convert_model(model).nodes())
