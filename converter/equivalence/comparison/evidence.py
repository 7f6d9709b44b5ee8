"""Outputs that prove nothing: equal everywhere, equal for all inputs, or hardly larger than the tolerance."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from converter.equivalence.comparison.tolerances import Choose
from ir_runtime.graph import Array

_LEAST_TIMES = 10.0
"""An output whose largest value is less than so many absolute tolerances passes nearly whatever the IR computes."""
_SCALES = (16.0, 255.0)
"""Factors for inputs: values between 0 and 1 become as large as the bytes of an image."""


def unproven(
    runs: Sequence[Mapping[str, Array]], tolerance: Choose, *, has_inputs: bool, identical: Collection[str] = ()
) -> dict[str, str]:
    """The real outputs that prove nothing in any of the ``runs``, by name, and why.

    Small outputs prove enough where they are ``identical`` on both sides: no tolerance lets these pass.
    """
    reasons: dict[str, str] = {}
    for name, value in runs[0].items():
        values = [run[name] for run in runs] if _is_real(value) and value.size else []
        why = _reason(values, has_inputs=has_inputs) if values else ""
        if not why and values and name not in identical and all(_is_faint(array, tolerance) for array in values):
            largest = max(float(np.abs(array).max(initial=0.0)) for array in values)
            why = f"is at most {largest:.3g}, where differences of {tolerance(value).absolute:g} pass"
        if why:
            reasons[name] = why
    return reasons


def faint(outputs: Mapping[str, Array], tolerance: Choose) -> set[str]:
    """The real outputs whose values are hardly larger than the absolute tolerance."""
    return {name for name, value in outputs.items() if _is_real(value) and value.size and _is_faint(value, tolerance)}


def convincing(outputs: Mapping[str, Array], names: set[str], tolerance: Choose) -> set[str]:
    """Those of ``names`` whose values differ from each other by much more than the absolute tolerance."""
    large = names - faint(outputs, tolerance)
    return {name for name in large if outputs[name].size == 1 or not _is_faint(np.ptp(outputs[name]), tolerance)}


def scaled(feeds: Mapping[str, Array], fixed: Sequence[str]) -> Iterator[tuple[str, dict[str, Array]]]:
    """``feeds`` with larger real numbers; inputs that are ``fixed`` stay as they are."""
    free = [name for name, value in feeds.items() if value.dtype.kind == "f" and name not in fixed]
    for scale in _SCALES if free else ():
        larger = {name: np.asarray(feeds[name] * feeds[name].dtype.type(scale)) for name in free}
        yield f"times {scale:g}", {**feeds, **larger}


def _reason(values: Sequence[Array], *, has_inputs: bool) -> str:
    first = values[0]
    if not any(np.isfinite(array).any() for array in values):
        return "has no finite value"
    if first.size > 1 and all(array.size and (array == first.flat[0]).all() for array in values):
        return f"is {first.flat[0]:g} everywhere"
    alike = [array for array in values if array.shape == first.shape]
    if len(alike) > 1 and has_inputs and all(np.array_equal(array, first) for array in alike):
        return f"is the same in all {len(alike)} runs"
    return ""


def _is_real(value: Array) -> bool:
    return value.dtype.kind == "f"


def _is_faint(value: Array, tolerance: Choose) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.abs(value[np.isfinite(value)]).max(initial=0.0) < _LEAST_TIMES * tolerance(value).absolute)
