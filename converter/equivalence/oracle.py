"""The ONNX side of a comparison: onnxruntime where it is installed, else onnx's own evaluator."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from converter.errors import VerificationError
from converter.onnx_file.reader import ModelSource
from ir_runtime.element_types import Array

Evaluate = Callable[[Mapping[str, Array]], dict[str, Array]]


def oracle(source: ModelSource, extra_outputs: Sequence[str] = ()) -> tuple[str, Evaluate]:
    """(what runs the model, a function from inputs to outputs by name).

    ``extra_outputs`` are inner tensors to return as well. Raises :class:`VerificationError` where the
    model cannot be run.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        return _reference(source, extra_outputs)
    try:
        return _onnxruntime(source, extra_outputs)
    except VerificationError as refused:
        # Newer opsets and rarer types than onnxruntime has: onnx itself may still know them.
        try:
            return _reference(source, extra_outputs)
        except VerificationError as error:
            raise VerificationError(f"{refused}; {error}") from error


def _with_outputs(source: ModelSource, extra: Sequence[str]) -> onnx.ModelProto:
    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
    elif isinstance(source, (str, os.PathLike)):
        model = onnx.load(os.fspath(source))
    else:
        model = onnx.load_from_string(source if isinstance(source, bytes) else source.read())
    present = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in extra if name not in present)
    return model


def _onnxruntime(source: ModelSource, extra: Sequence[str]) -> tuple[str, Evaluate]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if extra:
        # Fusions would round the inner tensors elsewhere than the layers do.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model: Any
    if not extra and isinstance(source, (str, os.PathLike)):
        model = os.fspath(Path(source))
    else:
        model = _with_outputs(source, extra).SerializeToString()
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base class of their own
        raise VerificationError(f"onnxruntime cannot load the model: {error}") from error
    names = [output.name for output in session.get_outputs()]

    def evaluate(inputs: Mapping[str, Array]) -> dict[str, Array]:
        wanted = {entry.name for entry in session.get_inputs()}
        feeds = {name: _fed(value) for name, value in inputs.items() if name in wanted}
        try:
            return {name: np.asarray(value) for name, value in zip(names, session.run(None, feeds))}
        except Exception as error:
            raise VerificationError(f"onnxruntime cannot run the model on these inputs: {error}") from error

    return f"onnxruntime {onnxruntime.__version__}", evaluate


def _fed(value: Array) -> Any:
    if value.dtype.name != "bfloat16":
        return value
    import onnxruntime

    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(value.view(np.uint16), onnx.TensorProto.BFLOAT16)


def _reference(source: ModelSource, extra: Sequence[str]) -> tuple[str, Evaluate]:
    from onnx.reference import ReferenceEvaluator

    model = _with_outputs(source, extra)
    try:
        evaluator = ReferenceEvaluator(model)
    except Exception as error:
        raise VerificationError(f"onnx's ReferenceEvaluator cannot load the model: {error}") from error

    def evaluate(inputs: Mapping[str, Array]) -> dict[str, Array]:
        try:
            values = evaluator.run(None, dict(inputs))
        except Exception as error:
            raise VerificationError(
                f"onnx's ReferenceEvaluator cannot run the model on these inputs: {error}"
            ) from error
        return {name: np.asarray(value) for name, value in zip(evaluator.output_names, values)}

    return f"onnx ReferenceEvaluator {onnx.__version__}", evaluate
