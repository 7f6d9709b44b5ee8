"""verify: run an ONNX model and its IR on the same inputs, compare, find the first layer that is wrong."""

from converter.equivalence.accounting import WeightAccount
from converter.equivalence.compare import Comparison, Tolerance
from converter.equivalence.layers import LayerDifference
from converter.equivalence.rederivation import DerivationCheck
from converter.equivalence.report import Report, Sample
from converter.equivalence.verification import verify
from converter.equivalence.weights import WeightCheck

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
