"""Quantised models of a few layers, as onnxruntime's tools write them: QDQ, QOperator and dynamic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.converter.optimization.models import parse
from tests.engines import core
from tests.random_data import generator

MICROSOFT = "com.microsoft"
Built = tuple[onnx.ModelProto, dict[str, np.ndarray], float]
"""A model, its inputs, and the size of one quantization step of its output."""


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


def ran_in_8_bits(ir: tuple[bytes, bytes]) -> Counter[str]:
    """How many layers of each kind the plug-in runs in 8 bits."""
    model = core().compile_model(core().read_model(*ir), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found: Counter[str] = Counter()
    for layer in model.get_runtime_model().get_ops():
        info = layer.get_rt_info()
        if "runtimePrecision" in info and info["runtimePrecision"].astype(str) in ("u8", "i8"):
            found[info["layerType"].astype(str)] += 1
    return found


def convolution(dtype: Any, zero: int, per_channel: bool, weight_zero: int = 0) -> Built:
    g, r = Graph(), generator(3)
    x = g.on_steps("x", 0.02, zero, dtype)
    scale = r.uniform(0.001, 0.01, 8) if per_channel else 0.004
    y = g.node("Conv", x, g.weights(bytes_of(r, (8, 4, 3, 3)), scale, weight_zero), g.constant(r.normal(size=8)))
    y = g.on_steps(g.node("Relu", y), 0.03, zero, dtype)
    model = g.model({"x": [1, 4, 12, 12]}, [y])
    return model, {"x": r.normal(size=(1, 4, 12, 12)).astype(np.float32)}, 0.03


def qlinear(group: int, residual: bool = False, dtype: Any = np.uint8) -> Built:
    """A QOperator file: convolution, pooling and a product, all in 8 bits."""
    g, r = Graph(), generator(8)
    zeros = {key: g.constant(value, dtype) for key, value in {"x": 12, "a": 3, "b": 50, "y": 60}.items()}
    scales = {key: g.constant(value) for key, value in {"x": 0.02, "a": 0.05, "b": 0.06, "y": 0.08}.items()}
    q = g.node("QuantizeLinear", "x", scales["x"], zeros["x"])
    bias = g.constant(r.integers(-3000, 3000, 8), np.int32)
    weights = g.constant(bytes_of(r, (8, 8 // group, 3, 3)), np.int8)
    steps, none = g.constant(r.uniform(0.004, 0.012, 8)), g.constant(np.zeros(8), np.int8)
    a = g.node(
        "QLinearConv", q, scales["x"], zeros["x"], weights, steps, none, scales["a"], zeros["a"], bias,
        group=group, pads=[1, 1, 1, 1],
    )  # fmt: skip
    b, scale, zero = a, scales["a"], zeros["a"]
    if residual:
        inputs = (a, scale, zero, q, scales["x"], zeros["x"])
        scale, zero = scales["b"], zeros["b"]
        b = g.node("QLinearAdd", *inputs, scale, zero, domain=MICROSOFT)
    b = g.node("MaxPool", b, kernel_shape=[2, 2], strides=[2, 2])
    if residual:  # what was pooled is read by two layers of other scales
        b = g.node("QLinearAdd", b, scale, zero, b, scales["x"], zeros["x"], scale, zero, domain=MICROSOFT)
    b = g.node("Flatten", b)
    matrix, step, nothing = g.constant(bytes_of(r, (72, 16)), np.int8), g.constant(0.006), g.constant(0, np.int8)
    y = g.node("QLinearMatMul", b, scale, zero, matrix, step, nothing, scales["y"], zeros["y"])
    y = g.node("DequantizeLinear", y, scales["y"], zeros["y"])
    return g.model({"x": [1, 8, 6, 6]}, [y]), {"x": r.normal(size=(1, 8, 6, 6)).astype(np.float32)}, 0.08


W = np.arange(12, dtype=np.float32).reshape(4, 3)


def graph(nodes: str, outputs: Sequence[str], **constants: Any) -> onnx.ModelProto:
    model = parse(f"g (float[2, 4] x) => (y) {{ {nodes} }}", **constants)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    return model


def there_and_back(*outputs: str) -> onnx.ModelProto:
    """Whole numbers that become integers and floats again."""
    return graph("r = Round (x) m = MatMul (r, w) i = Cast <to = 6> (m) y = Cast <to = 1> (i)", outputs, w=W)
