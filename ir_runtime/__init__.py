"""The OpenVINO IR itself: read it, write it, run it in NumPy. Needs neither OpenVINO nor ONNX."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
from .graph.model import Model, Node, Output
from .graph.operation import Operation, TensorType, operation
from .graph.shapes import Dimension, PartialShape
from .graph.tensor import Tensor

if TYPE_CHECKING:
    from .execution.executor import CompiledModel, compile_model
    from .execution.ports import InferenceResult, Port
    from .execution.session import Session, States
    from .files.xml_reader import read_model
    from .files.xml_writer import model_to_bytes, write_model

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

# lxml and the writer are imported with the first file, kernels with the first model that is run.
_MODULE_OF = {
    **dict.fromkeys(("CompiledModel", "compile_model"), "execution.executor"),
    **dict.fromkeys(("InferenceResult", "Port"), "execution.ports"),
    **dict.fromkeys(("Session", "States"), "execution.session"),
    "read_model": "files.xml_reader",
    "model_to_bytes": "files.xml_writer",
    "write_model": "files.xml_writer",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
