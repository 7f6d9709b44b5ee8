"""The difference of two arrays, and whether it is within a tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ir_runtime.graph import Array
from ir_runtime.records import record


@dataclass(frozen=True, order=True)
class Tolerance:
    """Values agree where ``|actual - expected| <= absolute + rounding + relative * scale``.

    ``absolute`` and ``relative`` are those of the element type, or the caller's. ``scale`` is the expected value's
    magnitude, but at least the share ``of_largest`` of the largest one in the tensor: small results of cancellation
    have the rounding errors of the large values that cancelled. ``rounding`` is what the rounding of compressed
    weights adds in this tensor.
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
STEPS = Tolerance(2e-2, 1e-3, 1.0)
"""Where values are rounded to steps of 8 bits: one in the middle may go to either neighbour, and such differences add
up; onnxruntime's own optimised and plain runs differ by as much."""


def tolerance_for(dtype: np.dtype[np.generic]) -> Tolerance:
    """The default tolerance of a type: exact for integers, booleans and strings."""
    if dtype.kind in "iubOUST":
        return _EXACT
    return _BY_TYPE.get(dtype.name, Tolerance(5e-2, 1e-2))


@record
class Errors:
    """The root mean square and the greatest of an output's differences from the exact result, that in float64.

    ``ir`` and ``ir_greatest`` are the IR's, ``reference`` and ``reference_greatest`` the greater ones of the
    reference's optimised and plain runs. ``ties`` and ``ties_greatest`` are those of the model in float64 whose layers
    were rounded at random: of a quantised model the values in the middle between two steps went to either, of others
    each result changed by up to the rounding of float32. ``size`` is the root mean square of the exact values.
    """

    ir: float
    ir_greatest: float
    reference: float
    reference_greatest: float
    ties: float
    ties_greatest: float
    size: float

    @property
    def are_alike(self) -> bool:
        """True if the IR is about as close to the exact result as the reference is, or as rounding allows."""
        usual, greatest = max(self.reference, self.ties), max(self.reference_greatest, self.ties_greatest)
        return self.ir <= _ALIKE * usual and self.ir_greatest <= _ALIKE * greatest

    def to_text(self) -> str:
        """Both errors in one line."""
        ties = f", rounded at random {self.ties:.3g} ({self.ties_greatest:.3g})" if self.ties else ""
        return (
            f"IR {self.ir:.3g} (greatest {self.ir_greatest:.3g}), reference {self.reference:.3g} "
            f"({self.reference_greatest:.3g}){ties}"
        )

    @property
    def is_noise(self) -> bool:
        """True if rounding alone changes the output by much of its size."""
        return max(self.reference, self.ties) > _NOISE_SHARE * self.size


_ALIKE = 4.0
"""Errors of at most this many times those of the reference are alike. NumPy's were 0.03 to 2.0 times those of
onnxruntime (the greatest ones up to 2.7 times) in Gemma 2, Qwen3-Next and Zamba 2 with random weights."""
_NOISE_SHARE = 0.1
"""Outputs with a larger error in the reference itself, as a share of their size, say little about the model."""


def errors_of(exact: Array, actual: Array, references: Sequence[Array], ties: Sequence[Array] = ()) -> Errors | None:
    """The errors of the IR's values and those of the reference's runs; None where they cannot be compared.

    ``ties`` are results of the model in float64 whose layers were rounded at random. Nothing can be compared where
    shapes differ, values are strings, or NaN and infinities are not in the same places.
    """
    sides = [exact, actual, *references, *ties]
    if any(side.shape != exact.shape or side.dtype.kind in "OUST" for side in sides) or not exact.size:
        return None
    wide = [side.astype(np.float64) for side in sides]
    finite = np.isfinite(wide[0])
    if any(not np.array_equal(side[~finite], wide[0][~finite], equal_nan=True) for side in wide):
        return None
    right, *others = (side[finite] for side in wide)
    if not right.size or not all(np.isfinite(side).all() for side in others):
        return None
    gaps = [np.abs(side - right) for side in others]
    squares = [_root_mean_square(gap) for gap in gaps]
    greatest = [float(gap.max()) for gap in gaps]
    end = 1 + len(references)
    return Errors(
        squares[0],
        greatest[0],
        max(squares[1:end]),
        max(greatest[1:end]),
        max(squares[end:], default=0.0),
        max(greatest[end:], default=0.0),
        _root_mean_square(right),
    )


