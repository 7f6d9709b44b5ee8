"""ONNX to OpenVINO IR, in pure Python, proven equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from converter.version import __version__
from ir_runtime.lazy import exports

if TYPE_CHECKING:
    from converter.conversion.convert import convert_model, save_model
    from converter.editing.edit import Edited, edit
    from converter.editing.optimize import Optimization, optimize
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
    from converter.folders.language_models.export import ExportedLanguageModel, export_language_model
    from converter.folders.pipelines.convert import (
        ConvertedFolder,
        LanguageModel,
        convert_folder,
        convert_language_model,
    )
    from converter.from_onnx.translation.context import Context
    from converter.from_onnx.translation.registry import onnx_op
    from converter.options.conversion import ConversionOptions, SavingOptions
    from converter.options.editing import EditOptions
    from converter.options.export import ExportOptions
    from converter.options.optimization import OptimizationOptions
    from converter.options.verification import VerificationOptions
    from converter.passes.compression.weight_compression import WeightCompression
    from converter.passes.preprocessing.description import Postprocess, Preprocess
    from converter.passes.states.stateless import make_stateless
    from converter.to_onnx.export import export_model, save_onnx
    from converter.workflow.many import convert_many
    from converter.workflow.round_trips import RoundTrip, round_trip
    from converter.workflow.rows import Row

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
        "converter.workflow.many": ("convert_many",),
        "converter.workflow.rows": ("Row",),
        "converter.conversion.convert": ("convert_model", "save_model"),
        "converter.editing.edit": ("Edited", "edit"),
        "converter.options.editing": ("EditOptions",),
        "converter.equivalence": ("Comparison", "LayerDifference", "Report", "Sample", "Tolerance", "WeightCheck"),
        "converter.errors": (
            *("ConversionError", "InternalError", "InvalidModelError"),
            *("UnsupportedModelError", "VerificationError"),
        ),
        "converter.options.export": ("ExportOptions",),
        "converter.from_onnx.translation.context": ("Context",),
        "converter.from_onnx.translation.registry": ("onnx_op",),
        "converter.passes.compression.weight_compression": ("WeightCompression",),
        "converter.equivalence.rederivation": ("Rederivation", "derive"),
        "converter.equivalence.steps": ("StepsReport", "verify_steps"),
        "converter.equivalence.verification": ("verify",),
        "converter.passes.states.stateless": ("make_stateless",),
        "converter.editing.optimize": ("Optimization", "optimize"),
        "converter.options.optimization": ("OptimizationOptions",),
        "converter.options.conversion": ("ConversionOptions", "SavingOptions"),
        "converter.options.verification": ("VerificationOptions",),
        "converter.passes.preprocessing.description": ("Postprocess", "Preprocess"),
        "converter.workflow.round_trips": ("RoundTrip", "round_trip"),
        "converter.to_onnx.export": ("export_model", "save_onnx"),
        "converter.folders.pipelines.convert": (
            *("ConvertedFolder", "LanguageModel"),
            *("convert_folder", "convert_language_model"),
        ),
        "converter.folders.language_models.export": ("ExportedLanguageModel", "export_language_model"),
    },
)
