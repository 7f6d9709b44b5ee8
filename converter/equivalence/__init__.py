"""verify: run an ONNX model and its IR on the same inputs, compare, find the first layer that is wrong."""

from converter.equivalence.comparison.compare import Comparison, Tolerance
from converter.equivalence.comparison.layers import LayerDifference
from converter.equivalence.derivation.rederivation import DerivationCheck
from converter.equivalence.verdict.report import Report, Sample
from converter.equivalence.verdict.verification import verify
from converter.equivalence.weights.accounting import WeightAccount
from converter.equivalence.weights.checks import WeightCheck

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
