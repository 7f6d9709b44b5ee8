"""ONNX to OpenVINO IR, in pure Python, proven equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from converter.version import __version__ as __version__
from ir_runtime.lazy import exports

if TYPE_CHECKING:
    from converter.conversion.convert import convert_model as convert_model
    from converter.conversion.convert import save_model as save_model
    from converter.editing.edit import Edited as Edited
    from converter.editing.edit import edit as edit
    from converter.editing.optimize import Optimization as Optimization
    from converter.editing.optimize import optimize as optimize
    from converter.equivalence import Comparison as Comparison
    from converter.equivalence import LayerDifference as LayerDifference
    from converter.equivalence import Report as Report
    from converter.equivalence import Sample as Sample
    from converter.equivalence import Tolerance as Tolerance
    from converter.equivalence import WeightCheck as WeightCheck
    from converter.equivalence.derivation.rederivation import Rederivation as Rederivation
    from converter.equivalence.derivation.rederivation import derive as derive
    from converter.equivalence.verdict.steps import StepsReport as StepsReport
    from converter.equivalence.verdict.steps import verify_steps as verify_steps
    from converter.equivalence.verdict.verification import verify as verify
    from converter.errors import ConversionError as ConversionError
    from converter.errors import InternalError as InternalError
    from converter.errors import InvalidModelError as InvalidModelError
    from converter.errors import UnsupportedModelError as UnsupportedModelError
    from converter.errors import VerificationError as VerificationError
    from converter.folders.convert import ConvertedFolder as ConvertedFolder
    from converter.folders.convert import LanguageModel as LanguageModel
    from converter.folders.convert import convert_folder as convert_folder
    from converter.folders.convert import convert_language_model as convert_language_model
    from converter.folders.export import ExportedLanguageModel as ExportedLanguageModel
    from converter.folders.export import export_language_model as export_language_model
    from converter.from_onnx.translation.context import Context as Context
    from converter.from_onnx.translation.registry import onnx_op as onnx_op
    from converter.options.conversion import ConversionOptions as ConversionOptions
    from converter.options.conversion import SavingOptions as SavingOptions
    from converter.options.editing import EditOptions as EditOptions
    from converter.options.export import ExportOptions as ExportOptions
    from converter.options.optimization import OptimizationOptions as OptimizationOptions
    from converter.options.verification import VerificationOptions as VerificationOptions
    from converter.passes.compression.weight_compression import WeightCompression as WeightCompression
    from converter.passes.preprocessing.description import Postprocess as Postprocess
    from converter.passes.preprocessing.description import Preprocess as Preprocess
    from converter.passes.states.stateless import make_stateless as make_stateless
    from converter.to_onnx.export import export_model as export_model
    from converter.to_onnx.export import save_onnx as save_onnx
    from converter.workflow.many import convert_many as convert_many
    from converter.workflow.round_trips import RoundTrip as RoundTrip
    from converter.workflow.round_trips import round_trip as round_trip
    from converter.workflow.rows import Row as Row

# The command asks this package for its help alone: onnx, NumPy and the operators come with the first
# name that needs them.
__getattr__, __dir__, _names = exports(
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
        "converter.equivalence.derivation.rederivation": ("Rederivation", "derive"),
        "converter.equivalence.verdict.steps": ("StepsReport", "verify_steps"),
        "converter.equivalence.verdict.verification": ("verify",),
        "converter.passes.states.stateless": ("make_stateless",),
        "converter.editing.optimize": ("Optimization", "optimize"),
        "converter.options.optimization": ("OptimizationOptions",),
        "converter.options.conversion": ("ConversionOptions", "SavingOptions"),
        "converter.options.verification": ("VerificationOptions",),
        "converter.passes.preprocessing.description": ("Postprocess", "Preprocess"),
        "converter.workflow.round_trips": ("RoundTrip", "round_trip"),
        "converter.to_onnx.export": ("export_model", "save_onnx"),
        "converter.folders.convert": (
            *("ConvertedFolder", "LanguageModel"),
            *("convert_folder", "convert_language_model"),
        ),
        "converter.folders.export": ("ExportedLanguageModel", "export_language_model"),
    },
)
__all__ = ["__version__", *_names]
