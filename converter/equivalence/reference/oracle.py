"""Runs the ONNX side of a comparison: in onnxruntime where it is installed, else in onnx's own evaluator."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from converter.equivalence.reference import ort_values
from converter.equivalence.reference.deviations import with_specified_results
from converter.equivalence.reference.reference_model import ReferenceModel
from converter.equivalence.reference.unsigned_operands import with_unsigned_operands
from converter.errors import VerificationError
from ir_runtime.graph import Array, Node

Evaluate = Callable[[Mapping[str, Any]], dict[str, Any]]
"""From inputs by name to outputs by name: arrays, or lists of them for sequences."""

_HINT = "; onnxruntime, which knows more, is not installed: pip install 'onnx2ir[verify]'"


class Oracle:
    """Runs a model, or parts of it.

    ``plain`` asks for a run without onnxruntime's fusions, which round elsewhere than the single operators do.
    Raises :class:`VerificationError`, in every method, where the model cannot be loaded or run.
    """

    def __init__(self, graph: ReferenceModel) -> None:
        self.graph = graph
        self.name = ""
        self.by_definition = False
        """True where onnx's own evaluator runs everything, because onnxruntime refused what the other side takes."""
        self._evaluators: dict[tuple[Any, ...], Evaluate] = {}

    def run(
        self, feeds: Mapping[str, Any], outputs: Sequence[str] = (), *, plain: bool = False, only: bool = False
    ) -> dict[str, Any]:
        """The model's outputs, and ``outputs``, which may be inner tensors, or these alone.

        Sessions are kept for later runs.
        """
        relaxed = tuple(name for name in self.graph.inputs if not self.graph.is_accepted(name, feeds.get(name)))
        relaxed += tuple(name for name in self.graph.defaults if name in feeds)
        key = (relaxed, tuple(outputs), plain, only, self.by_definition)
        if key not in self._evaluators:
            as_it_is = not relaxed and not only and all(name in self.graph.outputs for name in outputs)
            source = None if as_it_is else self.graph.whole(feeds, outputs, only=only)
            self._evaluators[key] = self._load(source, plain=plain)
        return self._evaluators[key](feeds)

    def run_by_definition(self, feeds: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
        """``outputs`` as onnx's own evaluator computes them, from the operators' definitions."""
        evaluate = _reference(self.graph, self.graph.whole(feeds, outputs, only=True), "")
        with np.errstate(all="ignore"):
            return evaluate(feeds)

    def run_part(self, nodes: Sequence[Node], feeds: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
        """Run some nodes alone, without fusions, from the values of their inputs."""
        return self.part(nodes, feeds, outputs)(feeds)

    def part(self, nodes: Sequence[Node], feeds: Mapping[str, Any], outputs: Sequence[str]) -> Evaluate:
        """Prepare some nodes alone, without fusions, for inputs of the types and shapes of ``feeds``."""
        return self._load(self.graph.part(nodes, feeds, outputs), plain=True)

    def define(self, nodes: Sequence[Node], feeds: Mapping[str, Any], output: str) -> Array | None:
        """Run some nodes alone in onnx's own evaluator, from the operators' definitions; None where it cannot."""
        try:
            with np.errstate(all="ignore"):
                return np.asarray(_reference(self.graph, self.graph.part(nodes, feeds, [output]), "")(feeds)[output])
        except VerificationError:
            return None

    def _load(self, model: onnx.ModelProto | None, *, plain: bool) -> Evaluate:
        """``model``, or the file as it is."""
        is_installed = importlib.util.find_spec("onnxruntime") is not None
        if self.by_definition or not is_installed:
            self.name = f"onnx ReferenceEvaluator {onnx.__version__}"
            return _reference(self.graph, model, "" if is_installed else _HINT)
        try:
            evaluate, self.name = _onnxruntime(self.graph, model, plain)
            return evaluate
        except VerificationError as refused:
            # Newer opsets and rarer types than onnxruntime has: onnx itself may still know them.
            try:
                evaluate = _reference(self.graph, model, "")
            except VerificationError as error:
                raise VerificationError(f"{refused}; {error}") from error
            self.name = f"onnx ReferenceEvaluator {onnx.__version__}"
            return evaluate


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


def _reference(graph: ReferenceModel, model: onnx.ModelProto | None, hint: str) -> Evaluate:
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
