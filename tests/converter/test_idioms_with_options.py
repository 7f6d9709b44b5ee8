"""Each idiom in each way of converting it and of changing its IR: a product of two lists.

A new idiom meets all ways, a new way all idioms. What an idiom becomes is in ``test_idioms.py``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.conversion import compressed
from converter.derivation import without_record
from tests.converter.idioms.graphs import Graph
from tests.converter.test_idioms import IDIOMS, layers
from tests.engines import run_numpy, run_onnxruntime

Feeds = Mapping[str, np.ndarray[Any, Any]]
Way = Callable[[onnx.ModelProto, Feeds], ir_runtime.Model | onnx.ModelProto]


def converted(**options: Any) -> Way:
    return lambda model, feeds: converter.convert_model(model, **options)


def reshaped(model: onnx.ModelProto, feeds: Feeds) -> ir_runtime.Model:
    """Convert with the declared dimensions, and back from others."""
    made = converter.convert_model(model)
    made.reshape({name: [None] * array.ndim for name, array in feeds.items()})
    made.reshape({name: list(array.shape) for name, array in feeds.items()})
    return made


WAYS: dict[str, Way] = {
    "without a target": converted(target="any"),
    "oldest release": converted(target="cpu@2023.3"),
    "static": converted(static=True),
    "exact": converted(exact=True),
    "reshaped": reshaped,
    "exported": lambda model, feeds: converter.export_model(converter.convert_model(model)),
    "there and back": lambda model, feeds: converter.convert_model(
        converter.export_model(converter.convert_model(model))
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom_computes_the_same(name: str, way: str) -> None:
    row, graph = IDIOMS[name], Graph()
    model = graph.model(row, True, row.build(graph, random.Random(3)))
    feeds = row.values(np.float32)
    made = WAYS[way](model, feeds)
    if way == "reshaped":
        assert isinstance(made, ir_runtime.Model)
        assert layers(made) == list(row.becomes)
    if isinstance(made, onnx.ModelProto):
        results = run_onnxruntime(made, feeds)
    else:
        results = run_numpy(ir_runtime.model_to_bytes(made), feeds)
    for value, want in zip(results, run_onnxruntime(model, feeds), strict=True):
        assert value.dtype == want.dtype
        np.testing.assert_allclose(value, want, rtol=row.tolerance, atol=row.tolerance)


@pytest.mark.parametrize(("compress", "half"), [(None, True), ("int8", False), ("int4", True)])
@pytest.mark.parametrize("name", IDIOMS)
def test_compressed_weights_of_an_idiom_are_accounted_for(name: str, compress: str | None, half: bool) -> None:
    row, graph = IDIOMS[name], Graph()
    model = graph.model(row, False, row.build(graph, random.Random(3)))
    way = None if compress is None else converter.WeightCompression.named(compress)
    made = without_record(compressed(converter.convert_model(model), way, half).model)
    report = converter.verify(model.SerializeToString(), made)
    assert report.verdict == "equal", report.to_text()
