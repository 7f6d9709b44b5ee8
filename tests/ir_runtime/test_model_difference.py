"""How layers of two models are paired."""

from __future__ import annotations

from ir_runtime.graph.model import Model
from ir_runtime.graph.model_difference import compare_models
from tests.to_onnx.graphs import constant, layer, model, op, parameter


def two_concats(first: str, second: str, axis: int = 1) -> Model:
    """[x, x] along an axis, and [|y|, y]."""
    x, y = parameter("x", 2, 3), parameter("y", 4, 5)
    twice = layer(op("Concat", axis=axis), x, x, name=first)
    both = layer(op("Concat", axis=1), layer(op("Abs"), y, name="abs"), y, name=second)
    return model([x, y], {"a": twice, "b": both})


def test_names_that_moved_to_layers_of_other_types_are_no_difference() -> None:
    found = compare_models(two_concats("Concat_1", "Concat_2"), two_concats("Concat_2", "Concat_1"))
    assert found.same


def test_a_layer_whose_type_changed_is_paired_by_its_name() -> None:
    found = compare_models(two_concats("first", "second"), two_concats("first", "second", axis=0))
    assert not found.only_first
    assert not found.only_second
    assert {change.layer for change in found.changed} >= {"first"}
    assert "second" not in {change.layer for change in found.changed}


def test_a_constant_of_another_shape_is_paired_by_its_name() -> None:
    def shifted(*values: float) -> Model:
        x = parameter("x", 2, 3)
        return model([x], {"y": layer(op("Add"), x, constant(values, name="offset"), name="sum")})

    (change,) = compare_models(shifted(1.0, 2.0, 3.0), shifted(1.0)).changed
    assert (change.layer, change.what) == ("offset", ("it holds f32[3] where the other model has f32[1]",))
