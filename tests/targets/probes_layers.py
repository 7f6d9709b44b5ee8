"""Single operators whose plain layers OpenVINO's CPU plug-in gets wrong, refuses, or does not survive.

Each row is a rule's reason: :mod:`.test_probes` runs the plain layers in the real plug-in, and
:mod:`.test_plain_layers` holds which layers they are, and that they are right in this package's executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.engines import node_model

Probe = tuple[onnx.ModelProto, Mapping[str, np.ndarray[Any, Any]]]


@dataclass(frozen=True)
class Row:
    """A rule with what it is there for: a model, its inputs, and the plain layers it becomes."""

    name: str
    build: Callable[[], Probe]
    layers: str

    def __str__(self) -> str:
        return self.name


def single(
    op_type: str,
    opset: int,
    inputs: Mapping[str, Any],
    constants: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[Any] | None] | None = None,
    *,
    outputs: int = 1,
    order: Sequence[str] | None = None,
    domain: str = "",
    **attributes: Any,
) -> Callable[[], Probe]:
    """A model of one operator."""

    def build() -> Probe:
        model = node_model(
            op_type,
            inputs,
            opset=opset,
            outputs=outputs,
            attributes=attributes,
            constants=constants,
            order=order,
            shapes=shapes,
            domain=domain,
        )
        return model, inputs

    return build


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def several(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Any],
    constants: Mapping[str, Any],
    shapes: Mapping[str, Sequence[Any]],
    opset: int = 17,
) -> Probe:
    """A model of several operators, which returns what the last one gives."""
    graph = helper.make_graph(
        nodes,
        "test",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shapes[name])
            for name, array in inputs.items()
        ],
        [onnx.ValueInfoProto(name=nodes[-1].output[0])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), inputs


def tile_between_poolings() -> Probe:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[1, 1]),
        helper.make_node("Tile", ["p", "r"], ["t"]),
        helper.make_node("MaxPool", ["t"], ["y"], kernel_shape=[1, 1]),
    ]
    return several(nodes, {"x": numbers(2, 1, 3, 4)}, {"r": ints(1, 2, 1, 1)}, {"x": ["b", 1, "h", "w"]})


WRONG: list[Row] = [
    Row(
        "tiles: several dimensions",
        single("Tile", 13, {"x": numbers(2, 1, 4, 3)}, {"r": ints(1, 2, 2, 1)}, {"x": [None, 1, 4, 3]}),
        "Tile",
    ),
    Row(
        "tiles: repeats at run time",
        single("Tile", 13, {"x": numbers(2, 3, 5, 4), "r": ints(1, 2, 2, 2)}, shapes={"x": [None] * 4}),
        "Tile",
    ),
    Row("empty_broadcasts", single("Expand", 13, {"x": numbers(3, 1)}, {"s": ints(3, 0)}), "Broadcast"),
    Row("tiles: one channel", tile_between_poolings, "MaxPool Tile MaxPool"),
]
"""Other numbers than they should be."""
