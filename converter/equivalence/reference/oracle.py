"""Runs the ONNX side of a comparison: in onnxruntime where it is installed, else in onnx's own evaluator."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

from converter.equivalence.reference import ort_values
from converter.equivalence.reference.deviations import with_specified_results
from converter.equivalence.reference.reference_model import ReferenceModel
from converter.equivalence.reference.unsigned_operands import with_unsigned_operands
from converter.errors import VerificationError
from ir_runtime.graph import Array

Evaluate = Callable[[Mapping[str, Any]], dict[str, Any]]
"""From inputs by name to outputs by name: arrays, or lists of them for sequences."""

_HINT = "; onnxruntime, which knows more, is not installed: pip install 'onnx2ir[verify]'"


def load(
    graph: ReferenceModel, model: onnx.ModelProto | None, *, plain: bool, by_definition: bool
) -> tuple[Evaluate, str]:
    """Return what runs ``model``, or the file of ``graph`` as it is, and its name.

    ``plain`` asks for a run without onnxruntime's fusions, which round elsewhere than the single operators do.
    """
    name = f"onnx ReferenceEvaluator {onnx.__version__}"
    is_installed = importlib.util.find_spec("onnxruntime") is not None
    if by_definition or not is_installed:
        return define(graph, model, "" if is_installed else _HINT), name
    try:
        return _onnxruntime(graph, model, plain)
    except VerificationError as refused:
        # Newer opsets and rarer types than onnxruntime has: onnx itself may still know them.
        try:
            return define(graph, model), name
        except VerificationError as error:
            raise VerificationError(f"{refused}; {error}") from error


def session_options() -> Any:
    """Return options with which onnxruntime computes products with compressed weights in float32.

    By default it rounds the other operand to 8 bits. Products of integers are exact on every processor with all
    optimizations; without these it needs :func:`with_unsigned_operands`.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    options.add_session_config_entry("session.x64quantprecision", "1")
    return options


def _onnxruntime(graph: ReferenceModel, model: onnx.ModelProto | None, plain: bool) -> tuple[Evaluate, str]:
    import onnxruntime

    options = session_options()
    levels = onnxruntime.GraphOptimizationLevel
    # All of them have ended the process on models of float16, in 1.31 and 1.32.
    options.graph_optimization_level = getattr(levels, "ORT_ENABLE_LAYOUT", levels.ORT_ENABLE_EXTENDED)
    if plain:
        options.enable_cpu_mem_arena = False  # parts run once: an arena would keep memory for nothing
        options.graph_optimization_level = levels.ORT_DISABLE_ALL
    if graph.folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(graph.folder))
    if graph.deviations:
        model = with_specified_results(model or graph.whole({}))
    if plain:
        model = with_unsigned_operands(model or graph.whole({}))
    source: Any
    if model is None and graph.path is not None:
        source = os.fspath(graph.path)
    else:
        source = (model or graph.whole({})).SerializeToString()
    try:
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base class of their own
        if not plain:
            # Optimizations fail on models that the kernels run: x64quantprecision (1.32) on quantized weights that
            # two nodes read.
            return _onnxruntime(graph, model, plain=True)
        raise VerificationError(f"onnxruntime cannot load the model: {error}") from error
    names = [output.name for output in session.get_outputs()]
    session_names = {entry.name for entry in session.get_inputs()} | {
        entry.name for entry in session.get_overridable_initializers()
    }

    without_fusions: list[Evaluate] = []

    def evaluate(inputs: Mapping[str, Any]) -> dict[str, Any]:
        feeds = {name: value for name, value in inputs.items() if name in session_names}
        if without_fusions:
            return without_fusions[0](inputs)
        try:
            return {name: _convert_result(value) for name, value in zip(names, ort_values.run(session, feeds))}
        except Exception as error:
            if not plain:
                # Some fused nodes are refused when they run: QLinearConv with weights of scales along axis 1 (1.32).
                plain_evaluate, _ = _onnxruntime(graph, model, plain=True)
                results = plain_evaluate(inputs)
                without_fusions.append(plain_evaluate)
                return results
            raise VerificationError(
                f"onnxruntime cannot run the model on these inputs: {str(error).strip()}"
            ) from error

    return evaluate, f"onnxruntime {onnxruntime.__version__}"


def _convert_result(value: Any) -> Array | list[Any]:
    return value if isinstance(value, list) else np.asarray(value)


def define(graph: ReferenceModel, model: onnx.ModelProto | None, hint: str = "") -> Evaluate:
    """Return what runs ``model`` in onnx's own evaluator, from the operators' definitions."""
    return evaluate_by_definition(graph.embedded(model or graph.whole({})), hint)


def evaluate_by_definition(model: onnx.ModelProto, hint: str = "") -> Evaluate:
    """Return what runs ``model``, which holds all of its weights, in onnx's own evaluator.

    ``hint`` ends the messages of errors. Raises :class:`VerificationError` where the evaluator cannot load it.
    """
    from onnx.reference import ReferenceEvaluator

    try:
        evaluator = ReferenceEvaluator(model)
    except Exception as error:
        raise VerificationError(f"onnx's ReferenceEvaluator cannot load the model: {error}{hint}") from error

    def evaluate(inputs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            input_names = evaluator.input_names
            values = evaluator.run(None, {name: value for name, value in inputs.items() if name in input_names})
        except Exception as error:
            raise VerificationError(
                f"onnx's ReferenceEvaluator cannot run the model on these inputs: {error}{hint}"
            ) from error
        return {name: _convert_result(value) for name, value in zip(evaluator.output_names, values)}

    return evaluate
