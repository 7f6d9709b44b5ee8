"""verify: run an ONNX model and its IR on the same inputs, compare, find the first layer that is wrong."""

from converter.equivalence.compare import Comparison, Tolerance
from converter.equivalence.report import LayerDifference, Report, Sample, WeightCheck
from converter.equivalence.verification import verify

__all__ = ["Comparison", "LayerDifference", "Report", "Sample", "Tolerance", "WeightCheck", "verify"]
