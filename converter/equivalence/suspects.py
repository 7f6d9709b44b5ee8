"""Which layers of an IR were changed after the conversion, where the numbers leave several to suspect.

The model is converted again and both IRs are compared layer by layer. That proves nothing by itself, for a fault of
the converter is in both; it points to what was changed afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from converter.conversion import convert_model
from converter.onnx_file.reader import ModelSource
from converter.stages import silent
from ir_runtime import Model, ModelError
from ir_runtime.graph.model_difference import ModelDifference, compare_models

_WAYS: Sequence[Mapping[str, Any]] = (
    {"target": "cpu"},
    {"target": "any"},
    {"target": "cpu", "exact": True},
    {"target": "any", "exact": True},
    {"target": "cpu", "fuse": False},
    {"target": "any", "fuse": False},
    {"target": "cpu", "static": True},
    {"target": "any", "static": True},
    {"target": "cpu@2024.6"},
    {"target": "cpu@2023.3"},
)
"""Options that the IR may have been converted with, which it does not record."""
_MOST_DIFFERENCES = 8
"""An IR that differs in more layers was made by another program, or with other options."""


def suspects(source: ModelSource, options: Mapping[str, Any], model: Model) -> dict[str, str]:
    """Layers of ``model`` that differ from those of a conversion now, and what they differ in.

    Empty where they are too many: another program made the IR, or other options did.
    """
    least: ModelDifference | None = None
    for way in _WAYS:
        try:
            with silent():
                converted = convert_model(source, **way, **options)
            difference = compare_models(model, converted)
        except ModelError:
            continue
        if least is None or _count(difference) < _count(least):
            least = difference
        if least.same:
            return {}
    if least is None or _count(least) > _MOST_DIFFERENCES:
        return {}
    found = {change.layer: "; ".join(change.what) for change in least.changed}
    found.update({name: f"a conversion now has no such {kind}" for name, kind in least.only_first})
    found.update({name: f"a conversion now has this {kind}, which is missing" for name, kind in least.only_second})
    return found


def _count(difference: ModelDifference) -> int:
    return len(difference.changed) + len(difference.only_first) + len(difference.only_second)


def sentences(found: Mapping[str, str], part: Sequence[str]) -> tuple[str, ...]:
    """Sentences about the layers of ``part``, or about all where none of them is among those ``found``."""
    inside = {layer: what for layer, what in found.items() if layer in part} or found
    return tuple(f"layer '{layer}': {what}" for layer, what in inside.items())
