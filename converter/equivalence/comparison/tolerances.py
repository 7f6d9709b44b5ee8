"""The tolerance of an output: by its type, by the model's own rounding, and by the oracle's runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from converter.equivalence.comparison.compare import STEPS, Comparison, Tolerance, tolerance_for
from converter.equivalence.reference.onnx_engine import narrow_type
from converter.equivalence.reference.reference_model import ReferenceModel
from converter.onnx_file.graph import operator_of
from ir_runtime import Model
from ir_runtime.graph import Array
from ir_runtime.records import record

_TIMES_OF_GAPS = 2.0
_QUANTIZING = ("QuantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeMatMul")

Choose = Callable[[Array], Tolerance]


_NARROW = {"bf16": Tolerance(5e-2, 1e-2, 0.5), "f16": Tolerance(1e-2, 1e-3, 0.5)}
"""Where an engine computes in fewer bits than the model: the loss is proportional to the largest values."""
_BY_PRECISION = {**_NARROW, "f32": tolerance_for(np.dtype(np.float32))}


def chosen_by(rtol: float | None, atol: float | None, precision: str = "") -> Choose:
    """The tolerance for an expected tensor: the caller's, or that of its type and of the engine's ``precision``."""

    def choose(expected: Array) -> Tolerance:
        if rtol is not None or atol is not None:
            return Tolerance(rtol or 0.0, atol or 0.0)
        by_type = tolerance_for(expected.dtype)
        return max(by_type, _BY_PRECISION.get(precision, by_type)) if expected.dtype.kind == "f" else by_type

    return choose


_EPSILONS = 8.0
_MIN_ABSOLUTE = 1.5e-7
"""The error of approximations of Sigmoid, Tanh and the like near 0: onnxruntime's Sigmoid of -12.07 is 1.38e-7 away
from the one in float64."""
_TRANSFORMS = frozenset({"DFT", "IDFT", "RDFT", "IRDFT", "STFT", "ISTFT"})
_TRANSFORMED = Tolerance(1e-4, _MIN_ABSOLUTE, 0.5)
"""onnxruntime's transforms of lengths that are no power of two are 2e-5 to 3e-5 of the largest value away from those
in float64 (320 and 400 elements; 5e-7 for 512), where NumPy's are 5e-8."""


def strict_tolerance(dtype: np.dtype[np.generic], operator: str, layers: Iterable[str], terms: int = 1) -> Tolerance:
    """The tolerance of ``layers`` (types), which an ONNX ``operator`` became, where their inputs are right.

    A few representable values of the larger results; more where onnxruntime itself is less exact, and where reductions
    join many ``terms``: the error of a sum grows with the root of their number (Higham, The accuracy of floating point
    summation, 1993).
    """
    if dtype.kind == "f" and operator.startswith("DynamicQuantize") and operator != "DynamicQuantizeLinear":
        return STEPS  # it rounds what it multiplies to steps of 8 bits, and the IR does not
    if dtype.kind == "f" and not _TRANSFORMS.isdisjoint(layers):
        return _TRANSFORMED
    if dtype.kind != "f" and dtype.name != "bfloat16":
        return Tolerance(0.0, 0.0)
    bits = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}.get(dtype.name)
    if bits is None:  # 8 bits or fewer: one step
        return Tolerance(0.26, 0.0, 0.0)
    return Tolerance(max(_EPSILONS, math.sqrt(terms)) * 2.0**-bits, _MIN_ABSOLUTE, 0.5)


@record
class Loss:
    """The precision that a model loses by itself, so that outputs may differ although every layer is right."""

    tolerance: Tolerance
    reason: str
    is_rounding: bool
    """True if running the IR layer by layer, each of which rounds, shows the loss."""

    @classmethod
    def of(cls, graph: ReferenceModel, model: Model) -> Loss | None:
        """The loss of quantised models, and of those that compute in 16 bits; None for others."""
        if _is_quantized(graph):
            return cls(STEPS, "values in the middle between two steps of quantisation went to different ones", False)
        narrow = narrow_type(model)
        if not narrow:
            return None
        return cls(_NARROW[narrow], f"the model computes in {narrow}, and the rounding of layers adds up", True)


def _is_quantized(graph: ReferenceModel) -> bool:
    """True if activations are rounded to steps: a value in the middle between two may go to either."""
    names = {operator_of(node).op_type for part in (graph.graph, *graph.functions) for node in part.nodes()}
    return any(name in _QUANTIZING or name.startswith("QLinear") for name in names)


def gaps(first: Mapping[str, Array], second: Mapping[str, Array]) -> dict[str, float]:
    """The largest difference of each real tensor between two runs of the same model."""
    gaps_by_name: dict[str, float] = {}
    for name, value in first.items():
        other = second[name]
        if not isinstance(value, np.ndarray) or value.shape != other.shape or value.dtype.kind != "f":
            continue
        with np.errstate(all="ignore"):
            gap = np.abs(value.astype(np.float64) - other.astype(np.float64))
        gaps_by_name[name] = float(gap[np.isfinite(gap)].max(initial=0.0))
    return gaps_by_name


def widened(allowed: Tolerance, by: float) -> Tolerance:
    """A tolerance with which the oracle's own runs pass, whose largest difference is ``by``."""
    return Tolerance(allowed.relative, allowed.absolute, allowed.of_largest, allowed.rounding + _TIMES_OF_GAPS * by)


def furthest(comparisons: list[Comparison]) -> Comparison:
    """Of the comparisons of one tensor in several runs one that failed, or else that with the largest difference."""
    return max(comparisons, key=lambda comparison: (not comparison.passed, comparison.max_absolute))
