"""Random chains of operators in both engines, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engines import ENGINES, converted, run, run_onnxruntime
from tests.fuzz.random_graphs import Sample, random_chain
from tests.named_runs import run_by_name


@pytest.mark.parametrize("block", range(20))
def test_chains_give_the_numbers_of_onnxruntime(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        model, x = random_chain(seed)
        (wanted,) = run_onnxruntime(model, {"x": x})
        ir = converted(model)
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        for engine in ENGINES:
            (found,) = run(engine, ir, {"x": x})
            what = f"{engine}, seed {seed}: {' > '.join(node.op_type for node in model.graph.node)} of {x.shape}"
            assert found.shape == wanted.shape, what
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * scale, err_msg=what)


@pytest.mark.parametrize("block", range(20))
def test_graphs_of_several_outputs_give_the_numbers_of_onnxruntime_by_name(block: int) -> None:
    compared = 0
    for seed in range(block * 20, block * 20 + 20):
        sample = Sample.of(seed)
        if sample is not None:
            compared += 1
            for engine, found in run_by_name(converted(sample.model), {"x": sample.x}).items():
                sample.check(found, engine)
    assert compared > 10
