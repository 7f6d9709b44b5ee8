"""ONNX to OpenVINO IR, in pure Python, proven equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from converter.version import __version__
from ir_runtime.lazy import exports

if TYPE_CHECKING:
    from converter.batch.many import convert_many
    from converter.batch.rows import Row
    from converter.compression.weight_compression import WeightCompression
    from converter.conversion import convert_model, save_model
    from converter.editing.edit import Edited, edit
    from converter.editing_options import EditOptions
    from converter.equivalence import Comparison, LayerDifference, Report, Sample, Tolerance, WeightCheck
    from converter.equivalence.rederivation import Rederivation, derive
    from converter.equivalence.steps import StepsReport, verify_steps
    from converter.equivalence.verification import verify
    from converter.errors import (
        ConversionError,
        InternalError,
        InvalidModelError,
        UnsupportedModelError,
        VerificationError,
    )
    from converter.export_options import ExportOptions
    from converter.from_onnx.translation.context import Context
    from converter.from_onnx.translation.registry import onnx_op
    from converter.language_models.export import ExportedLanguageModel, export_language_model
    from converter.optimization.optimize import Optimization, optimize
    from converter.optimization_options import OptimizationOptions
    from converter.options import ConversionOptions, SavingOptions
    from converter.pipelines.convert import ConvertedFolder, LanguageModel, convert_folder, convert_language_model
    from converter.preprocessing.description import Postprocess, Preprocess
    from converter.round_trips import RoundTrip, round_trip
    from converter.states.stateless import make_stateless
    from converter.to_onnx.export import export_model, save_onnx
    from converter.verification_options import VerificationOptions

__all__ = [
    "__version__",
    "Comparison",
    "Context",
    "LayerDifference",
    "Report",
    "RoundTrip",
    "Row",
    "Sample",
    "StepsReport",
    "Tolerance",
    "WeightCheck",
    "ConversionError",
    "ConversionOptions",
    "ConvertedFolder",
    "EditOptions",
    "Edited",
    "ExportOptions",
    "ExportedLanguageModel",
    "InternalError",
    "InvalidModelError",
    "LanguageModel",
    "Optimization",
    "OptimizationOptions",
    "Postprocess",
    "Preprocess",
    "Rederivation",
    "SavingOptions",
    "VerificationOptions",
    "UnsupportedModelError",
    "VerificationError",
    "WeightCompression",
    "convert_folder",
    "convert_language_model",
    "convert_many",
    "convert_model",
    "derive",
    "edit",
    "export_language_model",
    "export_model",
    "onnx_op",
    "make_stateless",
    "optimize",
    "round_trip",
    "save_model",
    "save_onnx",
    "verify",
    "verify_steps",
]

# The command asks this package for its help alone: onnx, NumPy and the operators come with the first
# name that needs them.
__getattr__, __dir__ = exports(
    __name__,
    {
        "converter.batch.many": ("convert_many",),
        "converter.batch.rows": ("Row",),
        "converter.conversion": ("convert_model", "save_model"),
        "converter.editing.edit": ("Edited", "edit"),
        "converter.editing_options": ("EditOptions",),
        "converter.equivalence": ("Comparison", "LayerDifference", "Report", "Sample", "Tolerance", "WeightCheck"),
        "converter.errors": (
            *("ConversionError", "InternalError", "InvalidModelError"),
            *("UnsupportedModelError", "VerificationError"),
        ),
        "converter.export_options": ("ExportOptions",),
        "converter.from_onnx.translation.context": ("Context",),
        "converter.from_onnx.translation.registry": ("onnx_op",),
        "converter.compression.weight_compression": ("WeightCompression",),
        "converter.equivalence.rederivation": ("Rederivation", "derive"),
        "converter.equivalence.steps": ("StepsReport", "verify_steps"),
        "converter.equivalence.verification": ("verify",),
        "converter.states.stateless": ("make_stateless",),
        "converter.optimization.optimize": ("Optimization", "optimize"),
        "converter.optimization_options": ("OptimizationOptions",),
        "converter.options": ("ConversionOptions", "SavingOptions"),
        "converter.verification_options": ("VerificationOptions",),
        "converter.preprocessing.description": ("Postprocess", "Preprocess"),
        "converter.round_trips": ("RoundTrip", "round_trip"),
        "converter.to_onnx.export": ("export_model", "save_onnx"),
        "converter.pipelines.convert": (
            *("ConvertedFolder", "LanguageModel"),
            *("convert_folder", "convert_language_model"),
        ),
        "converter.language_models.export": ("ExportedLanguageModel", "export_language_model"),
    },
)
