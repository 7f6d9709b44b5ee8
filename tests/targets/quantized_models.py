"""Quantised models of a few layers, as onnxruntime's tools write them: QDQ, QOperator and dynamic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"


@dataclass
class Graph:
    """Nodes and initializers in the making; every method returns the name of a tensor."""

    opset: int = 17
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """An initializer."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def node(self, op_type: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """A node of one output."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name=f"n{name}", domain=domain, **attributes))
        return name

    def on_steps(self, x: str, scale: Any, zero: Any, dtype: Any = np.uint8, axis: int = 1) -> str:
        """A value quantised and dequantised, as a QDQ model has it."""
        s, z = self.constant(scale), self.constant(zero, dtype)
        return self.node("DequantizeLinear", self.node("QuantizeLinear", x, s, z, axis=axis), s, z, axis=axis)

    def weights(self, values: np.ndarray, scale: Any, zero: Any = 0, axis: int = 0) -> str:
        """Stored 8-bit weights, dequantised."""
        dtype = values.dtype
        zeros = np.full(np.shape(scale), zero, dtype)
        return self.node(
            "DequantizeLinear",
            self.constant(values, dtype),
            self.constant(scale),
            self.constant(zeros, dtype),
            axis=axis,
        )

    def model(
        self, shapes: dict[str, Sequence[Any]], outputs: Sequence[str], dtype: int = TensorProto.FLOAT
    ) -> onnx.ModelProto:
        """The model of these inputs and outputs."""
        made = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info(name, dtype, shape) for name, shape in shapes.items()],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(made, opset_imports=imports, ir_version=8)


def bytes_of(generator: np.random.Generator, shape: Sequence[int], dtype: Any = np.int8) -> np.ndarray:
    """Random weights of 7 bits in a type of 8 bits.

    On x64 processors without VNNI instructions the plug-in's sums of products of full 8 bits saturate; nncf's overflow
    fix avoids that in the same way.
    """
    info = np.iinfo(dtype)
    return generator.integers(info.min // 2, info.max // 2, shape, dtype, endpoint=True)
