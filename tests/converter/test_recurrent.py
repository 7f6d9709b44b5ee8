"""Layers of RNN, GRU and LSTM."""

from __future__ import annotations

import pytest

import converter
import ir_runtime
from tests.engines import run_openvino
from tests.rows.onnx.recurrent import DIRECTIONS, GATES, network
from tests.runtimes.work import Work


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_last_states_of_empty_sequences_in_a_static_model(op_type: str, direction: str) -> None:
    row = next(network(op_type, direction=direction, lengths=[0, 2, 5]))
    converted = converter.convert_model(row.model, static=True)
    assert any(node.op.type == f"{op_type}Sequence" for node in converted.nodes())
    work = Work(row)
    work.compare(dict(zip(work.names, run_openvino(ir_runtime.model_to_bytes(converted), row.feeds))))
