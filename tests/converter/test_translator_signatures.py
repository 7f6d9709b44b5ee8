"""What the signature of a translator says about its inputs and attributes, with and without a schema."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import helper

import converter
from converter.from_onnx.translation.registry import Translator, onnx_op
from ir_runtime.rewriting.expressions import Expression


def _scaled(alpha: Any) -> onnx.ModelProto:
    node = helper.make_node("Scaled", ["x"], ["y"], "scaled", domain="test.signatures", alpha=alpha)
    values = [helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("test.signatures", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.fixture
def translator() -> None:
    @onnx_op("Scaled", versions=(1,), domain="test.signatures", replace=True)
    def scaled(ctx: converter.Context, x: Expression, *, alpha: float = 1.0) -> Expression:
        """A multiple."""
        return x * alpha


@pytest.mark.parametrize("alpha", ["half", [0.5, 1.0]], ids=str)
def test_an_attribute_of_another_type_is_the_models_fault(alpha: Any, translator: None) -> None:
    with pytest.raises(converter.InvalidModelError, match=r"node 'scaled'.*the attribute alpha must be of type float"):
        converter.convert_model(_scaled(alpha))


@pytest.mark.parametrize("alpha", [2, 0.5])
def test_whole_numbers_stand_for_floats(alpha: float, translator: None) -> None:
    assert "Multiply" in {node.op.type for node in converter.convert_model(_scaled(alpha)).nodes()}


@pytest.mark.parametrize("annotation", [Expression, "Expression", Expression | None, "Expression | None"], ids=str)
def test_expressions_are_known_by_class_and_by_name(annotation: Any) -> None:
    def translate(ctx: Any, x: Any) -> Any:
        return x

    translate.__annotations__["x"] = annotation
    assert Translator("Scaled", "test.signatures", (1,), translate).takes_expressions
