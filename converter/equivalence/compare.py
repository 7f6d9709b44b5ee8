"""How far two arrays are apart, and whether that is near enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ir_runtime.element_types import Array


@dataclass(frozen=True, order=True)
class Tolerance:
    """Values agree where ``|actual - expected| <= absolute + rounding + relative * scale``.

    ``scale`` is the expected value's magnitude, but at least the share ``of_largest`` of the largest one in
    the tensor: what cancellation leaves near zero carries the rounding of the large values around it.
    ``rounding`` is what the rounding of compressed weights costs this very tensor.
    """

    relative: float
    absolute: float
    of_largest: float = 1e-3
    rounding: float = 0.0


_BY_TYPE = {
    "float64": Tolerance(1e-6, 1e-9),
    "float32": Tolerance(1e-3, 1e-5),
    "float16": Tolerance(1e-2, 1e-3),
    "bfloat16": Tolerance(5e-2, 1e-2),
}
_EXACT = Tolerance(0.0, 0.0)
ROUNDED_WEIGHTS = Tolerance(1e-2, 1e-3, 0.1)
"""Where weights were rounded to float16: every sum carries their rounding, whatever it comes to."""
STEPS = Tolerance(2e-2, 1e-3, 1.0)
"""Where values are put on the steps of 8 bits: one that lies in the middle may take either neighbour, and what
follows adds up; onnxruntime's own optimised and plain runs differ by as much."""


def tolerance_for(dtype: np.dtype[np.generic]) -> Tolerance:
    """The default tolerance of a type: exact for integers, booleans and strings."""
    if dtype.kind in "iubOUST":
        return _EXACT
    return _BY_TYPE.get(dtype.name, Tolerance(5e-2, 1e-2))


@dataclass(frozen=True)
class Comparison:
    """One tensor compared by name.

    ``max_absolute`` and ``max_relative`` are the largest differences (the relative one against the
    expected value), ``max_ulps`` the largest number of representable values in between (None for
    integers), ``cosine`` that of the angle between both as vectors (None where it means nothing).
    ``reason`` says what failed; it is empty where ``passed``.
    """

    name: str
    passed: bool
    reason: str
    element_type: str
    shape: tuple[int, ...]
    max_absolute: float
    max_relative: float
    max_ulps: float | None
    cosine: float | None
    nan_agree: bool
    tolerance: Tolerance


@dataclass(frozen=True)
class _Figures:
    max_absolute: float = 0.0
    max_relative: float = 0.0
    max_ulps: float | None = None
    cosine: float | None = None
    nan_agree: bool = True


def compare(name: str, expected: Array, actual: Array, tolerance: Tolerance | None = None) -> Comparison:
    """Compare ``actual`` (the IR's) with ``expected`` (the ONNX model's)."""
    allowed = tolerance or tolerance_for(expected.dtype)
    reason, figures = _difference(expected, actual, allowed)
    return Comparison(
        name,
        not reason,
        reason,
        str(expected.dtype),
        expected.shape,
        figures.max_absolute,
        figures.max_relative,
        figures.max_ulps,
        figures.cosine,
        figures.nan_agree,
        allowed,
    )


def _difference(expected: Array, actual: Array, allowed: Tolerance) -> tuple[str, _Figures]:
    texts = expected.dtype.kind in "OUST" and actual.dtype.kind in "OUST"
    if expected.dtype != actual.dtype and not texts:
        return f"type is {actual.dtype}, expected {expected.dtype}", _Figures()
    if expected.shape != actual.shape:
        return f"shape is {list(actual.shape)}, expected {list(expected.shape)}", _Figures()
    if texts:
        different = int((expected.astype(str) != actual.astype(str)).sum())
        return (f"{different} of {expected.size} texts differ" if different else ""), _Figures()
    if expected.size == 0:
        return "", _Figures()
    if expected.dtype.kind in "iub":
        return _integers(expected, actual)
    return _floats(expected, actual, allowed)


def _integers(expected: Array, actual: Array) -> tuple[str, _Figures]:
    unequal = expected != actual
    if not unequal.any():
        return "", _Figures()
    # Python's integers, because a difference of 64-bit numbers may not fit into 64 bits.
    pairs = zip(expected[unequal].tolist(), actual[unequal].tolist())
    gaps = [(abs(int(a) - int(b)), abs(int(a))) for a, b in pairs]
    relative = max(gap / size if size else float("inf") for gap, size in gaps)
    reason = f"{int(unequal.sum())} of {expected.size} values differ"
    return reason, _Figures(float(max(gap for gap, _ in gaps)), relative)


def _floats(expected: Array, actual: Array, allowed: Tolerance) -> tuple[str, _Figures]:
    a, b = expected.astype(np.float64), actual.astype(np.float64)
    same_kind = (np.isnan(a) == np.isnan(b)) & (np.isinf(a) == np.isinf(b))
    same_kind &= ~np.isinf(a) | (np.sign(a) == np.sign(b))
    nan_agree = bool(same_kind.all())
    finite = np.isfinite(a) & np.isfinite(b)
    if not finite.any():
        reason = "" if nan_agree else f"{int((~same_kind).sum())} NaN or infinite values differ"
        return reason, _Figures(nan_agree=nan_agree)
    x, y = a[finite], b[finite]
    gap, size = np.abs(x - y), np.abs(x)
    scale = np.maximum(size, allowed.of_largest * size.max())
    wrong = int((gap > allowed.absolute + allowed.rounding + allowed.relative * scale).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(gap == 0, 0.0, gap / size)
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    figures = _Figures(
        float(gap.max()),
        float(relative.max()),
        _ulps(expected[finite], actual[finite]),
        float(np.dot(x, y) / lengths) if lengths else None,
        nan_agree,
    )
    if not nan_agree:
        return f"{int((~same_kind).sum())} NaN or infinite values differ", figures
    return (f"{wrong} of {expected.size} values are beyond the tolerance" if wrong else ""), figures


_BITS = {8: np.int64, 4: np.int32, 2: np.int16, 1: np.int8}


def _ulps(a: Array, b: Array) -> float:
    """The largest number of representable values between two elements."""
    return float(np.abs(_ordered(a) - _ordered(b)).max())


def _ordered(x: Array) -> Array:
    """Numbers in the order of the floats, one apart for neighbours; float64, exact below 2^53."""
    bits = np.ascontiguousarray(x).view(_BITS[x.dtype.itemsize]).astype(np.int64)
    lowest = -(1 << (8 * x.dtype.itemsize - 1))
    return np.where(bits < 0, lowest - bits, bits).astype(np.float64)
