"""From ONNX graphs to IR graphs: scopes, names, dispatch, and what a translator is handed.

What nearly every translator needs is imported from here.
"""

from .context import Body, Context, unary
from .registry import attributes_of, onnx_form, onnx_op, refuse_op

__all__ = ["Body", "Context", "attributes_of", "onnx_form", "onnx_op", "refuse_op", "unary"]
