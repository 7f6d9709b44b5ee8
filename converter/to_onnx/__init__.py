"""From IR to ONNX: a model of ONNX operators that computes what the IR computes.

What nearly every exporter needs is imported from here.
"""

from .context import Context
from .graph import Graph, Value
from .registry import ir_op

__all__ = ["Context", "Graph", "Value", "ir_op"]