def _root_mean_square(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


@record
class Comparison:
    """The comparison of one tensor by ``name``; ``element_type`` and ``shape`` are those of the expected values.

    ``max_absolute`` and ``max_relative`` are the largest differences (the relative one against the
    expected value), ``max_ulps`` the largest number of representable values in between (None for
    integers), ``cosine`` that of the angle between both as vectors (None where it is not defined).
    ``nan_agree`` tells whether both have NaN in the same places, ``tolerance`` what was allowed. ``reason`` tells what
    failed; it is empty where ``passed``. ``errors`` are those of both sides where the tolerance did not decide.
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
    errors: Errors | None = None


class _Figures(NamedTuple):
    """The fields of :class:`Comparison` that are measured."""

    max_absolute: float = 0.0
    max_relative: float = 0.0
    max_ulps: float | None = None
    cosine: float | None = None
    nan_agree: bool = True


def compare(name: str, expected: Array, actual: Array, tolerance: Tolerance | None = None) -> Comparison:
    """Compare ``actual`` (the IR's) with ``expected`` (the ONNX model's)."""
    allowed = tolerance or tolerance_for(expected.dtype)
    reason, figures = _difference(expected, actual, allowed)
    return Comparison(name, not reason, reason, str(expected.dtype), expected.shape, *figures, allowed)


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


_BLOCK = 1 << 16
"""Elements that are compared at a time, so that intermediate arrays stay in the cache."""


def _floats(expected: Array, actual: Array, allowed: Tolerance) -> tuple[str, _Figures]:
    flat, other = np.ascontiguousarray(expected).reshape(-1), np.ascontiguousarray(actual).reshape(-1)
    largest = _largest(flat, other)
    sums = _Sums()
    for start in range(0, flat.size, _BLOCK):
        sums.add(flat[start : start + _BLOCK], other[start : start + _BLOCK], allowed, largest)
    if sums.unlike:
        reason = f"{sums.unlike} NaN or infinite values differ"
    else:
        reason = f"{sums.wrong} of {expected.size} values are beyond the tolerance" if sums.wrong else ""
    return reason, sums.figures()


def _largest(expected: Array, actual: Array) -> float:
    """The greatest magnitude among expected values that are finite on both sides."""
    largest = 0.0
    with np.errstate(all="ignore"):
        for start in range(0, expected.size, _BLOCK):
            x, y = expected[start : start + _BLOCK], actual[start : start + _BLOCK]
            finite = np.isfinite(x) & np.isfinite(y)
            largest = max(largest, float(np.abs(x if finite.all() else x[finite]).max(initial=0)))
    return largest


class _Sums:
    """Figures of two tensors, added up block by block."""

    def __init__(self) -> None:
        self.unlike = 0
        self.wrong = 0
        self._finite = 0
        self._absolute = 0.0
        self._relative = 0.0
        self._ulps = 0.0
        self._products = [0.0, 0.0, 0.0]

    def add(self, expected: Array, actual: Array, allowed: Tolerance, largest: float) -> None:
        """Add a block of both sides."""
        x, y = expected.astype(np.float64), actual.astype(np.float64)
        finite = np.isfinite(x) & np.isfinite(y)
        if not finite.all():
            same = (np.isnan(x) == np.isnan(y)) & (np.isinf(x) == np.isinf(y))
            same &= ~np.isinf(x) | (np.sign(x) == np.sign(y))
            self.unlike += int((~same).sum())
            x, y, expected, actual = x[finite], y[finite], expected[finite], actual[finite]
        if not x.size:
            return
        self._finite += x.size
        for index, (u, v) in enumerate(((x, x), (y, y), (x, y))):
            self._products[index] += float(np.einsum("i,i->", u, v))  # the threads of np.dot cost more than this
        gap = np.abs(x - y)
        if not gap.any():
            return
        size = np.abs(x)
        scale = np.maximum(size, allowed.of_largest * largest)
        self.wrong += int((gap > allowed.absolute + allowed.rounding + allowed.relative * scale).sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(gap == 0, 0.0, gap / size)
        self._absolute = max(self._absolute, float(gap.max()))
        self._relative = max(self._relative, float(relative.max()))
        self._ulps = max(self._ulps, _ulps(expected, actual))

    def figures(self) -> _Figures:
        """The figures of all blocks."""
        if not self._finite:
            return _Figures(nan_agree=not self.unlike)
        xx, yy, xy = self._products
        lengths = float(np.sqrt(xx) * np.sqrt(yy))
        cosine = xy / lengths if lengths else None
        return _Figures(self._absolute, self._relative, self._ulps, cosine, not self.unlike)


_BITS = {8: np.int64, 4: np.int32, 2: np.int16, 1: np.int8}


def _ulps(a: Array, b: Array) -> float:
    """The largest number of representable values between two elements."""
    with np.errstate(over="ignore"):
        return float(np.abs(_to_ordered_integers(a) - _to_ordered_integers(b)).max())


def _to_ordered_integers(x: Array) -> Array:
    """Numbers in the order of the floats; those of neighbours differ by one (float64: exact below 2^53)."""
    bits = np.ascontiguousarray(x).view(_BITS[x.dtype.itemsize]).astype(np.int64)
    lowest = -(1 << (8 * x.dtype.itemsize - 1))
    ordered = np.where(bits < 0, lowest - bits, bits)
    return ordered.astype(np.float64) if x.dtype.itemsize == 8 else ordered
