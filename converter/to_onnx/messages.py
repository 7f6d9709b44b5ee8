"""An exported graph as ONNX's messages. Large constants are left to the writer: their data is never held twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import helper

from converter.onnx_file.domains import LOCAL_FUNCTIONS
from converter.onnx_file.graph import operator_message
from converter.onnx_file.types import onnx_number
from ir_runtime.graph import Tensor, element_types

from .graph import Call, Function, Graph, Value
from .names import calls_of

_NONE: Mapping[str, Sequence[str]] = MappingProxyType({})

_SMALL_BYTES = 1 << 10
"""Constants of up to this size are never left out of a message."""

LeftOut = list[tuple[onnx.TensorProto, Tensor]]
"""Messages of constants without their data, and the data."""


def graph_message(
    graph: Graph, left_out: LeftOut | None = None, dimensions: Mapping[str, Sequence[str]] = _NONE
) -> onnx.GraphProto:
    """The message of a graph whose values have their names.

    Large constants come to ``left_out``, where that is given, instead of into the message. ``dimensions`` has the names
    of the dimensions of inputs and outputs, empty where one has none.
    """
    message = onnx.GraphProto(name=graph.name or "graph")
    for value, tensor in graph.constants:
        element_type = tensor.element_type
        is_large = element_type is not element_types.string and tensor.byte_size > _SMALL_BYTES
        tensor_message = onnx.TensorProto() if left_out is not None and is_large else message.initializer.add()
        tensor_message.name, tensor_message.data_type = value.name, onnx_number(element_type)
        tensor_message.dims.extend(tensor.shape)
        if left_out is not None and is_large:
            left_out.append((tensor_message, tensor))
        else:
            _fill(tensor_message, tensor)
    for side, values in ((message.input, graph.inputs), (message.output, graph.outputs)):
        side.extend(value_info(value, dimensions.get(value.name, ())) for value in values)
    message.node.extend(_node(call) for call in graph.calls)
    return message


def function_message(function: Function, opset: int) -> onnx.FunctionProto:
    """The message of a function whose values have their names; its constants are nodes."""
    graph = function.graph
    message = onnx.FunctionProto(
        name=function.name,
        domain=LOCAL_FUNCTIONS,
        doc_string=function.description,
        input=[value.name for value in graph.inputs],
        output=[value.name for value in graph.outputs],
        opset_import=imported_opsets(graph, opset),
    )
    for value, tensor in graph.constants:
        tensor_message = onnx.TensorProto(data_type=onnx_number(tensor.element_type), dims=tensor.shape)
        _fill(tensor_message, tensor)
        message.node.append(helper.make_node("Constant", [], [value.name], value=tensor_message))
    message.node.extend(_node(call) for call in graph.calls)
    return message


def imported_opsets(graph: Graph, opset: int) -> list[onnx.OperatorSetIdProto]:
    """The versions of the domains that the nodes of a graph and its bodies are from."""
    others = {call.domain for call in calls_of(graph)} - {""}
    return [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in sorted(others))]


def value_info(value: Value, dimensions: Sequence[str]) -> onnx.ValueInfoProto:
    """The message of an input or an output: dynamic dimensions are unknown, or have their names."""
    message = onnx.ValueInfoProto(name=value.name)
    tensor = message.type.tensor_type
    tensor.elem_type = onnx_number(value.element_type)
    shape = value.shape
    if shape.has_rank:
        tensor.shape.SetInParent()
        for place, dimension in enumerate(shape.dims):
            dimension_message = tensor.shape.dim.add()
            if dimension.is_static:
                dimension_message.dim_value = dimension.low
            elif place < len(dimensions) and dimensions[place]:
                dimension_message.dim_param = dimensions[place]
    return message


def _node(call: Call) -> onnx.NodeProto:
    if call.operator is not None:
        inputs = [value.name for value in (*call.inputs, *call.captured) if value is not None]
        return operator_message(call.operator, inputs, [value.name for value in call.outputs])
    message = onnx.NodeProto(
        op_type=call.op_type,
        domain=call.domain,
        name=call.name,
        input=[_name(value) for value in call.inputs],
        output=[_name(value) for value in call.outputs],
    )
    while message.input and not message.input[-1]:
        message.input.pop()
    for key in sorted(call.attributes):
        message.attribute.append(_attribute(key, call.attributes[key]))
    return message


def _attribute(key: str, value: Any) -> onnx.AttributeProto:
    if isinstance(value, Graph):
        return helper.make_attribute(key, graph_message(value))
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)) and not value:
        return onnx.AttributeProto(name=key, type=onnx.AttributeProto.INTS)
    return helper.make_attribute(key, value)


def _name(value: Value | None) -> str:
    return "" if value is None else value.name


def _fill(message: onnx.TensorProto, tensor: Tensor) -> None:
    if tensor.element_type is element_types.string:
        message.string_data.extend(
            value if isinstance(value, bytes) else str(value).encode() for value in tensor.array().reshape(-1).tolist()
        )
    else:
        message.raw_data = b"".join(tensor.chunks())
