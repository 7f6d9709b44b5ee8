"""Transposes whose orders do not fit, or are not constant."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.passes.registry import passes
from ir_runtime.graph.element_types import i64
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.inputs_outputs import Parameter1
from ir_runtime.operations.movement import Transpose1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.trace import Trace
from tests.engines import ENGINES, run
from tests.ir_runtime.test_rewrite import model_of, parameter
from tests.rows.onnx.transposes_in_a_row import LEFT, REVERSE, SAME, SWAP, X, chain


def test_orders_of_no_dimensions() -> None:
    """Nothing tells before the call that they do not fit."""
    text = f"g (float[] x) => (y) {{ {chain(REVERSE, [1, 5, 0])} }}"
    model = converter.convert_model(
        onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}'), target="any"
    )
    orders = [node.inputs[1].type.constant for node in model.nodes() if isinstance(node.op, Transpose1)]
    assert [order.tolist() for order in orders] == [[], [1, 5, 0]]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", ["2,3,4", "?,3,?"])
@pytest.mark.parametrize(
    ("first", "second", "count", "left"), [(LEFT, None, 0, "t1"), (None, LEFT, 0, "t0"), (None, SAME, 1, "t0")], ids=str
)
def test_orders_that_are_not_constant(
    first: list[int] | None, second: list[int] | None, count: int, left: str, shape: str, engine: str
) -> None:
    """ONNX has no such orders, other files of the IR do."""
    x = parameter("x", shape)
    given = make_node(Parameter1(shape=PartialShape.parse("3"), element_type=i64), (), "order")
    given.outputs[0].add_name("order")
    value = x.outputs[0]
    for number, order in enumerate((first, second)):
        axes = given.outputs[0] if order is None else Builder().constant(order)
        (value,) = make_node(Transpose1(), [value, axes], f"t{number}").outputs
    value.add_name("y")
    model, trace = model_of([x, given], value), Trace()
    assert sum(passes.run(model, trace=trace).values()) == count
    assert left in trace.of("transposes_in_a_row").reasons[f"input 1 of layer '{left}' is not constant"]
    (found,) = run(engine, ir_runtime.model_to_bytes(model), {"x": X, "order": np.array(SWAP)}, ["y"])
    np.testing.assert_array_equal(found, X.transpose(first or SWAP).transpose(second or SWAP))
