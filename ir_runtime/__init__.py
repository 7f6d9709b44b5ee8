"""The OpenVINO IR itself: read it, write it, run it in NumPy. Needs neither OpenVINO nor ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import FAMILIES, exports

if TYPE_CHECKING:
    from .errors import AttributeValueError as AttributeValueError
    from .errors import ExecutionError as ExecutionError
    from .errors import FileError as FileError
    from .errors import FormatError as FormatError
    from .errors import InferenceError as InferenceError
    from .errors import InternalError as InternalError
    from .errors import ModelError as ModelError
    from .errors import UnsupportedError as UnsupportedError
    from .execution.executor import CompiledModel as CompiledModel
    from .execution.executor import compile_model as compile_model
    from .execution.ports import InferenceResult as InferenceResult
    from .execution.ports import Port as Port
    from .execution.session import Session as Session
    from .execution.session import States as States
    from .files.xml_reader import read_model as read_model
    from .files.xml_writer import model_to_bytes as model_to_bytes
    from .files.xml_writer import write_model as write_model
    from .graph.model import Model as Model
    from .graph.model import Node as Node
    from .graph.model import Output as Output
    from .graph.operation import Operation as Operation
    from .graph.operation import TensorType as TensorType
    from .graph.operation import operation as operation
    from .graph.shapes import Dimension as Dimension
    from .graph.shapes import PartialShape as PartialShape
    from .graph.tensor import Tensor as Tensor

FAMILIES["operations"] = f"{__name__}.operations"

# NumPy is imported with the first name, lxml with the first file, kernels with the first model that is run.
__getattr__, __dir__, _names = exports(
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
__all__ = [*_names]
