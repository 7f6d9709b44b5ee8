"""Random graphs there and back: what is exported computes the numbers of the first model, output by output."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import converter
from tests.converter.to_onnx.graphs import second_pass
from tests.fuzz.random_graphs import Sample, random_graph

TARGETS = ("any", "cpu", "cpu@2023.3")


@pytest.mark.parametrize("block", range(20))
def test_exported_graphs_give_the_numbers_of_the_first_model(block: int) -> None:
    compared = 0
    for seed in range(block * 15, block * 15 + 15):
        sample = Sample.of(seed)
        if sample is None:
            continue
        compared += 1
        exported = converter.export_model(converter.convert_model(sample.model, target=TARGETS[seed % 3]))
        onnx.checker.check_model(exported, full_check=True)
        session = onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
        found = session.run(None, {"x": sample.x})
        sample.check(dict(zip([one.name for one in session.get_outputs()], found)), TARGETS[seed % 3])
    assert compared > 5


@pytest.mark.parametrize("block", range(10))
def test_the_second_round_changes_nothing(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        model, x = random_graph(seed)
        if x.dtype == np.float64:
            continue
        ir = converter.convert_model(model, target="any")
        found = second_pass(converter.export_model(ir))
        what = f"seed {seed}: {' > '.join(node.op_type for node in model.graph.node)}"
        assert found.same, f"{what}: {found.only_first} {found.only_second} {found.changed}"
