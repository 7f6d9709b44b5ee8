"""The graph: models, layers and values, their types and shapes, and what must hold for them.

The names of modules that every model needs are imported from here; what declares attributes, from
:mod:`ir_runtime.graph.operation`.
"""

from .element_types import Array, ElementType
from .model import InputMap, Model, Node, Origin, Output, OutputMap, Part, RuntimeInfo, SubGraph
from .operation import Operation, TensorType
from .shape_inference import infer_types, make_node
from .shapes import DYNAMIC, INFINITY, Dimension, PartialShape, as_dimension, broadcast, normalize_axes, normalize_axis
from .tensor import Tensor

__all__ = ["Array", "ElementType", "Operation", "Tensor", "TensorType", "infer_types", "make_node"]
__all__ += ["InputMap", "Model", "Node", "Origin", "Output", "OutputMap", "Part", "RuntimeInfo", "SubGraph"]
__all__ += ["DYNAMIC", "INFINITY", "Dimension", "PartialShape"]
__all__ += ["as_dimension", "broadcast", "normalize_axes", "normalize_axis"]
