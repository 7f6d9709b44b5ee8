"""Inputs of special values: where formulas that agree on ordinary numbers part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from converter.equivalence.input_values import Values
from ir_runtime.element_types import Array

_SHARE = 0.1
"""Of the elements that become NaN or infinite; the others stay as they were."""


def feeds(
    ordinary: Mapping[str, Array], values: Mapping[str, Values], seed: int
) -> Iterator[tuple[str, dict[str, Array]]]:
    """Each kind of special values with inputs like ``ordinary``; inputs without real numbers stay as they are."""
    if not any(value.dtype.kind == "f" for value in ordinary.values()):
        return
    generator = np.random.default_rng(seed)
    for name in ("zeros", "large numbers", "small numbers", "denormal numbers", "infinities", "NaN"):
        yield (
            name,
            {
                key: _special(name, value, generator) if value.dtype.kind == "f" else value
                for key, value in ordinary.items()
            },
        )


def _special(name: str, value: Array, generator: np.random.Generator) -> Array:
    limits = np.finfo(value.dtype)
    with np.errstate(all="ignore"):
        if name == "zeros":
            return np.zeros_like(value)
        if name == "large numbers":
            return np.asarray(value * value.dtype.type(1e4), value.dtype)
        if name == "small numbers":
            return np.asarray(value * value.dtype.type(1e-4), value.dtype)
        if name == "denormal numbers":
            return np.asarray(value * limits.tiny, value.dtype)
    chosen = generator.random(value.shape) < _SHARE
    special = np.where(generator.random(value.shape) < 0.5, np.inf, -np.inf) if name == "infinities" else np.nan
    return np.where(chosen, special, value).astype(value.dtype)
