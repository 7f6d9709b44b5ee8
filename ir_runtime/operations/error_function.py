"""The inverse of the error function.

The quantile of the normal distribution is the square root of two times as much; it is computed as in
M. J. Wichura, "Algorithm AS 241: the percentage points of the normal distribution" (1988), which is
exact to the last digits of float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.graph import Array
from ir_runtime.graph.operation import TensorType, operation

from .elementwise import Unary, merge_real_types

# Numerator and denominator, each from the highest power down: in the middle, towards the ends, at the ends.
MIDDLE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
)  # fmt: skip
OUTER = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
     3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0),
)  # fmt: skip
END = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def _ratio(coefficients: tuple[Sequence[float], Sequence[float]], x: Array) -> Array:
    return np.polyval(coefficients[0], x) / np.polyval(coefficients[1], x)


def erf_inverse(x: Array) -> Array:
    """The number whose error function is x, in the type of x; infinite at -1 and 1, NaN beyond."""
    half = x.astype(np.float64) / 2
    beyond = np.abs(half) > 0.5
    is_middle = np.abs(half) <= 0.425
    middle = half * _ratio(MIDDLE, np.where(is_middle, 0.180625 - half * half, 0.0))
    with np.errstate(divide="ignore"):
        depth = np.sqrt(-np.log(np.where(beyond | is_middle, 0.25, 0.5 - np.abs(half))))
    is_end = depth > 5
    # Infinity is where the ratio leads to; it cannot be computed with.
    reach = np.where(np.isinf(depth), 5.0, depth)
    tail = np.where(is_end, _ratio(END, np.where(is_end, reach - 5, 0.0)), _ratio(OUTER, reach - 1.6))
    tail = np.where(np.isinf(depth), np.inf, tail)
    inverse = np.where(is_middle, middle, np.copysign(tail, half)) / np.sqrt(2)
    return np.where(beyond | np.isnan(half), np.nan, inverse).astype(x.dtype)


@operation("ErfInv", opset=17)
class ErfInv17(Unary):
    """The number whose error function is x; infinite at -1 and 1, NaN beyond."""

    monotone = True

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        merge_real_types(inputs)
        return super().infer(inputs)

    kernel = staticmethod(erf_inverse)
