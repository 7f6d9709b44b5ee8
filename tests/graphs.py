"""ONNX graphs as formulas: ``(x @ graph.weight(3, 4) + 1.0).Relu()``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


class Value(str):
    """The name of a value; ``x.Reshape([0, -1])`` is an operator whose first input it is."""

    graph: Any
    __array_ufunc__ = None  # so that arrays leave the arithmetic to it

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)
        return lambda *inputs, **attributes: self.graph(op_type, self, *inputs, **attributes)

    def __add__(self, other: Any) -> Value:  # type: ignore[override]
        return self.graph("Add", self, other)

    def __mul__(self, other: Any) -> Value:  # type: ignore[override]
        return self.graph("Mul", self, other)

    __radd__, __rmul__ = __add__, __mul__  # type: ignore[assignment]

    def __sub__(self, other: Any) -> Value:
        return self.graph("Sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self.graph("Sub", other, self)

    def __truediv__(self, other: Any) -> Value:
        return self.graph("Div", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return self.graph("Div", other, self)

    def __matmul__(self, other: Any) -> Value:
        return self.graph("MatMul", self, other)

    def __rmatmul__(self, other: Any) -> Value:
        return self.graph("MatMul", other, self)

    def __neg__(self) -> Value:
        return self.graph("Neg", self)


class Graph:
    """Nodes and constants; a call adds a node. Numbers, lists and arrays are constants, integers of int64."""

    def __init__(self, seed: int = 0, *, dtype: Any = np.float32, opset: int = 18, prefix: str = "") -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.dtype, self.opset, self.prefix = np.dtype(dtype), opset, prefix

    def __call__(
        self, op_type: str, *inputs: Any, count: int = 1, name: str = "", domain: str = "", **attributes: Any
    ) -> Any:
        """Add a node; ``name`` is that of its output. Of ``count`` outputs the values are a list."""
        output = name or f"{self.prefix}{op_type}_{len(self.nodes)}"
        outputs = [output] if count == 1 else [f"{output}.{index}" for index in range(count)]
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        self.nodes.append(helper.make_node(op_type, names, outputs, f"/{output}", domain=domain, **attributes))
        values = [self[name] for name in outputs]
        return values[0] if count == 1 else values

    def __getitem__(self, name: str) -> Value:
        value = Value(name)
        value.graph = self
        return value

    def constant(self, value: Any, dtype: Any = None, name: str = "") -> Value:
        """A constant; numbers that are not whole have the type of the graph."""
        array = np.asarray(value)
        default = array.dtype if array.dtype.kind in "b" else np.int64 if array.dtype.kind in "iu" else self.dtype
        name = name or f"constant_{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(array.astype(dtype or default), name)
        return self[name]

    def weight(self, *shape: int, scale: float = 1.0, depth: int | None = None) -> Value:
        """Random numbers; products of ``depth`` numbers, by default as many as there are rows, keep their scale."""
        deviation = scale / np.sqrt(shape[0] if depth is None else depth)
        return self.constant(self.random.normal(scale=deviation, size=shape))

    def size(self, x: str, axis: int) -> Value:
        """A dimension of ``x``, a scalar."""
        return self("Gather", self("Shape", x), axis)

    def body(self, inputs: Mapping[str, tuple[Any, Any]], outputs: Mapping[str, tuple[Any, Any]]) -> onnx.GraphProto:
        """The graph without a version: types and shapes of its inputs and outputs."""
        infos = [
            [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
             for name, (dtype, shape) in side.items()]
            for side in (inputs, outputs)
        ]  # fmt: skip
        return helper.make_graph(self.nodes, "graph", *infos, list(self.constants.values()))

    def model(self, inputs: Mapping[str, tuple[Any, Any]], outputs: Mapping[str, Sequence[Any]]) -> onnx.ModelProto:
        """The model: inputs have types and shapes, outputs the values that they name, shapes, and types of their own."""
        for name, (value, *_) in outputs.items():
            self("Identity", value, name=name)
        types = {name: (dtype[0] if dtype else self.dtype, shape) for name, (_, shape, *dtype) in outputs.items()}
        domains = dict.fromkeys(node.domain for node in self.nodes if node.domain)
        opsets = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
        return helper.make_model(self.body(inputs, types), opset_imports=opsets, ir_version=11)
