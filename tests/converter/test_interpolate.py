"""Resize of static dimensions."""

from __future__ import annotations

import pytest

import converter
import ir_runtime
from tests.engines import run_openvino
from tests.rows.row import Row
from tests.rows.table import table
from tests.runtimes.work import Work

BEYOND = [row for row in table() if row.name.startswith("onnx/interpolate/Resize-") and "-beyond" in row.name]


@pytest.mark.parametrize("row", BEYOND, ids=lambda row: row.name)
def test_static_dimensions_are_resized_one_at_a_time(row: Row) -> None:
    made = converter.convert_model(row.model, static=True)
    assert "ShapeOf" not in [layer.op.type for layer in made.nodes()]
    Work(row).compare({"y0": run_openvino(ir_runtime.model_to_bytes(made), row.feeds)[0]})
