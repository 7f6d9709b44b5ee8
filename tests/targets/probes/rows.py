"""What a probe is, and how its model is built."""

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
    """A model that shows why a rule is there: the plug-in is wrong with its plain layers."""

    name: str
    """The rule's name; what is special about the row follows a colon."""
    build: Callable[[], Probe]
    """The model and its inputs."""
    layers: str
    """The types of the plain layers."""
    expected: Sequence[Any] | None = None
    """The outputs where onnxruntime, which computes them otherwise, does not have the operator or is wrong."""

    @property
    def rule(self) -> str:
        return self.name.partition(":")[0]

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
        [onnx.ValueInfoProto(name=name) for name in nodes[-1].output],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), inputs


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)
