"""Which operations have an exporter; ``tests/runtimes/layers.py`` exports each layer of ``tests/rows/layers``."""

from __future__ import annotations

import onnx
import pytest

from converter import UnsupportedModelError, export_model
from converter.to_onnx.registry import REFUSALS, all_exporters, find_exporter
from ir_runtime.graph.model import Model
from ir_runtime.graph.operation import all_operations
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.inputs_outputs import Const1, Result1
from tests.converter.to_onnx.graphs import compare_outputs, model_of, run_exported
from tests.rows.layer import Layer
from tests.rows.table import layer_table


def _written() -> list[Layer]:
    return [call for call in layer_table() if call.op.opset and not isinstance(find_exporter(type(call.op)), str)]


def _exported(model: Model) -> onnx.ModelProto | str:
    try:
        return export_model(model)
    except UnsupportedModelError as error:
        return str(error)


def test_every_operation_is_written_or_refused_with_a_reason() -> None:
    refused = REFUSALS.entries()
    missing = {
        operation.type
        for operation in all_operations()
        if operation.role not in ("parameter", "result")
        and isinstance(find_exporter(operation), str)
        and operation not in refused
    }
    assert not missing, (
        "write an exporter (@ir_op) or a decomposition (@decomposes) of these operations, or refuse them (REFUSALS.add)"
    )


NEED_RANK = {"ErfInv-17": "it is decomposed, which takes the number of dimensions"}
"""Elementwise operations that are not written where the rank is unknown, and why."""


def test_elementwise_layers_of_unknown_rank() -> None:
    """An exporter by decomposition refuses them, where one of its own may do without the rank."""
    calls = {
        f"{call.op.type}-{call.op.opset}": call for call in _written() if call.op.elementwise and not _by_rank(call)
    }
    refused = set()
    for name, call in calls.items():
        model, _ = model_of(call, dynamic=True)
        model.reshape({node.end_names[0]: PartialShape(None) for node in model.parameters})
        if isinstance(_exported(model), str):
            refused.add(name)
    assert not refused - NEED_RANK.keys(), (
        "write exporters (@ir_op) that need no rank, or name these operations in NEED_RANK with the reason"
    )
    assert not NEED_RANK.keys() - refused, "these are written: take them off NEED_RANK"


def _by_rank(call: Layer) -> bool:
    """True if the call aligns dimensions from the first one on, which takes their number."""
    return getattr(call.op, "auto_broadcast", "numpy") == "pdpd"


@pytest.mark.parametrize(
    "call", [call for call in layer_table() if call.op.type.startswith("PriorBox")], ids=lambda c: c.label
)
def test_priors_of_known_sizes_are_constants(call: Layer) -> None:
    sizes = [make_node(Const1(value=Tensor.from_array(array)), (), "size").outputs[0] for array in call.arrays]
    result = make_node(Result1(), make_node(call.op, sizes, "priors").outputs, "result")
    result.output_names = ["y0"]
    exported = export_model(Model("m", [], [result]))
    assert [node.op_type for node in exported.graph.node] == ["Identity"]
    compare_outputs(call, run_exported(exported, {}))


def test_exporters_say_what_they_write() -> None:
    assert all(one.function.__doc__ for one in all_exporters())
