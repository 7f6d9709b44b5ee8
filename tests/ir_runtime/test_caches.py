"""Which layers may stand between a variable and the attention that reads it as a cache."""

from __future__ import annotations

import pytest

from ir_runtime.graph.model import Output
from ir_runtime.rewriting.caches import variable_behind
from tests.to_onnx.graphs import constant, layer, op, parameter


def variable() -> Output:
    read = op("ReadValue", 6, variable_id="past", variable_type="f32", variable_shape=[2, 3, None, 4])
    return layer(read, parameter("start", 2, 3, 5, 4), name="past")


def moved(value: Output, name: str) -> Output:
    """The variable behind one more layer."""
    if name == "Gather":
        return layer(op("Gather", 8), value, constant([1, 0], "i64"), constant(0, "i64"), name="beams")
    if name == "Concat":
        return layer(op("Concat", 1, axis=2), value, parameter("new", 2, 3, 1, 4), name="longer")
    if name == "Slice":
        places = [constant([number], "i64") for number in (1, 5, 1, 2)]
        return layer(op("Slice", 8), value, *places, name="window")
    return layer(op("VariadicSplit", 1), value, constant(2, "i64"), constant([4, -1], "i64"), name="parts")


@pytest.mark.parametrize(
    ("names", "is_whole"),
    [
        (("Gather",), True),
        (("Gather", "Concat"), True),
        (("Slice",), False),
        (("Slice", "Concat"), False),
        (("VariadicSplit",), False),
    ],
)
def test_a_part_of_a_variable_is_no_cache(names: tuple[str, ...], is_whole: bool) -> None:
    past = value = variable()
    for name in names:
        value = moved(value, name)
    assert variable_behind(value) is (past.node if is_whole else None)
