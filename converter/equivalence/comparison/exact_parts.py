"""A part of the ONNX model in float64, computed by onnx's own evaluator: the yardstick of single layers.

Sums of many equal terms round in one direction, so that two right implementations in float32 are further apart than any
tolerance that also finds faults. In float64 a right layer of the IR is nearer to the exact result than the reference
is in float32, and a wrong one is not. The translators take no part in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from converter.equivalence.reference.oracle import evaluate_by_definition
from converter.equivalence.reference.reference_model import ReferenceModel, read_by
from converter.errors import VerificationError
from ir_runtime.graph import Array

_WIDENED = (TensorProto.FLOAT, TensorProto.DOUBLE)
_MOST_NODES = 64
"""Parts of more nodes are not computed again: onnx's evaluator is slow."""


def exact_tensor(graph: ReferenceModel, name: str, values: Mapping[str, object]) -> Array | None:
    """Return the tensor ``name`` in float64, computed by the nodes between it and the nearest of the known ``values``.

    None where there is no such result: for a part of many nodes, or with operators that onnx's evaluator does not know.
    """
    nodes = graph.needed([name], [other_name for other_name in values if other_name != name])
    if len(nodes) > _MOST_NODES:
        return None
    read = read_by(nodes)
    feeds = {
        other_name: _widened(value) for other_name, value in values.items() if other_name in read and other_name != name
    }
    model = graph.embedded(graph.part(nodes, feeds, [name]))
    _widen(model)
    try:
        return np.asarray(evaluate_by_definition(model)(feeds)[name])
    except VerificationError:
        return None


def _widened(value: object) -> object:
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype == np.float32 else value


def _widen(model: ModelProto) -> None:
    """Turn every tensor and every type of float32 into float64, those of bodies and functions included."""
    _widen_graph(model.graph)
    for function in model.functions:
        _widen_nodes(function.node)


def _widen_graph(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    _widen_nodes(graph.node)


def _widen_nodes(nodes: Sequence[NodeProto]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _widen_tensor(attribute.t)
            elif attribute.type == AttributeProto.GRAPH:
                _widen_graph(attribute.g)
            elif (node.op_type, attribute.name) in (("Cast", "to"), ("EyeLike", "dtype")) and attribute.i in _WIDENED:
                attribute.i = TensorProto.DOUBLE


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        wide = numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)
        tensor.CopyFrom(wide)
