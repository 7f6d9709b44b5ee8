"""Which layers of an IR were changed after the conversion, where the numbers leave several to suspect.

The model is converted again and both IRs are compared layer by layer. That proves nothing by itself, for a fault of
the converter is in both; it points to what was changed afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from converter.conversion import convert_model
from converter.derivation import Derivation
from converter.onnx_file.reader import ModelSource
from converter.stages import silent
from ir_runtime import Model, ModelError
from ir_runtime.graph.model_difference import ModelDifference, compare_models

_REPEATED = ("input", "output", "batch", "static", "target", "fuse", "skip_passes", "exact", "stateful")
"""The recorded options to convert with again. No file is opened because a record names it, so extensions are not."""
_MOST_DIFFERENCES = 8
"""An IR that differs in more layers was made by another program, or with other options."""


def suspects(source: ModelSource, options: Mapping[str, Any], model: Model) -> dict[str, str]:
    """Return the layers of ``model`` that differ from those of a conversion now, and what they differ in.

    The conversion has the recorded options, the defaults where there is no record, and in both cases ``options`` that
    are not None. The result is empty where too many layers differ: another program made the IR, or other options did.
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    try:
        with silent():
            converted = convert_model(source, **{**recorded_options(model), **chosen})
        difference = compare_models(model, converted)
    except ModelError:
        return {}
    if _count(difference) > _MOST_DIFFERENCES:
        return {}
    found = {change.layer: "; ".join(change.what) for change in difference.changed}
    found.update({name: f"a conversion now has no such {kind}" for name, kind in difference.only_first})
    found.update({name: f"a conversion now has this {kind}, which is missing" for name, kind in difference.only_second})
    return found


def recorded_options(model: Model) -> dict[str, Any]:
    """Return the options with which ``model`` was converted from ONNX; none where it has no record of one conversion.

    Constant values of inputs are not recorded, and would be names of files here.
    """
    steps = Derivation.of(model).steps
    conversions = [step for step in steps if step.action == "convert"]
    if len(conversions) != 1 or conversions[0].source != "onnx":
        return {}
    options = {name: value for name, value in conversions[0].options.items() if name in _REPEATED}
    if any(step.action == "make_stateless" for step in steps):
        options.pop("stateful", None)
    input = options.pop("input", None)
    return {**options, "input": input} if isinstance(input, str) and "=" not in input else options


def _count(difference: ModelDifference) -> int:
    return len(difference.changed) + len(difference.only_first) + len(difference.only_second)


def sentences(found: Mapping[str, str], part: Sequence[str]) -> tuple[str, ...]:
    """Sentences about the layers of ``part``, or about all where none of them is among those ``found``."""
    inside = {layer: what for layer, what in found.items() if layer in part} or found
    return tuple(f"layer '{layer}': {what}" for layer, what in inside.items())
