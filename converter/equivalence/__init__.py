"""verify: run an ONNX model and its IR on the same inputs, compare, find the first difference."""

from converter.equivalence.compare import Comparison, Tolerance
from converter.equivalence.verify import LayerDifference, Report, verify

__all__ = ["Comparison", "LayerDifference", "Report", "Tolerance", "verify"]
