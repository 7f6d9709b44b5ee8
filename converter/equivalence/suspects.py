"""Which layers of an IR were changed after the conversion, where the numbers leave several to suspect.

The IR is derived again and both are compared layer by layer. That proves nothing about the numbers, for a fault of the
converter is in both; it points to what was changed afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from converter.conversion import convert_model
from converter.derivation import Derivation
from converter.equivalence.rederivation import repeated
from converter.onnx_file.reader import ModelSource
from converter.stages import silent
from ir_runtime import Model, ModelError
from ir_runtime.graph.model_difference import ModelDifference, compare_models

_MOST_DIFFERENCES = 8
"""An IR that differs in more layers was made by another program, or with other options."""


def suspects(source: ModelSource, options: Mapping[str, Any], model: Model) -> dict[str, str]:
    """Return the layers of ``model`` that differ from those of its derivation now, and what they differ in.

    Without a record of a conversion from ONNX the derivation is a conversion with default options. In both cases
    ``options`` that are not None replace those of the conversion. The result is empty where too many layers differ:
    another program made the IR, or other options did.
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    steps = Derivation.of(model).steps
    try:
        with silent():
            is_recorded = steps and steps[0].source == "onnx"
            derived = repeated(steps, source, None, chosen) if is_recorded else convert_model(source, **chosen)
        difference = compare_models(model, derived)
    except ModelError:
        return {}
    if _count(difference) > _MOST_DIFFERENCES:
        return {}
    found = {change.layer: "; ".join(change.what) for change in difference.changed}
    found.update({name: f"a conversion now has no such {kind}" for name, kind in difference.only_first})
    found.update({name: f"a conversion now has this {kind}, which is missing" for name, kind in difference.only_second})
    return found


def _count(difference: ModelDifference) -> int:
    return len(difference.changed) + len(difference.only_first) + len(difference.only_second)


def sentences(found: Mapping[str, str], part: Sequence[str]) -> tuple[str, ...]:
    """Sentences about the layers of ``part``, or about all where none of them is among those ``found``."""
    inside = {layer: what for layer, what in found.items() if layer in part} or found
    return tuple(f"layer '{layer}': {what}" for layer, what in inside.items())
