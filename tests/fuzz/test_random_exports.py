"""Random graphs there and back: what is exported computes the numbers of the first model, output by output."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotInOnnxruntime

import converter
from ir_runtime.graph.model_difference import compare_models
from tests.engines import run_onnxruntime
from tests.fuzz.random_graphs import random_graph

TARGETS = ("any", "cpu", "cpu@2023.3")


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("block", range(20))
def test_exported_graphs_give_the_numbers_of_the_first_model(block: int) -> None:
    compared = 0
    for seed in range(block * 15, block * 15 + 15):
        model, x = random_graph(seed)
        names = [value.name for value in model.graph.output]
        try:
            wanted = dict(zip(names, run_onnxruntime(model, {"x": x}), strict=True))
        except NotInOnnxruntime:  # some operators on float64
            continue
        compared += 1
        ir = converter.convert_model(model, target=TARGETS[seed % 3])
        what = f"seed {seed}: {' > '.join(node.op_type for node in model.graph.node)} of {x.shape}"
        exported = converter.export_model(ir)
        onnx.checker.check_model(exported, full_check=True)
        session = onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
        found = dict(zip([one.name for one in session.get_outputs()], session.run(None, {"x": x})))
        assert list(found) == names, what
        for name, value in found.items():
            expected = wanted[name]
            assert (value.dtype, value.shape) == (expected.dtype, expected.shape), what
            scale = max(1.0, float(np.abs(expected).max(initial=0)))
            np.testing.assert_allclose(value, expected, rtol=1e-3, atol=1e-4 * scale, err_msg=f"{what}: {name}")
    assert compared > 5


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("block", range(10))
def test_the_second_round_changes_nothing(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        model, x = random_graph(seed)
        if x.dtype == np.float64:
            continue
        ir = converter.convert_model(model, target="any")
        first = converter.convert_model(converter.export_model(ir), target="any")
        second = converter.convert_model(converter.export_model(first), target="any")
        found = compare_models(first, second)
        what = f"seed {seed}: {' > '.join(node.op_type for node in model.graph.node)}"
        assert found.same, f"{what}: {found.only_first} {found.only_second} {found.changed}"
