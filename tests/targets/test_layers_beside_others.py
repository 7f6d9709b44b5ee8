"""HardSigmoid stays one layer where the plug-in fuses it, and attention where its output is not transposed in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import converter
import ir_runtime
from tests.engines import run, run_onnxruntime
from tests.rows.targets.layers_beside_others import GATES, OPEN, gated
from tests.suite.reshape import check_reshaped

from .probes.computation import attention
from .probes.rows import numbers


@pytest.mark.parametrize("shape", [[2, 8, 5, 5], OPEN], ids=str)
@pytest.mark.parametrize(("layers", "stays"), GATES)
def test_nan_does_not_come_through_relu(layers: tuple[str, ...], stays: bool, shape: list[Any]) -> None:
    (row,) = gated(*layers, x=numbers(2, 8, 5, 5), shape=shape)
    assert ("Select" not in [node.op.type for node in converter.convert_model(row.model).nodes()]) == stays


@pytest.mark.parametrize("shape", [[2, 8, 5, 5], OPEN], ids=str)
@pytest.mark.parametrize("activation", ["Relu", "Clip"])
def test_the_plugin_makes_0_of_nan(activation: str, shape: list[Any]) -> None:
    """The reason for leaving HardSigmoid alone there. Once the plug-in is right, the rule has to look again."""
    x = numbers(2, 8, 5, 5)
    x[0, 3, 2, 2] = np.nan
    (row,) = gated(activation, "Conv", x=x, shape=shape)
    row.model.graph.output.append(helper.make_empty_tensor_value_info("s"))
    assert np.isnan(run_onnxruntime(row.model, row.feeds)[1][0]).all()
    for target, engine, right in (("cpu", "numpy", True), ("cpu", "openvino", False), ("any", "openvino", False)):
        ir = ir_runtime.model_to_bytes(converter.convert_model(row.model, target=target))
        assert bool(np.isnan(run(engine, ir, row.feeds)[1][0]).all()) == right


@pytest.mark.parametrize("is_fused", [False, True])
def test_attention_after_a_reshape(is_fused: bool) -> None:
    """As many queries as heads alone are transposed in place."""
    (row,), *others = (attention(is_fused, dims) for dims in ((2, 4, 7, 5, 16), (2, 4, 4, 5, 16), (1, 5, 5, 5, 16)))
    check_reshaped(row.model, row.feeds, *(next(other).feeds for other in others))
    (transposed,) = attention(is_fused, transposed=True)
    assert all(node.op.type != "Maximum" for node in converter.convert_model(transposed.model).nodes())
