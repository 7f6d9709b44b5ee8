"""Scales behind layers with weights become part of them, and verify still looks at every weight and every channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import converter
from converter.equivalence.scaled_weights import scaled_weights
from ir_runtime.graph.model import Model
from tests.converter.equivalence.edits import constant
from tests.converter.equivalence.models import scaled_network
from tests.rows.formula import Idiom
from tests.rows.idioms.convolutions import IMAGE, convolution, scaled_first

WEIGHTS = ("k", "d", "g")


def layers(model: Model) -> list[str]:
    return [node.op.type for node in model.nodes() if node.op.type not in ("Const", "Parameter", "Result")]


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"fuse": False}], ids=str)
@pytest.mark.parametrize("target", ["cpu", "any"])
def test_every_weight_is_accounted_for(options: dict[str, Any], target: str) -> None:
    model = converter.convert_model(scaled_network(), target=target, **options)
    report = converter.verify(scaled_network(), model)
    assert report.passed
    assert {check.state for check in report.weights if check.name in WEIGHTS} == {"identical" if options else "scaled"}
    assert ("Multiply" in layers(model)) == bool(options)
    # The CPU plug-in's rule leaves the layer where every constant must stay.
    is_kept = "exact" in options or (bool(options) and target == "any")
    assert layers(model).count("BatchNormInference") == is_kept


def test_scaled_weights_are_computed_when_they_are_written(tmp_path: Path) -> None:
    model = converter.convert_model(scaled_network())
    data = constant(model, (128, 16)).op.data
    assert data is not None
    assert data._array is None
    assert data._packed is None
    converter.save_model(model, tmp_path / "m.xml")
    assert converter.verify(scaled_network(), tmp_path / "m.xml").passed


def test_a_factor_in_front_of_a_convolution() -> None:
    """Exact conversions keep it; a scale of preprocessing becomes part of the weights in a second conversion."""
    row = Idiom(scaled_first, inputs=IMAGE, count=3)
    assert len(layers(converter.convert_model(row.model(3), exact=True))) == row.count
    proto = Idiom(convolution, inputs=IMAGE, count=1).model(3)
    first = converter.convert_model(proto, preprocess={"x": converter.Preprocess(scale=255.0)})
    assert len(layers(first)) == 2
    again = converter.convert_model(first)
    assert layers(again) == ["Convolution"]
    for ir in (first, again):
        assert converter.verify(proto.SerializeToString(), ir).passed


# --- scaled weights ---

RNG = np.random.default_rng(7)
# name -> weights [channels, inputs]
KINDS_OF_WEIGHTS = {
    "ordinary": RNG.normal(size=(6, 64)),
    "one value that float16 has": np.where(np.arange(64) == 33, -2.7225886e-07, 1e-9) * np.ones((6, 1)),
    "small numbers of float16": RNG.normal(size=(6, 64)) * 3e-7,
    "both": np.concatenate([RNG.normal(size=(3, 64)), RNG.normal(size=(3, 64)) * 1e-7]),
}
FACTORS = np.array([0.9378595, 1.03, 0.97, 0.9999, 1.5, 0.25])[:, None]
FIRST_TWO = np.array([0.5, 0.5, 1, 1, 1, 1])[:, None]


def wrong_in(weights: np.ndarray, held: np.ndarray) -> list[list[int]]:
    result = scaled_weights(weights, held, (0,))
    assert result is not None
    return np.argwhere(result.wrong).tolist()


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("name", KINDS_OF_WEIGHTS)
def test_a_wrong_value_is_found_in_any_channel(name: str, kind: type) -> None:
    """Weights that were rounded twice are right."""
    weights = KINDS_OF_WEIGHTS[name].astype(np.float32)
    held = (weights * FACTORS).astype(np.float32).astype(kind)
    assert wrong_in(weights, held) == []
    for channel in range(6) if name == "ordinary" else ():
        spoilt = held.copy()
        spoilt[channel, 5] = np.nextafter(np.nextafter(held[channel, 5], kind(9)), kind(9))
        assert wrong_in(weights, spoilt) == [[channel, 5]]
    if name == "ordinary" and kind is np.float32:
        spoilt = (weights * FIRST_TWO).astype(np.float32)  # beside channels that are not scaled
        spoilt[4, 9] *= np.float32(1 + 2**-20)
        assert wrong_in(weights, spoilt) == [[4, 9]]
