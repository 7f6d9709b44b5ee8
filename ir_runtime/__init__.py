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
from .graph import Model, Node, Output
from .operation import Operation, TensorType, operation
from .shapes import Dimension, PartialShape
from .tensor import Tensor

if TYPE_CHECKING:
    from .executor import CompiledModel, InferenceResult, Port, compile_model
    from .xml_reader import read_model
    from .xml_writer import model_to_bytes, write_model

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
    "Tensor",
    "TensorType",
    "UnsupportedError",
    "compile_model",
    "model_to_bytes",
    "operation",
    "read_model",
    "write_model",
]

# lxml and what it takes to write files come with the first file, kernels with the first model that is run.
_MODULE_OF = {
    **dict.fromkeys(("CompiledModel", "InferenceResult", "Port", "compile_model"), "executor"),
    "read_model": "xml_reader",
    "model_to_bytes": "xml_writer",
    "write_model": "xml_writer",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
