"""ONNX to OpenVINO IR, in pure Python, proven equal."""

from __future__ import annotations

from .conversion import convert_model, save_model
from .equivalence import Comparison, LayerDifference, Report, Tolerance, verify
from .errors import ConversionError, InvalidModelError, UnsupportedModelError, VerificationError
from .registry import onnx_op

__all__ = [
    "Comparison",
    "LayerDifference",
    "Report",
    "Tolerance",
    "ConversionError",
    "InvalidModelError",
    "UnsupportedModelError",
    "VerificationError",
    "convert_model",
    "onnx_op",
    "save_model",
    "verify",
]
