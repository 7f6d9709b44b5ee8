"""The IR's ConvertPromoteTypes against OpenVINO."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset16 as ops

import ir_runtime
from ir_runtime.graph import element_types
from ir_runtime.graph.operation import TensorType
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.type_promotion import ConvertPromoteTypes14
from tests.ir_runtime.peers import check_peers

KINDS = [kind for kind in element_types.ALL if kind.name not in ("dynamic", "string")]


def type_of_openvino(attributes: dict[str, Any], a: TensorType, b: TensorType) -> str | None:
    nodes = [
        ops.parameter(openvino.PartialShape(str(x.shape)), getattr(openvino.Type, x.element_type.name)) for x in (a, b)
    ]
    try:
        node = ops.convert_promote_types(*nodes, **attributes)
    except RuntimeError:
        return None
    assert node.output(0).get_element_type() == node.output(1).get_element_type()
    return node.output(0).get_element_type().get_type_name()


def type_of_ours(attributes: dict[str, Any], a: TensorType, b: TensorType) -> str | None:
    try:
        types = ConvertPromoteTypes14(**attributes).infer([a, b])
    except ir_runtime.ModelError:
        return None
    assert [t.shape for t in types] == [a.shape, b.shape]
    assert types[0].element_type is types[1].element_type
    return str(types[0].element_type)


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("scalars", [False, True])
@pytest.mark.parametrize("target", ["f32", "i64"])
@pytest.mark.parametrize("shapes", [("2", "2"), ("2", ""), ("", "?"), ("...", "")])
def test_types_of_every_pair(unsafe: bool, scalars: bool, target: str, shapes: tuple[str, str]) -> None:
    attributes = {
        "promote_unsafe": unsafe,
        "pytorch_scalar_promotion": scalars,
        "u64_integer_promotion_target": target,
    }
    for pair in itertools.product(KINDS, repeat=2):
        a, b = (TensorType(kind, PartialShape.parse(shape)) for kind, shape in zip(pair, shapes))
        assert type_of_ours(attributes, a, b) == type_of_openvino(attributes, a, b), (pair, attributes)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.array([1.5, -2], np.float32), np.array([[3], [-4]], np.int8)),
        (np.array([200, 255], np.uint8), np.array([-100, 100], np.int8)),
        (np.array([True, False]), np.array([7, 8], np.int32)),
        (np.array([1.5], np.float16), np.array(2.25, np.float32)),
    ],
)
@pytest.mark.parametrize("scalars", [False, True])
def test_values(a: np.ndarray, b: np.ndarray, scalars: bool) -> None:
    nodes = [ops.parameter(list(x.shape), x.dtype) for x in (a, b)]
    node = ops.convert_promote_types(*nodes, True, scalars)
    check_peers(list(node.outputs()), nodes, [a, b])
