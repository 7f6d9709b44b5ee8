"""Numbers that become part of weights, and norms, together with what is done to an IR behind it."""

from __future__ import annotations

import random

import onnx
import pytest

import converter
from converter.derivation import without_record
from ir_runtime import Model
from tests.converter.idioms.convolutions import IMAGE, convolution, scaled_first
from tests.converter.idioms.graphs import Graph, Idiom
from tests.converter.idioms.normalizations import l2_normalization


def model(kind: str) -> onnx.ModelProto:
    """A convolution of data times a number, or data by their norm."""
    graph, chance = Graph(), random.Random(3)
    is_norm = kind == "norm"
    last = l2_normalization(graph, chance) if is_norm else scaled_first(graph, chance)
    row = Idiom(build=scaled_first, inputs={"x": (2, 3, 8)} if is_norm else IMAGE, becomes=[])
    return graph.model(row, True, last)


def types(made: Model) -> list[str]:
    return [node.op.type for node in made.nodes() if node.op.type not in ("Const", "Parameter", "Result")]


@pytest.mark.parametrize("kind", ["factor", "norm"])
@pytest.mark.parametrize("target", ["cpu", "any", "cpu@2023.3"])
def test_targets_and_the_way_back(kind: str, target: str) -> None:
    """The exported model becomes the same layers again."""
    proto = model(kind)
    made = converter.convert_model(proto, target=target)
    exported = converter.export_model(made)
    again = converter.convert_model(exported, target=target)
    assert types(again) == types(made)
    assert converter.verify(proto.SerializeToString(), without_record(again), weights=False).passed


def test_exact_keeps_the_factor() -> None:
    assert len(types(converter.convert_model(model("factor"), exact=True))) == 3


def test_a_scale_of_preprocessing_becomes_part_of_weights_in_a_second_conversion() -> None:
    graph, chance = Graph(), random.Random(0)
    proto = graph.model(Idiom(build=scaled_first, inputs=IMAGE, becomes=[]), True, convolution(graph, chance))
    first = converter.convert_model(proto, preprocess={"x": converter.Preprocess(scale=255.0)})
    assert len(types(first)) == 2
    again = converter.convert_model(first)
    assert types(again) == ["Convolution"]
    for made in (first, again):
        assert converter.verify(proto.SerializeToString(), made).passed
