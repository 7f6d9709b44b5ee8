"""verify: run an ONNX model and its IR on the same inputs, compare, find the first layer that is wrong."""

from converter.equivalence.compare import Comparison, Tolerance
from converter.equivalence.report import DerivationCheck, LayerDifference, Report, Sample, WeightAccount, WeightCheck
from converter.equivalence.verification import verify

__all__ = [
    "Comparison",
    "DerivationCheck",
    "LayerDifference",
    "Report",
    "Sample",
    "Tolerance",
    "WeightAccount",
    "WeightCheck",
    "verify",
]
