"""The plain layers that rules say differently: what they are, and their numbers in this package's executor."""

from __future__ import annotations

import pytest

import converter
import ir_runtime
from tests.engines import assert_close, run_numpy, run_onnxruntime
from tests.targets.probes_layers import WRONG, Row


@pytest.mark.parametrize("row", WRONG, ids=str)
def test_the_plain_layers_say_the_operator(row: Row) -> None:
    model, feeds = row.build()
    made = converter.convert_model(model, target="any")
    apart = ("Const", "Parameter", "Result")
    layers = [node.op.type for part in made.all_models() for node in part.nodes() if node.op.type not in apart]
    assert " ".join(layers) == row.layers
    actual = run_numpy(ir_runtime.model_to_bytes(made), feeds)
    for value, want in zip(actual, run_onnxruntime(model, feeds), strict=True):
        assert_close(value, want)
