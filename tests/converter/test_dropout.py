"""Dropout through both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import ENGINES, check_node, converted, node_model, run

FLOATS = np.array([[-2.5, -1.0, -0.0], [0.25, 1.0, 3.75]], np.float32)
MANY = np.random.default_rng(5).random((100, 200)).astype(np.float32) + 1


@pytest.mark.parametrize(
    ("opset", "attributes"),
    [
        (1, {"is_test": 1, "consumed_inputs": [0]}),
        (6, {"is_test": 1, "ratio": 0.3}),
        (6, {"ratio": 0.0}),
        (7, {"ratio": 0.3}),
        (10, {}),
        (12, {"seed": 1}),
        (13, {}),
        (22, {}),
    ],
)
def test_dropout_passes_everything(opset: int, attributes: dict[str, Any]) -> None:
    mask_type = np.float32 if opset < 10 else np.bool_
    for shapes in (None, {"x": ["n", None]}):
        model = node_model("Dropout", {"x": FLOATS}, opset=opset, attributes=attributes, outputs=2, shapes=shapes)
        check_node(model, {"x": FLOATS}, [FLOATS, np.ones_like(FLOATS, mask_type)])
    check_node(node_model("Dropout", {"x": FLOATS}, opset=opset, attributes=attributes), {"x": FLOATS}, [FLOATS])


def test_dropout_without_training_or_with_ratio_0() -> None:
    constants = {"ratio": np.array(0.5, np.float32), "training": np.array(False)}
    check_node(node_model("Dropout", {"x": FLOATS}, opset=13, constants=constants), {"x": FLOATS})
    constants = {"ratio": np.array(0, np.float32), "training": np.array(True)}
    check_node(node_model("Dropout", {"x": FLOATS}, opset=13, constants=constants, outputs=2), {"x": FLOATS})


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("where", ["constant", "input"])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
def test_training_drops_at_random_and_scales_the_rest(training: bool, where: str, kind: Any) -> None:
    more = {"ratio": np.array(0.3, np.float32), "training": np.array(training)}
    inputs = {"x": MANY.astype(kind)} | (more if where == "input" else {})
    constants = more if where == "constant" else {}
    model = node_model("Dropout", inputs, opset=13, constants=constants, outputs=2, attributes={"seed": 7})
    ir = converted(model)
    for engine in ENGINES:
        values, mask = run(engine, ir, inputs)
        assert values.dtype == kind
        assert mask.dtype == np.bool_
        if not training:
            assert mask.all()
            np.testing.assert_array_equal(values, MANY.astype(kind))
            continue
        # 20,000 numbers: five standard deviations are 0.016.
        assert abs(mask.mean() - 0.7) < 0.016
        assert not values[~mask].any()
        np.testing.assert_allclose(values[mask], (MANY / 0.7)[mask], rtol=2e-3)


def test_a_ratio_of_0_at_execution_drops_nothing() -> None:
    feeds = {"x": FLOATS, "ratio": np.array(0, np.float32), "training": np.array(True)}
    check_node(node_model("Dropout", feeds, opset=13, outputs=2), feeds, [FLOATS, np.ones(FLOATS.shape, np.bool_)])


def test_a_ratio_of_1_and_training_in_opset_6_are_refused() -> None:
    constants = {"ratio": np.array(1.0, np.float32), "training": np.array(True)}
    with pytest.raises(converter.ConversionError, match=r"'node' \(Dropout.*from 0 to below 1, but is 1"):
        converter.convert_model(node_model("Dropout", {"x": FLOATS}, opset=13, constants=constants))
    with pytest.raises(converter.ConversionError, match="asks for training"):
        converter.convert_model(node_model("Dropout", {"x": FLOATS}, opset=6))
