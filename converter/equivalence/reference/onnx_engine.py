"""The second side of a comparison as an ONNX model, in what runs ONNX models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import TensorProto, ValueInfoProto

from converter.conversion.convert import convert
from converter.equivalence.reference.engines import Engine
from converter.equivalence.reference.reference_model import NARROW
from converter.equivalence.reference.references import OnnxReference, Reference
from converter.errors import ConversionError, InternalError
from converter.onnx_file.model_info import declared_shape
from converter.onnx_file.types import element_type_of
from converter.options.conversion import ConversionOptions
from ir_runtime import Model, Port
from ir_runtime.graph import Array, ElementType, Node, element_types, make_node
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.operations.inputs_outputs import Parameter1


def is_onnx(model: object) -> bool:
    """True if the second side of a comparison is an ONNX model: a path that ends in ``.onnx``, or onnx's own object."""
    if isinstance(model, str):
        return Path(model).suffix.lower() == ".onnx"
    return type(model).__module__.startswith("onnx.") and type(model).__name__ == "ModelProto"


def onnx_engine(
    source: object, frozen: Mapping[str, Any] = MappingProxyType({}), reference: Reference | None = None
) -> Engine:
    """The ONNX model ready to run; ``frozen`` are the values of inputs that the caller does not give.

    Outputs of float16 come as float32 where those of the ``reference`` are.

    Its ``model`` is its IR, which tells what a run costs, which values the inputs take, and whether it computes in 16
    bits; where there is no IR, a graph of the inputs alone.
    """
    side = OnnxReference(source)  # type: ignore[arg-type]
    graph = side.graph
    constants = {
        name: np.asarray(frozen[name], element_type_of(value.type.tensor_type.elem_type).dtype)
        for name, value in graph.inputs.items()
        if name in frozen
    }
    outputs = [_port(value, element_types.f32) for value in graph.outputs.values()]
    declared = reference.graph.outputs if isinstance(reference, OnnxReference) else {}
    halves = {
        port.name
        for port in outputs
        if port.element_type is element_types.f16
        and port.name in declared
        and declared[port.name].type.tensor_type.elem_type == TensorProto.FLOAT
    }
    outputs = [replace(port, element_type=element_types.f32) if port.name in halves else port for port in outputs]

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        results = side.run({**feeds, **constants})
        return [
            np.asarray(results[port.name]).astype(np.float32) if port.name in halves else np.asarray(results[port.name])
            for port in outputs
        ]

    try:
        model = convert(graph.as_file(), ConversionOptions(target="any")).model
    except InternalError:
        raise
    except ConversionError:
        model = Model(parameters=[_parameter(value) for value in graph.inputs.values()])
    inputs = [_port(value) for name, value in graph.inputs.items() if name not in frozen]
    precision = narrow_type(model)
    notes = [f"output '{name}' is of float16, and its values were compared with those of float32" for name in halves]
    name = f"onnxruntime in {precision}" if precision else "onnxruntime"
    return Engine(name, model, inputs, outputs, run, precision, notes=sorted(notes))


def narrow_type(model: Model) -> str:
    """The element type of 16 bits that layers of an IR compute in; empty for none."""
    float_types = {
        output.element_type.name
        for part in model.parts()
        for node in part.nodes
        if node.inputs and not isinstance(node.op, Convert1)
        for output in node.outputs
    }
    return next((name for name in NARROW if name in float_types), "")


def _parameter(value: ValueInfoProto) -> Node:
    op = Parameter1(shape=declared_shape(value.type), element_type=element_type_of(value.type.tensor_type.elem_type))
    node = make_node(op, (), value.name)
    node.outputs[0].add_name(value.name)
    return node


def _port(value: ValueInfoProto, default: ElementType | None = None) -> Port:
    """The port of an input or output; ``default`` is the type of what is no tensor."""
    is_tensor = value.type.HasField("tensor_type") and value.type.tensor_type.elem_type
    element_type = (
        default if default is not None and not is_tensor else element_type_of(value.type.tensor_type.elem_type)
    )
    shape = declared_shape(value.type)
    sizes = tuple(dimension.value if dimension.is_static else None for dimension in shape) if shape.has_rank else None
    return Port(value.name, (value.name,), sizes, element_type, shape)
