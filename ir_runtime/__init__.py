"""The OpenVINO IR itself: read it, write it, run it in NumPy. Needs neither OpenVINO nor ONNX."""

from __future__ import annotations

from . import operations as _operations
from .errors import (
    AttributeValueError,
    ExecutionError,
    FormatError,
    InferenceError,
    ModelError,
    UnsupportedError,
)
from .executor import CompiledModel, InferenceResult, Port, compile_model
from .graph import Model, Node, Output
from .operation import Operation, TensorType, operation
from .shapes import Dimension, PartialShape
from .tensor import Tensor
from .xml_reader import read_model
from .xml_writer import model_to_bytes, write_model

assert _operations  # importing it registers the operations

__all__ = [
    "AttributeValueError",
    "CompiledModel",
    "Dimension",
    "ExecutionError",
    "FormatError",
    "InferenceError",
    "InferenceResult",
    "Model",
    "ModelError",
    "Node",
    "Operation",
    "Output",
    "PartialShape",
    "Port",
    "Tensor",
    "TensorType",
    "UnsupportedError",
    "compile_model",
    "model_to_bytes",
    "operation",
    "read_model",
    "write_model",
]
