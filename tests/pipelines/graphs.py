"""A writer of small ONNX graphs with random weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEADS, SIZE = 2, 16
HIDDEN = HEADS * SIZE


class Graph:
    """Nodes and constants; a call adds a node of one output."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def __call__(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op_type}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op_type, inputs, [name], name, **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def weight(self, *shape: int, scale: float = 1.0, depth: int | None = None) -> str:
        deviation = scale / np.sqrt(shape[0] if depth is None else depth)
        return self.constant(self._random.normal(scale=deviation, size=shape))

    def linear(self, x: str, rows: int, columns: int, scale: float = 1.0) -> str:
        return self("Add", self("MatMul", x, self.weight(rows, columns, scale=scale)), self.weight(columns))

    def convolution(self, x: str, channels: int, outputs: int, size: int = 3, stride: int = 1) -> str:
        weights = self.weight(outputs, channels, size, size, depth=channels * size * size)
        return self("Conv", x, weights, self.weight(outputs), strides=[stride] * 2, pads=[size // 2] * 4)

    def heads(self, x: str) -> str:
        """``[b, s, hidden]`` to ``[b, heads, s, size]``."""
        return self("Transpose", self("Reshape", x, self.integers(0, 0, HEADS, SIZE)), perm=[0, 2, 1, 3])

    def attention(self, x: str, states: str | None = None, mask: str | None = None, depth: int = HIDDEN) -> str:
        """Attention of ``x`` to itself or to ``states`` of ``depth`` numbers; ``mask`` is added to the scores."""
        source, rows = (x, HIDDEN) if states is None else (states, depth)
        q = self.heads(self.linear(x, HIDDEN, HIDDEN, scale=2))
        k, v = (self.heads(self.linear(source, rows, HIDDEN, scale=2)) for _ in range(2))
        scores = self("MatMul", q, self("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self("Mul", scores, self.constant(SIZE**-0.5))
        if mask is not None:
            scores = self("Add", scores, mask)
        output = self("MatMul", self("Softmax", scores, axis=-1), v)
        output = self("Reshape", self("Transpose", output, perm=[0, 2, 1, 3]), self.integers(0, 0, HIDDEN))
        return self.linear(output, HIDDEN, HIDDEN)

    def normalized(self, x: str) -> str:
        return self("LayerNormalization", x, self.constant(np.ones(HIDDEN)), self.weight(HIDDEN), axis=-1)

    def layer(self, x: str, mask: str | None = None) -> str:
        """A layer of a transformer."""
        x = self("Add", x, self.attention(self.normalized(x), mask=mask))
        inner = self.linear(self.normalized(x), HIDDEN, 2 * HIDDEN)
        return self("Add", x, self.linear(self("Mul", inner, self("Sigmoid", inner)), 2 * HIDDEN, HIDDEN))

    def padding_mask(self, mask: str = "attention_mask") -> str:
        """``[b, 1, 1, s]``: 0 for tokens, the lowest number for padding."""
        gone = self("Sub", self.constant(1), self("Cast", mask, to=TensorProto.FLOAT))
        return self("Unsqueeze", self("Mul", gone, self.constant(np.finfo(np.float32).min)), self.integers(1, 2))

    def causal_mask(self, length: int) -> str:
        return self.constant(np.triu(np.full((length, length), np.finfo(np.float32).min), 1))

    def model(
        self,
        inputs: Mapping[str, tuple[Any, Sequence[int | str]]],
        outputs: Mapping[str, tuple[str, Sequence[int | str]]],
    ) -> onnx.ModelProto:
        """The model: ``inputs`` have types and shapes, ``outputs`` the values that they name, and shapes."""
        for name, (value, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [value], [name]))
        ends = [
            [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
             for name, (dtype, shape) in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, (_, shape) in outputs.items()],
        ]  # fmt: skip
        graph = helper.make_graph(self._nodes, "part", *ends, self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def run(model: onnx.ModelProto, **feeds: Any) -> list[np.ndarray]:
    """What onnxruntime computes."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = {port.name for port in session.get_inputs()}
    return list(session.run(None, {name: value for name, value in feeds.items() if name in names}))
