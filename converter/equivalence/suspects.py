"""Which layer of a wrong part is not as a conversion makes it: a second look where numbers name several.

The model is converted anew and both IRs are held against each other layer by layer. That proves nothing by itself, for
a fault of the converter is in both; it points to what was changed afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from converter.conversion import convert_model
from converter.errors import ConversionError
from converter.onnx_file.reader import ModelSource
from ir_runtime import Model, ModelError
from ir_runtime.model_difference import ModelDifference, compare_models

_WAYS: Sequence[Mapping[str, Any]] = (
    {"target": "cpu"},
    {"target": "any"},
    {"target": "cpu", "static": True},
    {"target": "any", "static": True},
    {"target": "cpu@2024.6"},
    {"target": "cpu@2023.3"},
)
"""How the IR may have been converted, which it does not tell."""
_FEW = 8
"""Differences up to which an IR counts as a conversion that was changed, and not as one made in another way."""


def suspects(source: ModelSource, options: Mapping[str, Any], model: Model) -> dict[str, str]:
    """Layers of ``model`` that differ from those of a conversion now, and what they differ in.

    Empty where they are too many, as in an IR that something else made or with other options.
    """
    least: ModelDifference | None = None
    for way in _WAYS:
        try:
            made = compare_models(model, convert_model(source, **way, **options))
        except (ConversionError, ModelError):
            continue
        if least is None or _count(made) < _count(least):
            least = made
        if least.same:
            return {}
    if least is None or _count(least) > _FEW:
        return {}
    said = {change.layer: "; ".join(change.what) for change in least.changed}
    said.update({name: f"a conversion now has no such {kind}" for name, kind in least.only_first})
    said.update({name: f"a conversion now has this {kind}, which is missing" for name, kind in least.only_second})
    return said


def _count(found: ModelDifference) -> int:
    return len(found.changed) + len(found.only_first) + len(found.only_second)


def names(said: Mapping[str, str], part: Sequence[str]) -> tuple[str, ...]:
    """Sentences about the layers of ``part``, or about all where none of them is among those that differ."""
    inside = {layer: what for layer, what in said.items() if layer in part} or said
    return tuple(f"layer '{layer}': {what}" for layer, what in inside.items())
