"""ONNX to OpenVINO IR, in pure Python, proven equal."""

from __future__ import annotations

from converter.conversion import convert_model, save_model
from converter.equivalence import Comparison, LayerDifference, Report, Tolerance, verify
from converter.errors import ConversionError, InternalError, InvalidModelError, UnsupportedModelError, VerificationError
from converter.translation.registry import onnx_op

__all__ = [
    "Comparison",
    "LayerDifference",
    "Report",
    "Tolerance",
    "ConversionError",
    "InternalError",
    "InvalidModelError",
    "UnsupportedModelError",
    "VerificationError",
    "convert_model",
    "onnx_op",
    "save_model",
    "verify",
]
