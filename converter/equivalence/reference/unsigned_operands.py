"""Give onnxruntime operands of products that it multiplies exactly on every processor.

On x64 processors without VNNI instructions onnxruntime adds products of uint8 and int8 in pairs of 16 bits, which
saturate: a product of 64 terms may be off by thousands. Products of uint8 and uint8 are exact everywhere. So int8
operands become uint8 ones, larger by 128, as are their zero points. With its optimizations onnxruntime does the same
where ``session.x64quantprecision`` asks for it.

https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html#when-and-why-do-i-need-to-try-u8u8
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from converter.onnx_file.domains import MICROSOFT
from converter.onnx_file.node_order import subgraphs

_OFFSET = 128


class _Operand(NamedTuple):
    """Positions of the inputs of a node: an operand, its zero point, and the data that it is multiplied with."""

    operand: int
    zero_point: int
    data: int | None = 0
    """None where the data are quantized by the operator itself, to uint8."""


_OPERANDS = {
    ("", "ConvInteger"): [_Operand(1, 3)],
    ("", "MatMulInteger"): [_Operand(1, 3)],
    ("", "QLinearConv"): [_Operand(3, 5)],
    ("", "QLinearMatMul"): [_Operand(3, 5)],
    (MICROSOFT, "DynamicQuantizeLSTM"): [_Operand(1, 9, None), _Operand(2, 11, None)],
    (MICROSOFT, "DynamicQuantizeMatMul"): [_Operand(1, 3, None)],
    (MICROSOFT, "MatMulIntegerToFloat"): [_Operand(1, 5)],
    (MICROSOFT, "QAttention"): [_Operand(1, 7)],
    (MICROSOFT, "QGemm"): [_Operand(3, 5)],
    (MICROSOFT, "QLinearConv"): [_Operand(3, 5)],
}


def with_unsigned_operands(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that computes the same without products of uint8 and int8; ``model`` itself if it has none."""
    if not any(_key(node) in _OPERANDS for node in _nodes(model.graph)):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    _Rewriter(changed.graph, {}).run()
    return changed


def _key(node: NodeProto) -> tuple[str, str]:
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


def _nodes(graph: onnx.GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for body in subgraphs(node):
            yield from _nodes(body)


class _Rewriter:
    """Changes a graph in place; ``types`` are those of the values of the graphs around it."""

    def __init__(self, graph: onnx.GraphProto, types: Mapping[str, int]) -> None:
        self._graph = graph
        self._initializers = {tensor.name: tensor for tensor in graph.initializer}
        self._types = {**types, **{name: tensor.data_type for name, tensor in self._initializers.items()}}
        for info in (*graph.input, *graph.value_info, *graph.output):
            self._types[info.name] = info.type.tensor_type.elem_type
        self._new_nodes: list[NodeProto] = []
        self._unsigned: dict[str, str] = {}

    def run(self) -> None:
        for node in self._graph.node:
            for body in subgraphs(node):
                _Rewriter(body, self._types).run()
            for operand in _OPERANDS.get(_key(node), ()):
                self._make_unsigned(node, operand)
            self._new_nodes.append(node)
        nodes = [NodeProto.FromString(node.SerializeToString()) for node in self._new_nodes]
        del self._graph.node[:]
        self._graph.node.extend(nodes)

    def _make_unsigned(self, node: NodeProto, operand: _Operand) -> None:
        zero_point = node.input[operand.zero_point] if len(node.input) > operand.zero_point else ""
        weights = node.input[operand.operand]
        if TensorProto.INT8 not in (self._types.get(weights), self._types.get(zero_point)):
            return
        # Products of int8 and int8 are exact, and not all operators take int8 and uint8.
        if operand.data is not None and self._types.get(node.input[operand.data]) == TensorProto.INT8:
            return
        node.input.extend([""] * (operand.zero_point + 1 - len(node.input)))
        node.input[operand.operand] = self._as_unsigned(weights)
        node.input[operand.zero_point] = (
            self._as_unsigned(zero_point) if zero_point else self._offset(TensorProto.UINT8)
        )

    def _as_unsigned(self, name: str) -> str:
        """Return the name of the value that is larger by 128."""
        if name in self._unsigned:
            return self._unsigned[name]
        result = self._unsigned[name] = f"{name}/unsigned"
        tensor = self._initializers.get(name)
        if tensor is not None and tensor.data_location != TensorProto.EXTERNAL:
            values = (numpy_helper.to_array(tensor).astype(np.int16) + _OFFSET).astype(np.uint8)
            self._graph.initializer.append(numpy_helper.from_array(values, result))
            return result
        wide, larger = f"{name}/wide", f"{name}/larger"
        self._new_nodes += [
            helper.make_node("Cast", [name], [wide], to=TensorProto.INT32),
            helper.make_node("Add", [wide, self._offset(TensorProto.INT32)], [larger]),
            helper.make_node("Cast", [larger], [result], to=TensorProto.UINT8),
        ]
        return result

    def _offset(self, data_type: int) -> str:
        """Return the name of the constant 128."""
        name = f"unsigned/{_OFFSET}/{data_type}"
        if name not in self._initializers:
            dtype = helper.tensor_dtype_to_np_dtype(data_type)
            self._graph.initializer.append(numpy_helper.from_array(np.array(_OFFSET, dtype), name))
            self._initializers[name] = self._graph.initializer[-1]
        return name
