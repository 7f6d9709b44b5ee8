"""Graphs of small transformers with random weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from tests import graphs
from tests.graphs import Value

HEADS, SIZE = 2, 16
HIDDEN = HEADS * SIZE
LOWEST = np.finfo(np.float32).min


class Graph(graphs.Graph):
    """A graph with the layers of transformers and convolutional networks."""

    def linear(self, x: Value, rows: int, columns: int, scale: float = 1.0) -> Value:
        return x @ self.weight(rows, columns, scale=scale) + self.weight(columns)

    def convolution(self, x: str, channels: int, outputs: int, size: int = 3, stride: int = 1) -> Value:
        weights = self.weight(outputs, channels, size, size, depth=channels * size * size)
        return self("Conv", x, weights, self.weight(outputs), strides=[stride] * 2, pads=[size // 2] * 4)

    def embedded(self, count: int, tokens: str) -> Value:
        return self("Gather", self.weight(count, HIDDEN, depth=1), tokens)

    def heads(self, x: Value) -> Value:
        """``[b, s, hidden]`` to ``[b, heads, s, size]``."""
        return x.Reshape([0, 0, HEADS, SIZE]).Transpose(perm=[0, 2, 1, 3])

    def attend(self, q: Value, k: Value, v: Value, mask: str | None = None) -> Value:
        """``[b, s, hidden]`` of queries, keys and values of heads; ``mask`` is added to the scores."""
        scores = q @ k.Transpose(perm=[0, 1, 3, 2]) * SIZE**-0.5
        scores = scores if mask is None else scores + mask
        return (scores.Softmax(axis=-1) @ v).Transpose(perm=[0, 2, 1, 3]).Reshape([0, 0, HIDDEN])

    def attention(self, x: Value, states: Value | None = None, mask: str | None = None, depth: int = HIDDEN) -> Value:
        """Attention of ``x`` to itself or to ``states`` of ``depth`` numbers."""
        source, rows = (x, HIDDEN) if states is None else (states, depth)
        q = self.heads(self.linear(x, HIDDEN, HIDDEN, scale=2))
        k, v = (self.heads(self.linear(source, rows, HIDDEN, scale=2)) for _ in range(2))
        return self.linear(self.attend(q, k, v, mask), HIDDEN, HIDDEN)

    def normalized(self, x: Value) -> Value:
        return x.LayerNormalization(np.ones(HIDDEN, np.float32), self.weight(HIDDEN), axis=-1)

    def layer(self, x: Value, mask: str | None = None) -> Value:
        """A layer of a transformer."""
        x = x + self.attention(self.normalized(x), mask=mask)
        inner = self.linear(self.normalized(x), HIDDEN, 2 * HIDDEN)
        return x + self.linear(inner * inner.Sigmoid(), 2 * HIDDEN, HIDDEN)

    def padding_mask(self, mask: str = "attention_mask") -> Value:
        """``[b, 1, 1, s]``: 0 for tokens, the lowest number for padding."""
        return ((self.constant(1.0) - self("Cast", mask, to=TensorProto.FLOAT)) * LOWEST).Unsqueeze([1, 2])

    def causal_mask(self, length: int) -> Value:
        return self.constant(np.triu(np.full((length, length), LOWEST), 1))


def run(model: onnx.ModelProto, **feeds: Any) -> list[np.ndarray]:
    """What onnxruntime computes."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = {port.name for port in session.get_inputs()}
    return list(session.run(None, {name: value for name, value in feeds.items() if name in names}))
