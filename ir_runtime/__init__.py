"""The OpenVINO IR itself: read it, write it, run it in NumPy. Needs neither OpenVINO nor ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import FAMILIES, exports

if TYPE_CHECKING:
    from .errors import (
        AttributeValueError,
        ExecutionError,
        FileError,
        FormatError,
        InferenceError,
        InternalError,
        ModelError,
        UnsupportedError,
    )
    from .execution.executor import CompiledModel, compile_model
    from .execution.ports import InferenceResult, Port
    from .execution.session import Session, States
    from .files.xml_reader import read_model
    from .files.xml_writer import model_to_bytes, write_model
    from .graph.model import Model, Node, Output
    from .graph.operation import Operation, TensorType, operation
    from .graph.shapes import Dimension, PartialShape
    from .graph.tensor import Tensor

__all__ = [
    "AttributeValueError",
    "CompiledModel",
    "Dimension",
    "ExecutionError",
    "FileError",
    "FormatError",
    "InferenceError",
    "InferenceResult",
    "InternalError",
    "Model",
    "ModelError",
    "Node",
    "Operation",
    "Output",
    "PartialShape",
    "Port",
    "Session",
    "States",
    "Tensor",
    "TensorType",
    "UnsupportedError",
    "compile_model",
    "model_to_bytes",
    "operation",
    "read_model",
    "write_model",
]

FAMILIES["operations"] = f"{__name__}.operations"

# NumPy is imported with the first name, lxml with the first file, kernels with the first model that is run.
__getattr__, __dir__ = exports(
    __name__,
    {
        ".errors": (
            *("AttributeValueError", "ExecutionError", "FileError", "FormatError", "InferenceError"),
            *("InternalError", "ModelError", "UnsupportedError"),
        ),
        ".execution.executor": ("CompiledModel", "compile_model"),
        ".execution.ports": ("InferenceResult", "Port"),
        ".execution.session": ("Session", "States"),
        ".files.xml_reader": ("read_model",),
        ".files.xml_writer": ("model_to_bytes", "write_model"),
        ".graph.model": ("Model", "Node", "Output"),
        ".graph.operation": ("Operation", "TensorType", "operation"),
        ".graph.shapes": ("Dimension", "PartialShape"),
        ".graph.tensor": ("Tensor",),
    },
)
